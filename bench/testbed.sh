#!/usr/bin/env bash
# NetAgg's testbed experiments: racks of network namespaces with shaped links, real nodes in them. Needs root's rights and
# iproute2; without them it says so and ends with 77.
# `bench/testbed.sh` runs all of them, a line of JSON each; arguments go to treefold-testbed, e.g.
# `bench/testbed.sh clients --repeats 5`; `bench/testbed.sh --quick` sees in under a minute whether everything works.
# PROFILE names the profile that is built (lean by default); BUILT=1 takes what is there.
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
  for experiment in clients ratio racks scale-out words words-size; do
    "${testbed[@]}" "$experiment" -o json
  done
else
  exec "${testbed[@]}" "$@"
fi
