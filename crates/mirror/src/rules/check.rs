//! Checks rules before they are used: values out of range, unknown types and fields, rules that can never
//! apply, rules that contradict each other, and tuples that form each other without end.

use super::condition::Condition;
use super::{Active, FieldType, Rule, RuleFile, RuleKind, coalesce, overwrite, tuple};
use crate::event::Name;
use std::ops::Range;

/// A problem in a file of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The bytes of the text that it concerns; empty if the rules were made in Rust.
    pub span: Range<usize>,
    /// The problem, with the name of the rule.
    pub message: String,
    /// Another place that is related, and how.
    pub beside: Option<(Range<usize>, String)>,
}

impl Problem {
    /// Its line and column in the text of the file, from 1, in characters.
    pub fn place(&self, text: &str) -> (usize, usize) {
        let before = &text[..self.span.start.min(text.len())];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (1 + before.matches('\n').count(), 1 + before[line_start..].chars().count())
    }
}

/// Most rules of a file.
pub const RULES_MAX: usize = 1_000;

/// Checks the rules of a file. A file without problems can be used.
pub fn check(file: &RuleFile) -> Vec<Problem> {
    let mut problems = Vec::new();
    if file.rules.len() > RULES_MAX {
        let message = format!("{} rules; allowed: {RULES_MAX}", file.rules.len());
        return vec![Problem { span: 0..0, message, beside: None }];
    }
    for (index, rule) in file.rules.iter().enumerate() {
        let earlier = &file.rules[..index];
        if let Some(same) = earlier.iter().find(|other| other.name == rule.name) {
            problems.push(beside(rule, same, "the name is used twice", "first used here"));
        }
        problems.extend(out_of_range(rule).map(|message| alone(rule, &message)));
        problems.extend(undeclared(file, rule).map(|message| alone(rule, &message)));
        problems.extend(never_loaded(file, rule).map(|message| alone(rule, &message)));
        problems.extend(unreachable(file, index));
        problems.extend(earlier.iter().find_map(|other| contradiction(other, rule)));
    }
    problems.extend(cycle(file));
    for (name, threshold) in file.adapt.all() {
        if threshold.primary == 0 || threshold.secondary > threshold.primary {
            let message = format!(
                "adapt.{name}: primary is {}, secondary {}; expected 1 or more, and at most the primary",
                threshold.primary, threshold.secondary
            );
            problems.push(Problem { span: 0..0, message, beside: None });
        }
    }
    if file.checkpoint.every_events == 0 || file.checkpoint.every_events_loaded == Some(0) {
        let message = "checkpoint: every_events is 0; expected 1 or more".to_owned();
        problems.push(Problem { span: 0..0, message, beside: None });
    }
    problems
}

fn alone(rule: &Rule, message: &str) -> Problem {
    let message = format!("rule `{}`: {message}", rule.name);
    Problem { span: rule.span.clone(), message, beside: None }
}

fn beside(rule: &Rule, other: &Rule, message: &str, relation: &str) -> Problem {
    Problem { beside: Some((other.span.clone(), relation.to_owned())), ..alone(rule, message) }
}

fn out_of_range(rule: &Rule) -> Option<String> {
    let between = |field: &str, given: u64, least: u64, most: u64| {
        let is_inside = (least..=most).contains(&given);
        (!is_inside).then(|| format!("{field} is {given}; allowed: {least} to {most}"))
    };
    match &rule.kind {
        RuleKind::Overwrite(one) => between("run", one.run.into(), 2, overwrite::RUN_MAX.into())
            .or_else(|| between("max_age_ms", one.max_age_ms, 1, u64::MAX)),
        RuleKind::Coalesce(one) => between("events", one.events.into(), 2, coalesce::EVENTS_MAX.into())
            .or_else(|| between("max_age_ms", one.max_age_ms, 1, u64::MAX)),
        RuleKind::Tuple(one) => between("parts in `of`", one.of.len() as u64, 2, tuple::PARTS_MAX as u64)
            .or_else(|| between("within_ms", one.within_ms, 1, u64::MAX)),
        RuleKind::Discard(_) | RuleKind::Sequence(_) | RuleKind::Function(_) => None,
    }
}

/// The conditions that a rule states, and the types that it names.
fn conditions(rule: &Rule) -> Vec<Condition> {
    match &rule.kind {
        RuleKind::Discard(one) => vec![one.0.clone()],
        RuleKind::Overwrite(one) => vec![Condition::of(one.kind.clone())],
        RuleKind::Function(one) => vec![Condition::of(one.kind.clone())],
        RuleKind::Sequence(one) => {
            let discard = Condition::of(one.discard.clone());
            [one.after.clone(), discard].into_iter().chain(one.until.clone()).collect()
        }
        RuleKind::Tuple(one) => one.of.clone(),
        RuleKind::Coalesce(_) => Vec::new(),
    }
}

fn formed_by(file: &RuleFile, kind: &Name) -> bool {
    file.rules.iter().any(|rule| matches!(&rule.kind, RuleKind::Tuple(tuple) if tuple.becomes == *kind))
}

