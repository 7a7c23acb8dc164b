//! Goes through a configuration file, and reports every problem with its line.
//!
//! The reader that serde derives stops at the first problem, and cannot tell a number of nanoseconds from `"1ms"`. So this walk
//! checks the kind and the range of each value first, and sets the limits and the tuning on the way.

use super::keys::{self, Key, Kind, Table};
use super::{Lines, NodeFile, Problem, ShareText, contradiction, path_of};
use crate::parse;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range as Span;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use treefold::{Limits, ReplicaPolicy, Tuning};
use treefold_core::bounds::{Figure, OutOfBounds, Range, Setting};
use treefold_core::membership::MembershipConfig;
use treefold_core::placement::PlacementTuning;
use treefold_gateway::Limits as GatewayLimits;

/// The result of a walk.
#[derive(Default)]
pub(super) struct Walked {
    pub(super) problems: Vec<Problem>,
    /// The keys that are set, with their values in one spelling.
    pub(super) given: BTreeMap<String, String>,
    pub(super) limits: Option<Limits>,
    pub(super) tuning: Option<Tuning>,
    pub(super) gateway_limits: GatewayLimits,
    pub(super) lines: Lines,
}

struct Walk<'a> {
    text: &'a str,
    keys: Vec<Key>,
    walked: Walked,
}

/// Goes through the text of a file.
pub(super) fn walk(text: &str) -> Walked {
    let (root, errors) = DeTable::parse_recoverable(text);
    let mut walk = Walk { text, keys: keys::all(), walked: Walked::default() };
    for error in &errors {
        walk.walked.problems.push(problem_of(text, error));
    }
    // The rest of a file that is no TOML may mean anything.
    if errors.is_empty() {
        walk.table(Table::Top, root.get_ref());
        walk.together();
    }
    walk.walked
}

/// A problem that the reader of TOML has found.
pub(super) fn problem_of(text: &str, error: &toml::de::Error) -> Problem {
    let line = error.span().map_or(1, |span| line_at(text, span.start));
    Problem { line, text: error.message().replace('\n', " ") }
}

fn line_at(text: &str, at: usize) -> usize {
    1 + text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count()
}

impl Walk<'_> {
    fn table(&mut self, table: Table, content: &DeTable<'_>) {
        for (name, value) in content {
            let path = path_of(table, name.get_ref());
            self.walked.lines.0.insert(path.clone(), line_at(self.text, name.span().start));
            if let Some(inner) = Table::ALL.into_iter().find(|inner| inner.name() == path) {
                match value.get_ref() {
                    DeValue::Table(content) => self.table(inner, content),
                    _ => self.complain(value.span(), format!("{path} is a table: [{path}]")),
                }
                continue;
            }
            let name = if table == Table::Shares { "SERVICE" } else { name.get_ref() };
            let known = self.keys.iter().find(|key| key.table == table && key.name == name).cloned();
            match known {
                Some(key) => self.key(&key, &path, value),
                None => {
                    let problem = format!("unknown key `{path}`; `treefold config schema` lists the keys");
                    self.complain(name_span(content, &path, value), problem);
                }
            }
        }
    }

    fn key(&mut self, key: &Key, path: &str, value: &Spanned<DeValue<'_>>) {
        let read = match key.kind {
            _ if key.table == Table::Shares => share(path, value.get_ref()),
            Kind::Text(check) => text_of(path, value.get_ref()).and_then(|text| checked(text, check)),
            Kind::Texts(check) => texts(path, value.get_ref(), check),
            Kind::Switch => match value.get_ref() {
                DeValue::Boolean(is_on) => Ok(is_on.to_string()),
                _ => Err(format!("{path} is true or false")),
            },
            Kind::Count(least, most) => match whole(value.get_ref()) {
                Some(number) if (least..=most).contains(&number) => Ok(number.to_string()),
                _ => Err(format!(
                    "{path} is {}; allowed: a whole number from {least} to {most}",
                    self.raw(value)
                )),
            },
            Kind::Time => text_of(path, value.get_ref()).and_then(|text| {
                let time = parse::duration(&text).map_err(|error| format!("{path}: {error}"))?;
                Ok(format!("{time:?}"))
            }),
            Kind::Share => match fraction(value.get_ref()) {
                Some(share) if (0.0..=1.0).contains(&share) => Ok(share.to_string()),
                _ => Err(format!("{path} is {}; allowed: a number from 0 to 1", self.raw(value))),
            },
            Kind::Figure(range) => self.figure(key, path, range, value),
        };
        match read {
            Ok(text) => _ = self.walked.given.insert(path.to_owned(), text),
            Err(problem) => self.complain(value.span(), problem),
        }
    }

    /// Sets a limit or a setting of the tuning. Returns its value in one spelling.
    fn figure(
        &mut self,
        key: &Key,
        path: &str,
        range: Range,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<String, String> {
        let figure = match range {
            Range::Bytes(..) => bytes(value.get_ref()),
            Range::Count(..) => whole(value.get_ref()).map(Figure::Whole),
            Range::Time(..) => time(value.get_ref(), key.table.takes_nanoseconds()),
            Range::Fraction(..) => fraction(value.get_ref()).map(Figure::Fraction),
            Range::Switch => match value.get_ref() {
                DeValue::Boolean(is_on) => Some(Figure::Switch(*is_on)),
                _ => None,
            },
            Range::Policy => policy(value.get_ref(), self.raw(value)).map(Figure::Policy),
        };
        let Some(figure) = figure else {
            return Err(format!("{path} is {}; allowed: {range}{}", self.raw(value), unit_of(range)));
        };
        let walked = &mut self.walked;
        let tuning = || Tuning::LAN;
        let set = match key.table {
            Table::Limits => {
                let limits = walked.limits.get_or_insert_with(Limits::default);
                set(Limits::SETTINGS, limits, key.name, figure)
            }
            Table::Tuning => {
                set(Tuning::SETTINGS, walked.tuning.get_or_insert_with(tuning), key.name, figure)
            }
            Table::Membership => {
                let membership = &mut walked.tuning.get_or_insert_with(tuning).membership;
                set(MembershipConfig::SETTINGS, membership, key.name, figure)
            }
            Table::Placement => {
                let placement = &mut walked.tuning.get_or_insert_with(tuning).placement;
                set(PlacementTuning::SETTINGS, placement, key.name, figure)
            }
            _ => set(GatewayLimits::SETTINGS, &mut walked.gateway_limits, key.name, figure),
        };
        set.map(|()| range.text(figure).to_string()).map_err(|refused| refused.to_string())
    }

    /// Checks the settings that depend on each other.
    fn together(&mut self) {
        if !self.walked.problems.is_empty() {
            return;
        }
        let refused: Vec<OutOfBounds> =
            self.walked.tuning.iter().flat_map(Tuning::all_out_of_bounds).collect();
        for refused in refused {
            let line = self.line_of(&format!("{}.{}", refused.table, refused.field));
            self.walked.problems.push(Problem { line, text: refused.to_string() });
        }
        let Ok(file) = toml::from_str::<NodeFile>(self.text) else { return };
        if let Some(problem) = contradiction(&file, !file.serve.is_empty()) {
            let line = self.walked.lines.named_in(problem);
            self.walked.problems.push(Problem { line, text: problem.to_owned() });
        }
    }

    /// The line of a key, or that of its table.
    fn line_of(&self, path: &str) -> usize {
        let table = path.rsplit_once('.').map_or(path, |(table, _)| table);
        let lines = &self.walked.lines.0;
        lines.get(path).or_else(|| lines.get(table)).copied().unwrap_or(1)
    }

    fn raw(&self, value: &Spanned<DeValue<'_>>) -> &str {
        self.text.get(value.span()).unwrap_or_default()
    }

    fn complain(&mut self, at: Span<usize>, text: String) {
        self.walked.problems.push(Problem { line: line_at(self.text, at.start), text });
    }
}

