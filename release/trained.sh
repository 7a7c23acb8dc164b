#!/usr/bin/env bash
# Builds the command with profile-guided optimization: once with counters, to count what calls and streams execute, and then
# once more, optimised and laid out by these counts.
#
#   release/trained.sh        → target/trained/HOST/release/treefold
#
# PROFILE names the cargo profile (release by default). Both builds have the same, because the names of functions depend on it.
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

profile=${PROFILE:-release}
program=$target/$host/$profile/treefold

# build FLAG: builds the command with a further flag of the compiler
build() {
    RUSTFLAGS="${RUSTFLAGS:-} $1" \
        cargo build --profile "$profile" --locked -p treefold-cli --target "$host" --target-dir "$target"
}

build "-Cprofile-generate=$counts"
export LLVM_PROFILE_FILE="$counts/%4m.profraw"
for shape in kary:8 kary:2 flat; do
    "$program" bench call --nodes 16 --shape "$shape" --rounds 2000 --seconds 5
done
"$program" bench call --nodes 16 --front --rounds 2000 --seconds 5
"$program" bench stream --backends 16 --seconds 5
unset LLVM_PROFILE_FILE
# A process that is killed while it writes its counts leaves a file that is cut off; the others suffice.
"$profdata" merge --failure-mode=all -o "$counts/merged.profdata" "$counts"

build "-Cprofile-use=$counts/merged.profdata"
echo "$program"
