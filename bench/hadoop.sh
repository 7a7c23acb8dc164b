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
root=$(cd "$(dirname "$0")/.." && pwd)
mappers=8

for name in "${@:-none}"; do
  case $name in jobs | ratio | size | kill | quick) ;; *)
    echo "usage: bench/hadoop.sh jobs|ratio|size|kill|quick ..." >&2
    exit 2
    ;;
  esac
done
if [ "${INSIDE:-0}" != 1 ]; then
  [ "$(id -u)" = 0 ] || { echo "bench/hadoop.sh: namespaces need root's rights" >&2; exit 77; }
  if [ "${BUILT:-0}" != 1 ]; then
    mvn -q -B ${OFFLINE:+-o} -f "$root/shims/pom.xml" -pl push,hadoop -DskipTests package dependency:build-classpath \
      -Dmdep.outputFile="$root/shims/target/classpath-of-\${project.artifactId}" >&2
  fi
  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' EXIT
  INSIDE=1 DIR=$dir unshare --net --mount --pid --fork --mount-proc --kill-child bash "$0" "$@"
  exit
fi

# From here on, this shell is the first process of namespaces of its own: when it ends, all others do.
treefold=${TREEFOLD:-treefold}
repeats=${REPEATS:-3} scale=${SCALE:-1} mbit=${MBIT:-30} relay_mbit=${RELAY_MBIT:-300}
java=(java -XX:+UseSerialGC --add-opens=java.base/java.lang=ALL-UNNAMED)
mkdir -p "$DIR"/{conf,lib,jars,nodes,history/done,staging,data}
mount -t tmpfs tmpfs /run
mount -t sysfs sysfs /sys

tr ':' '\n' <"$root/shims/target/classpath-of-treefold-hadoop" | grep '\.jar$' |
  while read -r jar; do ln -sf "$jar" "$DIR/lib/"; done
# Copies, so that a build does not change what runs.
cp --remove-destination "$root"/shims/push/target/treefold-push-?.?.?.jar \
  "$root"/shims/hadoop/target/treefold-hadoop-?.?.?.jar "$DIR/lib/"
# Only jobs and combiners have this jar; a job brings its copy, and a combiner knows it by its digest.
jar cf "$DIR/jars/jobs.jar" -C "$root/shims/hadoop/target/test-classes" treefold
classes="$DIR/conf:$DIR/lib/*"

properties() { # FILE KEY VALUE ...
  local file=$1
  shift
  {
    echo '<configuration>'
    while [ $# -gt 0 ]; do
      echo "<property><name>$1</name><value>$2</value></property>"
      shift 2
    done
    echo '</configuration>'
  } >"$DIR/conf/$file"
}
options="--add-opens=java.base/java.lang=ALL-UNNAMED -XX:+UseSerialGC"
properties core-site.xml fs.defaultFS file:/// hadoop.tmp.dir "$DIR/tmp"
properties capacity-scheduler.xml \
  yarn.scheduler.capacity.root.queues default yarn.scheduler.capacity.root.default.capacity 100 \
  yarn.scheduler.capacity.maximum-am-resource-percent 1 yarn.scheduler.capacity.node-locality-delay -1 \
  yarn.scheduler.capacity.resource-calculator org.apache.hadoop.yarn.util.resource.DominantResourceCalculator
properties yarn-site.xml \
  yarn.resourcemanager.hostname 10.77.0.1 yarn.scheduler.minimum-allocation-mb 128 \
  yarn.resourcemanager.nodemanagers.heartbeat-interval-ms 500 \
  yarn.nodemanager.aux-services mapreduce_shuffle,treefold_shuffle \
  yarn.nodemanager.aux-services.mapreduce_shuffle.class org.apache.hadoop.mapred.ShuffleHandler \
  yarn.nodemanager.aux-services.treefold_shuffle.class treefold.hadoop.AgentService \
  yarn.nodemanager.pmem-check-enabled false yarn.nodemanager.vmem-check-enabled false \
  yarn.nodemanager.disk-health-checker.enable false \
  yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage 100 yarn.nodemanager.env-whitelist JAVA_HOME \
  yarn.application.classpath "$DIR/conf,$DIR/lib/*" \
  treefold.shuffle.relays 10.77.0.2:7700,10.77.0.3:7700
# A node runs one kind of container, because no other fits: a map, the reduce, or the application master.
properties mapred-site.xml \
  mapreduce.framework.name yarn mapreduce.application.classpath "$DIR/conf,$DIR/lib/*" \
  yarn.app.mapreduce.am.staging-dir "$DIR/staging" \
  mapreduce.jobhistory.address 10.77.0.1:10020 mapreduce.jobhistory.webapp.address 10.77.0.1:19888 \
  mapreduce.jobhistory.intermediate-done-dir "$DIR/history" mapreduce.jobhistory.done-dir "$DIR/history/done" \
  mapreduce.jobhistory.move.interval-ms 100000000 \
  yarn.app.mapreduce.am.resource.mb 1024 yarn.app.mapreduce.am.resource.cpu-vcores 3 \
  yarn.app.mapreduce.am.command-opts "-Xmx256m $options -XX:TieredStopAtLevel=1" \
  yarn.app.mapreduce.am.scheduler.heartbeat.interval-ms 500 \
  mapreduce.map.memory.mb 512 mapreduce.map.cpu.vcores 2 mapreduce.map.java.opts "-Xmx200m $options -XX:TieredStopAtLevel=1" \
  mapreduce.task.io.sort.mb 64 \
  mapreduce.reduce.memory.mb 2048 mapreduce.reduce.cpu.vcores 1 mapreduce.reduce.java.opts "-Xmx512m $options" \
  mapreduce.map.speculative false mapreduce.reduce.speculative false \
  mapreduce.job.reduce.slowstart.completedmaps 1.0 \
  treefold.shuffle.combiners 10.77.0.2:7700=10.77.0.2:13564,10.77.0.3:7700=10.77.0.3:13564
cat >"$DIR/conf/log4j.properties" <<'LOG'
log4j.rootLogger=WARN,out
log4j.logger.treefold=INFO
log4j.logger.org.apache.hadoop.util.NativeCodeLoader=ERROR
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.target=System.err
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss} %p %c{1}: %m%n
LOG

