//! Bearer tokens: a file with their hashes, and the drawing of new ones.
//!
//! ```toml
//! [[token]]
//! name = "dashboard"                # of the tenant, in messages
//! sha256 = "9f86d0…"                # the token's SHA-256, in hexadecimal
//! services = ["search", "logs"]     # or ["*"]
//! rights = ["call", "read"]
//! requests_per_s = 100              # optional; else the gateway's limit
//! calls_open_max = 16               # optional; else the gateway's limit
//! streams_open_max = 4              # optional; else the gateway's limit
//! ```
//!
//! A token has 256 random bits. One round of SHA-256 is enough for it: slow hashes such as Argon2 protect short passwords,
//! which can be guessed, and would cost each request milliseconds.

use crate::limits::Limits;
use crate::tenants::Tenant;
use crate::watched::{Watched, marks_of};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// The first letters of every token, so that scanners for leaked secrets find it.
const PREFIX: &str = "tfg_";
/// Random bytes of a token.
const RANDOM_BYTES: usize = 32;
/// Most bytes of a token's name.
const NAME_BYTES_MAX: usize = 64;
/// Most bytes of a file.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// The name that means all services.
const ALL: &str = "*";

/// A right that a token gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GatewayRight {
    /// To call the services that the token names.
    Call,
    /// To read the state and the counters of the node and of its cluster.
    Read,
}

impl GatewayRight {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Read => "read",
        }
    }
}

impl FromStr for GatewayRight {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Call, Self::Read];
        let found = all.into_iter().find(|right| right.name() == text);
        found.ok_or_else(|| format!("there is no right {text:?}; rights are call, read"))
    }
}

/// The services that a token names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct ServiceNames(BTreeSet<String>);

impl ServiceNames {
    /// These services; `*` means all.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().collect())
    }

    pub(crate) fn all() -> Self {
        Self::new([ALL.to_owned()])
    }

    pub(crate) fn contain(&self, service: &str) -> bool {
        self.0.contains(ALL) || self.0.contains(service)
    }
}

/// An entry of the file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The name of the tenant.
    pub name: String,
    /// The token's SHA-256, in hexadecimal.
    pub sha256: String,
    /// The services.
    pub services: ServiceNames,
    /// The rights.
    pub rights: BTreeSet<GatewayRight>,
    /// Most requests in a second.
    #[serde(default)]
    pub requests_per_s: Option<u32>,
    /// Most open calls.
    #[serde(default)]
    pub calls_open_max: Option<usize>,
    /// Most open streams.
    #[serde(default)]
    pub streams_open_max: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    token: Vec<Entry>,
}

/// The reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokensError {
    /// It cannot be read.
    #[error("can't read {path}: {error}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// It has no valid content.
    #[error("{path}: {problem}", path = path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Its problem.
        problem: String,
    },
}

/// Draws a token.
///
/// # Errors
/// If the system has no random bytes.
pub fn draw() -> Result<String, String> {
    let mut random = [0; RANDOM_BYTES];
    SystemRandom::new().fill(&mut random).map_err(|_| "the system has no random bytes".to_owned())?;
    Ok(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random)))
}

impl Entry {
    /// The entry of a token.
    pub fn new(name: String, token: &str, services: ServiceNames, rights: BTreeSet<GatewayRight>) -> Self {
        let sha256 = hex(&hash(token));
        Self {
            name,
            sha256,
            services,
            rights,
            requests_per_s: None,
            calls_open_max: None,
            streams_open_max: None,
        }
    }

    /// The entry as it is written in a file.
    pub fn to_toml(&self) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let services: Vec<String> = self.services.0.iter().map(|name| quoted(name)).collect();
        let rights: Vec<String> = self.rights.iter().map(|right| quoted(right.name())).collect();
        let mut text = format!(
            "[[token]]\nname = {}\nsha256 = {}\nservices = [{}]\nrights = [{}]\n",
            quoted(&self.name),
            quoted(&self.sha256),
            services.join(", "),
            rights.join(", ")
        );
        let limits = [
            ("requests_per_s", self.requests_per_s.map(u64::from)),
            ("calls_open_max", self.calls_open_max.map(|max| max as u64)),
            ("streams_open_max", self.streams_open_max.map(|max| max as u64)),
        ];
        for (name, limit) in limits {
            if let Some(limit) = limit {
                writeln!(text, "{name} = {limit}").expect("invariant: writing to a String cannot fail");
            }
        }
        text
    }

    fn check(&self) -> Result<[u8; 32], String> {
        let refuse = |problem: &str| Err(format!("token {:?}: {problem}", self.name));
        if self.name.is_empty() || self.name.len() > NAME_BYTES_MAX {
            return refuse(&format!(
                "its name has {} bytes; allowed: 1 to {NAME_BYTES_MAX}",
                self.name.len()
            ));
        }
        if self.rights.is_empty() {
            return refuse("it has no rights; rights are call, read");
        }
        if self.rights.contains(&GatewayRight::Call) && self.services.0.is_empty() {
            return refuse("it may call, but names no services; \"*\" names all");
        }
        if self.requests_per_s == Some(0)
            || self.calls_open_max == Some(0)
            || self.streams_open_max == Some(0)
        {
            return refuse("a limit is 0; allowed: at least 1");
        }
        match bytes_of(&self.sha256) {
            Some(hash) => Ok(hash),
            None => refuse("sha256 is not 64 hexadecimal digits"),
        }
    }
}

