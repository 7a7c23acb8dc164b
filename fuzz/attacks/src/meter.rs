//! The memory and processor time of a process, as the kernel counts them.

use crate::finding::Setback;
use serde::Serialize;
use std::fmt;
use std::fs;

/// Ticks per second of the counters in /proc (USER_HZ), the same on every Linux.
const TICKS_PER_S: f64 = 100.0;
const KIB_PER_MIB: f64 = 1_024.0;

/// The cost of an attack for one process.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Cost {
    /// Peak of the resident memory.
    pub(crate) victim_peak_mib: f64,
    /// That peak less the resident memory before the attack.
    pub(crate) victim_growth_mib: f64,
    /// Processor time, user and kernel together.
    pub(crate) victim_processor_s: f64,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { victim_peak_mib, victim_growth_mib, victim_processor_s } = self;
        write!(
            f,
            "the victim's memory grew by {victim_growth_mib:.1} MiB to {victim_peak_mib:.1} MiB, and it used \
             {victim_processor_s:.1} s of processor time"
        )
    }
}

/// Measures one process from the moment of its creation on.
pub(crate) struct Meter {
    process: u32,
    resident_kib: f64,
    processor_s: f64,
}

impl Meter {
    pub(crate) fn start(process: u32) -> Result<Self, Setback> {
        // Resets the peak to the memory of now. Without it, an earlier peak would hide growth.
        let _ = fs::write(format!("/proc/{process}/clear_refs"), "5");
        Ok(Self { process, resident_kib: status_kib(process, "VmRSS")?, processor_s: processor_s(process)? })
    }

    pub(crate) fn read(&self) -> Result<Cost, Setback> {
        let peak_kib = status_kib(self.process, "VmHWM")?;
        let rounded = |figure: f64| (figure * 100.0).round() / 100.0;
        Ok(Cost {
            victim_peak_mib: rounded(peak_kib / KIB_PER_MIB),
            victim_growth_mib: rounded((peak_kib - self.resident_kib).max(0.0) / KIB_PER_MIB),
            victim_processor_s: rounded(processor_s(self.process)? - self.processor_s),
        })
    }
}

fn status_kib(process: u32, field: &str) -> Result<f64, Setback> {
    let path = format!("/proc/{process}/status");
    let text = fs::read_to_string(&path).map_err(Setback::doing(format_args!("read {path}")))?;
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let number = value.and_then(|value| value.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| Setback::new(format!("{path} has no {field}: the process has ended")))
}

fn processor_s(process: u32) -> Result<f64, Setback> {
    let path = format!("/proc/{process}/stat");
    let text = fs::read_to_string(&path).map_err(Setback::doing(format_args!("read {path}")))?;
    // The program's name, in parentheses, may contain spaces. User and kernel time are fields 14 and 15 of all.
    let fields = text.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().skip(11).take(2));
    let ticks: Option<f64> = fields.and_then(|fields| fields.map(|field| field.parse::<f64>().ok()).sum());
    ticks
        .map(|ticks| ticks / TICKS_PER_S)
        .ok_or_else(|| Setback::new(format!("{path} has no processor time")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_touched_counts_as_growth() {
        let meter = Meter::start(std::process::id()).unwrap();
        let block = std::hint::black_box(vec![1_u8; 32 << 20]);
        let cost = meter.read().unwrap();
        assert!(cost.victim_growth_mib > 20.0, "{cost}, {} bytes", block.len());
        assert!(Meter::start(u32::MAX - 1).is_err());
    }
}