# The network: a switch, to which each host has a link that is shaped in both directions.
ip link set lo up
ip link add switch type bridge
ip addr add 10.77.0.1/16 dev switch
ip link set switch up
host() { # NAME ADDRESS MBIT
  ip netns add "$1"
  ip link add "port-$1" type veth peer name eth0 netns "$1"
  ip link set "port-$1" master switch up
  tc qdisc add dev "port-$1" root tbf rate "$3mbit" burst 67584 limit 262144
  ip -n "$1" link set lo up
  ip -n "$1" addr add "$2/16" dev eth0
  ip -n "$1" link set eth0 up
  tc -n "$1" qdisc add dev eth0 root tbf rate "$3mbit" burst 67584 limit 262144
}
node_manager() { # NAME ADDRESS MEMORY VCORES
  mkdir -p "$DIR/nodes/$1"
  ip netns exec "$1" "${java[@]}" -Xmx320m -cp "$classes" org.apache.hadoop.yarn.server.nodemanager.NodeManager \
    -D yarn.nodemanager.hostname="$2" -D yarn.nodemanager.address="$2:8041" \
    -D yarn.nodemanager.bind-host="$2" \
    -D yarn.nodemanager.local-dirs="$DIR/nodes/$1/local" -D yarn.nodemanager.log-dirs="$DIR/nodes/$1/logs" \
    -D yarn.nodemanager.resource.memory-mb="$3" -D yarn.nodemanager.resource.cpu-vcores="$4" \
    >"$DIR/nodes/$1/out" 2>&1 &
}
relay() { # NAME ADDRESS; the others join the first
  local join=()
  [ "$2" = 10.77.0.2 ] || join=(--join 10.77.0.2:7700)
  ip netns exec "$1" "$treefold" node --listen "$2:7700" --relay --rack r0 --accept hadoop --insecure "${join[@]}" \
    >"$DIR/$1.out" 2>&1 &
  relay_process=$!
  ip netns exec "$1" "${java[@]}" -Xmx768m -cp "$classes" treefold.hadoop.Combiner \
    -D treefold.shuffle.relays="$2:7700" -D treefold.shuffle.combiner.jars="$DIR/jars" >"$DIR/$1-combiner.out" 2>&1 &
}
host relay 10.77.0.2 "$relay_mbit"
host relay2 10.77.0.3 "$relay_mbit"
host am 10.77.0.4 "$relay_mbit"
host red 10.77.0.5 "$mbit"
relay relay 10.77.0.2
first_relay=$relay_process
"${java[@]}" -Xmx256m -cp "$classes" org.apache.hadoop.yarn.server.resourcemanager.ResourceManager \
  >"$DIR/rm.out" 2>&1 &
"${java[@]}" -Xmx192m -cp "$classes" org.apache.hadoop.mapreduce.v2.hs.JobHistoryServer >"$DIR/jhs.out" 2>&1 &
node_manager am 10.77.0.4 1024 3
node_manager red 10.77.0.5 2048 1
for mapper in $(seq "$mappers"); do
  host "m$mapper" "10.77.1.$mapper" "$mbit"
  node_manager "m$mapper" "10.77.1.$mapper" 512 2
done
nodes() { curl -s -m 5 http://10.77.0.1:8088/ws/v1/cluster/metrics | grep -o '"activeNodes":[0-9]*' | cut -d: -f2; }
kill -0 "$first_relay" || { cat "$DIR"/relay*.out >&2; exit 1; }
for _ in $(seq 300); do
  [ "$(nodes || true)" != $((mappers + 2)) ] || break
  sleep 1
done
if [ "$(nodes)" != $((mappers + 2)) ]; then
  tail -n 5 "$DIR"/*.out "$DIR"/nodes/*/out >&2
  exit 1
fi

bench() { "${java[@]}" -Xmx256m -cp "$classes:$DIR/jars/jobs.jar" treefold.hadoop.Bench "$@"; }
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
