//! Checks that the reports are exactly the ones that these daemons make, each of them once.

use super::startup::Reported;
use bytes::Bytes;
use std::collections::BTreeMap;
use treefold::PartitionSet;
use treefold::operators::filter::classes::Classes;
use treefold::operators::packet::{Packet, Value};
use treefold_cli::exit::Failure;
use treefold_daemon::{Daemon, Request, checksum, metrics};

/// Checks the reports.
///
/// Returns the number of classes of programs.
pub(super) fn verify(reported: &Reported, seed: u64, count: u32) -> Result<usize, Failure> {
    let programs = Daemon::programs(seed);
    let mut daemons: Vec<Daemon> =
        (0..count).map(|endpoint| Daemon::new(seed, endpoint, &programs)).collect();
    each_reports(&reported.itself, &mut daemons, &Request::Itself)?;
    each_reports(&reported.process, &mut daemons, &Request::Process)?;
    each_reports(&reported.machine, &mut daemons, &Request::Machine)?;
    let class = Request::MetricClass { definitions: metrics::definitions() };
    in_classes(&reported.metrics, &mut daemons, &class)?;
    let classes = in_classes(&reported.code, &mut daemons, &Request::CodeClass)?;
    in_classes(&reported.call_graph, &mut daemons, &Request::CallGraphClass)?;
    let done = reported.done.u64(0).map_err(|error| Failure::failed(error.to_string()))?;
    if done != u64::from(count) {
        return Err(Failure::failed(format!("{done} of {count} daemons are done")));
    }
    // No skew was injected, so the clocks of one machine may be off by no more than the reported bound.
    match reported.skews.iter().find(|skew| skew.skew_ns.unsigned_abs() > skew.bound_ns) {
        Some(wrong) => Err(Failure::failed(format!(
            "a correct clock was measured as off by more than its bound: {wrong:?}"
        ))),
        None => Ok(classes),
    }
}

/// A report by class: the classes with their members, and each representative's full report.
pub(super) struct ByClass {
    pub(super) classes: Packet,
    pub(super) full: Vec<(u32, Bytes)>,
}

/// Compares the columns of a concatenation with each daemon's answer.
fn each_reports(packet: &Packet, daemons: &mut [Daemon], request: &Request) -> Result<(), Failure> {
    let columns: Vec<Vec<String>> = packet.values().map(cells).collect();
    let rows = columns.first().map_or(0, Vec::len);
    let mut seen = vec![false; daemons.len()];
    for row in 0..rows {
        let came: Vec<&String> = columns.iter().filter_map(|column| column.get(row)).collect();
        let endpoint = came.first().and_then(|number| number.parse::<usize>().ok());
        let endpoint = endpoint.filter(|&endpoint| endpoint < seen.len());
        let endpoint = endpoint.ok_or_else(|| Failure::failed(format!("{came:?}: no such daemon")))?;
        let sent = Packet::read(&daemons[endpoint].answer(request.clone()));
        let sent = sent.expect("invariant: a daemon answers with a packet");
        let sent: Vec<String> = sent.values().flat_map(cells).collect();
        if !came.iter().copied().eq(&sent) || std::mem::replace(&mut seen[endpoint], true) {
            return Err(Failure::failed(format!("{came:?} came, expected {sent:?} once")));
        }
    }
    match seen.iter().position(|&seen| !seen) {
        Some(endpoint) => {
            Err(Failure::failed(format!("daemon {endpoint} is missing from the answer to {request:?}")))
        }
        None => Ok(()),
    }
}

fn cells(value: Value<'_>) -> Vec<String> {
    match value {
        Value::U64s(numbers) => numbers.iter().map(|number| number.to_string()).collect(),
        Value::U64(number) => vec![number.to_string()],
        Value::Strs(texts) => texts.map(str::to_owned).collect(),
        Value::Str(text) => vec![text.to_owned()],
        other => vec![format!("{other:?}")],
    }
}

/// Compares classes with the daemons' actual classes.
///
/// Returns their number.
fn in_classes(reported: &ByClass, daemons: &mut [Daemon], request: &Request) -> Result<usize, Failure> {
    let mut expected: BTreeMap<Bytes, PartitionSet> = BTreeMap::new();
    for (endpoint, daemon) in daemons.iter_mut().enumerate() {
        expected.entry(daemon.answer(request.clone())).or_default().insert(endpoint as u32);
    }
    let classes = Classes::of(&reported.classes).map_err(|error| Failure::failed(error.to_string()))?;
    let came: BTreeMap<Bytes, PartitionSet> =
        classes.iter().map(|class| (class.key.clone(), class.members.clone())).collect();
    if came != expected || !classes.others().is_empty() {
        return Err(Failure::failed(format!("classes {came:?} came, expected {expected:?}")));
    }
    for class in classes.iter() {
        let full = reported.full.iter().find(|(endpoint, _)| *endpoint == class.representative);
        if full.is_none_or(|(_, report)| checksum(report) != *class.key) {
            return Err(Failure::failed(format!(
                "the report of representative {} differs from its class",
                class.representative
            )));
        }
    }
    Ok(came.len())
}
