#!/usr/bin/env bash
# Measures the readers of one mirror: bytes of the mirror's process for each of N idle readers over HTTP and over
# streams, bytes for each key, and the time until 200 readers that join at once have their snapshot.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
readers=${READERS:-1000}
repeats=${REPEATS:-3}
[ "${BUILT:-}" = 1 ] || cargo build --quiet --profile lean -p treefold-feed --example readers
program=$target/lean/examples/readers

# Starts a mirror of $1 keys. Sets node, http and bytes_per_key.
begin() {
  coproc server { exec "$program" server "$1"; }
  read -r node http bytes_per_key <&"${server[0]}"
}

ask() {
  echo >&"${server[1]}"
  read -r resident connected <&"${server[0]}"
}

end() {
  kill "$server_PID"
  wait "$server_PID" 2>/dev/null || true
}

for kind in http library; do
  for _ in $(seq "$repeats"); do
    begin 6000
    ask
    before=$resident
    addr=$node
    [ $kind = library ] || addr=$http
    exec 3< <(exec "$program" $kind "$addr" "$readers")
    clients=$!
    read -r client <&3
    sleep 2
    ask
    echo "$kind: $connected idle readers, $(((resident - before) / readers)) bytes each at the mirror's node, client $client"
    kill "$clients"
    end
  done
done

for _ in $(seq "$repeats"); do
  begin 100000
  echo "keys: 100000, $bytes_per_key bytes each"
  end
done

for _ in $(seq "$repeats"); do
  begin 6000
  echo "joiners: 200, $("$program" join "$node" 200)"
  end
done
