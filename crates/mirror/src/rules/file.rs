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
use serde::{Deserialize, Serialize};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// Loaded from this value on.
    pub primary: u64,
    /// Normal again below `primary − secondary`.
    pub secondary: u64,
}

/// The monitored values that change the mode. Each is the greatest of all mirrors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StateOptions {
    /// Types whose events remove their key.
    pub deletes: Vec<Name>,
    /// Removes a key that has not changed for this long, by the origin's clock. Default: never.
    pub retention_ms: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    types: BTreeMap<String, BTreeMap<String, FieldType>>,
    #[serde(default, rename = "rule", skip_serializing_if = "Vec::is_empty")]
    rules: Vec<Entry>,
    #[serde(default)]
    checkpoint: Checkpointing,
    #[serde(default, skip_serializing_if = "is_default")]
    adapt: Adapting,
    #[serde(default, skip_serializing_if = "is_default")]
    state: StateOptions,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The rules have a value that TOML can't express, such as a number above 2^63. Only rules made in Rust can.
#[derive(Debug, thiserror::Error)]
#[error("the rules can't be written as TOML: {0}")]
pub struct WriteError(#[from] toml::ser::Error);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(serialize_with = "unspanned")]
    name: toml::Spanned<Name>,
    #[serde(default, skip_serializing_if = "is_default")]
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

    /// Writes the rules as a file. Reading it gives the same rules; comments of the file from which they came are lost.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn to_toml(&self) -> Result<String, WriteError> {
        let rules = self.rules.iter().map(Entry::from).collect();
        let Self { types, checkpoint, adapt, state, .. } = self.clone();
        Ok(toml::to_string(&Written { types, rules, checkpoint, adapt, state })?)
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

fn unspanned<S: serde::Serializer>(name: &toml::Spanned<Name>, to: S) -> Result<S::Ok, S::Error> {
    name.get_ref().serialize(to)
}

impl From<&Rule> for Entry {
    fn from(rule: &Rule) -> Self {
        let mut entry = Self {
            name: toml::Spanned::new(rule.span.clone(), rule.name.clone()),
            active: rule.active,
            discard: None,
            overwrite: None,
            coalesce: None,
            sequence: None,
            tuple: None,
            function: None,
        };
        match rule.kind.clone() {
            RuleKind::Discard(kind) => entry.discard = Some(kind),
            RuleKind::Overwrite(kind) => entry.overwrite = Some(kind),
            RuleKind::Coalesce(kind) => entry.coalesce = Some(kind),
            RuleKind::Sequence(kind) => entry.sequence = Some(kind),
            RuleKind::Tuple(kind) => entry.tuple = Some(kind),
            RuleKind::Function(kind) => entry.function = Some(kind),
        }
        entry
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_rules_read_as_the_same_rules() {
        let text = r#"
[types.position]
lat = "number"
[types.status]
status = "text"
[[rule]]
name = "low"
active = "loaded"
discard = { type = "position", field = "lat", below = 10 }
[[rule]]
name = "landed"
sequence = { after = { type = "status", field = "status", one_of = ["landed", "at gate"] }, discard = "position" }
[[rule]]
name = "arrived"
[rule.tuple]
of = [
    { type = "status", field = "status", equals = "landed" },
    { type = "status", field = "status", not = "landed" },
    { type = "status", field = "status", present = false },
]
within_ms = 600000
becomes = "arrived"
fields = { status = "arrived", count = 3, share = 0.5, late = false }
[[rule]]
name = "own"
function = { name = "own", type = "status" }
[[rule]]
name = "runs"
overwrite = { type = "position", run = 20 }
[[rule]]
name = "together"
coalesce = { events = 10, max_age_ms = 70 }
[checkpoint]
every_events = 70
every_events_loaded = 100
[adapt]
pending_requests = { primary = 100, secondary = 40 }
[state]
deletes = ["departed"]
retention_ms = 5
"#;
        let spanless = |mut file: RuleFile| {
            file.rules.iter_mut().for_each(|rule| rule.span = 0..0);
            file
        };
        let file = RuleFile::read(text).unwrap();
        let written = file.to_toml().unwrap();
        assert_eq!(spanless(RuleFile::read(&written).unwrap()), spanless(file), "{written}");
        assert_eq!(RuleFile::default().to_toml().unwrap(), "[checkpoint]\nevery_events = 50\n");
    }
}
