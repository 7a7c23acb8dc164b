#!/usr/bin/env bash
# Runs NetAgg's experiment with several applications (§4.2.3, figures 25 and 26): unmodified Solr and an unmodified Hadoop
# job at the same time on one relay, and prints the part of the relay's processor time that each of them gets, at several
# shares. It needs root's rights, iproute2, curl, Python 3, Maven and Java 17; without root's rights it exits with 77.
#
#   bench/sharing.sh            three jobs, and a table
#   bench/sharing.sh --quick    a small job
#   bench/sharing.sh --help     all options
#
# TREEFOLD is the command; BUILT=1 uses the jars of the last build, OFFLINE=1 no network. All processes, namespaces, control
# groups and files vanish with the script, also when it is killed.
set -euo pipefail
source "$(dirname "$0")/hadoop/bed.sh"

for word in "$@"; do
  case $word in -h | --help) exec python3 -B "$root/bench/sharing" --help ;; esac
done
# Refuses wrong options before anything starts.
python3 -B "$root/bench/sharing" "$@" --parse
enter push,hadoop,solr "$@"

treefold=${TREEFOLD:-treefold}
mbit=${MBIT:-200} relay_mbit=${RELAY_MBIT:-1000}
prepare
cluster --accept solr --share solr=1 --share hadoop=1 --workers 1 --processors 1
solr=$root/shims/solr
mkdir -p "$DIR/tmp"
TMPDIR=$DIR/tmp python3 -B "$root/bench/sharing" "$@" --treefold "$treefold" --directory "$DIR" --relay-process "$first_relay" \
  --log4j "$solr/src/test/resources/log4j2.xml" \
  --classes "$solr/target/classes:$solr/target/test-classes:$(cat "$root/shims/target/classpath-of-treefold-solr")" \
  -- "${java[@]}" -Xmx256m -cp "$classes:$DIR/jars/jobs.jar" treefold.hadoop.Bench
