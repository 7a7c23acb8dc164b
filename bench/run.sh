#!/usr/bin/env bash
# Measures the figures of `make bench`: Treefold's calls beside the kernel's floor, in one session.
# Arguments go to treefold-compare, e.g. `bench/run.sh --nodes 16 --shape kary:8 --repeats 5 -o json`.
set -euo pipefail
cd "$(dirname "$0")/.."

target_dir=${CARGO_TARGET_DIR:-target}
cargo build --release -p treefold-cli -p treefold-floor -p treefold-compare
exec "$target_dir/release/treefold-compare" \
  --treefold "$target_dir/release/treefold" \
  --floor "$target_dir/release/treefold-floor" \
  "$@"
