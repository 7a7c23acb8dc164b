"""Writes the parts of the command `treefold`: an SBOM in CycloneDX 1.5 (JSON), and the licences of all crates in one text.

    python3 release/sbom.py TARGET FOLDER

It reads `cargo metadata` and Cargo.lock, and counts the crates that the command is built from for this target: no development
dependencies, no crates of other platforms. It writes FOLDER/treefold.cdx.json and FOLDER/THIRD-PARTY-LICENSES.txt. The same sources
give the same bytes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any

ROOT = "treefold-cli"
CARGO = os.environ.get("CARGO", "cargo")
LICENCE_FILES = ("license", "licence", "copying", "notice", "unlicense", "copyright")
LICENCE_BYTES_MAX = 1 << 20


def metadata(target: str) -> dict[str, Any]:
    words = [CARGO, "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    return json.loads(subprocess.run(words, capture_output=True, check=True).stdout)


def parts(data: dict[str, Any]) -> dict[str, list[str]]:
    """The crates that the command is built from, by id, with the ids of their dependencies."""
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    root = next(package["id"] for package in data["packages"] if package["name"] == ROOT)
    found: dict[str, list[str]] = {}
    left = [root]
    while left:
        crate = left.pop()
        if crate in found:
            continue
        needed = [dep["pkg"] for dep in nodes[crate]["deps"] if any(kind["kind"] != "dev" for kind in dep["dep_kinds"])]
        found[crate] = sorted(needed)
        left += needed
    return found


def purl(package: dict[str, Any]) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package: dict[str, Any], checksums: dict[tuple[str, str], str]) -> dict[str, Any]:
    about: dict[str, Any] = {"type": "library", "bom-ref": purl(package), "name": package["name"], "version": package["version"]}
    about["purl"] = purl(package)
    if package.get("license"):
        about["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        about["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package.get("repository"):
        about["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return about


def licences(packages: list[dict[str, Any]]) -> str:
    """The licences of all crates of others, each text once with the crates that have it."""
    texts: dict[str, list[str]] = {}
    head = []
    for package in packages:
        name = f"{package['name']} {package['version']}"
        head.append(f"{name}: {package.get('license') or 'see its text'}")
        for path in sorted(Path(package["manifest_path"]).parent.iterdir()):
            if path.is_file() and path.name.lower().startswith(LICENCE_FILES) and path.stat().st_size <= LICENCE_BYTES_MAX:
                texts.setdefault(path.read_text(errors="replace").strip(), []).append(name)
    body = [f"{'=' * 80}\n{', '.join(dict.fromkeys(names))}\n\n{text}" for text, names in texts.items()]
    return "\n".join(head) + "\n\n" + "\n\n".join(body) + "\n"


def main() -> None:
    target, folder = sys.argv[1], Path(sys.argv[2])
    data = metadata(target)
    lock = tomllib.loads(Path("Cargo.lock").read_text())
    checksums = {(entry["name"], entry["version"]): entry.get("checksum", "") for entry in lock["package"]}
    by_id = {package["id"]: package for package in data["packages"]}
    found = parts(data)
    crates = sorted((by_id[crate] for crate in found), key=lambda package: (package["name"], package["version"]))
    root = next(package for package in crates if package["name"] == ROOT)
    main_part = {**component(root, checksums), "type": "application", "name": "treefold"}
    others = [component(package, checksums) for package in crates if package is not root]
    needs = [{"ref": purl(by_id[crate]), "dependsOn": sorted(purl(by_id[dep]) for dep in deps)} for crate, deps in found.items()]
    bom: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": main_part, "properties": [{"name": "target", "value": target}]},
        "components": others,
        "dependencies": sorted(needs, key=lambda need: need["ref"]),
    }
    bom["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bom, sort_keys=True)).urn
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "treefold.cdx.json").write_text(json.dumps(bom, indent=1) + "\n")
    foreign = [package for package in crates if package["source"]]
    (folder / "THIRD-PARTY-LICENSES.txt").write_text(licences(foreign))
    print(f"{len(crates)} crates, {len(foreign)} of others")


if __name__ == "__main__":
    main()
