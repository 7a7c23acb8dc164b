//! Changes of an origin's rules while it runs (mirroring §3.2.1, table 1: `set_params`, `set_overwrite`,
//! `set_complex_seq`, `set_complex_tuple`, `set_adapt`, `set_monitor_values`, `set_mirror`).
//!
//! A [`Change`] replaces the rules, changes single parameters of them, installs functions, or fixes the mode. An
//! origin takes a change as a whole or refuses it as a whole; [`Origin::set`](crate::origin::Origin::set) says from
//! which position on it holds. The result is always a valid set of rules, because it passes the same check as a file.

use crate::event::Name;
use crate::rules::file::{Adapting, Threshold};
use crate::rules::{Mode, Overwrite, Problem, Rule, RuleFile, RuleKind, check, coalesce::Coalesce};
use crate::select::{Functions, UnknownFunction};
use serde::{Deserialize, Serialize};

/// A change of an origin's rules. All of it is taken, or nothing.
#[derive(Default)]
pub struct Change {
    /// Refuses the change if the rules were set again after this version.
    pub if_version: Option<Version>,
    /// Rules in place of the present ones.
    pub rules: Option<RuleFile>,
    /// Parameters to change in these rules, or in the present ones.
    pub parameters: Vec<Parameter>,
    /// Functions that are new or replaced. The others stay, with their states.
    pub functions: Functions,
    /// The choice of the mode.
    pub mode: Option<ModeChoice>,
}

/// A version of an origin's rules, as a user knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// The origin's epoch. Without it, a version of an earlier origin can't be told from one of this origin.
    #[serde(default)]
    pub epoch: Option<u32>,
    /// The version.
    pub version: u32,
}

/// The way in which the mode is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModeChoice {
    /// The origin, by the thresholds of the rules.
    #[default]
    Auto,
    /// Always normal.
    Normal,
    /// Always loaded.
    Loaded,
}

impl ModeChoice {
    /// The fixed mode.
    pub fn fixed(self) -> Option<Mode> {
        match self {
            Self::Auto => None,
            Self::Normal => Some(Mode::Normal),
            Self::Loaded => Some(Mode::Loaded),
        }
    }
}

/// A parameter of the rules, with its new value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parameter {
    /// Mirrored events between checkpoints.
    CheckpointEvery(u64),
    /// The same in loaded mode.
    CheckpointEveryLoaded(u64),
    /// The length of runs of a type. With 1, events of the type are no longer overwritten.
    Overwrite {
        /// The events' type.
        #[serde(rename = "type")]
        kind: Name,
        /// Length of a run.
        run: u32,
    },
    /// The number of events that are sent together. With 1, each is sent alone.
    Coalesce(u32),
    /// The thresholds of a monitored value; `None` removes them.
    Adapt {
        /// The value.
        value: MonitoredValue,
        /// Its thresholds.
        thresholds: Option<Threshold>,
    },
}

/// A value that origins and mirrors monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MonitoredValue {
    /// As [`Adapting::ready_queue`].
    ReadyQueue,
    /// As [`Adapting::backup_queue`].
    BackupQueue,
    /// As [`Adapting::pending_requests`].
    PendingRequests,
}

/// The reason why an origin refuses a change. Its rules stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The rules were set after the given version, or the version is not known here.
    #[error("the rules were set at version {set} of epoch {epoch}, and version {given} was given")]
    Version {
        /// The given version.
        given: u32,
        /// The version at which the rules were last set.
        set: u32,
        /// The origin's epoch.
        epoch: u32,
    },
    /// The rules have problems.
    #[error("{}", summary(.0))]
    Problems(Vec<Problem>),
    /// Two rules have this parameter, each in one mode.
    #[error("rules `{}` and `{}` both {kind}, in different modes; give a whole file of rules", rules[0], rules[1])]
    Ambiguous {
        /// The effect of both rules.
        kind: &'static str,
        /// The rules.
        rules: [Name; 2],
    },
    /// A rule names a function that nobody has given.
    #[error(transparent)]
    UnknownFunction(#[from] UnknownFunction),
    /// A function is given that no rule names.
    #[error("no rule uses the function `{function}`")]
    UnusedFunction {
        /// The function.
        function: Name,
    },
    /// Too many changes wait until the events before them are sent.
    #[error(
        "busy: {waiting} changes wait until the events before them are sent; allowed: {CHANGES_WAITING_MAX}"
    )]
    Busy {
        /// Waiting changes.
        waiting: usize,
    },
}

