#!/usr/bin/env bash
# Measures streams beside the kernel's floor, as a blocking and as an event-driven tree, and, if mpirun is installed,
# beside OpenMPI, in one session.
# Arguments go to treefold-compare, e.g. `bench/streams.sh --nodes 16,64 --shape kary:8 -o json`.
# PROFILE names the profile to build (release by default); BUILT=1 uses the existing build.
# TREEFOLD names another build of the command to measure, e.g. that of `make trained`.
set -euo pipefail
cd "$(dirname "$0")/.."

target_dir=${CARGO_TARGET_DIR:-target}
profile=${PROFILE:-release}
if [ "${BUILT:-0}" != 1 ]; then
  cargo build --profile "$profile" -p treefold-cli -p treefold-floor -p treefold-compare
fi
programs=(--treefold "${TREEFOLD:-$target_dir/$profile/treefold}" --floor "$target_dir/$profile/treefold-floor")
if command -v mpirun >/dev/null && command -v mpicc >/dev/null; then
  mpicc -O2 -o "$target_dir/bcast_reduce" bench/mpi/bcast_reduce.c
  programs+=(--mpi "$target_dir/bcast_reduce")
else
  echo "skipping OpenMPI: mpirun or mpicc is not installed (apt-get install openmpi-bin libopenmpi-dev)" >&2
fi
[[ " $* " == *" --nodes "* ]] || set -- --nodes 4,16,64,256 "$@"
[[ " $* " == *" --shape "* ]] || set -- --shape flat,kary:4,kary:8 "$@"
exec "$target_dir/$profile/treefold-compare" --streams "${programs[@]}" "$@"
