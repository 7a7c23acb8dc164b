//! The clock of this machine: whether something keeps it right, and whether it is set while programs run.

use super::finding::Finding;
use crate::output::short;
use std::fs;
use std::time::{Duration, Instant, SystemTime};

const CHECK: &str = "clock";

/// The wall clock may move by this much against the monotonic clock in a second without being set.
const STEP_MAX: Duration = Duration::from_millis(50);
/// Sources of time that take long to read, or are not even.
const SLOW_SOURCES: [&str; 4] = ["hpet", "acpi_pm", "refined-jiffies", "jiffies"];
const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Both clocks at one moment.
pub(super) struct Moment {
    wall: SystemTime,
    monotonic: Instant,
}

impl Moment {
    pub(super) fn now() -> Self {
        Self { wall: SystemTime::now(), monotonic: Instant::now() }
    }

    /// Checks the clock. The longer ago `self` is, the better a step is seen.
    pub(super) fn check(&self) -> Vec<Finding> {
        let passed = self.monotonic.elapsed();
        let shown = self.wall.elapsed();
        let mut findings = vec![synchronised(is_synchronised())];
        findings.extend(step(passed, shown.ok()));
        findings.extend(fs::read_to_string(SOURCE).ok().and_then(|source| slow(source.trim())));
        findings
    }
}

fn step(passed: Duration, shown: Option<Duration>) -> Option<Finding> {
    let moved = shown.map_or(Duration::MAX, |shown| shown.abs_diff(passed));
    (moved > STEP_MAX).then(|| {
        let found = match shown {
            Some(shown) => format!("while {} passed, the wall clock moved by {}", short(passed), short(shown)),
            None => "the wall clock was set back while this ran".to_owned(),
        };
        Finding::warn(
            CHECK,
            found,
            "let one program keep the time and let it slew (chronyd, systemd-timesyncd): files and certificates are judged by \
             the wall clock",
        )
    })
}

fn slow(source: &str) -> Option<Finding> {
    SLOW_SOURCES.contains(&source).then(|| {
        let found = format!("the kernel's source of time is {source}, which is slow to read");
        Finding::warn(
            CHECK,
            found,
            "boot with a stable TSC, or use the clock of the hypervisor (kvm-clock, hyperv)",
        )
    })
}

fn synchronised(is_synchronised: Option<bool>) -> Finding {
    match is_synchronised {
        Some(true) => Finding::ok(CHECK, "the kernel says that the wall clock is synchronised"),
        Some(false) => Finding::warn(
            CHECK,
            "the kernel says that nothing synchronises the wall clock",
            "run chronyd or systemd-timesyncd (`timedatectl set-ntp true`), unless the host of this virtual machine or container \
             keeps the time",
        ),
        None => Finding::ok(CHECK, "this system does not say whether the wall clock is synchronised"),
    }
}

#[cfg(target_os = "linux")]
fn is_synchronised() -> Option<bool> {
    // SAFETY: all zeros is a valid value of this structure of integers.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for the call. With `modes` 0 the call changes nothing but the structure.
    let told = unsafe { libc::adjtimex(&raw mut state) };
    (told != -1).then_some(state.status & libc::STA_UNSYNC == 0)
}

#[cfg(not(target_os = "linux"))]
fn is_synchronised() -> Option<bool> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_is_seen() {
        let second = Duration::from_secs(1);
        assert_eq!(step(second, Some(second + STEP_MAX)), None);
        assert!(step(second, Some(2 * second)).unwrap().found.contains("moved by 2.00 s"));
        assert!(step(second, None).unwrap().found.contains("set back"));
    }

    #[test]
    fn slow_sources_are_named() {
        assert_eq!(slow("tsc"), None);
        assert!(slow("hpet").unwrap().found.contains("hpet"));
    }
}