/// Most changes of rules or of the mode that may wait until the events before them are sent.
pub const CHANGES_WAITING_MAX: usize = 16;

fn summary(problems: &[Problem]) -> String {
    let first = problems.first().map_or("", |problem| &problem.message);
    match problems.len() {
        0 | 1 => first.to_owned(),
        count => format!("{first} (and {} more)", count - 1),
    }
}

impl Change {
    /// The rules that follow `present` by this change.
    ///
    /// # Errors
    /// [`ChangeError::Ambiguous`] and [`ChangeError::Problems`].
    pub(crate) fn resulting(&self, present: &RuleFile) -> Result<RuleFile, ChangeError> {
        let mut file = self.rules.as_ref().unwrap_or(present).clone();
        for parameter in &self.parameters {
            parameter.apply(&mut file)?;
        }
        let problems = check(&file);
        if problems.is_empty() { Ok(file) } else { Err(ChangeError::Problems(problems)) }
    }
}

impl Parameter {
    fn apply(&self, file: &mut RuleFile) -> Result<(), ChangeError> {
        match self {
            &Self::CheckpointEvery(events) => file.checkpoint.every_events = events,
            &Self::CheckpointEveryLoaded(events) => file.checkpoint.every_events_loaded = Some(events),
            Self::Overwrite { kind, run } => {
                let is_it = |rule: &Rule| matches!(&rule.kind, RuleKind::Overwrite(one) if one.kind == *kind);
                match (only_rule(file, "overwrite the type", is_it)?, *run) {
                    (Some(at), 1) => _ = file.rules.remove(at),
                    (Some(at), run) => {
                        if let RuleKind::Overwrite(one) = &mut file.rules[at].kind {
                            one.run = run;
                        }
                    }
                    (None, 1) => {}
                    (None, run) => {
                        let made = Overwrite { kind: kind.clone(), run, ..Overwrite::every_second(kind) };
                        add(file, "overwrite", RuleKind::Overwrite(made));
                    }
                }
            }
            &Self::Coalesce(events) => {
                let is_it = |rule: &Rule| matches!(rule.kind, RuleKind::Coalesce(_));
                match (only_rule(file, "coalesce", is_it)?, events) {
                    (Some(at), 1) => _ = file.rules.remove(at),
                    (Some(at), events) => {
                        if let RuleKind::Coalesce(one) = &mut file.rules[at].kind {
                            one.events = events;
                        }
                    }
                    (None, 1) => {}
                    (None, events) => {
                        let made = Coalesce { events, ..Coalesce::default() };
                        add(file, "coalesce", RuleKind::Coalesce(made));
                    }
                }
            }
            &Self::Adapt { value, thresholds } => *value.of(&mut file.adapt) = thresholds,
        }
        Ok(())
    }
}

impl MonitoredValue {
    fn of(self, adapt: &mut Adapting) -> &mut Option<Threshold> {
        match self {
            Self::ReadyQueue => &mut adapt.ready_queue,
            Self::BackupQueue => &mut adapt.backup_queue,
            Self::PendingRequests => &mut adapt.pending_requests,
        }
    }
}

