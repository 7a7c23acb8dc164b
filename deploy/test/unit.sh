#!/usr/bin/env bash
# Checks the systemd unit: syntax, exposure, time to stop; and starts a node with the example's configuration file. Needs
# systemd-analyze; without a treefold (the variable TREEFOLD, or on PATH) the last step is left out with a message.
set -euo pipefail
cd "$(dirname "$0")/../systemd"
unit="treefold-node.service"

work=$(mktemp -d)
node=
end() {
	[ -z "$node" ] || kill "$node" 2>/dev/null || true
	rm -r "$work"
}
trap end EXIT

# the command need not be installed here
program=$(type -P true)
sed "s#^ExecStart=/usr/local/bin/treefold#ExecStart=$program#" "$unit" >"$work/$unit"
systemd-analyze verify "$work/$unit"
echo "unit: verified"
# 2.0 of 10; the network is what remains
systemd-analyze security --no-pager --offline=true --threshold=20 "$work/$unit" | tail -1

setting() { sed -n "s/^$1=//p" "$unit"; }
grace=$(sed -n 's/^ExecStart=.*--grace \([0-9]*\)s$/\1/p' "$unit")
notice=$(sed -n 's/^drain_notice = "\([0-9]*\)s"$/\1/p' node.toml)
if [ "$(setting TimeoutStopSec)" -le $((grace + notice)) ]; then
	echo "unit: systemd stops the node before its grace of $grace s and its notice of $notice s are over" >&2
	exit 1
fi

treefold=${TREEFOLD:-treefold}
if ! command -v "$treefold" >/dev/null; then
	echo "skipped: there is no command $treefold, so no node was started with node.toml" >&2
	exit 0
fi
: >"$work/out"
# addresses and data of this machine instead of the example's
mapfile -t variables < <(grep -vE '^(#|$|TREEFOLD_TOKEN_FILE=)' node.env)
env "${variables[@]}" TREEFOLD_TOKEN=check "$treefold" node --config node.toml --listen 127.0.0.1:0 --join 127.0.0.1:1 --gateway 127.0.0.1:0 \
	--serve micro:partitions=0/1 --grace 20s >"$work/out" 2>"$work/log" &
node=$!
for ((try = 0; try < 300; try++)); do
	grep -q '^gateway at ' "$work/out" && break
	kill -0 "$node" 2>/dev/null || break
	sleep 0.1
done
grep -q '^gateway at ' "$work/out" || { echo "unit: the node did not start:" >&2; cat "$work/log" >&2; exit 1; }
kill -TERM "$node"
wait "$node"
node=
echo "unit: a node started with node.toml and node.env, and stopped on SIGTERM"
