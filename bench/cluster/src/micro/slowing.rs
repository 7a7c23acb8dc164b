//! Nodes that are slow for a while: the paper's unresponsiveness (DAC §5.5).
//!
//! A call says which nodes are slow for it, by when it was planned; nodes have no state to be set and reset.

use std::time::Duration;
use treefold::CallError;
use treefold_cli::parse;

/// One node, and by how much it is slower, when.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slowing {
    /// Its place in the fleet, which is the partition it hosts.
    pub(super) node: u32,
    pub(super) factor: f64,
    /// Since measuring began; the whole run, warm-up included, when `None`.
    while_between: Option<(Duration, Duration)>,
}

impl Slowing {
    /// The nodes that are slow for a call planned `since_s` seconds after measuring began, each with its factor.
    pub(super) fn at(all: &[Self], since_s: f64) -> Vec<(u32, f64)> {
        let is_slow = |slowing: &&Self| {
            slowing
                .while_between
                .is_none_or(|(from, until)| (from.as_secs_f64()..until.as_secs_f64()).contains(&since_s))
        };
        all.iter().filter(is_slow).map(|slowing| (slowing.node, slowing.factor)).collect()
    }
}

/// `1:5x@10s-30s`, or without times for the whole run.
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
    fn nodes_are_slow_when_they_are_said_to_be() {
        let both = ["1:5x@10s-30s", "2:3@20s-40s"].map(|text| slowing(text).unwrap());
        assert_eq!(Slowing::at(&both, -1.0), []);
        assert_eq!(Slowing::at(&both, 10.0), [(1, 5.0)]);
        assert_eq!(Slowing::at(&both, 25.0), [(1, 5.0), (2, 3.0)]);
        assert_eq!(Slowing::at(&both, 30.0), [(2, 3.0)]);
        assert_eq!(Slowing::at(&[slowing("0:2x").unwrap()], -4.0), [(0, 2.0)], "in the warm-up too");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for senseless in ["", "1", "x:5x", "1:0.5x", "1:5x@", "1:5x@10s", "1:5x@30s-10s", "1:5x@10-30"] {
            assert!(slowing(senseless).is_err(), "{senseless:?} slows nobody down");
        }
    }
}
