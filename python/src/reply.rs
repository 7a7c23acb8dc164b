//! Outcomes of calls as tuples, from which the package's Python part makes its replies.

use crate::payload;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::time::Duration;
use treefold::{Missing, PartitionSet, Raw, Reply, Report};

/// The reply as a tuple: status, payload, asked, contributed, missing, whether the total is a guess, seconds, report.
pub(crate) fn tuple(py: Python<'_>, reply: Reply<Raw>) -> PyResult<Py<PyAny>> {
    let fields = (
        reply.status.name(),
        reply.value.map(|Raw(bytes)| payload::bytes_object(py, &bytes)),
        ids(&reply.asked),
        ids(&reply.contributed),
        losses(py, &reply.missing)?,
        reply.total_is_guess,
        reply.elapsed.as_secs_f64(),
        reply.report.as_ref().map(|report| flattened(py, report)).transpose()?,
    );
    Ok(fields.into_pyobject(py)?.into_any().unbind())
}

/// The missing partitions or endpoints, with reasons.
pub(crate) fn losses<'py>(py: Python<'py>, missing: &[Missing]) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, missing.iter().map(lost).collect::<Vec<_>>())
}

fn lost(missing: &Missing) -> (Vec<u32>, Option<String>, &str, Option<&str>) {
    let node = missing.node.map(|node| node.to_string());
    (ids(&missing.partitions), node, missing.reason.name(), missing.reason.detail())
}

fn ids(partitions: &PartitionSet) -> Vec<u32> {
    partitions.iter().collect()
}

/// The tree's nodes, parents before their children, each with its parent's index. A chain of ten thousand nodes must not
/// overflow the stack.
fn flattened<'py>(py: Python<'py>, root: &Report) -> PyResult<Bound<'py, PyList>> {
    let (all, mut open) = (PyList::empty(py), vec![(None, root)]);
    while let Some((parent, report)) = open.pop() {
        let index = all.len();
        let seconds = |time: Duration| time.as_secs_f64();
        let times = (
            seconds(report.queue),
            seconds(report.local),
            seconds(report.reduce),
            seconds(report.wait),
            seconds(report.total),
        );
        let replaced: Vec<String> = report.replaced.iter().map(ToString::to_string).collect();
        all.append((
            parent,
            report.node.to_string(),
            &report.rack,
            ids(&report.partitions),
            times,
            replaced,
        ))?;
        open.extend(report.children.iter().rev().map(|child| (Some(index), child)));
    }
    Ok(all)
}
