//! Loads of the nodes below the sender, as columns of a `Partial`.
//!
//! There is one column of nodes and one of numbers, with [`NUMBERS`] numbers for each node: the figure's age,
//! the queued work, the waves in flight, the processors, and the latency. Times are in microseconds. A time
//! that does not fit in 32 bits (71 minutes) is sent as the largest number. A second column of numbers has each node's time
//! ([`LoadNews::time`]), and 0 if it is not known; builds before it send none.

use crate::wire::columns::{Nodes, Numbers, put_nodes, put_number};
use crate::wire::error::{WireError, malformed, within};
use crate::wire::header::PartialHeader;
use treefold_core::limits::Limits;
use treefold_core::load::figure::{LoadFigure, LoadNews, Took};
use treefold_core::time::Duration;

/// Numbers for each node.
const NUMBERS: usize = 5;

/// Fills the cleared load columns of `header`.
pub(super) fn put_loads(
    header: &mut PartialHeader,
    loads: &[LoadNews],
    limits: &Limits,
) -> Result<(), WireError> {
    if loads.is_empty() {
        return Ok(());
    }
    within("loads", limits.tree_seats_max, loads.len())?;
    header.loads_family = put_nodes(&mut header.loads_nodes, loads.iter().map(|news| news.node));
    for LoadNews { figure, age, .. } in loads {
        put_number(&mut header.loads, micros(*age));
        put_number(&mut header.loads, micros(figure.queued));
        put_number(&mut header.loads, figure.in_flight);
        put_number(&mut header.loads, figure.processors);
        put_number(&mut header.loads, micros(figure.latency));
    }
    if loads.iter().any(|news| news.time.is_some()) {
        loads.iter().for_each(|news| put_number(&mut header.loads_time, took_number(news.time)));
    }
    Ok(())
}

/// Reads the loads of `header`.
pub(super) fn loads_of(header: &PartialHeader, limits: &Limits) -> Result<Vec<LoadNews>, WireError> {
    let mut numbers = Numbers::new(&header.loads);
    let mut times = Numbers::new(&header.loads_time);
    let mut nodes = Nodes::new(&header.loads_nodes, header.loads_family);
    if numbers.is_empty() && nodes.is_empty() {
        return Ok(Vec::new());
    }
    let count = numbers.count() / NUMBERS;
    within("loads", limits.tree_seats_max, count)?;
    let mut loads = Vec::with_capacity(count);
    while !numbers.is_empty() {
        let node = nodes.take().ok_or_else(|| malformed("loads_nodes"))?;
        let mut number = || numbers.take().ok_or_else(|| malformed("loads"));
        let age = Duration::from_micros(number()?.into());
        let queued = Duration::from_micros(number()?.into());
        let (in_flight, processors) = (number()?, number()?);
        let latency = Duration::from_micros(number()?.into());
        let figure = LoadFigure { queued, in_flight, processors, latency };
        let time = if times.is_empty() {
            None
        } else {
            took_of(times.take().ok_or_else(|| malformed("loads_time"))?)
        };
        loads.push(LoadNews { node, figure, age, time });
    }
    if !times.is_empty() {
        return Err(malformed("loads_time"));
    }
    if nodes.is_empty() { Ok(loads) } else { Err(malformed("loads_nodes")) }
}

/// Marks a time at which a local had not ended.
const AT_LEAST: u32 = 1 << 31;

/// The microseconds that a local has taken, at least 1; 0 says that this is not known.
pub(super) fn took_number(took: Option<Took>) -> u32 {
    let number =
        |took: Took| micros(took.time).clamp(1, AT_LEAST - 1) | if took.at_least { AT_LEAST } else { 0 };
    took.map_or(0, number)
}

pub(super) fn took_of(number: u32) -> Option<Took> {
    let time = Duration::from_micros((number & !AT_LEAST).into());
    (!time.is_zero()).then_some(Took { time, at_least: number & AT_LEAST != 0 })
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}
