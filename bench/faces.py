"""Measures recognition by eigenfaces: accuracy, latency and throughput for 1 to 16 partitions, each in a node process of its own.

    TREEFOLD=target/lean/treefold python bench/faces.py [PEOPLE [PICTURES [REPEATS]]]

The faces are drawn ones. If scikit-learn is installed, also its handwritten digits, each digit as a person: every fifth picture is asked for, the
others are the gallery. scikit-learn's PCA and nearest neighbour over the whole, on the same pixels, must name the same digits.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from vectors import PARTITIONS, Cluster, median, run

COMPONENTS = 32


def check(service: str, probes: Path, partitions: int, *more: str) -> dict[str, Any]:
    with Cluster(service, partitions) as cluster:
        words = ["--at", cluster.addr, "--deadline", "20s", *more, "-o", "json"]
        return json.loads(run("faces", "check", str(probes), *words))


def generated(folder: Path, people: int, pictures: int, repeats: int) -> None:
    gallery, probes, model = folder / "people", folder / "probes", folder / "people.model"
    run("faces", "generate", str(gallery), "--people", str(people), "--pictures", str(pictures))
    run("faces", "generate", str(probes), "--people", str(people), "--pictures", "1", "--first", str(pictures))
    print(run("faces", "train", str(gallery), "--out", str(model)), end="", flush=True)
    runs: dict[int, list[dict[str, Any]]] = {}
    for _ in range(repeats):
        for partitions in PARTITIONS:
            measured = check(f"faces={gallery}:model={model}", probes, partitions, "--in-flight", "16")
            runs.setdefault(partitions, []).append(measured)
    for partitions, measured in runs.items():
        wrong = {json.dumps(one["wrong"]) for one in measured}
        assert len(wrong) == 1, "every run names the same people"
        print(json.dumps({"faces": "generated", "partitions": partitions, **median(measured)}), flush=True)


def digits(folder: Path) -> None:
    """scikit-learn's digits: 1,797 pictures of 8 × 8 pixels."""
    try:
        import numpy
        from sklearn.datasets import load_digits
        from sklearn.decomposition import PCA
        from sklearn.neighbors import KNeighborsClassifier
    except ImportError as missing:
        print(f"skipped: {missing}", file=sys.stderr)
        return
    data = load_digits()
    pixels = (data.images * 255 / 16).round().astype("uint8")
    probe = numpy.arange(len(pixels)) % 5 == 0
    for number, (picture, digit) in enumerate(zip(pixels, data.target)):
        own = folder / ("probes" if probe[number] else "gallery") / str(digit)
        own.mkdir(parents=True, exist_ok=True)
        (own / f"{number:04}.pgm").write_bytes(b"P5\n8 8\n255\n" + picture.tobytes())
    model = folder / "digits.model"
    words = ["--out", str(model), "--size", "8x8", "--components", str(COMPONENTS), "--plain"]
    print(run("faces", "train", str(folder / "gallery"), *words), end="", flush=True)
    flat = pixels.reshape(len(pixels), -1).astype("float64")
    pca = PCA(n_components=COMPONENTS, svd_solver="full").fit(flat[~probe])
    nearest = KNeighborsClassifier(n_neighbors=1, algorithm="brute").fit(pca.transform(flat[~probe]), data.target[~probe])
    named = nearest.predict(pca.transform(flat[probe]))
    expected = {
        f"{digit}/{number:04}.pgm": str(name)
        for number, digit, name in zip(numpy.flatnonzero(probe), data.target[probe], named)
        if digit != name
    }
    for partitions in PARTITIONS:
        measured = check(f"faces={folder / 'gallery'}:model={model}", folder / "probes", partitions)
        wrong = {one["picture"]: one["named"] for one in measured["wrong"]}
        same = "the same as scikit-learn's" if wrong == expected else f"scikit-learn has {expected}"
        figures = {key: measured[key] for key in ["pictures", "right", "accuracy", "ms_p50"]}
        print(json.dumps({"faces": "digits", "partitions": partitions, **figures, "wrong": f"{wrong}: {same}"}), flush=True)


def main() -> None:
    people, pictures, repeats = [int(word) for word in sys.argv[1:]] + [400, 10, 3][len(sys.argv) - 1 :]
    with tempfile.TemporaryDirectory() as name:
        generated(Path(name) / "generated", people, pictures, repeats)
    with tempfile.TemporaryDirectory() as name:
        digits(Path(name))


if __name__ == "__main__":
    main()
