#!/usr/bin/env bash
# Runs Solr on a testbed, with and without relays: real shards, a real coordinator and real relays in racks of network
# namespaces with shaped links. It needs root's rights, iproute2, Python 3, Maven and a JDK, and the command `treefold` on
# PATH or in TREEFOLD. It removes everything that it makes, also when it is killed.
#   bench/solr.sh clients|ratio|racks|failures [OPTION...]        options: bench/solr.sh clients --help
set -euo pipefail
cd "$(dirname "$0")/.."

target=shims/solr/target
mvn ${MAVEN:-} -q -f shims/pom.xml -pl push,solr test-compile dependency:build-classpath -Dmdep.outputFile=target/bed.classpath \
  -Dmdep.includeScope=test
exec python3 bench/solr "$@" --treefold "${TREEFOLD:-treefold}" --log4j shims/solr/src/test/resources/log4j2.xml \
  --classes "$target/classes:$target/test-classes:$(cat $target/bed.classpath)"
