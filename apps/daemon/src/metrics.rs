//! Metrics: the definitions that the front-end sends down, and each daemon's answer.
//!
//! Paradyn's front-end has its metrics in a definition language and broadcasts the text. A daemon answers
//! with the metrics that its host supports, and with its own internal ones.

use bytes::Bytes;
use treefold_operators::packet::Row;

/// Number of metrics whose definitions are broadcast.
const DEFINED: u32 = 32;

/// Metrics that a daemon has without a definition.
const INTERNAL: [&str; 6] = [
    "active_processes",
    "daemon_cpu",
    "instrumentation_cost",
    "pause_time",
    "samples_dropped",
    "sampling_rate",
];

const FAMILIES: [&str; 8] =
    ["cpu", "exec_time", "io_bytes", "io_wait", "msg_bytes", "msgs", "procedure_calls", "sync_wait"];

/// The text that is broadcast, one definition per entry.
pub fn definitions() -> Vec<String> {
    (0..DEFINED).map(definition).collect()
}

fn definition(number: u32) -> String {
    let family = FAMILIES[number as usize % FAMILIES.len()];
    let inclusive = if number.is_multiple_of(2) { "_inclusive" } else { "" };
    format!(
        "metric {family}{inclusive}_{number} {{ name \"{family}{inclusive}_{number}\"; units UnitsPerSecond; \
         style EventCounter; aggregateOperator sum; flavor {{ unix, mpi }}; \
         constraint procedureConstraint, moduleConstraint, msgTagConstraint; \
         base is counter {{ foreach func in libraryCalls {{ append preInsn func.entry constrained \
         (* {family}_{number}++; *) prepend preInsn func.return constrained (* stop(); *) }} }} }}"
    )
}

/// The report of a daemon of `class`: the names of the supported metrics with its internal ones, and
/// whether each may be aggregated. Hosts of class 0 support all; hosts of another class lack a family.
pub(crate) fn report(definitions: &[String], class: u32) -> Bytes {
    let lacking = class.checked_sub(1).map(|at| FAMILIES[at as usize % FAMILIES.len()]);
    let name_of = |text: &String| text.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let supported = |name: &String| lacking.is_none_or(|family| !name.starts_with(family));
    let mut names: Vec<String> = definitions.iter().map(name_of).filter(supported).collect();
    let defined = names.len();
    names.extend(INTERNAL.map(str::to_owned));
    let aggregated: Vec<u64> = (0..names.len()).map(|at| u64::from(at < defined)).collect();
    Row::new().strs(&names).u64s(&aggregated).packet().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold_operators::packet::Packet;

    fn count(class: u32) -> usize {
        Packet::read(&report(&definitions(), class)).unwrap().strs(0).unwrap().len()
    }

    #[test]
    fn hosts_of_another_class_lack_a_family() {
        assert_eq!(count(0), 32 + 6);
        assert!((1..4).all(|class| count(class) < count(0)));
        assert_ne!(report(&definitions(), 1), report(&definitions(), 2));
    }
}