/// The place of the one rule that has a parameter.
fn only_rule(
    file: &RuleFile,
    kind: &'static str,
    is_it: impl Fn(&Rule) -> bool,
) -> Result<Option<usize>, ChangeError> {
    let mut found = file.rules.iter().enumerate().filter(|(_, rule)| is_it(rule));
    match (found.next(), found.next()) {
        (Some((_, one)), Some((_, other))) => {
            Err(ChangeError::Ambiguous { kind, rules: [one.name.clone(), other.name.clone()] })
        }
        (found, _) => Ok(found.map(|(at, _)| at)),
    }
}

/// Adds a rule, with a name that no other rule has.
fn add(file: &mut RuleFile, kind: &str, rule: RuleKind) {
    let is_free = |name: &String| file.rules.iter().all(|other| other.name.as_str() != name);
    let mut names = (1..).map(|number| format!("{kind}-{number}")).filter(is_free);
    let name = names.next().and_then(|name| Name::new(name).ok());
    let name = name.expect("invariant: a file has a bounded number of rules, and such a name is valid");
    file.rules.push(Rule::new(name, rule));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text.to_owned()).unwrap()
    }

    fn set(rules: &str, parameters: &[Parameter]) -> Result<RuleFile, ChangeError> {
        let change = Change { parameters: parameters.to_vec(), ..Change::default() };
        change.resulting(&RuleFile::read(rules).unwrap())
    }

    fn run(run: u32) -> Parameter {
        Parameter::Overwrite { kind: name("position"), run }
    }

    #[test]
    fn parameters_change_the_rules_that_have_them() {
        let file = "[[rule]]\nname='p'\noverwrite={type='position',run=3,max_age_ms=70}\n\
                    [[rule]]\nname='c'\ncoalesce={events=5}";
        let thresholds = Some(Threshold { primary: 10, secondary: 4 });
        let adapt = Parameter::Adapt { value: MonitoredValue::PendingRequests, thresholds };
        let changed = [run(9), Parameter::Coalesce(7), Parameter::CheckpointEvery(11), adapt];
        let changed = set(file, &changed).unwrap();
        let RuleKind::Overwrite(overwrite) = &changed.rules[0].kind else { panic!("{changed:?}") };
        assert_eq!((overwrite.run, overwrite.max_age_ms), (9, 70));
        let RuleKind::Coalesce(coalesce) = &changed.rules[1].kind else { panic!("{changed:?}") };
        assert_eq!(coalesce.events, 7);
        assert_eq!((changed.checkpoint.every_events, changed.adapt.pending_requests), (11, thresholds));
    }

    #[test]
    fn parameter_of_no_rule_makes_one_and_one_removes_it() {
        let made = set("[[rule]]\nname='overwrite-1'\ndiscard={type='t'}", &[run(4), Parameter::Coalesce(3)]);
        let made = made.unwrap();
        let names: Vec<&str> = made.rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(names, ["overwrite-1", "overwrite-2", "coalesce-1"]);
        let gone = set(&made.to_toml().unwrap(), &[run(1), Parameter::Coalesce(1)]).unwrap();
        assert_eq!(gone.rules.len(), 1);
        assert_eq!(set("", &[run(1), Parameter::Coalesce(1)]).unwrap(), RuleFile::default());
    }

    #[test]
    fn values_out_of_range_and_ambiguous_ones_are_refused() {
        let refused = |parameter| match set("", &[parameter]).unwrap_err() {
            ChangeError::Problems(problems) => problems[0].message.clone(),
            other => panic!("{other}"),
        };
        assert!(refused(run(0)).contains("run is 0; allowed: 2 to 1000000"));
        assert!(refused(Parameter::CheckpointEvery(0)).contains("every_events is 0"));
        let two = "[adapt]\nready_queue={primary=9,secondary=3}\n\
                   [[rule]]\nname='a'\nactive='normal'\noverwrite={type='position',run=3}\n\
                   [[rule]]\nname='b'\nactive='loaded'\noverwrite={type='position',run=9}";
        let error = set(two, &[run(5)]).unwrap_err().to_string();
        assert_eq!(
            error,
            "rules `a` and `b` both overwrite the type, in different modes; give a whole file of rules"
        );
    }
}
