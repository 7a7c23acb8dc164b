#!/usr/bin/env bash
# Packs every crate that is published, as a registry would get it, and builds nothing. It needs no network.
# It prints a line for each crate, and fails if a crate lacks metadata.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}

named() {
    python3 -c '
import json, sys
for package in json.load(sys.stdin)["packages"]:
    if package["publish"] is None:
        needed = ("description", "license", "readme", "rust_version", "keywords", "categories")
        lacking = [key for key in needed if not package[key]]
        if lacking:
            sys.exit("{} lacks {}".format(package["name"], ", ".join(lacking)))
        print(package["name"])'
}

crates=$("$cargo" metadata --format-version 1 --no-deps --locked --offline | named)
words=()
for crate in $crates; do words+=(-p "$crate"); done
"$cargo" package "${words[@]}" --no-verify --locked --offline --allow-dirty 2>&1 | awk '
/^ *Packaging/ { name = $2 }
/^ *Packaged/ { sub(/^ *Packaged /, ""); print name ": " $0; packed += 1 }
/^error/ { failed = 1 }
failed { print }
END { print packed " crates are packed"; exit failed }'
