//! Hosts that an `ssh` configuration names.
//!
//! Whoever reaches machines by `ssh` has them listed already. What is taken is every name that `ssh` could be given
//! as it stands: the words behind `Host` that are no patterns. The rest of the file is for `ssh` itself, which will
//! be asked to connect to that very name. This is not a reader of all that OpenSSH understands, on purpose: the
//! crates that are resolve a name that one has, and none lists names with their lines.
//!
//! - A block of several names with one `HostName` is one machine with nicknames: the first is taken.
//! - `Include` is followed where it holds for everybody. Within the block of one host it holds for that host only, so
//!   what it includes names no hosts; this is a common slip, and remarked upon.
//! - `Match` names nobody, and is remarked upon.
//!
//! Files are read by whoever calls: a closure gives the texts that an `Include` asks for.

use super::host::{NameError, check_host};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::Arc;

/// How deep files may include each other: OpenSSH's own limit.
pub const INCLUDE_DEPTH_MAX: usize = 16;
/// How many files may be included, all told.
pub const INCLUDED_FILES_MAX: usize = 1_024;

/// A file and what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshConfigFile {
    /// What it is called.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// Hosts, and what is to be said about their file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SshHosts {
    /// Names in the order of the files, each once.
    pub hosts: Vec<Arc<str>>,
    /// What was left out, and why.
    pub remarks: Vec<Remark>,
}

/// Something that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The file's name.
    pub file: String,
    /// The line.
    pub line: usize,
    /// What about it.
    pub what: RemarkKind,
}

/// What can be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemarkKind {
    /// A `Match` block.
    Match,
    /// An `Include` in the block of a host.
    IncludeInBlock {
        /// The block's first line.
        block: String,
    },
    /// A name that no process's host can have.
    BadHost {
        /// The name.
        host: String,
        /// Why.
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
                    "this Include holds for `{}` only; left out. For all hosts, it stands before the first Host",
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
    /// The line.
    pub line: usize,
    /// What is wrong.
    pub problem: SshConfigProblem,
}

/// What can be wrong with a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SshConfigProblem {
    /// A quotation without its end.
    #[error("a quote is not closed")]
    UnclosedQuote,
    /// Files that include each other too deep, or themselves.
    #[error("files include each other deeper than {INCLUDE_DEPTH_MAX} levels")]
    TooDeep,
    /// Too many files.
    #[error("more than {INCLUDED_FILES_MAX} files are included")]
    TooManyFiles,
    /// An included file that can't be read.
    #[error("can't include {pattern}: {source}")]
    Include {
        /// What is included.
        pattern: String,
        /// What the system says.
        source: io::Error,
    },
}

/// Reads the hosts of a configuration. `include` gives the files behind a path or pattern as it stands in a file,
/// none when nothing matches.
///
/// # Errors
/// When a line makes no sense or an included file can't be had.
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

/// What the lines that are being read hold for.
enum Block {
    Everybody,
    Some { line: usize, heading: String, names: Vec<String>, has_host_name: bool },
}

impl Reader<'_> {
    fn read(&mut self, file: &SshConfigFile, depth: usize) -> Result<(), SshConfigError> {
        let mut block = Block::Everybody;
        for (at, text) in file.text.lines().enumerate() {
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
                    // `%h` stands for the name that was given, so each name is a machine of its own.
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

    /// Takes the hosts of a block that ends.
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

/// Where including failed.
enum Failed {
    /// In the line that includes.
    Here(SshConfigProblem),
    /// In a file that is included.
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

/// The keyword and the arguments of a line: apart by space, the first also by one `=`; quotes hold words together;
/// `#` begins a comment. `None` when a quote is not closed.
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

/// Whether a name fits a pattern, in which `*` stands for any characters and `?` for any one.
pub fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut seen) = (0, 0);
    // The last star, and how much of the name it stands for as far as is known.
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
        assert_eq!(hosts("Host a\nHost b\nHost a\n"), "a b", "each once");
        assert_eq!(hosts("# Host x\n\nUser me\n"), "");
    }

    #[test]
    fn nicknames_of_one_machine_are_one_host() {
        assert_eq!(hosts("Host web www\n  HostName 10.0.0.1\nHost n1 n2\n  HostName %h.lan\n"), "web n1 n2");
    }

    #[test]
    fn includes_are_followed_where_they_hold_for_everybody() {
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
    fn what_no_process_can_be_called_is_remarked_upon() {
        let found = read("Host good 17 b@d\n");
        assert_eq!(found.hosts.join(" "), "good");
        assert_eq!(found.remarks.len(), 2);
        assert!(found.remarks[0].to_string().starts_with("config:1: `17` left out"), "{}", found.remarks[0]);
    }

    #[test]
    fn a_file_that_includes_itself_is_not_read_for_ever() {
        let mut itself = |_: &str| Ok(vec![file("config", "Include config")]);
        let error = read_ssh_config(&file("config", "Include config"), &mut itself).unwrap_err();
        assert_eq!(error.to_string(), "config:1: files include each other deeper than 16 levels");
        let mut twice = |_: &str| Ok(vec![file("a", ""), file("b", "")]);
        let many = "Include *\n".repeat(600);
        let error = read_ssh_config(&file("config", &many), &mut twice).unwrap_err();
        assert_eq!(error.to_string(), "config:513: more than 1024 files are included");
    }

    #[test]
    fn lines_without_sense_are_told() {
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
