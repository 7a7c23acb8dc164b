//! New rules in place of present ones, while events come.
//!
//! Rules that stay the same keep their memory: a flight that has landed stays landed when another rule changes.
//! Counts stay too. Held events are sent before other rules apply, so no event waits for a rule that is gone.

use super::{KeyStatus, RuleIndex, Selector, UnknownFunction, steps};
use crate::change::ChangeError;
use crate::event::{Event, Name};
use crate::rules::{Mode, Rule, RuleFile, RuleKind};
use crate::select::Functions;
use std::sync::Arc;
use treefold_core::time::Instant;

impl Selector {
    /// Replaces the rules, and pushes to `out` the events that the former rules hold back. `given` are functions that
    /// are new or replaced; the other functions stay, unless no rule names them any more.
    ///
    /// # Errors
    /// [`ChangeError::UnknownFunction`] and [`ChangeError::UnusedFunction`]; nothing has changed.
    pub(crate) fn replace(
        &mut self,
        now: Instant,
        rules: Arc<RuleFile>,
        given: Functions,
        out: &mut Vec<Event>,
    ) -> Result<(), ChangeError> {
        let used: Vec<(&Name, &Name)> = rules.rules.iter().filter_map(named_function).collect();
        let is_known =
            |function: &Name| given.contains_key(function) || self.functions.contains_key(function);
        if let Some((rule, function)) = used.iter().find(|(_, function)| !is_known(function)) {
            let (rule, function) = ((*rule).clone(), (*function).clone());
            return Err(UnknownFunction { rule, function }.into());
        }
        let is_used = |function: &Name| used.iter().any(|(_, used)| *used == function);
        if let Some(function) = given.keys().find(|function| !is_used(function)) {
            return Err(ChangeError::UnusedFunction { function: function.clone() });
        }
        self.functions.retain(|function, _| is_used(function));
        drop(used);
        self.functions.extend(given);
        if self.rules.rules.len() == rules.rules.len()
            && self.rules.rules.iter().zip(&rules.rules).all(|(one, other)| are_same(one, other))
        {
            self.rules = rules;
            return Ok(());
        }
        self.release_all(now, out);
        let place_of = |rule: &Rule| rules.rules.iter().position(|other| are_same(rule, other));
        let places: Vec<Option<RuleIndex>> = self.rules.rules.iter().map(place_of).collect();
        self.keys.retain(|_, status| status.follow(&places));
        let mut counts = vec![super::RuleCount::default(); rules.rules.len()];
        for (count, place) in self.book.counts.iter().zip(&places) {
            if let Some(at) = place {
                counts[*at] = *count;
            }
        }
        self.book.counts = counts;
        self.steps = [steps(&rules, Mode::Normal), steps(&rules, Mode::Loaded)];
        self.rules = rules;
        Ok(())
    }
}

impl KeyStatus {
    /// Renumbers the memory of rules whose new places these are, and forgets the others. Returns false if nothing is
    /// left. To be called when nothing is held.
    fn follow(&mut self, places: &[Option<RuleIndex>]) -> bool {
        let mut at_new_place = |rule: &mut RuleIndex| match places[*rule] {
            Some(place) => {
                *rule = place;
                true
            }
            None => false,
        };
        self.begun.retain_mut(&mut at_new_place);
        self.runs.retain_mut(|(rule, _)| at_new_place(rule));
        self.partials.clear();
        !self.begun.is_empty() || !self.runs.is_empty()
    }
}

/// A rule and the function that it names.
fn named_function(rule: &Rule) -> Option<(&Name, &Name)> {
    match &rule.kind {
        RuleKind::Function(used) => Some((&rule.name, &used.name)),
        _ => None,
    }
}

/// True if two rules are the same, wherever they stand in their files.
fn are_same(one: &Rule, other: &Rule) -> bool {
    (&one.name, one.active, &one.kind) == (&other.name, other.active, &other.kind)
}
