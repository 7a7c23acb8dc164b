//! Rules: which events are mirrored, and as what (mirroring §3.2.1).
//!
//! An origin applies rules to events before it mirrors them, so that every mirror and every reader is spared.
//! Each rule has a name, one kind, and a mode in which it is active. An event passes the kinds in a fixed
//! order, and within a kind the rules in the order of the file:
//!
//! ```text
//! event ─▶ discard ─▶ sequence ─▶ tuple ─▶ function ─▶ overwrite ─▶ ready queue ─▶ coalesce ─▶ mirrors
//!             ▲                     │
//!             └──── D, formed of A, B, C
//! ```
//!
//! | kind | effect | the mirrors' state afterwards |
//! |---|---|---|
//! | [`Discard`] | drops events of a type, or with certain fields | lacks the dropped events |
//! | [`Sequence`] | after A, drops type B of that key until C | lacks the dropped events |
//! | [`Tuple`] | A and B and C of one key within a time become D | has D instead |
//! | [`FunctionUse`] | applies a function of the user | as the function declares |
//! | [`Overwrite`] | sends one event of a run of one key and type | equal, at most `max_age_ms` later |
//! | [`Coalesce`] | sends several events as one batch, one of each key and type | equal, at most `max_age_ms` later |
//!
//! Order within a key holds: before an event of a key is sent, all that an overwrite rule holds back of that
//! key is sent. A tuple whose time runs out is the exception: its events are sent late.

pub mod check;
pub mod coalesce;
pub mod condition;
pub mod discard;
pub mod file;
pub mod function;
pub mod overwrite;
pub mod sequence;
pub mod tuple;

pub use check::{Problem, check};
pub use coalesce::Coalesce;
pub use condition::{Condition, FieldType, Scalar, Test};
pub use discard::Discard;
pub use file::{RuleFile, Threshold};
pub use function::{Function, FunctionUse};
pub use overwrite::Overwrite;
pub use sequence::Sequence;
pub use tuple::Tuple;

use crate::event::Name;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// One rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its name, unique in its file.
    pub name: Name,
    /// The modes in which it applies.
    pub active: Active,
    /// Its effect.
    pub kind: RuleKind,
    /// The bytes of its name in the file; empty for a rule that was made in Rust.
    pub span: Range<usize>,
}

/// The effect of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleKind {
    /// Drops events.
    Discard(Discard),
    /// Sends one event of a run.
    Overwrite(Overwrite),
    /// Sends several events as one batch.
    Coalesce(Coalesce),
    /// Drops events of one type after an event of another.
    Sequence(Sequence),
    /// Combines events.
    Tuple(Tuple),
    /// Applies a function of the user.
    Function(FunctionUse),
}

/// The two modes between which adaptation switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// All monitored queues are short.
    #[default]
    Normal,
    /// A monitored queue has exceeded its primary threshold.
    Loaded,
}

/// The modes in which a rule applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Active {
    /// In both modes.
    #[default]
    Always,
    /// In normal mode only.
    Normal,
    /// In loaded mode only.
    Loaded,
}

/// The guarantee that a rule gives about the state of mirrors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Preserves {
    /// Once the rule's time has passed, the last value of each key and field is that of the origin.
    LastValues,
    /// Values may be missing.
    Nothing,
}

impl Active {
    /// True if a rule with this setting applies in `mode`.
    pub fn in_mode(self, mode: Mode) -> bool {
        match self {
            Self::Always => true,
            Self::Normal => mode == Mode::Normal,
            Self::Loaded => mode == Mode::Loaded,
        }
    }

    /// True if two rules with these settings can apply at the same time.
    pub fn overlaps(self, other: Self) -> bool {
        self == other || self == Self::Always || other == Self::Always
    }
}

impl Rule {
    /// A rule that is active in both modes.
    pub fn new(name: Name, kind: RuleKind) -> Self {
        Self { name, active: Active::Always, kind, span: 0..0 }
    }

    /// Restricts the rule to one mode.
    #[must_use]
    pub fn active(mut self, active: Active) -> Self {
        self.active = active;
        self
    }

    /// The rule's guarantee about the state of mirrors.
    pub fn preserves(&self) -> Preserves {
        match &self.kind {
            RuleKind::Overwrite(_) | RuleKind::Coalesce(_) => Preserves::LastValues,
            _ => Preserves::Nothing,
        }
    }
}

impl RuleKind {
    /// The key of this kind in a file of rules.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Discard(_) => "discard",
            Self::Overwrite(_) => "overwrite",
            Self::Coalesce(_) => "coalesce",
            Self::Sequence(_) => "sequence",
            Self::Tuple(_) => "tuple",
            Self::Function(_) => "function",
        }
    }
}
