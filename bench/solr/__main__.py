"""Solr on the testbed, with and without relays. `bench/solr.sh` builds what it needs, and starts it."""

import argparse
import signal
import statistics
import sys
import time

from bed import Bed, report
from load import percentile, question

SERIES = ("plain", "folded")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", choices=["clients", "ratio", "racks", "failures"])
    parser.add_argument("--treefold", required=True, help="the command treefold")
    parser.add_argument("--classes", required=True, help="class path with the shim, its tests and Solr")
    parser.add_argument("--log4j", required=True, help="configuration of Solr's log")
    parser.add_argument("--shards", type=int, default=10)
    parser.add_argument("--clients", default="5,10,30,50,70", help="numbers of clients")
    parser.add_argument("--edge-mbit", type=int, default=3, help="speed of the links of shards and coordinator")
    parser.add_argument("--relay-mbit", type=int, default=30, help="speed of the links of relays and between racks")
    parser.add_argument("--documents", type=int, default=1000, help="documents of each shard")
    parser.add_argument("--document-bytes", type=int, default=2400)
    parser.add_argument("--addresses", choices=["one", "each"], default="one", help="the stand's addresses")
    parser.add_argument("--seconds", type=float, default=8, help="the shortest window of a measurement")
    parser.add_argument("--seconds-max", type=float, default=120, help="the longest window")
    parser.add_argument("--answers", type=int, default=50, help="a window has an answer of each client, and so many more")
    parser.add_argument("--deadline", type=int, default=120, help="the stand's, in seconds")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--warm-seconds", type=float, default=20, help="for each series, with small results")
    return parser.parse_args()


def median(points):
    """The median of each figure over the repeats, the sum of errors, and the last of the texts."""
    merged = dict(points[-1])
    for key, value in merged.items():
        if isinstance(value, (int, float)):
            merged[key] = round(statistics.median(point[key] for point in points), 2)
    merged["errors"] = sum(point["errors"] for point in points)
    return merged


def sweep(bed, options, runs):
    """Measures each run (clients, rows, category) in both series, interleaved, so many times. Prints a table."""
    bed.warm(options.warm_seconds)
    points = {}
    for repeat in range(options.repeats):
        for at, run in enumerate(runs):
            for series in SERIES:
                point = bed.measure(series, *run, seed=1000 * repeat + at)
                report(point, experiment=options.experiment, repeat=repeat)
                points.setdefault((run, series), []).append(point)
    print("| clients | rows | answers/s: plain | folded | folded ÷ plain | p50, ms: plain | folded | p99, ms: plain | folded "
          "| errors: plain | folded | fullest link: plain "
          "| folded | processors: plain | folded |")
    print("|" + "---|" * 15)
    for run in runs:
        plain, folded = (median(points[run, series]) for series in SERIES)
        ratio = folded["per_second"] / plain["per_second"]
        row = [run[0], run[1], *both(plain, folded, "per_second"), f"{ratio:.1f}", *both(plain, folded, "p50_ms"),
               *both(plain, folded, "p99_ms"),
               *both(plain, folded, "errors"),
               *(f"{point['fullest']} {point['fullest_percent']:.0f} %" for point in (plain, folded)),
               *both(plain, folded, "processors")]
        print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)


def both(plain, folded, key):
    return plain[key], folded[key]


def failures(bed, options):
    """Ten clients, half of them tolerant, while a relay is stopped and killed, and a shard is killed."""
    bed.warm(options.warm_seconds)
    shards = bed.shards["folded"]
    questions = [question(shards, 10), question(shards, 10, **{"shards.tolerant": "true"})]
    events = [("nothing", None, None), ("a relay is stopped", "relay1", signal.SIGSTOP),
              ("it runs again", "relay1", signal.SIGCONT), ("it is killed", "relay1", signal.SIGKILL),
              ("the leading relay is stopped", "relay0", signal.SIGSTOP), ("it runs again", "relay0", signal.SIGCONT),
              ("a shard is stopped", "shard1", signal.SIGSTOP), ("it runs again", "shard1", signal.SIGCONT),
              ("a shard is killed", "shard1", signal.SIGKILL)]
    print("| event | tolerant | answers | whole | partial | errors | longest, ms |\n|" + "---|" * 7)
    for at, (event, name, number) in enumerate(events):
        running = bed.load(10, questions, at)
        time.sleep(3)
        began = time.monotonic()
        if name:
            bed.programs[name].signal(number)
        time.sleep(options.seconds)
        running.wait(20, began + options.seconds_max)
        answers = [answer for answer in running.end() if answer.ended >= began]
        for is_tolerant, kinds in split(answers):
            print(f"| {event} | {is_tolerant} | {len(kinds)} | " + " | ".join(
                str(sum(answer.kind.startswith(kind) for answer in kinds)) for kind in ("whole", "partial"))
                + f" | {errors(kinds)} | {percentile([1000 * (a.ended - a.began) for a in kinds], 1):.0f} |", flush=True)


def split(answers):
    for place, is_tolerant in enumerate(("no", "yes")):
        yield is_tolerant, [answer for answer in answers if answer.place % 2 == place]


def errors(answers):
    kinds = [answer.kind.split(":")[0] for answer in answers if answer.kind not in ("whole", "partial")]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds))) or 0


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    bed = Bed(options, 2 if options.experiment in ("racks", "failures") else 1)
    try:
        clients = [int(number) for number in options.clients.split(",")]
        if options.experiment == "failures":
            failures(bed, options)
        elif options.experiment == "ratio":
            # Ten documents of each shard match, so the coordinator gets 10, 20, 40 or all 100 rows of 100.
            sweep(bed, options, [(clients[-1], 10 * part, "ten") for part in (1, 2, 4, options.shards)])
        else:
            sweep(bed, options, [(number, 10, None) for number in clients])
    finally:
        bed.close()


main()
