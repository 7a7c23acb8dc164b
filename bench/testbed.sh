#!/usr/bin/env bash
# Runs NetAgg's testbed experiments, and three on trees without relays: real nodes in racks of network namespaces with shaped links.
# It needs root's rights and iproute2; without them it reports an error and exits with 77.
# `bench/testbed.sh` runs all experiments and prints a line of JSON for each. Arguments go to
# treefold-testbed, e.g. `bench/testbed.sh clients --repeats 5`. `bench/testbed.sh --quick` checks in under a
# minute that everything works.
# PROFILE names the profile to build (lean by default); BUILT=1 uses the existing build.
set -euo pipefail
cd "$(dirname "$0")/.."

target_dir=${CARGO_TARGET_DIR:-target}
profile=${PROFILE:-lean}
if [ "${BUILT:-0}" != 1 ]; then
  cargo build --profile "$profile" -p treefold-cli -p treefold-testbed
fi
directory=$profile
[ "$profile" = dev ] && directory=debug
testbed=("$target_dir/$directory/treefold-testbed" --treefold "$target_dir/$directory/treefold")
if [ "$*" = --quick ]; then
  "${testbed[@]}" --quick clients
  "${testbed[@]}" --quick words
elif [ $# = 0 ]; then
  for experiment in clients ratio racks scale-out scale-up words words-size tree-size tree-fold tree-delay; do
    "${testbed[@]}" "$experiment" -o json
  done
else
  exec "${testbed[@]}" "$@"
fi
