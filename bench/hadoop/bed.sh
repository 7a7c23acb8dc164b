# The Hadoop cluster of bench/hadoop.sh and bench/sharing.sh, which source this file: real daemons of an unmodified Hadoop,
# each in a network namespace with a shaped link, at one switch.
#
# `enter` runs the script again as the first process of namespaces of its own. When that process ends, the kernel ends all
# others. A guard outside waits for the end of the script, however it ends, then ends that process and removes the files.
# shellcheck shell=bash
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mappers=8
java=(java -XX:+UseSerialGC --add-opens=java.base/java.lang=ALL-UNNAMED)

# Builds these modules of the shims, and runs the script again with the same arguments. Returns inside.
enter() { # MODULES ARGUMENT...
  local modules=$1
  shift
  [ "${INSIDE:-0}" != 1 ] || return 0
  [ "$(id -u)" = 0 ] || { echo "$0: namespaces and control groups need root's rights" >&2; exit 77; }
  if [ "${BUILT:-0}" != 1 ]; then
    mvn -q -B ${OFFLINE:+-o} -f "$root/shims/pom.xml" -pl "$modules" -DskipTests package dependency:build-classpath \
      -Dmdep.outputFile="$root/shims/target/classpath-of-\${project.artifactId}" >&2
  fi
  local dir group=treefold-bench-$$ guard guarding inside status=0
  dir=$(mktemp -d)
  exec {guard}> >(guard "$dir" "$group")
  guarding=$!
  INSIDE=1 DIR=$dir GROUP=$group unshare --net --mount --pid --fork --mount-proc --kill-child bash "$0" "$@" {guard}>&- &
  inside=$!
  echo "$inside" >&"$guard"
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  wait "$inside" || status=$?
  echo ended >&"$guard"
  exec {guard}>&-
  wait "$guarding"
  exit "$status"
}

# Its input ends with the script; the last line is the process to end, or `ended`.
guard() { # DIRECTORY GROUP
  trap '' HUP INT TERM
  local line process=ended group
  while read -r line; do process=$line; done
  [ "$process" = ended ] || kill -KILL "$process"
  for _ in $(seq 100); do
    rm -rf -- "$1" 2>/dev/null || true
    # The first is that of control groups of version 1.
    for group in "/sys/fs/cgroup/cpu/$2" "/sys/fs/cgroup/$2"; do
      rmdir "$group" 2>/dev/null || true
    done
    [ -e "$1" ] || [ -e "/sys/fs/cgroup/cpu/$2" ] || [ -e "/sys/fs/cgroup/$2" ] || return 0
    sleep 0.2
  done
}

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

# Writes the configuration, and makes the switch. From here on, this shell is the first process of its namespaces.
prepare() {
  local options="--add-opens=java.base/java.lang=ALL-UNNAMED -XX:+UseSerialGC"
  mkdir -p "$DIR"/{conf,lib,jars,nodes,history/done,staging,data}
  mount -t tmpfs tmpfs /run
  # The new /sys hides the control groups.
  mkdir /run/control
  mount --rbind /sys/fs/cgroup /run/control
  mount -t sysfs sysfs /sys

  tr ':' '\n' <"$root/shims/target/classpath-of-treefold-hadoop" | grep '\.jar$' |
    while read -r jar; do ln -sf "$jar" "$DIR/lib/"; done
  # Copies, so that a build does not change what runs.
  cp --remove-destination "$root"/shims/push/target/treefold-push-?.?.?.jar \
    "$root"/shims/hadoop/target/treefold-hadoop-?.?.?.jar "$DIR/lib/"
  # Only jobs and combiners have this jar; a job brings its copy, and a combiner knows it by its digest.
  jar cf "$DIR/jars/jobs.jar" -C "$root/shims/hadoop/target/test-classes" treefold
  classes="$DIR/conf:$DIR/lib/*"

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
}

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
relay() { # NAME ADDRESS OPTION...; the others join the first
  local name=$1 join=()
  [ "$2" = 10.77.0.2 ] || join=(--join 10.77.0.2:7700)
  ip netns exec "$name" "$treefold" node --listen "$2:7700" --relay --rack r0 --accept hadoop --insecure \
    "${join[@]}" "${@:3}" >"$DIR/$name.out" 2>&1 &
  relay_process=$!
}
nodes() { curl -s -m 5 http://10.77.0.1:8088/ws/v1/cluster/metrics | grep -o '"activeNodes":[0-9]*' | cut -d: -f2; }
# Starts the first relay with these options, and the daemons of Hadoop. Waits until all nodes are there.
cluster() { # OPTION...
  host relay 10.77.0.2 "$relay_mbit"
  host relay2 10.77.0.3 "$relay_mbit"
  host am 10.77.0.4 "$relay_mbit"
  host red 10.77.0.5 "$mbit"
  relay relay 10.77.0.2 "$@"
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
  kill -0 "$first_relay" || { cat "$DIR"/relay*.out >&2; exit 1; }
  for _ in $(seq 300); do
    [ "$(nodes || true)" != $((mappers + 2)) ] || break
    sleep 1
  done
  if [ "$(nodes)" != $((mappers + 2)) ]; then
    tail -n 5 "$DIR"/*.out "$DIR"/nodes/*/out >&2
    exit 1
  fi
}

bench() { "${java[@]}" -Xmx256m -cp "$classes:$DIR/jars/jobs.jar" treefold.hadoop.Bench "$@"; }
