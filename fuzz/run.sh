#!/usr/bin/env bash
# Fuzzes every decoder, or the targets that are named, and keeps what was found.
#
#   fuzz/run.sh [SECONDS [TARGET…]]        default: 600 seconds for each target, all targets
#
# Each target starts from the inputs in fuzz/seeds/TARGET.tar.xz. Afterwards the archive has the smallest set of inputs that
# reaches the same code. One line is printed for each target. The exit code is 1 if a target failed; its input is in
# fuzz/artifacts/TARGET then. Needs a nightly compiler and cargo-fuzz. Two runs at once need different targets.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-600}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(cargo +nightly fuzz list)

cargo +nightly fuzz build >&2
# A later build must not replace a program that runs.
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
programs=$(mktemp -d) && trap 'rm -rf "$programs"' EXIT
cp "${targets[@]/#/${CARGO_TARGET_DIR:-fuzz/target}/$host/release/}" "$programs"
export ASAN_OPTIONS=detect_odr_violation=0

failed=0
printf '%-16s %12s %8s %6s %7s  %s\n' target runs seconds edges inputs result
for target in "${targets[@]}"; do
	corpus=fuzz/corpus/$target artifacts=fuzz/artifacts/$target seeds=fuzz/seeds/$target.tar.xz
	log=fuzz/artifacts/$target.log
	mkdir -p "$corpus" "$artifacts" fuzz/seeds
	[ ! -f "$seeds" ] || tar -xJf "$seeds" -C "$corpus"
	result=passed
	"$programs/$target" "$corpus" -artifact_prefix="$artifacts/" -max_total_time="$seconds" >"$log" 2>&1 ||
		{ result=FAILED failed=1; }
	read -r runs took < <(sed -n 's/^Done \([0-9]*\) runs in \([0-9]*\) second.*/\1 \2/p' "$log") || true
	edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
	if [ "$result" = passed ]; then
		smallest=$(mktemp -d)
		"$programs/$target" -merge=1 "$smallest" "$corpus" >>"$log" 2>&1
		rm -rf "$corpus" && mv "$smallest" "$corpus"
		tar -C "$corpus" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - . | xz -9 >"$seeds"
	fi
	printf '%-16s %12s %8s %6s %7s  %s\n' "$target" "${runs:-?}" "${took:-?}" "${edges:-?}" \
		"$(find "$corpus" -type f | wc -l)" "$result"
done
exit $failed
