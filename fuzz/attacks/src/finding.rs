//! The result of an attack, and the reason why it could not be played.

use crate::meter::Cost;
use serde::Serialize;
use std::fmt;

/// The result of an attack that was played.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    /// True if legitimate clients noticed nothing.
    pub(crate) refused: bool,
    /// Observations with figures.
    pub(crate) seen: String,
    /// The cost for the attacked node, of attacks that flood.
    #[serde(flatten)]
    pub(crate) victim: Option<Cost>,
}

impl Finding {
    pub(crate) fn new(refused: bool, seen: impl Into<String>) -> Self {
        Self { refused, seen: seen.into(), victim: None }
    }

    /// Adds the cost for the attacked node.
    pub(crate) fn at_cost(mut self, cost: Cost) -> Self {
        self.victim = Some(cost);
        self
    }

    pub(crate) fn cost_text(&self) -> String {
        self.victim.map(|cost| format!("; {cost}")).unwrap_or_default()
    }
}

/// The reason why an attack could not be played. It says nothing about the defence.
#[derive(Debug)]
pub(crate) struct Setback(String);

impl Setback {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    /// For `map_err`: `doing` failed with an error.
    pub(crate) fn doing<E: fmt::Display>(doing: impl fmt::Display) -> impl FnOnce(E) -> Self {
        move |error| Self(format!("can't {doing}: {error}"))
    }
}

impl fmt::Display for Setback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
