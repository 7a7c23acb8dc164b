"""Two applications on one relay: real Solr queries, and the shuffle of a real Hadoop job, at several shares (NetAgg, figures 25 and 26).

`bench/sharing.sh` builds what it needs, starts Hadoop and the relay, and then this. The relay is held to a part of a processor, so
that it is the bound. While the shuffle runs, the shares change from phase to phase, and the relay's accounts are read twice a second.
A second counts if jobs of both applications waited at the relay in all of its samples, and if it does not touch the first second
after a change. Each job, each phase's second and the summary of each setting is a line of JSON; a table comes last.
"""

import argparse
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "solr")]

from bed import Bed, report, seconds_of  # noqa: E402
from group import Group  # noqa: E402
from load import question  # noqa: E402

RELAY = "10.77.0.2:7700"
APPLICATIONS = ("solr", "hadoop")
MAPPERS = 8
SAMPLE_SECONDS = 0.5
SAMPLES_OF_SECOND = 2
JOB_SECONDS_MAX = 900
# Queries of ten documents and all counts of the words in the found documents: sums of 2,000 lines from each shard.
QUERY = {"fl": "id,score", "facet": "true", "facet.field": "text", "facet.limit": "10"}
# Student's t for a 95 % interval, by the number of values.
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}


def arguments():
    parser = argparse.ArgumentParser(
        prog="bench/sharing.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Environment: TREEFOLD (the command), MBIT (200) and RELAY_MBIT (1000), the links of Hadoop's hosts; BUILT=1 uses the "
               "jars of the last build, OFFLINE=1 no network. It needs root's rights, and exits with 77 without them.")
    parser.add_argument("--quick", action="store_true", help="one small job, to check that everything works")
    parser.add_argument("--jobs", type=int, help="Hadoop jobs one after another; each is a repeat (3; quick: 1)")
    parser.add_argument("--keys", type=int, help="words of each of the eight maps (250000; quick: 100000)")
    parser.add_argument("--slices", type=int, default=64, help="slices of the job's keys; more make shorter tasks (%(default)s)")
    parser.add_argument("--shares", default="1:1,3:1,1:3", help="shares of Solr and Hadoop, phase by phase (%(default)s)")
    parser.add_argument("--phase-seconds", type=float, help="length of a phase (6; quick: 2)")
    parser.add_argument("--relay-processors", type=float, default=0.05, help="the relay's part of a processor (%(default)s)")
    parser.add_argument("--clients", type=int, default=32, help="clients of Solr, each with one query at a time (%(default)s)")
    parser.add_argument("--shards", type=int, help="shards of Solr (6; quick: 3)")
    parser.add_argument("--documents", type=int, default=300, help="documents of each shard (%(default)s)")
    parser.add_argument("--document-bytes", type=int, default=2400)
    parser.add_argument("--edge-mbit", type=int, default=200, help="speed of the links of Solr's hosts (%(default)s)")
    parser.add_argument("--deadline", type=int, default=60, help="the stand's, in seconds (%(default)s)")
    parser.add_argument("--warm-seconds", type=float, help="queries before the first job (25; quick: 8)")
    for name in ("treefold", "classes", "log4j", "directory"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    parser.add_argument("--relay-process", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--parse", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("bench", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.parse and options.bench:
        parser.error(f"unexpected: {' '.join(options.bench)}")
    for name, usual, quick in (("jobs", 3, 1), ("keys", 250_000, 100_000), ("phase_seconds", 6, 2), ("shards", 6, 3), ("warm_seconds", 25, 8)):
        if getattr(options, name) is None:
            setattr(options, name, quick if options.quick else usual)
    options.addresses, options.relay_mbit = "one", 0
    try:
        options.settings = [tuple(float(part) for part in setting.split(":")) for setting in options.shares.split(",")]
        ((_, _), *_) = options.settings
    except ValueError:
        parser.error(f"--shares is a list of pairs such as 1:1,3:1, not {options.shares!r}")
    if options.parse:
        sys.exit()
    return options


class Relay:
    """The relay's accounts, its processor time, and the control group that holds it."""

    def __init__(self, options):
        self.treefold, self.process = options.treefold, options.relay_process
        self.group = Group(os.environ["GROUP"], pathlib.Path("/run/control"))
        self.processors = options.relay_processors

    def hold(self):
        self.group.share(self.processors)
        self.group.prefer()
        self.group.take(self.process)

    def set_shares(self, setting):
        pairs = [f"{name}={share:g}" for name, share in zip(APPLICATIONS, setting)]
        subprocess.run([self.treefold, "shares", "set", *pairs, "--at", RELAY], check=True, stdout=subprocess.DEVNULL)

    def sample(self):
        """The accounts of both applications, the time at the relay, and the process's own processor time."""
        said = subprocess.run([self.treefold, "shares", "show", "--at", RELAY, "-o", "json"], check=True, stdout=subprocess.PIPE)
        shares = json.loads(said.stdout)
        node = shares["nodes"][0] if "nodes" in shares else shares
        accounts = {account["service"]: account for account in node["services"]}
        periods, throttled = self.group.throttled()
        return {"at_s": node["uptime_s"], "process_s": seconds_of(self.process), "periods": periods, "throttled": throttled,
                **{name: accounts[name] for name in APPLICATIONS}}


def do_both_wait(sample):
    return all(sample[name]["jobs_queued"] > 0 for name in APPLICATIONS)


def used(before, after, name):
    """Processor time charged to an application, in milliseconds, and the jobs that it ran."""
    return after[name]["used_ms"] - before[name]["used_ms"], after[name]["jobs_done"] - before[name]["jobs_done"]


def figures(before, after):
    """What the relay did between two samples."""
    seconds = after["at_s"] - before["at_s"]
    ms = {name: used(before, after, name) for name in APPLICATIONS}
    charged = sum(time for time, _ in ms.values())
    periods = after["periods"] - before["periods"]
    return {
        "seconds": round(seconds, 2),
        "solr_part": round(ms["solr"][0] / charged, 4) if charged else None,
        **{f"{name}_ms": round(time, 1) for name, (time, _) in ms.items()},
        **{f"{name}_jobs": jobs for name, (_, jobs) in ms.items()},
        "charged_processors": round(charged / 1e3 / seconds, 4),
        "relay_processors": round((after["process_s"] - before["process_s"]) / seconds, 4),
        "throttled_periods": round((after["throttled"] - before["throttled"]) / periods, 2) if periods else None,
    }


def seconds_of_phase(samples):
    """Cuts samples of one phase into seconds. Leaves out the first one, and the seconds in which one application had no queue."""
    cut = [samples[at:at + SAMPLES_OF_SECOND + 1] for at in range(0, len(samples) - SAMPLES_OF_SECOND, SAMPLES_OF_SECOND)]
    return [second for second in cut[1:] if all(do_both_wait(sample) for sample in second)]


def ask(bed, options, seed):
    """Starts the clients of Solr."""
    return bed.load(options.clients, [question(bed.shards["folded"], 10, **QUERY)], seed)


def run_job(bed, relay, options, number):
    """Runs a job, and queries from the beginning of its shuffle on: during its maps they would only compete for the machine.

    Returns the seconds of each setting, as pairs of samples.
    """
    turn = number % len(options.settings)
    settings = options.settings[turn:] + options.settings[:turn]
    relay.set_shares(settings[0])
    began, first, running = time.monotonic(), relay.sample(), None
    sliced = [f"-Dtreefold.shuffle.{name}={options.slices}" for name in ("slices", "window")]
    command = [*options.bench, *sliced, "run", options.directory, "WC", f"{options.directory}/data", "relays"]
    job = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    phases, is_counting, both, until, due = [[]], False, 0, 0, time.monotonic()
    while job.poll() is None:
        if time.monotonic() - began > JOB_SECONDS_MAX:
            job.kill()
            raise SystemExit(f"the job did not end within {JOB_SECONDS_MAX} s")
        due = max(time.monotonic(), due + SAMPLE_SECONDS)
        time.sleep(max(0, due - time.monotonic()))
        if is_counting and time.monotonic() >= until:
            phases.append([])
            relay.set_shares(settings[(len(phases) - 1) % len(settings)])
            until = time.monotonic() + options.phase_seconds
        sample = relay.sample()
        if not running and sample["hadoop"]["jobs_done"] + sample["hadoop"]["jobs_queued"] > first["hadoop"]["jobs_done"]:
            running = ask(bed, options, 1000 * number)
        both += do_both_wait(sample)
        if not is_counting and do_both_wait(sample):
            is_counting, until = True, time.monotonic() + options.phase_seconds
        if is_counting:
            phases[-1].append(sample)
    said = job.stdout.read().strip()
    if job.returncode != 0:
        raise SystemExit(f"the job failed with code {job.returncode}")
    ended = time.monotonic()
    answers = [answer for answer in running.end() if answer.ended <= ended] if running else []
    wrong = [answer.kind for answer in answers if answer.kind != "whole"]
    report({"repeat": number, **json.loads(said), "answers": len(answers) - len(wrong), "errors": len(wrong),
            "error": max(wrong, key=wrong.count, default=""), "samples_with_both": both}, kind="job")
    seconds = {}
    for place, samples in enumerate(phases):
        setting = settings[place % len(settings)]
        for second in seconds_of_phase(samples):
            point = figures(second[0], second[-1])
            queued = {f"{name}_queued": second[-1][name]["jobs_queued"] for name in APPLICATIONS}
            report({"repeat": number, "phase": place, "shares": named(setting), **point, **queued}, kind="second")
            seconds.setdefault(setting, []).append((second[0], second[-1]))
    return seconds


def named(setting):
    return ":".join(f"{share:g}" for share in setting)


def interval(values):
    """The 95 % interval of the mean, by Student's t. None for a single value."""
    if len(values) < 2:
        return None
    half = STUDENT.get(len(values), 1.96) * statistics.stdev(values) / math.sqrt(len(values))
    return [round(statistics.mean(values) - half, 2), round(statistics.mean(values) + half, 2)]


def summary(setting, jobs, own):
    """The part of Solr at a setting: of each job, their mean, and the least and greatest second."""
    sums = []
    for seconds in jobs:
        time_of = {name: sum(used(*second, name)[0] for second in seconds) for name in APPLICATIONS}
        jobs_of = {name: sum(used(*second, name)[1] for second in seconds) for name in APPLICATIONS}
        length = sum(after["at_s"] - before["at_s"] for before, after in seconds)
        busy = sum(after["process_s"] - before["process_s"] for before, after in seconds)
        sums.append((time_of, jobs_of, length, busy))
    parts = [100 * time_of["solr"] / sum(time_of.values()) for time_of, _, _, _ in sums]
    every = [100 * figures(*second)["solr_part"] for seconds in jobs for second in seconds]
    task_ms = {name: sum(one[0][name] for one in sums) / max(1, sum(one[1][name] for one in sums)) for name in APPLICATIONS}
    length = sum(one[2] for one in sums)
    due = 100 * setting[0] / sum(setting)
    # By equal turns, as a lottery with fixed weights would give them, the parts would follow the lengths of the tasks.
    weighted = {name: share * task_ms[name] for name, share in zip(APPLICATIONS, setting)}
    whole = [(1 + each) * sum(one[0][name] for one in sums) for name, each in zip(APPLICATIONS, own)] if own else None
    return {
        "shares": named(setting), "due_percent": round(due, 2), "solr_percent": round(statistics.mean(parts), 2),
        "interval": interval(parts), "error_points": round(statistics.mean(parts) - due, 2),
        "of_jobs": [round(part, 2) for part in parts], "seconds": len(every),
        "least_second": round(min(every), 1), "greatest_second": round(max(every), 1),
        "solr_task_ms": round(task_ms["solr"], 2), "hadoop_task_ms": round(task_ms["hadoop"], 2),
        "by_fixed_weights_percent": round(100 * weighted["solr"] / sum(weighted.values()), 1),
        "charged_processors": round(sum(sum(one[0].values()) for one in sums) / 1e3 / length, 4),
        "relay_processors": round(sum(one[3] for one in sums) / length, 4),
        "with_uncharged_percent": round(100 * whole[0] / sum(whole), 1) if whole else None,
    }


def watch(relay, seconds):
    """Samples as often as beside a job, for as long. Returns the first and the last."""
    samples, until = [relay.sample()], time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(SAMPLE_SECONDS)
        samples.append(relay.sample())
    return samples[0], samples[-1]


def alone(bed, relay, options, seconds=5):
    """The relay without work but the samples, and while only Solr uses it. Returns the processors of the first."""
    idle = figures(*watch(relay, seconds))
    report(idle, kind="idle")
    running = ask(bed, options, 7)
    time.sleep(2)
    before, after = watch(relay, seconds)
    answers = running.end()
    report({**figures(before, after), "solr_queued": after["solr"]["jobs_queued"],
            "errors": sum(answer.kind != "whole" for answer in answers)}, kind="solr alone")
    return idle["relay_processors"]


def uncharged(seconds, idle):
    """The relay's own work (network, decoding, routing), which no account is charged: milliseconds for each one of folds.

    By least squares, over seconds at different shares; less the processors of the idle relay.
    """
    points = [(used(*second, "solr")[0], used(*second, "hadoop")[0],
               1e3 * (second[1]["process_s"] - second[0]["process_s"] - idle * (second[1]["at_s"] - second[0]["at_s"])))
              for second in seconds]
    solr2, hadoop2, both = (sum(point[i] * point[j] for point in points) for i, j in ((0, 0), (1, 1), (0, 1)))
    own = [sum(point[at] * (point[2] - point[0] - point[1]) for point in points) for at in (0, 1)]
    divisor = solr2 * hadoop2 - both * both
    if divisor <= 1e-9 * solr2 * hadoop2:
        return None
    return (own[0] * hadoop2 - own[1] * both) / divisor, (own[1] * solr2 - own[0] * both) / divisor


def table(summaries):
    print("| shares, Solr to Hadoop | due | Solr's part | 95 % interval | error, points | seconds | least and greatest second "
          "| task, ms: Solr | Hadoop | by fixed weights | processors: charged | relay | with uncharged work |\n|" + "---|" * 13)
    for line in summaries:
        low, high = line["interval"] or ("–", "–")
        print(f"| {line['shares']} | {line['due_percent']:g} % | {line['solr_percent']} % | {low} to {high} "
              f"| {line['error_points']:+} | {line['seconds']} | {line['least_second']} to {line['greatest_second']} "
              f"| {line['solr_task_ms']} | {line['hadoop_task_ms']} | {line['by_fixed_weights_percent']} % "
              f"| {line['charged_processors']} | {line['relay_processors']} "
              f"| {line['with_uncharged_percent']} % |", flush=True)


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    relay = Relay(options)
    subprocess.run([*options.bench, "data", "WC", f"{options.directory}/data", str(MAPPERS), str(2 * options.keys), str(options.keys),
                    str(options.keys)], check=True)
    bed = Bed(options, 1, bridge="switch", relays=[RELAY])
    try:
        bed.warm(options.warm_seconds, **QUERY)
        relay.hold()
        idle = alone(bed, relay, options)
        jobs = [run_job(bed, relay, options, number) for number in range(options.jobs)]
        every = [second for seconds in jobs for each in seconds.values() for second in each]
        own = uncharged(every, idle) if len(options.settings) > 1 else None
        if own:
            report({f"{name}_ms": round(each, 2) for name, each in zip(APPLICATIONS, own)}, kind="uncharged work for a millisecond of folds")
        summaries = []
        for setting in options.settings:
            of_jobs = [seconds[setting] for seconds in jobs if seconds.get(setting)]
            if of_jobs:
                summaries.append(summary(setting, of_jobs, own))
                report(summaries[-1], kind="summary")
            else:
                print(f"# in no second of {named(setting)} both applications waited", file=sys.stderr)
        table(summaries)
    finally:
        bed.close()


main()
