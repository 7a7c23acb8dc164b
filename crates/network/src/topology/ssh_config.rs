//! Reads the host names of an `ssh` configuration.
//!
//! Users that reach machines by `ssh` have already listed them there. The reader collects every name that can
//! be given to `ssh` literally: the words after `Host` that are not patterns. The rest of the file is
//! interpreted by `ssh` itself, which connects to these names. This reader deliberately supports only a part
//! of OpenSSH's syntax. The crates that support all of it resolve a given name, but none lists names with
//! their lines.
//!
//! - A block of several names with one `HostName` is one machine with aliases. The first name is taken.
//! - `Include` is followed if it applies to all hosts. Within the block of one host it applies to that host
//!   only, so the included file names no hosts. This is a common mistake, and a remark reports it.
//! - `Match` names no hosts, and a remark reports it.
//!
//! The caller reads the files: a closure returns the texts that an `Include` refers to.

use super::host::{NameError, check_host};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::Arc;
use treefold_operators::text::unmarked;

/// The greatest depth of nested includes: OpenSSH's own limit.
pub const INCLUDE_DEPTH_MAX: usize = 16;
/// The most included files in total.
pub const INCLUDED_FILES_MAX: usize = 1_024;

/// A file and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshConfigFile {
    /// The file's name.
    pub name: String,
    /// The file's text.
    pub text: String,
}

/// Hosts, and remarks about their file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SshHosts {
    /// Names in the order of the files, each once.
    pub hosts: Vec<Arc<str>>,
    /// Parts of the files that were omitted, with reasons.
    pub remarks: Vec<Remark>,
}

/// A part of a file that was omitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The file's name.
    pub file: String,
    /// The line number.
    pub line: usize,
    /// The reason.
    pub what: RemarkKind,
}

/// Why a part was omitted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemarkKind {
    /// A `Match` block.
    Match,
    /// An `Include` within the block of a host.
    IncludeInBlock {
        /// The first line of the block.
        block: String,
    },
    /// A name that is not valid for a process's host.
    BadHost {
        /// The name.
        host: String,
        /// The reason.
        why: NameError,
    },
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        match &self.what {
            RemarkKind::Match => f.write_str("a Match block names no hosts; left out"),
            RemarkKind::IncludeInBlock { block } => {
                write!(
                    f,
                    "this Include holds for `{}` only; left out. To apply it to all hosts, move it before the \
                     first Host",
                    block.escape_debug()
                )
            }
            RemarkKind::BadHost { host, why } => write!(f, "`{}` left out: {why}", host.escape_debug()),
        }
    }
}

/// Why a configuration could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct SshConfigError {
    /// The file's name.
    pub file: String,
    /// The line number.
    pub line: usize,
    /// The problem.
    pub problem: SshConfigProblem,
}

/// A problem of a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SshConfigProblem {
    /// A quotation mark without its counterpart.
    #[error("a quote is not closed")]
    UnclosedQuote,
    /// Nested includes are too deep, or a file includes itself.
    #[error("files include each other deeper than {INCLUDE_DEPTH_MAX} levels")]
    TooDeep,
    /// Too many included files.
    #[error("more than {INCLUDED_FILES_MAX} files are included")]
    TooManyFiles,
    /// An included file that cannot be read.
    #[error("can't include {pattern}: {source}")]
    Include {
        /// The path or pattern.
        pattern: String,
        /// The system's error.
        source: io::Error,
    },
}

/// Reads the hosts of a configuration. `include` returns the files for a path or pattern from the
/// configuration, or an empty list if no file matches.
///
/// # Errors
/// If a line is malformed or an included file cannot be read.
pub fn read_ssh_config(
    file: &SshConfigFile,
    include: &mut dyn FnMut(&str) -> io::Result<Vec<SshConfigFile>>,
) -> Result<SshHosts, SshConfigError> {
    let mut reader = Reader { include, found: SshHosts::default(), seen: BTreeSet::new(), files: 0 };
    reader.read(file, 0)?;
    Ok(reader.found)
}

struct Reader<'a> {
    include: &'a mut dyn FnMut(&str) -> io::Result<Vec<SshConfigFile>>,
    found: SshHosts,
    seen: BTreeSet<Arc<str>>,
    files: usize,
}

/// The hosts to which the current lines apply.
enum Block {
    Everybody,
    Some { line: usize, heading: String, names: Vec<String>, has_host_name: bool },
}

