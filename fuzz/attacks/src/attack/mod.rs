//! The attacks, by family.

mod calls;
mod cards;
mod certificates;
mod connections;
mod datagrams;
mod exposure;
mod garbage;
mod greetings;
mod guests;
mod impersonation;
mod paths;
mod replayed;

use crate::finding::{Finding, Setback};
use crate::lab::Lab;

/// One attack.
pub(crate) struct Attack {
    /// The name on the command line, in kebab-case.
    pub(crate) name: &'static str,
    /// A line for `--list`.
    pub(crate) about: &'static str,
    /// Plays it from the start of the nodes to their end.
    pub(crate) play: fn(&Lab) -> Result<Finding, Setback>,
}

/// All attacks, by family.
pub(crate) const ATTACKS: &[&[Attack]] = &[
    datagrams::ATTACKS,
    cards::ATTACKS,
    impersonation::ATTACKS,
    greetings::ATTACKS,
    replayed::ATTACKS,
    connections::ATTACKS,
    calls::ATTACKS,
    guests::ATTACKS,
    garbage::ATTACKS,
    paths::ATTACKS,
    exposure::ATTACKS,
    certificates::ATTACKS,
];

/// All attacks in the order in which `all` plays them.
pub(crate) fn all() -> impl Iterator<Item = &'static Attack> {
    ATTACKS.iter().copied().flatten()
}