/// The place of an unknown key: that of its name.
fn name_span(content: &DeTable<'_>, path: &str, value: &Spanned<DeValue<'_>>) -> Span<usize> {
    let name = path.rsplit('.').next().unwrap_or(path);
    content.get_key_value(name).map_or(value.span(), |(name, _)| name.span())
}

fn set<T>(settings: &[Setting<T>], table: &mut T, name: &str, figure: Figure) -> Result<(), OutOfBounds> {
    let found = settings.iter().find(|setting| setting.name == name);
    found.expect("invariant: each key of a table of figures is one of its settings").set(table, figure)
}

fn text_of(path: &str, value: &DeValue<'_>) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("{path} is a text in quotes"))
}

fn checked(text: String, check: fn(&str) -> Result<(), String>) -> Result<String, String> {
    check(&text).map(|()| text)
}

fn texts(path: &str, value: &DeValue<'_>, check: fn(&str) -> Result<(), String>) -> Result<String, String> {
    let DeValue::Array(items) = value else { return Err(format!("{path} is a list of texts: [\"…\"]")) };
    let read = items.iter().map(|item| text_of(path, item.get_ref()).and_then(|text| checked(text, check)));
    read.collect::<Result<Vec<String>, String>>().map(|texts| texts.join(", "))
}

fn share(path: &str, value: &DeValue<'_>) -> Result<String, String> {
    let text = match value.as_str() {
        Some(text) => text.to_owned(),
        None => fraction(value).map(|share| share.to_string()).unwrap_or_default(),
    };
    ShareText::read(&text).map(|_| text).map_err(|problem| format!("{path}: {problem}"))
}

fn whole(value: &DeValue<'_>) -> Option<u64> {
    let number = value.as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn fraction(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Float(number) => number.as_str().parse().ok(),
        value => whole(value).map(|number| number as f64),
    }
}

fn bytes(value: &DeValue<'_>) -> Option<Figure> {
    let bytes = match value.as_str() {
        Some(text) => parse::bytes(text).ok(),
        None => whole(value),
    };
    bytes.map(Figure::Whole)
}

fn time(value: &DeValue<'_>, takes_nanoseconds: bool) -> Option<Figure> {
    let time = match value.as_str() {
        Some(text) => parse::duration(text).ok(),
        None => whole(value).filter(|_| takes_nanoseconds).map(Duration::from_nanos),
    };
    time.map(Figure::Time)
}

/// A policy by its name on the command line, or as files written for earlier versions have it.
fn policy(value: &DeValue<'_>, raw: &str) -> Option<ReplicaPolicy> {
    let named = value.as_str().and_then(|text| text.parse().ok());
    named.or_else(|| ReplicaPolicy::deserialize(ValueDeserializer::parse(raw).ok()?).ok())
}

/// Examples of a value with its unit.
fn unit_of(range: Range) -> &'static str {
    match range {
        Range::Bytes(..) => ", a number of bytes or a text with a unit, as in \"64MiB\"",
        Range::Time(..) => ", a text with a unit, as in \"200ms\" or \"1.5s\"",
        _ => "",
    }
}
