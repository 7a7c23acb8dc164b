#!/usr/bin/env bash
# Measures the figures of `make bench`: Treefold's calls beside the kernel's floor, as a blocking and as an event-driven
# tree, in one session.
# Arguments go to treefold-compare, e.g. `bench/run.sh --nodes 16 --shape kary:8 --repeats 5 -o json`.
# PROFILE names the profile to build (release by default); BUILT=1 uses the existing build.
# TREEFOLD names another build of the command to measure, e.g. that of `make trained`.
set -euo pipefail
cd "$(dirname "$0")/.."

target_dir=${CARGO_TARGET_DIR:-target}
profile=${PROFILE:-release}
if [ "${BUILT:-0}" != 1 ]; then
  cargo build --profile "$profile" -p treefold-cli -p treefold-floor -p treefold-compare
fi
exec "$target_dir/$profile/treefold-compare" \
  --treefold "${TREEFOLD:-$target_dir/$profile/treefold}" \
  --floor "$target_dir/$profile/treefold-floor" \
  "$@"
