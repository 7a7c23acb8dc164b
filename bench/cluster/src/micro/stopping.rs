//! Nodes that are stopped for a time: their processes and connections stay, but they do nothing (`kill -STOP`).
//!
//! A call's planned instant decides which nodes are stopped, and the first call of an interval stops or resumes them.
//! So the instants are as exact as the interval between two calls.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;
use treefold::CallError;
use treefold_cli::exit::Failure;
use treefold_cli::fleet::Fleet;
use treefold_cli::parse;

/// One stopped node, and the time since measuring began.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stopping {
    /// Its index in the fleet.
    pub(super) node: u32,
    from: Duration,
    until: Duration,
}

impl Stopping {
    /// Returns the nodes that are stopped `since_s` seconds after measuring began.
    fn at(all: &[Self], since_s: f64) -> BTreeSet<u32> {
        let is_stopped = |it: &&Self| (it.from.as_secs_f64()..it.until.as_secs_f64()).contains(&since_s);
        all.iter().filter(is_stopped).map(|stopping| stopping.node).collect()
    }
}

/// Parses `1@10s-30s`.
pub(super) fn stopping(text: &str) -> Result<Stopping, CallError> {
    let refuse = || CallError::bad_field("stop", text, "NODE@FROM-TO, as in 1@10s-30s");
    let (node, when) = text.split_once('@').ok_or_else(refuse)?;
    let (from, until) = when.split_once('-').ok_or_else(refuse)?;
    let node = node.parse().map_err(|_| refuse())?;
    let (from, until) = (parse::duration(from)?, parse::duration(until)?);
    if from >= until {
        return Err(refuse());
    }
    Ok(Stopping { node, from, until })
}

/// Stops and resumes the nodes of a fleet.
pub(super) struct Stops<'a> {
    all: &'a [Stopping],
    fleet: &'a Fleet,
    stopped: RefCell<BTreeSet<u32>>,
}

impl<'a> Stops<'a> {
    pub(super) fn new(all: &'a [Stopping], fleet: &'a Fleet) -> Self {
        Self { all, fleet, stopped: RefCell::default() }
    }

    /// Stops and resumes nodes as it is due `since_s` seconds after measuring began.
    pub(super) fn follow(&self, since_s: f64) -> Result<(), Failure> {
        let due = Stopping::at(self.all, since_s);
        let mut stopped = self.stopped.borrow_mut();
        for &node in due.difference(&stopped) {
            self.fleet.stop(node as usize)?;
        }
        for &node in stopped.difference(&due) {
            self.fleet.resume(node as usize)?;
        }
        *stopped = due;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_stopped_during_their_configured_time() {
        let both = ["1@10s-30s", "2@20s-40s"].map(|text| stopping(text).unwrap());
        let at = |since_s| Stopping::at(&both, since_s).into_iter().collect::<Vec<u32>>();
        assert_eq!([at(-1.0), at(10.0), at(25.0), at(30.0)], [vec![], vec![1], vec![1, 2], vec![2]]);
    }

    #[test]
    fn invalid_stops_are_refused() {
        for senseless in ["", "1", "x@1s-2s", "1@", "1@10s", "1@30s-10s", "1@1-2", "1@1s-1s"] {
            assert!(stopping(senseless).is_err(), "{senseless:?} must be refused");
        }
    }
}
