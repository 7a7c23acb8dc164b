//! Reports as columns: a tree of reports in preorder, like the tree whose times they contain.
//!
//! A report contains its children, so its sender decides how deep it is in memory, and nested reports are
//! freed by recursion. [`REPORT_DEPTH_MAX`] therefore limits the depth. Deeper reports are cut before they
//! are sent, because a report lists its children "as far as they came", and refused when they arrive.

use crate::wire::REPORT_DEPTH_MAX;
use crate::wire::columns::{Nodes, Numbers, Sets, put_nodes, put_number, put_set};
use crate::wire::error::{WireError, malformed, within};
use crate::wire::header::ReportColumns;
use treefold_core::id::NodeId;
use treefold_core::limits::Limits;
use treefold_core::membership::card::NAME_BYTES_MAX;
use treefold_core::message::{REPLACED_MAX, Report};
use treefold_core::partitions::PartitionSet;
use treefold_core::time::Duration;

/// Times of one report: queue, local, reduce, wait, total.
const TIMES: usize = 5;

/// Encodes `report` as columns, cut below [`REPORT_DEPTH_MAX`] levels.
pub(super) fn report_columns(report: &Report, limits: &Limits) -> Result<ReportColumns, WireError> {
    let mut row: Vec<&Report> = Vec::new();
    let mut sizes = Vec::new();
    lay(report, 1, &mut row, &mut sizes);
    within("report", limits.tree_seats_max, row.len())?;
    let mut columns = ReportColumns::default();
    sizes.into_iter().for_each(|size| put_number(&mut columns.sizes, size));
    columns.family = put_nodes(&mut columns.nodes, row.iter().map(|report| report.node));
    for &report in &row {
        within("report.rack", NAME_BYTES_MAX, report.rack.len())?;
        columns.racks.push(report.rack.clone());
        let count =
            put_set(&mut columns.runs, &report.partitions, limits.partitions_max, "report.partitions")?;
        put_number(&mut columns.run_counts, count);
        let times = [report.queue, report.local, report.reduce, report.wait, report.total];
        columns.times_ns.extend(times.map(|time| Duration::from(time).as_nanos()));
    }
    put_replaced(&mut columns, &row)?;
    Ok(columns)
}

/// Most reports name no replaced node, so there is a number for each report only if one does.
fn put_replaced(columns: &mut ReportColumns, row: &[&Report]) -> Result<(), WireError> {
    if row.iter().all(|report| report.replaced.is_empty()) {
        return Ok(());
    }
    for report in row {
        within("report.replaced", REPLACED_MAX, report.replaced.len())?;
        put_number(&mut columns.replaced_counts, report.replaced.len() as u32);
    }
    let replaced = row.iter().flat_map(|report| report.replaced.iter().copied());
    columns.replaced_family = put_nodes(&mut columns.replaced, replaced);
    Ok(())
}

/// Appends a report and its descendants in preorder, with the sizes of their subtrees.
fn lay<'a>(report: &'a Report, level: usize, row: &mut Vec<&'a Report>, sizes: &mut Vec<u32>) {
    let at = row.len();
    row.push(report);
    sizes.push(1);
    if level < REPORT_DEPTH_MAX {
        report.children.iter().for_each(|child| lay(child, level + 1, row, sizes));
    }
    sizes[at] = (row.len() - at) as u32;
}

/// Decodes a report from its columns.
pub(super) fn report_of(columns: ReportColumns, limits: &Limits) -> Result<Report, WireError> {
    let mut sizes = Numbers::new(&columns.sizes);
    let count = sizes.count();
    within("report", limits.tree_seats_max, count)?;
    let (times, odd) = columns.times_ns.as_chunks::<TIMES>();
    if times.len() != count || columns.racks.len() != count || !odd.is_empty() {
        return Err(malformed("report"));
    }
    let mut nodes = Nodes::new(&columns.nodes, columns.family);
    let mut counts = Numbers::new(&columns.replaced_counts);
    let names_replaced = !counts.is_empty();
    let mut replaced = Nodes::new(&columns.replaced, columns.replaced_family);
    let mut sets = Sets::new(&columns.run_counts, &columns.runs, limits.partitions_max, "report.partitions");
    // The reports whose subtrees are incomplete, each with the index at which its subtree ends.
    let mut open: Vec<(Report, usize)> = Vec::new();
    for (at, (rack, times)) in columns.racks.into_iter().zip(times).enumerate() {
        let size = sizes.take().ok_or(malformed("report.sizes"))?;
        close_until(&mut open, at);
        let end = at + size as usize;
        let bound = open.last().map_or(count, |&(_, end)| end);
        if size == 0 || end > bound {
            return Err(malformed("report.sizes"));
        }
        within("report.depth", REPORT_DEPTH_MAX, open.len() + 1)?;
        within("report.rack", NAME_BYTES_MAX, rack.len())?;
        let node = nodes.take().ok_or(malformed("report.nodes"))?;
        let mut report = alone(node, rack, sets.take()?, *times);
        if names_replaced {
            let count = counts.take().ok_or(malformed("report.replaced"))? as usize;
            within("report.replaced", REPLACED_MAX, count)?;
            let taken: Option<Vec<NodeId>> = (0..count).map(|_| replaced.take()).collect();
            report.replaced = taken.ok_or(malformed("report.replaced"))?;
        }
        open.push((report, end));
    }
    if !counts.is_empty() || !replaced.is_empty() {
        return Err(malformed("report.replaced"));
    }
    if !sizes.is_empty() || !nodes.is_empty() || !sets.is_empty() {
        return Err(malformed("report"));
    }
    close_until(&mut open, usize::MAX);
    open.pop().map(|(root, _)| root).ok_or(malformed("report.sizes"))
}

/// A report without its children.
fn alone(node: NodeId, rack: String, partitions: PartitionSet, times_ns: [u64; TIMES]) -> Report {
    let [queue, local, reduce, wait, total] = times_ns.map(std::time::Duration::from_nanos);
    Report {
        node,
        rack,
        partitions,
        queue,
        local,
        reduce,
        wait,
        total,
        replaced: Vec::new(),
        children: Vec::new(),
    }
}

/// Moves every report whose subtree ends at or before `at` into its parent. The root stays.
fn close_until(open: &mut Vec<(Report, usize)>, at: usize) {
    while open.len() > 1
        && let Some((child, _)) = open.pop_if(|&mut (_, end)| end <= at)
    {
        let (parent, _) = open.last_mut().expect("invariant: there were two at least");
        parent.children.push(child);
    }
}
