//! A node's configuration file: TOML, with a key for every flag of `treefold node`.
//!
//! ```toml
//! listen = "10.0.0.7:7700"
//! join = ["dns:treefold.example:7700"]
//! rack = "r1"
//! serve = ["search=/srv/docs:partitions=0-3/12"]
//! grace = "10s"
//!
//! [shares]                     # of the node, if several services compete; the default is 1
//! search = 3.0
//! nightly = "1:batch"
//!
//! [gateway]                    # the front door for HTTP; its table `limits` takes any of the gateway's limits
//! listen = "127.0.0.1:8080"
//!
//! [limits]                     # any of treefold-core's `Limits`, by name
//! payload_bytes_max = "8MiB"
//!
//! [tuning]                     # any of its `Tuning`
//! hop_margin = "1ms"
//! ```
//!
//! A flag overrides the file. An unknown key is refused by name, because a node that ignores a misspelt limit
//! is worse than a node that does not start.
//!
//! - [`keys`] lists every key with its kind and its text for readers.
//! - [`walk`] goes through a file, and reports every problem with its line.
//! - [`show`] writes the settings in force. [`schema`] writes the list of keys as a JSON schema, [`page`] as tables for the
//!   documentation.

pub(crate) mod keys;
#[cfg(test)]
mod page;
#[cfg(feature = "full")]
pub(crate) mod schema;
#[cfg(feature = "full")]
pub(crate) mod show;
mod walk;

use crate::commands::node::gateway::GatewayFile;
use crate::exit::Failure;
use crate::parse::{self, share_and_class};
use keys::Table;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use treefold::shares::ServiceShare;
use treefold::{Limits, Tuning};
use treefold_core::schedule::fair::{SHARE_MAX, SHARE_MIN};

/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Content of a configuration file.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NodeFile {
    pub(crate) listen: Option<String>,
    pub(crate) advertise: Option<String>,
    pub(crate) join: Vec<String>,
    pub(crate) rack: Option<String>,
    pub(crate) zone: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) relay: bool,
    pub(crate) accept: Vec<String>,
    pub(crate) shares: BTreeMap<String, ShareText>,
    pub(crate) processors: Option<u32>,
    pub(crate) workers: Option<usize>,
    pub(crate) serve: Vec<String>,
    pub(crate) record: Option<PathBuf>,
    pub(crate) cluster: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) keys: Option<PathBuf>,
    pub(crate) insecure: bool,
    pub(crate) attach: Option<String>,
    #[serde(rename = "as")]
    pub(crate) place: Option<String>,
    #[serde(deserialize_with = "duration")]
    pub(crate) patience: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub(crate) grace: Option<Duration>,
    pub(crate) log: Option<String>,
    pub(crate) gateway: GatewayFile,
    #[serde(deserialize_with = "elsewhere")]
    pub(crate) limits: Option<Limits>,
    #[serde(deserialize_with = "elsewhere")]
    pub(crate) tuning: Option<Tuning>,
}

/// Skips a table whose settings [`walk`] sets one by one.
pub(crate) fn elsewhere<'de, D: Deserializer<'de>, T: Default>(from: D) -> Result<T, D::Error> {
    IgnoredAny::deserialize(from).map(|_| T::default())
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    parse::duration(&text).map(Some).map_err(serde::de::Error::custom)
}

/// A share, as a number or as a text with its class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ShareText(pub(crate) ServiceShare);

impl<'de> Deserialize<'de> for ShareText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            Number(f64),
            Text(String),
        }
        let text = match Given::deserialize(from)? {
            Given::Number(share) => share.to_string(),
            Given::Text(text) => text,
        };
        Self::read(&text).map_err(serde::de::Error::custom)
    }
}

impl ShareText {
    fn read(text: &str) -> Result<Self, String> {
        let (share, class) = share_and_class(text).ok_or_else(|| {
            format!("the share is {text}; allowed: {SHARE_MIN} to {SHARE_MAX}, or a text as \"1:batch\"")
        })?;
        Ok(Self(ServiceShare { share, class: class.unwrap_or_default() }))
    }
}

/// A problem of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

/// A file without problems.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settled {
    pub(crate) file: NodeFile,
    /// The keys that the file sets, by their paths, with their values in one spelling.
    pub(crate) given: BTreeMap<String, String>,
    lines: Lines,
}

/// The lines of the keys, by their paths.
#[derive(Clone, Debug, Default)]
struct Lines(BTreeMap<String, usize>);

