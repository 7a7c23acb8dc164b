#!/usr/bin/env bash
# Builds the command with profile-guided optimization: once with counters, to count what calls and streams execute, and then
# once more, optimised and laid out by these counts.
#
#   release/trained.sh        → target/trained/HOST/release/treefold
#
# It needs rustup's component llvm-tools, which reads the counts: rustup component add llvm-tools
set -euo pipefail
cd "$(dirname "$0")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
profdata="$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata"
if [ ! -x "$profdata" ]; then
    echo "error: llvm-profdata is missing; run: rustup component add llvm-tools" >&2
    exit 1
fi
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/trained
counts=$target/counts
rm -rf "$counts"
mkdir -p "$counts"

# Counters need no optimisation across crates, and a function's counts are found by its name in both builds.
RUSTFLAGS="${RUSTFLAGS:-} -Cprofile-generate=$counts" CARGO_PROFILE_RELEASE_LTO=off \
    cargo build --release --locked -p treefold-cli --target "$host" --target-dir "$target"

counting=$target/$host/release/treefold
export LLVM_PROFILE_FILE="$counts/%4m.profraw"
for shape in kary:8 kary:2 flat; do
    "$counting" bench call --nodes 16 --shape "$shape" --rounds 2000 --seconds 5
done
"$counting" bench call --nodes 16 --front --rounds 2000 --seconds 5
"$counting" bench stream --backends 16 --seconds 5
unset LLVM_PROFILE_FILE
"$profdata" merge -o "$counts/merged.profdata" "$counts"

RUSTFLAGS="${RUSTFLAGS:-} -Cprofile-use=$counts/merged.profdata" \
    cargo build --release --locked -p treefold-cli --target "$host" --target-dir "$target"
echo "$target/$host/release/treefold"
