"""A control group that holds processes to a share of a processor. bench/held.py and bench/sharing use it, as root."""

from __future__ import annotations

from pathlib import Path

# Short periods, so that a held process waits for milliseconds and not for most of a tenth of a second. A quota of less than 1 ms is invalid.
PERIOD_US = 20_000


class Group:
    """A control group; version 1 or 2, whichever has the processors."""

    def __init__(self, name: str, control: Path = Path("/sys/fs/cgroup")) -> None:
        first = control / "cpu"
        self.is_first = first.is_dir()
        self.path = (first if self.is_first else control) / name
        self.path.mkdir()

    def share(self, processors: float) -> None:
        """Lets the group use this many processors."""
        quota_us = int(PERIOD_US * processors)
        if self.is_first:
            (self.path / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self.path / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            (self.path.parent / "cgroup.subtree_control").write_text("+cpu")
            (self.path / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")

    def prefer(self) -> None:
        """Gives the group its quota also if the machine's other processes want all processors."""
        if self.is_first:
            (self.path / "cpu.shares").write_text("262144")
        else:
            (self.path / "cpu.weight").write_text("10000")

    def take(self, process: int) -> None:
        """Moves a process into the group."""
        (self.path / "cgroup.procs").write_text(str(process))

    def remove(self) -> None:
        """Removes the group; no process may be in it."""
        self.path.rmdir()

    def throttled(self) -> tuple[int, int]:
        """Periods so far in which a process wanted to run, and those in which the quota was used up."""
        words = (self.path / "cpu.stat").read_text().split()
        of = dict(zip(words[::2], words[1::2]))
        return int(of["nr_periods"]), int(of["nr_throttled"])