impl Lines {
    /// The line of the last key that a problem names; the first one if it names none.
    fn named_in(&self, problem: &str) -> usize {
        let words: Vec<&str> =
            problem.split(|letter: char| !letter.is_alphanumeric() && letter != '_').collect();
        words.iter().rev().find_map(|&word| self.0.get(word)).copied().unwrap_or(1)
    }
}

impl Settled {
    /// The problem of a node's start with these settings, at the line of a key that it names.
    pub(crate) fn problem(&self, failure: &Failure) -> Problem {
        let text = failure.to_string();
        Problem { line: self.lines.named_in(&text), text }
    }

    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let problems = match Self::read_all(path)? {
            Ok(settled) => return Ok(settled),
            Err(problems) => problems,
        };
        let rest = match problems.len() {
            1 => String::new(),
            count => format!(" ({} further problems: treefold config check {})", count - 1, path.display()),
        };
        let first = problems.first().map(ToString::to_string).unwrap_or_default();
        Err(Failure::usage(format!("{}: {first}{rest}", path.display())))
    }

    /// Reads a file, or lists all its problems.
    pub(crate) fn read_all(path: &Path) -> Result<Result<Self, Vec<Problem>>, Failure> {
        let unread = |error: String| Failure::failed(format!("can't read {}: {error}", path.display()));
        let bytes = std::fs::metadata(path).map_err(|error| unread(error.to_string()))?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(unread(format!("it has {bytes} bytes; allowed: at most {FILE_BYTES_MAX}")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| unread(error.to_string()))?;
        Ok(Self::parse(&text))
    }

    /// Parses the file's text, or lists its problems in the order of their lines.
    pub(crate) fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let walked = walk::walk(text);
        if !walked.problems.is_empty() {
            let mut problems = walked.problems;
            problems.sort();
            problems.dedup();
            return Err(problems);
        }
        let mut file: NodeFile =
            toml::from_str(text).map_err(|error| vec![walk::problem_of(text, &error)])?;
        file.limits = walked.limits;
        file.tuning = walked.tuning;
        file.gateway.limits = walked.gateway_limits;
        Ok(Self { file, given: walked.given, lines: walked.lines })
    }

    /// Warnings about a file that works.
    pub(crate) fn warnings(&self, path: &Path) -> Vec<String> {
        let secret = self.file.token.as_ref().map(|_| path);
        let files = secret.into_iter().chain(self.file.token_file.as_deref());
        files.filter(|path| can_others_read(path)).map(readable).collect()
    }

    /// The paths of the keys whose values differ in another file.
    pub(crate) fn changed(&self, other: &Self) -> Vec<String> {
        let keys = self.given.keys().chain(other.given.keys());
        let mut changed: Vec<String> =
            keys.filter(|&key| self.given.get(key) != other.given.get(key)).cloned().collect();
        changed.sort();
        changed.dedup();
        changed
    }
}

/// True if another user of this machine can read a file.
fn can_others_read(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|data| data.mode() & 0o044 != 0)
}

fn readable(path: &Path) -> String {
    let path = path.display();
    format!("{path} has the cluster's token, and other users can read it: chmod 600 {path}")
}

/// The problem of settings that exclude each other, wherever they come from.
pub(crate) fn contradiction(file: &NodeFile, serves: bool) -> Option<&'static str> {
    let is_attached = file.attach.is_some();
    let identities = [file.keys.is_some(), file.token.is_some(), file.token_file.is_some()];
    let found = [
        (file.relay && serves, "a relay holds no partitions: leave out relay or serve"),
        (file.relay && is_attached, "a relay is not a process of a topology: leave out relay or attach"),
        (
            is_attached != file.place.is_some(),
            "a process of a topology has an address and a name: give attach and as",
        ),
        (
            is_attached && !file.join.is_empty(),
            "a process of a topology joins no cluster: leave out attach or join",
        ),
        (
            identities.into_iter().filter(|&is_given| is_given).count() > 1,
            "a node is recognised by one of keys, token and token_file: leave out the others",
        ),
    ];
    found.into_iter().find_map(|(holds, problem)| holds.then_some(problem))
}

/// The name of a key in its table.
pub(crate) fn path_of(table: Table, name: &str) -> String {
    match table.name() {
        "" => name.to_owned(),
        table => format!("{table}.{name}"),
    }
}

#[cfg(test)]
mod tests;
