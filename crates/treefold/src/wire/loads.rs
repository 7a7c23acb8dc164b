//! Loads of the nodes below the sender, as columns of a `Partial`.
//!
//! There is one column of nodes and one of numbers, with [`NUMBERS`] numbers for each node: the figure's age,
//! the queued work, the waves in flight, the processors, and the latency. Times are in microseconds. A time
//! that does not fit in 32 bits (71 minutes) is sent as the largest number. A second column of numbers has the time of each node's
//! local, and 0 if it is not known; builds before it send none.

use crate::wire::columns::{Nodes, Numbers, put_nodes, put_number};
use crate::wire::error::{WireError, malformed, within};
use crate::wire::header::PartialHeader;
use treefold_core::limits::Limits;
use treefold_core::load::figure::{LoadFigure, LoadNews};
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
    if loads.iter().any(|news| news.own.is_some()) {
        loads.iter().for_each(|news| put_number(&mut header.loads_own, own_micros(news.own)));
    }
    Ok(())
}

/// Reads the loads of `header`.
pub(super) fn loads_of(header: &PartialHeader, limits: &Limits) -> Result<Vec<LoadNews>, WireError> {
    let mut numbers = Numbers::new(&header.loads);
    let mut owns = Numbers::new(&header.loads_own);
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
        let own =
            if owns.is_empty() { None } else { own_of(owns.take().ok_or_else(|| malformed("loads_own"))?) };
        loads.push(LoadNews { node, figure, age, own });
    }
    if !owns.is_empty() {
        return Err(malformed("loads_own"));
    }
    if nodes.is_empty() { Ok(loads) } else { Err(malformed("loads_nodes")) }
}

/// A time that is at least a microsecond, as 0 says that it is not known.
pub(super) fn own_micros(own: Option<Duration>) -> u32 {
    own.map_or(0, |own| micros(own).max(1))
}

pub(super) fn own_of(micros: u32) -> Option<Duration> {
    (micros > 0).then(|| Duration::from_micros(micros.into()))
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}
