//! Files of rules: TOML.
//!
//! ```toml
//! [types.position]                  # optional: with types, misspelt names are found
//! lat = "number"
//! lon = "number"
//!
//! [[rule]]
//! name = "positions"
//! overwrite = { type = "position", run = 20, max_age_ms = 2000 }
//!
//! [[rule]]
//! name = "landed"
//! sequence = { after = { type = "status", field = "status", equals = "landed" }, discard = "position" }
//!
//! [checkpoint]
//! every_events = 50
//! every_events_loaded = 100
//!
//! [adapt]                           # loaded above primary, normal again below primary − secondary
//! pending_requests = { primary = 100, secondary = 40 }
//!
//! [state]
//! deletes = ["departed"]
//! ```

use super::check::{Problem, check};
use super::{Active, Coalesce, Discard, FieldType, FunctionUse, Overwrite, Rule, RuleKind, Sequence, Tuple};
use crate::event::{Event, EventError, Name};
use crate::fields::value;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A whole file of rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleFile {
    /// Fields of each type. If any type is declared, all types must be.
    pub types: BTreeMap<String, BTreeMap<String, FieldType>>,
    /// The rules.
    pub rules: Vec<Rule>,
    /// When checkpoints are made.
    pub checkpoint: Checkpointing,
    /// When the mode changes.
    pub adapt: Adapting,
    /// The keyed state.
    pub state: StateOptions,
}

/// The number of mirrored events between checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Checkpointing {
    /// In normal mode. The paper's value is the default, 50.
    pub every_events: u64,
    /// In loaded mode; default: as in normal mode.
    pub every_events_loaded: Option<u64>,
}

impl Default for Checkpointing {
    fn default() -> Self {
        Self { every_events: 50, every_events_loaded: None }
    }
}

/// A value above which the mode is loaded, and the distance below it at which it is normal again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// Loaded from this value on.
    pub primary: u64,
    /// Normal again below `primary − secondary`.
    pub secondary: u64,
}

/// The monitored values that change the mode. Each is the greatest of all mirrors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Adapting {
    /// Events that wait to be sent at the origin, or to be applied at a mirror.
    pub ready_queue: Option<Threshold>,
    /// Mirrored events that are not committed.
    pub backup_queue: Option<Threshold>,
    /// Requests of readers that wait at a mirror.
    pub pending_requests: Option<Threshold>,
}

impl Adapting {
    /// All thresholds that are set, each with its name.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, Threshold)> {
        let named = [
            ("ready_queue", self.ready_queue),
            ("backup_queue", self.backup_queue),
            ("pending_requests", self.pending_requests),
        ];
        named.into_iter().filter_map(|(name, threshold)| Some((name, threshold?)))
    }
}

/// Options of the keyed state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StateOptions {
    /// Types whose events remove their key.
    pub deletes: Vec<Name>,
    /// Removes a key that has not changed for this long, by the origin's clock. Default: never.
    pub retention_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    types: BTreeMap<String, BTreeMap<String, FieldType>>,
    #[serde(default, rename = "rule")]
    rules: Vec<Entry>,
    #[serde(default)]
    checkpoint: Checkpointing,
    #[serde(default)]
    adapt: Adapting,
    #[serde(default)]
    state: StateOptions,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: toml::Spanned<Name>,
    #[serde(default)]
    active: Active,
    discard: Option<Discard>,
    overwrite: Option<Overwrite>,
    coalesce: Option<Coalesce>,
    sequence: Option<Sequence>,
    tuple: Option<Tuple>,
    function: Option<FunctionUse>,
}

impl RuleFile {
    /// Reads a file, and checks its rules.
    ///
    /// # Errors
    /// The problems, each with its place in the text.
    pub fn read(text: &str) -> Result<Self, Vec<Problem>> {
        let written: Written = toml::from_str(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            vec![Problem { span, message: error.message().replace('\n', " "), beside: None }]
        })?;
        let mut problems = Vec::new();
        let mut rules = Vec::new();
        for entry in written.rules {
            match entry.rule() {
                Ok(rule) => rules.push(rule),
                Err(problem) => problems.push(problem),
            }
        }
        let Written { types, checkpoint, adapt, state, .. } = written;
        let file = Self { types, rules, checkpoint, adapt, state };
        problems.extend(check(&file));
        if problems.is_empty() { Ok(file) } else { Err(problems) }
    }

    /// Checks the fields of an event against the declared types.
    ///
    /// # Errors
    /// [`EventError::FieldType`].
    pub fn check_event(&self, event: &Event) -> Result<(), EventError> {
        let Some(declared) = self.types.get(event.kind.as_str()) else { return Ok(()) };
        for (field, raw) in event.fields.iter() {
            let Some(&expected) = declared.get(field) else { continue };
            if !value(raw).is_some_and(|value| expected.admits(value)) {
                let (field, kind) = (field.to_owned(), event.kind.clone());
                return Err(EventError::FieldType { field, kind, expected });
            }
        }
        Ok(())
    }
}

impl Entry {
    fn rule(self) -> Result<Rule, Problem> {
        let kinds = [
            self.discard.map(RuleKind::Discard),
            self.overwrite.map(RuleKind::Overwrite),
            self.coalesce.map(RuleKind::Coalesce),
            self.sequence.map(RuleKind::Sequence),
            self.tuple.map(RuleKind::Tuple),
            self.function.map(RuleKind::Function),
        ];
        let mut kinds = kinds.into_iter().flatten();
        let span = self.name.span();
        let name = self.name.into_inner();
        match (kinds.next(), kinds.next()) {
            (Some(kind), None) => Ok(Rule { name, active: self.active, kind, span }),
            (first, _) => {
                let found = if first.is_some() { "several" } else { "none" };
                let message = format!(
                    "rule `{name}` has {found} of discard, sequence, tuple, function, overwrite, coalesce; \
                     expected one"
                );
                Err(Problem { span, message, beside: None })
            }
        }
    }
}