impl Reader<'_> {
    fn read(&mut self, file: &SshConfigFile, depth: usize) -> Result<(), SshConfigError> {
        let mut block = Block::Everybody;
        for (at, text) in unmarked(&file.text).lines().enumerate() {
            let line = at + 1;
            let fail = |problem| SshConfigError { file: file.name.clone(), line, problem };
            let words = words_of(text).ok_or_else(|| fail(SshConfigProblem::UnclosedQuote))?;
            let Some((keyword, arguments)) = words.split_first() else { continue };
            match keyword.to_ascii_lowercase().as_str() {
                "host" => {
                    let next = Block::of_hosts(line, text, arguments);
                    self.close(std::mem::replace(&mut block, next), file);
                }
                "match" => {
                    let next = Block::of_match(line, text, arguments);
                    if matches!(next, Block::Some { .. }) {
                        self.remark(file, line, RemarkKind::Match);
                    }
                    self.close(std::mem::replace(&mut block, next), file);
                }
                "hostname" => {
                    // `%h` is replaced by the given name, so each name is a separate machine.
                    let fixed = arguments.iter().any(|name| !name.contains("%h") && !name.contains("%n"));
                    if let Block::Some { has_host_name, .. } = &mut block {
                        *has_host_name |= fixed;
                    }
                }
                "include" => match &block {
                    Block::Everybody => self.include(arguments, depth).map_err(fail_or_pass(fail))?,
                    Block::Some { heading, .. } => {
                        let block = heading.clone();
                        self.remark(file, line, RemarkKind::IncludeInBlock { block });
                    }
                },
                _ => {}
            }
        }
        self.close(block, file);
        Ok(())
    }

    fn include(&mut self, patterns: &[String], depth: usize) -> Result<(), Failed> {
        if depth + 1 > INCLUDE_DEPTH_MAX {
            return Err(Failed::Here(SshConfigProblem::TooDeep));
        }
        for pattern in patterns {
            let files = (self.include)(pattern).map_err(|source| {
                Failed::Here(SshConfigProblem::Include { pattern: pattern.clone(), source })
            })?;
            for file in files {
                self.files += 1;
                if self.files > INCLUDED_FILES_MAX {
                    return Err(Failed::Here(SshConfigProblem::TooManyFiles));
                }
                self.read(&file, depth + 1).map_err(Failed::Within)?;
            }
        }
        Ok(())
    }

    /// Takes the hosts of a block at its end.
    fn close(&mut self, block: Block, file: &SshConfigFile) {
        let Block::Some { line, mut names, has_host_name, .. } = block else { return };
        if has_host_name {
            names.truncate(1);
        }
        for name in names {
            if let Err(why) = check_host(&name) {
                self.remark(file, line, RemarkKind::BadHost { host: name, why });
                continue;
            }
            let name: Arc<str> = name.into();
            if self.seen.insert(name.clone()) {
                self.found.hosts.push(name);
            }
        }
    }

    fn remark(&mut self, file: &SshConfigFile, line: usize, what: RemarkKind) {
        self.found.remarks.push(Remark { file: file.name.clone(), line, what });
    }
}

/// The place of an error while including.
enum Failed {
    /// The line with the `Include`.
    Here(SshConfigProblem),
    /// A line of an included file.
    Within(SshConfigError),
}

fn fail_or_pass(fail: impl Fn(SshConfigProblem) -> SshConfigError) -> impl Fn(Failed) -> SshConfigError {
    move |failed| match failed {
        Failed::Here(problem) => fail(problem),
        Failed::Within(error) => error,
    }
}

impl Block {
    fn of_hosts(line: usize, text: &str, patterns: &[String]) -> Self {
        if patterns.iter().any(|pattern| pattern == "*") && !patterns.iter().any(|one| one.starts_with('!')) {
            return Self::Everybody;
        }
        let is_name = |pattern: &&String| !pattern.contains(['*', '?', '!']);
        let names = patterns.iter().filter(is_name).cloned().collect();
        Self::Some { line, heading: text.trim().to_owned(), names, has_host_name: false }
    }

    fn of_match(line: usize, text: &str, criteria: &[String]) -> Self {
        if criteria.len() == 1 && criteria[0].eq_ignore_ascii_case("all") {
            return Self::Everybody;
        }
        Self::Some { line, heading: text.trim().to_owned(), names: Vec::new(), has_host_name: false }
    }
}

/// Splits a line into its keyword and arguments. They are separated by spaces, the first argument also by one
/// `=`. Quotes group words, and `#` begins a comment. Returns `None` if a quote is not closed.
fn words_of(line: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut characters = line.trim().chars().peekable();
    loop {
        while characters.next_if(|character| character.is_whitespace()).is_some() {}
        if words.len() == 1 && characters.next_if_eq(&'=').is_some() {
            while characters.next_if(|character| character.is_whitespace()).is_some() {}
        }
        match characters.peek() {
            None | Some('#') => return Some(words),
            Some(_) => {}
        }
        let mut word = String::new();
        let in_keyword = words.is_empty();
        while let Some(character) =
            characters.next_if(|character| !(character.is_whitespace() || in_keyword && *character == '='))
        {
            if character != '"' && character != '\'' {
                word.push(character);
                continue;
            }
            loop {
                match characters.next()? {
                    quoted if quoted == character => break,
                    quoted => word.push(quoted),
                }
            }
        }
        words.push(word);
    }
}

