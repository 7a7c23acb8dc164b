//! Results of checks: a line each, with the thing to do about a problem.

use crate::output::style::Style;
use serde::Serialize;

/// Most problems of one kind that are listed one by one.
pub(super) const LISTED_MAX: usize = 8;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Ok,
    Warn,
    Fail,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// Name of the check.
    pub(super) check: &'static str,
    /// The present state.
    pub(super) found: String,
    /// The thing to do about it; absent if there is no problem.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { level: Level::Ok, check, found: found.into(), advice: None }
    }

    pub(super) fn warn(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Warn, check, found: found.into(), advice: Some(advice.into()) }
    }

    pub(super) fn fail(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Fail, check, found: found.into(), advice: Some(advice.into()) }
    }

    /// The finding as a line.
    pub(super) fn line(&self, style: Style) -> String {
        let level = match self.level {
            Level::Ok => style.good("ok  "),
            Level::Warn => style.warning("warn"),
            Level::Fail => style.bad("fail"),
        };
        let advice = self.advice.as_ref().map_or_else(String::new, |advice| format!("; {advice}"));
        format!("{level}  {}: {}{advice}", self.check, self.found)
    }
}

/// The first [`LISTED_MAX`] findings, and one line for all others.
pub(super) fn capped(mut findings: Vec<Finding>) -> Vec<Finding> {
    let more = findings.len().saturating_sub(LISTED_MAX);
    if let Some(last) = findings.get(LISTED_MAX - 1).filter(|_| more > 0) {
        let more = Finding { found: format!("{more} more problems like these"), ..last.clone() };
        findings.truncate(LISTED_MAX);
        findings.push(more);
    }
    findings
}

/// The first [`LISTED_MAX`] names, and the number of all others.
pub(super) fn listed<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    let mut names = names.into_iter().map(|name| name.to_string());
    let first: Vec<String> = names.by_ref().take(LISTED_MAX).collect();
    let rest = names.count();
    let first = first.join(", ");
    if rest == 0 { first } else { format!("{first} and {rest} more") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_check_the_state_and_the_thing_to_do() {
        let failed = Finding::fail("files", "the limit is 64", "raise it");
        assert_eq!(failed.line(Style::PLAIN), "fail  files: the limit is 64; raise it");
        assert_eq!(
            Finding::ok("files", "the limit is 64").line(Style::PLAIN),
            "ok    files: the limit is 64"
        );
    }

    #[test]
    fn long_lists_are_cut() {
        let many =
            |count: usize| (0..count).map(|at| Finding::fail("tcp", at.to_string(), "start it")).collect();
        assert_eq!(capped(many(LISTED_MAX)).len(), LISTED_MAX);
        let cut = capped(many(LISTED_MAX + 3));
        assert_eq!(cut.len(), LISTED_MAX + 1);
        assert_eq!(cut[LISTED_MAX].found, "3 more problems like these");
        assert_eq!(listed(0..10), "0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
        assert_eq!(listed(["a"]), "a");
    }
}
