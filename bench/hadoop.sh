#!/usr/bin/env bash
# Runs NetAgg's Hadoop experiments (§4.2.2): an unmodified Hadoop cluster of real daemons, each in a network
# namespace with a shaped link, with the plain shuffle and with relays. It needs root's rights, iproute2, curl,
# Maven and Java 17; without root's rights it exits with 77.
#
#   bench/hadoop.sh jobs      the five jobs; JOBS names some of them (default: WC AP PR UV TS)
#   bench/hadoop.sh ratio     WordCount, growing α
#   bench/hadoop.sh size      WordCount, growing data
#   bench/hadoop.sh quick     a small WordCount
#   bench/hadoop.sh kill      WordCount, the relay that leads the reducer's requests is killed in mid-shuffle
#
# Beside each relay is a combiner, which runs the combiners of AP and PR; relays themselves add the numbers of WC and UV.
# Several may be named; `kill` comes last. Each run is a line of JSON. For AP and PR, whose numbers are floating-point, it also
# has the lines that differ from the first run's, and the greatest relative difference. REPEATS (3), SCALE (1: a map has about 8 MB
# of output), MBIT (30), RELAY_MBIT (300), TIMES and KEYS (the points of ratio and size) change it; TREEFOLD is the
# command; BUILT=1 uses the jars of the last build, OFFLINE=1 no network. All processes, namespaces
# and files vanish with the script.
set -euo pipefail
source "$(dirname "$0")/hadoop/bed.sh"

for name in "${@:-none}"; do
  case $name in jobs | ratio | size | kill | quick) ;; *)
    echo "usage: bench/hadoop.sh jobs|ratio|size|kill|quick ..." >&2
    exit 2
    ;;
  esac
done
enter push,hadoop "$@"

treefold=${TREEFOLD:-treefold}
repeats=${REPEATS:-3} scale=${SCALE:-1} mbit=${MBIT:-30} relay_mbit=${RELAY_MBIT:-300}
prepare
combiner() { # NAME ADDRESS
  ip netns exec "$1" "${java[@]}" -Xmx768m -cp "$classes" treefold.hadoop.Combiner \
    -D treefold.shuffle.relays="$2:7700" -D treefold.shuffle.combiner.jars="$DIR/jars" >"$DIR/$1-combiner.out" 2>&1 &
}
cluster
combiner relay 10.77.0.2

# Generates data, and runs the job on it, with and without relays in turn.
series() { # JOB KEYS-OF-A-MAP POOL ENTRIES-OF-A-MAP FILES
  local job=$1 own=$(($2 * scale)) pool=$(($3 * scale)) entries=$(($4 * scale))
  rm -rf "$DIR/data" "$DIR/reference-$job"
  bench data "$job" "$DIR/data" "$5" "$entries" "$own" "$pool"
  for _ in $(seq "$repeats"); do
    bench run "$DIR" "$job" "$DIR/data" plain
    bench run "$DIR" "$job" "$DIR/data" relays
  done
}
jobs_of_the_paper() {
  for job in ${JOBS:-WC AP PR UV TS}; do
    case $job in
      WC) series WC 300000 300000 900000 $mappers ;;
      AP) series AP 230000 230000 690000 $mappers ;;
      PR) series PR 320000 320000 960000 $mappers ;;
      UV) series UV 330000 330000 990000 $mappers ;;
      TS) series TS 1 1 80000 $mappers ;;
    esac
  done
}
experiment() {
  case $1 in
    quick) series WC 30000 30000 90000 $mappers ;;
    jobs) jobs_of_the_paper ;;
    ratio)
      # Keys of all maps, in keys of a map: if there are more, fewer keys are those of another map.
      for times in ${TIMES:-1 2 4 16}; do
        series WC 300000 $((300000 * times)) 600000 $mappers
      done
      ;;
    size)
      for keys in ${KEYS:-75000 150000 300000 600000 1200000}; do
        series WC "$keys" "$keys" $((2 * keys)) $mappers
      done
      ;;
    kill)
      relay relay2 10.77.0.3
      combiner relay2 10.77.0.3
      rm -rf "$DIR/data"
      bench data WC "$DIR/data" $mappers $((600000 * scale)) $((300000 * scale)) $((300000 * scale))
      bench run "$DIR" WC "$DIR/data" plain
      # The relay's link carries nothing but the shuffle: after 8 MB, it is in the middle.
      carried() { cat /sys/class/net/port-relay/statistics/tx_bytes; }
      before=$(carried)
      bench run "$DIR" WC "$DIR/data" relays &
      run=$!
      until [ $(($(carried) - before)) -gt 8000000 ]; do sleep 0.05; done
      kill -KILL "$first_relay"
      wait $run
      ;;
  esac
}
for name in "$@"; do
  experiment "$name"
done
