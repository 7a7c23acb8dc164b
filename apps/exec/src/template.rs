//! A command line with placeholders.
//!
//! The line is split into words as a POSIX shell splits it, once. A placeholder is replaced inside its word
//! afterwards, so a substituted value is always one argument. Nothing else is special: braces of other text, as
//! in an awk program, are kept, and no shell is involved unless the line names one.
//!
//! Two further rules keep a caller's query harmless:
//!
//! - `{query}` is a word of its own, or stands behind an option or a name, as in `-e{query}` and
//!   `--regexp={query}`. Inside other text it could become code, or a path out of a directory, as in
//!   `sh -c 'grep {query} file'` and `/srv/{query}`, which are therefore refused.
//! - A query that begins with `-` is refused where a tool could read it as an option: in a word that begins
//!   with `{query}`, unless the word `--` stands before it.

use crate::error::{RunError, SpecError};
use std::path::Path;

/// The parameter's text.
pub const QUERY: &str = "{query}";
/// The partition's number.
pub const PARTITION: &str = "{partition}";
/// The number of partitions.
pub const TOTAL: &str = "{total}";
/// The index of the slice that is asked for.
pub const SLICE: &str = "{slice}";
/// The number of slices.
pub const SLICES: &str = "{slices}";
/// The file of the first partial.
pub const A: &str = "{a}";
/// The file of the second partial.
pub const B: &str = "{b}";

/// Programs whose `-c` takes a script.
const SHELLS: [&str; 9] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "busybox"];

/// The words of a command, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    words: Vec<String>,
}

/// The values of placeholders.
#[derive(Clone, Debug, Default)]
pub struct Values<'a> {
    /// The value of `{query}`.
    pub query: Option<&'a str>,
    /// Other placeholders with their values.
    pub others: Vec<(&'static str, String)>,
}

impl Template {
    /// Splits the command line of a local, which may have `{query}`, `{partition}`, `{total}`, `{slice}` and `{slices}`.
    ///
    /// # Errors
    /// If it is no command line, or if a query could become more than an argument.
    pub fn local(line: &str) -> Result<Self, SpecError> {
        let template = Self::split(line)?;
        template.forbid(&[A, B], "command", "{query}, {partition}, {total}, {slice} and {slices}")?;
        if template.has(SLICE) != template.has(SLICES) {
            return Err(SpecError::OneOfSlices);
        }
        Ok(template)
    }

    /// Splits the command line of a reduce, which may have `{query}`, and `{a}` and `{b}` for the files of the two
    /// partials.
    ///
    /// # Errors
    /// As [`local`](Self::local), or if only one of the two files is named.
    pub fn reduce(line: &str) -> Result<Self, SpecError> {
        let template = Self::split(line)?;
        template.forbid(&[PARTITION, TOTAL, SLICE, SLICES], "reduce-command", "{query}, {a} and {b}")?;
        if template.has(A) != template.has(B) {
            return Err(SpecError::OnePartial);
        }
        Ok(template)
    }

    fn split(line: &str) -> Result<Self, SpecError> {
        let refused = || SpecError::CommandLine(line.to_owned());
        let words = shlex::split(line).filter(|words| !words.is_empty()).ok_or_else(refused)?;
        if words[0].is_empty() || words.iter().any(|word| word.contains('\0')) {
            return Err(refused());
        }
        if [QUERY, PARTITION, TOTAL, SLICE, SLICES, A, B]
            .iter()
            .any(|placeholder| words[0].contains(placeholder))
        {
            return Err(SpecError::ProgramIsAPlaceholder(words[0].clone()));
        }
        for (at, word) in words.iter().enumerate().filter(|(_, word)| word.contains(QUERY)) {
            if !may_end_in_a_query(word) {
                return Err(SpecError::QueryInsideText(word.clone()));
            }
            if is_script(&words[..at]) {
                return Err(SpecError::QueryIsAScript(word.clone()));
            }
        }
        Ok(Self { words })
    }

    fn forbid(
        &self,
        placeholders: &[&str],
        command: &'static str,
        allowed: &'static str,
    ) -> Result<(), SpecError> {
        let has_one = |word: &&String| placeholders.iter().any(|placeholder| word.contains(placeholder));
        match self.words.iter().find(has_one) {
            Some(word) => Err(SpecError::Placeholder { word: word.clone(), command, allowed }),
            None => Ok(()),
        }
    }

    /// True if a word contains this placeholder.
    pub fn has(&self, placeholder: &str) -> bool {
        self.words.iter().any(|word| word.contains(placeholder))
    }

    /// The program that it runs.
    pub fn program(&self) -> &str {
        &self.words[0]
    }

    /// Returns the arguments, with these values in place of placeholders.
    ///
    /// # Errors
    /// If the query would be read as an option.
    pub fn arguments(&self, values: &Values<'_>) -> Result<Vec<String>, RunError> {
        let is_option = values.query.is_some_and(|query| query.starts_with('-'));
        let mut options_ended = false;
        let mut arguments = Vec::with_capacity(self.words.len() - 1);
        for word in &self.words[1..] {
            if is_option && !options_ended && word.starts_with(QUERY) {
                return Err(RunError::QueryIsAnOption);
            }
            options_ended |= word == "--";
            arguments.push(substituted(word, values));
        }
        Ok(arguments)
    }
}

/// True if a word is the placeholder, an option with it as in `-e{query}`, or a name with it as in `name={query}`.
fn may_end_in_a_query(word: &str) -> bool {
    let Some(before) = word.strip_suffix(QUERY) else { return false };
    let is_name = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    before.is_empty()
        || before.starts_with('-') && is_name(before)
        || before.strip_suffix('=').is_some_and(is_name)
}