fn undeclared(file: &RuleFile, rule: &Rule) -> Option<String> {
    if file.types.is_empty() {
        return None;
    }
    conditions(rule).iter().find_map(|condition| {
        let Some(fields) = file.types.get(condition.kind.as_str()) else {
            let is_formed = formed_by(file, &condition.kind);
            return (!is_formed).then(|| format!("type `{}` is not declared in [types]", condition.kind));
        };
        let (field, test) = condition.test.as_ref()?;
        let Some(declared) = fields.get(field) else {
            return Some(format!("type `{}` has no field `{field}` in [types]", condition.kind));
        };
        let admits = |scalar: &super::Scalar| match declared {
            // A whole number in a test of integers may be written with a fraction.
            FieldType::Integer => FieldType::Number.admits(scalar.value()),
            other => other.admits(scalar.value()),
        };
        let wrong = test.scalars().into_iter().find(|scalar| !admits(scalar))?;
        Some(format!("field `{field}` of type `{}` is {declared}, never {wrong:?}", condition.kind))
    })
}

fn never_loaded(file: &RuleFile, rule: &Rule) -> Option<String> {
    let is_never = rule.active == Active::Loaded && file.adapt.all().next().is_none();
    is_never.then(|| "it is active in loaded mode only, and [adapt] has no threshold".to_owned())
}

/// Finds an earlier kind of rule that leaves nothing for this one.
fn unreachable(file: &RuleFile, index: usize) -> Option<Problem> {
    let rule = &file.rules[index];
    let drops = |other: &Rule, condition: &Condition| match &other.kind {
        RuleKind::Discard(discard) => discard.0.covers(condition),
        _ => false,
    };
    // A rule that applies always leaves nothing to others; one that applies in a mode, only to rules of that mode.
    let is_before = |at: usize, other: &Rule| {
        let applies = other.active == Active::Always || other.active == rule.active;
        applies && at != index && (at < index || !matches!(rule.kind, RuleKind::Discard(_)))
    };
    let needed = match &rule.kind {
        // The dropped type and the end of a sequence may be absent; its beginning may not.
        RuleKind::Sequence(one) => vec![one.after.clone(), Condition::of(one.discard.clone())],
        _ => conditions(rule),
    };
    let found = file.rules.iter().enumerate().find_map(|(at, other)| {
        let condition = needed.iter().find(|condition| is_before(at, other) && drops(other, condition))?;
        Some((other, condition.kind.clone()))
    });
    let (other, kind) = found?;
    let message = format!("it never applies: `{}` discards all of its `{kind}` events", other.name);
    Some(beside(rule, other, &message, "discarded here"))
}

/// Finds two rules of one kind of which only one can have its way.
fn contradiction(earlier: &Rule, rule: &Rule) -> Option<Problem> {
    if !earlier.active.overlaps(rule.active) {
        return None;
    }
    let message = match (&earlier.kind, &rule.kind) {
        (RuleKind::Overwrite(one), RuleKind::Overwrite(other)) if one.kind == other.kind => {
            format!("type `{}` is overwritten by two rules at the same time", one.kind)
        }
        (RuleKind::Coalesce(_), RuleKind::Coalesce(_)) => "two rules coalesce at the same time".to_owned(),
        (RuleKind::Tuple(one), RuleKind::Tuple(other)) => {
            let shared = other.of.iter().find(|part| one.of.iter().any(|known| known.covers(part)))?;
            format!("two tuples use the same `{}` events at the same time", shared.kind)
        }
        (RuleKind::Sequence(one), RuleKind::Sequence(other)) if one.discard == other.discard => {
            let is_same = one.after == other.after && one.until != other.until;
            if !is_same {
                return None;
            }
            format!("two sequences end the dropping of `{}` differently", one.discard)
        }
        _ => return None,
    };
    Some(beside(rule, earlier, &message, "the other rule"))
}

/// Finds tuples that form each other's parts.
fn cycle(file: &RuleFile) -> Option<Problem> {
    let tuples: Vec<(&Rule, &super::Tuple)> = file.rules.iter().filter_map(tuple_of).collect();
    let feeds = |from: usize, to: usize| {
        tuples[to].1.of.iter().any(|condition| condition.kind == tuples[from].1.becomes)
    };
    // Each tuple is coloured once it and all that it feeds are known to be free of cycles.
    let mut is_free = vec![false; tuples.len()];
    loop {
        let next = (0..tuples.len())
            .find(|&from| !is_free[from] && (0..tuples.len()).all(|to| !feeds(from, to) || is_free[to]));
        match next {
            Some(free) => is_free[free] = true,
            None => break,
        }
    }
    let (rule, tuple) = tuples.iter().zip(&is_free).find(|(_, is_free)| !**is_free)?.0;
    let message = format!("`{}` events form each other without end", tuple.becomes);
    Some(alone(rule, &message))
}

fn tuple_of(rule: &Rule) -> Option<(&Rule, &super::Tuple)> {
    match &rule.kind {
        RuleKind::Tuple(tuple) => Some((rule, tuple)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
