//! The options of a call, from its query and its headers.
//!
//! Each option has a name in the query (`deadline=500ms`) and a header (`Treefold-Deadline: 500ms`). The query outranks
//! the header, which a proxy may set for all. Both are read by the same parsers as the options of `treefold call`. An option
//! that is given twice in one place, or that does not exist, is refused: a call with a misspelt deadline would wait too
//! long without a word.

use crate::limits::Limits;
use crate::problem::{Kind, Problem};
use axum::http::HeaderMap;
use std::time::Duration;
use treefold::{CallBuilder, CallError, Raw};
use treefold_core::call::CallOptions;
use treefold_forms::parse;

/// The names of the options.
pub(crate) const OPTIONS: [&str; 11] = [
    "deadline",
    "min_coverage",
    "shape",
    "policy",
    "waiting",
    "hedge",
    "slices",
    "each",
    "window",
    "partitions",
    "explain",
];

/// The header of an option.
pub(crate) fn header_of(option: &str) -> String {
    format!("treefold-{}", option.replace('_', "-"))
}

/// Options with their texts, each at most once.
#[derive(Debug)]
pub(crate) struct Wishes(Vec<(&'static str, String)>);

/// The option with a name. Refuses one that does not exist, and one that was given before.
pub(crate) fn once(
    options: &[&'static str],
    name: &str,
    text: &str,
    is_given: impl Fn(&str) -> bool,
) -> Result<&'static str, Problem> {
    let Some(option) = options.iter().find(|option| **option == name) else {
        let all = options.join(", ");
        let detail = format!("there is no option {name:?}; there are {all}");
        return Err(Problem::new(Kind::UnknownField, detail).about(name).limit(all));
    };
    if is_given(option) {
        return Err(CallError::bad_field(option, format_args!("{text}, and given before"), "once").into());
    }
    Ok(option)
}

impl Wishes {
    /// Collects the options of a request.
    pub(crate) fn of(query: Vec<(String, String)>, headers: &HeaderMap) -> Result<Self, Problem> {
        let mut wishes = Self(Vec::new());
        for (name, text) in query {
            wishes.add(&name, text)?;
        }
        let mut defaults = Self(Vec::new());
        for option in OPTIONS {
            for value in headers.get_all(header_of(option)) {
                defaults.add(option, String::from_utf8_lossy(value.as_bytes()).into_owned())?;
            }
        }
        defaults.0.retain(|(option, _)| !wishes.has(option));
        wishes.0.append(&mut defaults.0);
        Ok(wishes)
    }

    fn has(&self, option: &str) -> bool {
        self.0.iter().any(|(given, _)| *given == option)
    }

    fn add(&mut self, name: &str, text: String) -> Result<(), Problem> {
        let option = once(&OPTIONS, name, &text, |option| self.has(option))?;
        self.0.push((option, text));
        Ok(())
    }

    /// True if the caller asks for the tree.
    pub(crate) fn asks_to_explain(&self) -> Result<bool, Problem> {
        self.is_on("explain")
    }

    /// True if the caller reads the slices one after another.
    pub(crate) fn asks_for_each(&self) -> Result<bool, Problem> {
        self.is_on("each")
    }

    /// The slices that may be in flight at a time.
    pub(crate) fn window(&self) -> Result<Option<u32>, Problem> {
        let Some(text) = self.text("window") else { return Ok(None) };
        let number = text.parse().map_err(|_| CallError::bad_field("window", text, "1 to 256"))?;
        Ok(Some(number))
    }

    fn text(&self, option: &str) -> Option<&str> {
        self.0.iter().find(|(given, _)| *given == option).map(|(_, text)| text.as_str())
    }

    fn is_on(&self, option: &str) -> Result<bool, Problem> {
        Ok(self.text(option).map(|text| switch(option, text)).transpose()?.unwrap_or(false))
    }

    /// The deadline of the call. An option that is refused counts as none.
    pub(crate) fn deadline(&self) -> Duration {
        let deadline = self.0.iter().find(|(option, _)| *option == "deadline");
        let asked = deadline.and_then(|(_, text)| parse::deadline(text).ok());
        asked.unwrap_or_else(|| CallOptions::default().deadline.into())
    }

    /// Applies the options to a call.
    pub(crate) fn apply(
        &self,
        mut call: CallBuilder<'static, Raw>,
        limits: &Limits,
    ) -> Result<CallBuilder<'static, Raw>, Problem> {
        for (option, text) in &self.0 {
            call = apply_one(call, option, text, limits)?;
        }
        Ok(call)
    }
}

fn apply_one(
    call: CallBuilder<'static, Raw>,
    option: &'static str,
    text: &str,
    limits: &Limits,
) -> Result<CallBuilder<'static, Raw>, CallError> {
    Ok(match option {
        "deadline" => {
            let max = limits.deadline_max;
            let deadline = parse::deadline(text).ok().filter(|deadline| *deadline <= max);
            call.deadline(deadline.ok_or_else(|| {
                let allowed =
                    format!("above 0, up to {max:?} (deadline_max), with its unit, as in 200ms, 1.5s");
                CallError::bad_field(option, text, allowed)
            })?)
        }
        "min_coverage" => call.min_coverage(parse::min_coverage(text)?),
        "shape" => call.shape(parse::shape(text)?),
        "policy" => call.policy(parse::policy(text)?),
        "waiting" => call.waiting(parse::waiting(text)?),
        "hedge" => call.hedge(switch(option, text)?),
        "slices" => call.slices(parse::slices(text)?),
        // They concern the answer.
        "each" | "window" => call,
        "partitions" => call.partitions(parse::partitions(text)?),
        "explain" => call.explain(switch(option, text)?),
        _ => unreachable!("invariant: only known options are collected"),
    })
}

/// Reads an option that is on or off. An empty text, as in `?explain`, means on.
fn switch(option: &str, text: &str) -> Result<bool, CallError> {
    match text {
        "" | "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(CallError::bad_field(option, text, "true, false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    fn wishes(query: &[(&str, &str)], headers: &[(&'static str, &'static str)]) -> Result<Wishes, Problem> {
        let query = query.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect();
        let mut given = HeaderMap::new();
        for &(name, text) in headers {
            given.append(HeaderName::from_static(name), HeaderValue::from_static(text));
        }
        Wishes::of(query, &given)
    }

    #[test]
    fn options_come_by_query_or_header_and_once() {
        let headers = [("treefold-min-coverage", "0.5"), ("treefold-deadline", "2s")];
        let all = wishes(&[("explain", ""), ("deadline", "1s")], &headers).unwrap();
        let texts: Vec<(&str, &str)> = all.0.iter().map(|(option, text)| (*option, text.as_str())).collect();
        assert_eq!(texts, [("explain", ""), ("deadline", "1s"), ("min_coverage", "0.5")]);
        let refused = |query, headers| wishes(query, headers).err().map(|problem| problem.name());
        assert_eq!(refused(&[("deadline", "1s"), ("deadline", "2s")], &[]), Some("bad_field"));
        let twice = [("treefold-deadline", "2s"), ("treefold-deadline", "3s")];
        assert_eq!(refused(&[], &twice), Some("bad_field"));
        assert_eq!(refused(&[("timeout", "1s")], &[]), Some("unknown_field"));
    }

    #[test]
    fn switches_are_on_off_or_refused() {
        assert_eq!([switch("explain", ""), switch("explain", "false")], [Ok(true), Ok(false)]);
        assert_eq!(switch("explain", "yes").unwrap_err().to_string(), "explain is yes; allowed: true, false");
    }
}