/// True if the word behind these is a script: of a shell, or of a shell that another program starts.
fn is_script(words: &[String]) -> bool {
    let name =
        |word: &String| Path::new(word).file_name().is_some_and(|name| SHELLS.iter().any(|s| name == *s));
    let Some(shell) = words.iter().position(name) else { return false };
    // Options such as -e, -c or -ec stand before the script.
    let is_option = |word: &String| word.starts_with('-') && word != "--";
    let before = &words[shell + 1..];
    before.iter().all(is_option) || before.last().is_some_and(|last| is_option(last) && last.contains('c'))
}

/// Replaces placeholders in one pass, so that a value that looks like a placeholder stays as it is.
fn substituted(word: &str, values: &Values<'_>) -> String {
    let known = values.query.iter().map(|query| (QUERY, *query));
    let known: Vec<(&str, &str)> =
        known.chain(values.others.iter().map(|(name, value)| (*name, value.as_str()))).collect();
    let (mut out, mut rest) = (String::with_capacity(word.len()), word);
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match known.iter().find(|(name, _)| rest.starts_with(name)) {
            Some((name, value)) => {
                out.push_str(value);
                rest = &rest[name.len()..];
            }
            None => {
                out.push('{');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Replaces `{partition}` and `{total}` in a path.
///
/// # Errors
/// If it contains `{query}`: a caller must not choose a directory.
pub fn directory(text: &str, partition: u32, total: u32) -> Result<String, SpecError> {
    if text.contains(QUERY) {
        let allowed = "{partition} and {total}";
        return Err(SpecError::Placeholder { word: text.to_owned(), command: "dir", allowed });
    }
    let others = vec![(PARTITION, partition.to_string()), (TOTAL, total.to_string())];
    Ok(substituted(text, &Values { query: None, others }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str, query: &str) -> Result<Vec<String>, RunError> {
        let others = vec![(PARTITION, "3".to_owned()), (TOTAL, "8".to_owned())];
        Template::local(line).unwrap().arguments(&Values { query: Some(query), others })
    }

    #[test]
    fn a_query_stays_one_argument() {
        for query in
            ["two words", "it's \"q\"", "$(touch x)", "; rm -rf /", "`id`", "a\nb", "*", "", "{partition}"]
        {
            assert_eq!(
                arguments("grep -c -- {query} 'my file'", query).unwrap(),
                ["-c", "--", query, "my file"]
            );
            let prefixed = format!("--regexp={query}");
            assert_eq!(arguments("grep --regexp={query}", query).unwrap(), [prefixed]);
        }
    }

    #[test]
    fn words_are_split_as_in_a_shell_and_other_braces_are_kept() {
        assert_eq!(
            arguments("awk '{ print $1 }' part-{partition}-of-{total}", "").unwrap(),
            ["{ print $1 }", "part-3-of-8"]
        );
        assert_eq!(arguments(r#"a "b c"\ d {} {x{partition}"#, "").unwrap(), ["b c d", "{}", "{x3"]);
    }

    #[test]
    fn a_query_is_no_option() {
        assert!(matches!(arguments("grep {query} file", "-f/etc/passwd"), Err(RunError::QueryIsAnOption)));
        assert!(matches!(arguments("grep -i {query}", "--help"), Err(RunError::QueryIsAnOption)));
        assert_eq!(arguments("grep -- {query} file", "-x").unwrap(), ["--", "-x", "file"]);
        assert_eq!(arguments("grep -e{query} file", "-x").unwrap(), ["-e-x", "file"]);
        assert_eq!(arguments("sort", "-x").unwrap(), [""; 0]);
    }

    #[test]
    fn lines_that_let_a_caller_choose_code_are_refused() {
        let refused = |line: &str| Template::local(line).unwrap_err().to_string();
        for line in ["", "   ", "grep 'open", "''"] {
            assert!(refused(line).contains("is not a command line"), "{line}");
        }
        for line in ["{query}", "/bin/{query}", "{partition}/tool"] {
            assert!(refused(line).contains("must not contain a placeholder"), "{line}");
        }
        for line in [
            "sh -c 'grep {query} file'",
            "awk '/{query}/'",
            "cat /srv/{query}",
            "sed 's/{query}/x/'",
            "a x{query}",
        ] {
            assert!(refused(line).contains("stands inside other text"), "{line}");
        }
        for line in [
            "sh -c {query}",
            "/bin/bash -ec {query}",
            "env sh -e -c {query}",
            "dash {query}",
            "bash -x {query}",
        ] {
            assert!(refused(line).contains("is the script of a shell"), "{line}");
        }
        for behind in ["sh", "--"] {
            assert!(Template::local(&format!("sh -c 'grep -e \"$1\" file' {behind} {{query}}")).is_ok());
        }
        assert!(Template::local("grep -c -- {query}").is_ok());
        assert!(refused("sort {a}").contains("{query}, {partition}, {total}, {slice} and {slices}"));
        assert!(refused("split -n {slice}").contains("both {slice} and {slices}"));
        assert!(Template::local("split -n l/{slice}/{slices} file").is_ok());
        assert!(Template::reduce("sort -m {a}").is_err() && Template::reduce("sort -m {a} {b}").is_ok());
        assert!(Template::reduce("cut {partition}").is_err());
        assert!(directory("/srv/{query}", 0, 1).is_err());
        assert_eq!(directory("/srv/{partition}", 4, 8).unwrap(), "/srv/4");
    }
}
