//! Nodes that are slow for a time: the paper's unresponsiveness (DAC §5.5).
//!
//! Each call carries the nodes that are slow at its planned instant, so that nodes have no state to set and
//! reset.

use std::time::Duration;
use treefold::CallError;
use treefold_cli::parse;

/// One slow node, with the factor and the time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slowing {
    /// Its index in the fleet, which is also the partition it hosts.
    pub(super) node: u32,
    pub(super) factor: f64,
    /// Time since measuring began; `None` means the whole run including the warm-up.
    while_between: Option<(Duration, Duration)>,
}

impl Slowing {
    /// Returns the nodes that are slow for a call planned `since_s` seconds after measuring began, with their
    /// factors.
    pub(super) fn at(all: &[Self], since_s: f64) -> Vec<(u32, f64)> {
        let is_slow = |slowing: &&Self| {
            slowing
                .while_between
                .is_none_or(|(from, until)| (from.as_secs_f64()..until.as_secs_f64()).contains(&since_s))
        };
        all.iter().filter(is_slow).map(|slowing| (slowing.node, slowing.factor)).collect()
    }
}

/// Parses `1:5x@10s-30s`.
///
/// Without times the node is slow for the whole run.
pub(super) fn slowing(text: &str) -> Result<Slowing, CallError> {
    let refuse =
        || CallError::bad_field("slow", text, "NODE:FACTOR or NODE:FACTOR@FROM-TO, as in 1:5x@10s-30s");
    let (what, when) = text.split_once('@').map_or((text, None), |(what, when)| (what, Some(when)));
    let (node, factor) = what.split_once(':').ok_or_else(refuse)?;
    let node = node.parse().map_err(|_| refuse())?;
    let factor = parse::factor(factor)?;
    let while_between = match when {
        None => None,
        Some(when) => {
            let (from, until) = when.split_once('-').ok_or_else(refuse)?;
            let (from, until) = (parse::duration(from)?, parse::duration(until)?);
            Some((from, until)).filter(|_| from < until).ok_or_else(refuse)?.into()
        }
    };
    Ok(Slowing { node, factor, while_between })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_slow_during_their_configured_time() {
        let both = ["1:5x@10s-30s", "2:3@20s-40s"].map(|text| slowing(text).unwrap());
        assert_eq!(Slowing::at(&both, -1.0), []);
        assert_eq!(Slowing::at(&both, 10.0), [(1, 5.0)]);
        assert_eq!(Slowing::at(&both, 25.0), [(1, 5.0), (2, 3.0)]);
        assert_eq!(Slowing::at(&both, 30.0), [(2, 3.0)]);
        assert_eq!(Slowing::at(&[slowing("0:2x").unwrap()], -4.0), [(0, 2.0)], "in the warm-up too");
    }

    #[test]
    fn invalid_slowings_are_refused() {
        for senseless in ["", "1", "x:5x", "1:0.5x", "1:5x@", "1:5x@10s", "1:5x@30s-10s", "1:5x@10-30"] {
            assert!(slowing(senseless).is_err(), "{senseless:?} must be refused");
        }
    }
}