/// Reads the entries of a file's text.
///
/// # Errors
/// The problem, with its line or with the token's name.
pub fn parse(text: &str, tokens_max: usize) -> Result<Vec<Entry>, String> {
    let file: File = toml::from_str(text).map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        format!("line {line}: {}", error.message().replace('\n', " "))
    })?;
    if file.token.len() > tokens_max {
        return Err(format!("{} tokens; allowed: at most {tokens_max} (tokens_max)", file.token.len()));
    }
    let (mut names, mut hashes) = (BTreeSet::new(), BTreeSet::new());
    for entry in &file.token {
        if !names.insert(&entry.name) {
            return Err(format!("token {:?}: another token has this name", entry.name));
        }
        if !hashes.insert(entry.check()?) {
            return Err(format!("token {:?}: another token has this hash", entry.name));
        }
    }
    Ok(file.token)
}

/// The tenants, by the hash of their token.
#[derive(Debug)]
pub(crate) struct Tokens(BTreeMap<[u8; 32], Arc<Tenant>>);

impl Tokens {
    /// Reads a file, and reads it again when it has changed.
    pub(crate) fn watch(path: PathBuf, limits: &Limits) -> Result<Arc<Watched<Self>>, TokensError> {
        let paths = vec![path.clone()];
        let marks = marks_of(&paths);
        let tokens = Self::load(&path, limits, None)?;
        let limits = limits.clone();
        let again = move |former: Option<&Self>| {
            Self::load(&path, &limits, former).map_err(|error| error.to_string())
        };
        Ok(Watched::new(paths, tokens, marks, Box::new(again)))
    }

    fn load(path: &Path, limits: &Limits, former: Option<&Self>) -> Result<Self, TokensError> {
        let unreadable = |error| TokensError::Io { path: path.to_owned(), error };
        let refuse = |problem| TokensError::Content { path: path.to_owned(), problem };
        let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(refuse(format!("{bytes} bytes; allowed: at most {FILE_BYTES_MAX}")));
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let entries = parse(&text, limits.tokens_max).map_err(refuse)?;
        let former_of = |name: &str| {
            former.and_then(|former| former.0.values().find(|tenant| tenant.name == name)).map(Arc::as_ref)
        };
        let tenant = |entry: &Entry| {
            let hash = entry.check().map_err(refuse)?;
            Ok((hash, Arc::new(Tenant::of(entry, hash, limits, former_of(&entry.name)))))
        };
        Ok(Self(entries.iter().map(tenant).collect::<Result<_, TokensError>>()?))
    }

    /// The present version of a tenant; `None` if its token was taken back.
    pub(crate) fn present(&self, tenant: &Tenant) -> Option<&Arc<Tenant>> {
        self.0.get(&tenant.token?)
    }

    /// The tenant with this token. The map compares hashes, so the time of a search says nothing about a token.
    pub(crate) fn tenant(&self, token: &str) -> Option<Arc<Tenant>> {
        self.0.get(&hash(token)).cloned()
    }
}

fn hash(token: &str) -> [u8; 32] {
    digest(&SHA256, token.as_bytes()).as_ref().try_into().expect("invariant: SHA-256 has 32 bytes")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("invariant: writing to a String cannot fail");
        text
    })
}

fn bytes_of(hex: &str) -> Option<[u8; 32]> {
    let digits: Option<Vec<u8>> =
        hex.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let bytes: Vec<u8> =
        digits?.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
    // An odd number of digits is no number of bytes.
    bytes.try_into().ok().filter(|_| hex.len() == 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, token: &str) -> Entry {
        let rights = [GatewayRight::Call].into();
        Entry { requests_per_s: Some(3), ..Entry::new(name.to_owned(), token, ServiceNames::all(), rights) }
    }

    #[test]
    fn entries_are_read_as_they_are_written() {
        let token = draw().unwrap();
        assert!(token.starts_with(PREFIX) && token.len() == PREFIX.len() + 43, "{token}");
        assert_ne!(token, draw().unwrap());
        let entries = [entry("a \"b\"", &token), entry("other", "x")];
        let text: String = entries.iter().map(Entry::to_toml).collect();
        assert_eq!(parse(&text, 2).unwrap(), entries);
        assert!(!text.contains(&token), "the file has hashes only");
    }

    #[test]
    fn hash_is_the_one_of_the_command_sha256sum() {
        assert_eq!(
            entry("a", "abc").sha256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn unusable_files_are_refused_by_token_and_limit() {
        let sound = entry("a", "abc").to_toml();
        let refused = |text: &str| parse(text, 1).unwrap_err();
        assert!(refused(&format!("{sound}{sound}")).contains("2 tokens; allowed: at most 1 (tokens_max)"));
        let twice = parse(&format!("{sound}{sound}"), 2).unwrap_err();
        assert_eq!(twice, "token \"a\": another token has this name");
        let renamed = sound.replace("\"a\"", "\"b\"");
        assert!(parse(&format!("{sound}{renamed}"), 2).unwrap_err().contains("another token has this hash"));
        assert!(refused(&sound.replace("ba78", "ba7")).contains("sha256 is not 64 hexadecimal digits"));
        assert!(refused(&sound.replace("\"call\"", "")).contains("it has no rights"));
        assert!(refused(&sound.replace("\"*\"", "")).contains("names no services"));
        assert!(refused(&sound.replace("= 3", "= 0")).contains("a limit is 0"));
        assert!(refused(&sound.replace("call", "own")).starts_with("line 5: unknown variant `own`"));
        assert!(refused(&format!("{sound}expires = 1\n")).contains("unknown field `expires`"));
    }
}