/// Whether a name matches a pattern, in which `*` matches any characters and `?` any single one.
pub fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut seen) = (0, 0);
    // The last star, and the end of the part of the name that it matches so far.
    let mut star: Option<(usize, usize)> = None;
    while seen < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(&one) if one == '?' || one == name[seen] => {
                at += 1;
                seen += 1;
            }
            _ => {
                let Some((star_at, up_to)) = star else { return false };
                star = Some((star_at, up_to + 1));
                (at, seen) = (star_at + 1, up_to + 1);
            }
        }
    }
    pattern[at..].iter().all(|&left| left == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> SshConfigFile {
        SshConfigFile { name: name.to_owned(), text: text.to_owned() }
    }

    fn read(text: &str) -> SshHosts {
        let nothing_else = &mut |_: &str| Ok(Vec::new());
        read_ssh_config(&file("config", text), nothing_else).unwrap()
    }

    fn hosts(text: &str) -> String {
        read(text).hosts.join(" ")
    }

    #[test]
    fn names_are_taken_and_patterns_are_not() {
        assert_eq!(
            hosts("Host a b\n  User me\nHost *.lan !c.lan node?\nhost=d # the last\nHOST\t\"e\"\n"),
            "a b d e"
        );
        assert_eq!(hosts("Host a\nHost b\nHost a\n"), "a b", "each name once");
        assert_eq!(hosts("# Host x\n\nUser me\n"), "");
    }

    #[test]
    fn nicknames_of_one_machine_are_one_host() {
        assert_eq!(hosts("Host web www\n  HostName 10.0.0.1\nHost n1 n2\n  HostName %h.lan\n"), "web n1 n2");
    }

    #[test]
    fn includes_that_apply_to_all_hosts_are_followed() {
        let mut asked = Vec::new();
        let mut include = |pattern: &str| {
            asked.push(pattern.to_owned());
            Ok(vec![file("nodes", "Host n1\nHost n2\n"), file("more", "Match host x\nHost n3")])
        };
        let text = "Include conf.d/*.conf\nHost *\n Include \"with space\"\nHost late\n Include lost\n";
        let found = read_ssh_config(&file("config", text), &mut include).unwrap();
        assert_eq!(found.hosts.join(" "), "n1 n2 n3 late");
        assert_eq!(asked, ["conf.d/*.conf", "with space"]);
        let remarks: Vec<String> = found.remarks.iter().map(ToString::to_string).collect();
        assert_eq!(remarks[0], "more:1: a Match block names no hosts; left out");
        assert!(
            remarks[2].starts_with("config:5: this Include holds for `Host late` only; left out."),
            "{remarks:?}"
        );
    }

    #[test]
    fn invalid_host_names_are_reported_in_remarks() {
        let found = read("Host good 17 b@d\n");
        assert_eq!(found.hosts.join(" "), "good");
        assert_eq!(found.remarks.len(), 2);
        assert!(found.remarks[0].to_string().starts_with("config:1: `17` left out"), "{}", found.remarks[0]);
    }

    #[test]
    fn a_file_that_includes_itself_is_refused() {
        let mut itself = |_: &str| Ok(vec![file("config", "Include config")]);
        let error = read_ssh_config(&file("config", "Include config"), &mut itself).unwrap_err();
        assert_eq!(error.to_string(), "config:1: files include each other deeper than 16 levels");
        let mut twice = |_: &str| Ok(vec![file("a", ""), file("b", "")]);
        let many = "Include *\n".repeat(600);
        let error = read_ssh_config(&file("config", &many), &mut twice).unwrap_err();
        assert_eq!(error.to_string(), "config:513: more than 1024 files are included");
    }

    #[test]
    fn malformed_lines_are_reported() {
        let fails = |text: &str| {
            let mut denied = |_: &str| Err(io::Error::from(io::ErrorKind::PermissionDenied));
            read_ssh_config(&file("config", text), &mut denied).unwrap_err().to_string()
        };
        assert_eq!(fails("\nHost \"a\n"), "config:2: a quote is not closed");
        assert_eq!(fails("Include x"), "config:1: can't include x: permission denied");
    }

    #[test]
    fn patterns_fit_as_in_a_shell() {
        for (pattern, name) in [
            ("node*", "node01"),
            ("*", ""),
            ("n?de*1", "node001"),
            ("*.lan", "a.b.lan"),
            ("a*b*c", "aXbYbZc"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("node?", "node01"), ("node", "node1"), ("", "a"), ("a*b", "abc")] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }
}
