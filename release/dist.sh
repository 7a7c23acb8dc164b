#!/usr/bin/env bash
# Puts everything that a release has into a folder: the program, manual pages, completions, licences, an SBOM, checksums.
#
#   release/dist.sh PROGRAM TARGET FOLDER
set -euo pipefail
program=$(realpath "$1") target=$2 folder=$3
cd "$(dirname "$0")/.."
mkdir -p "$folder/completions"
install -m 755 "$program" "$folder/treefold"
# the tables of lines, for profiles, are four fifths of the file; the names stay, so backtraces name functions
if command -v strip >/dev/null; then
    strip --strip-debug "$folder/treefold"
else
    echo "skipped: strip is missing (apt-get install binutils), so the program keeps its tables of lines" >&2
fi
"$folder/treefold" man "$folder/man/man1"
"$folder/treefold" completions bash >"$folder/completions/treefold.bash"
"$folder/treefold" completions zsh >"$folder/completions/_treefold"
"$folder/treefold" completions fish >"$folder/completions/treefold.fish"
cp LICENSE-APACHE LICENSE-MIT CHANGELOG.md README.md "$folder"
python3 release/sbom.py "$target" "$folder"
# only errors of the pages fail here; the style of the help is no matter of a page
if command -v mandoc >/dev/null; then
    mandoc -T lint -W error "$folder"/man/man1/*.1
else
    echo "skipped: mandoc is missing (apt-get install mandoc), so the manual pages were not checked" >&2
fi
cd "$folder"
rm -f SHA256SUMS
find . -type f ! -name SHA256SUMS | LC_ALL=C sort | xargs sha256sum >SHA256SUMS
sha256sum --check --quiet SHA256SUMS
echo "$folder: $(wc -l <SHA256SUMS) files, $(du -sh . | cut -f1)"
