//! The systems that are measured, and the words by which their parts find each other.

use crate::Problem;
use clap::Args;
use std::fmt;
use std::str::FromStr;

/// A system: a product in one mode, with or without rules where events enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct System {
    pub(crate) base: Base,
    pub(crate) has_rules: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// Readers over streams.
    Treefold,
    /// The same; joiners share their program's client.
    TreefoldShared,
    /// Joiners over HTTP, lines of JSON.
    TreefoldHttp,
    Nats,
    Jetstream,
    /// With `sync_interval: always`.
    JetstreamAlways,
    Redis,
    /// Joiners use `HSCAN` instead of `HGETALL`.
    RedisScan,
}

const NAMES: [(Base, &str); 8] = [
    (Base::Treefold, "treefold"),
    (Base::TreefoldShared, "treefold-shared"),
    (Base::TreefoldHttp, "treefold-http"),
    (Base::Nats, "nats"),
    (Base::Jetstream, "jetstream"),
    (Base::JetstreamAlways, "jetstream-always"),
    (Base::Redis, "redis"),
    (Base::RedisScan, "redis-scan"),
];

impl System {
    pub(crate) fn is_treefold(self) -> bool {
        matches!(self.base, Base::Treefold | Base::TreefoldShared | Base::TreefoldHttp)
    }

    /// True if a reader that joins can get a consistent snapshot.
    pub(crate) fn has_snapshots(self) -> bool {
        self.base != Base::Nats
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(base, _)| *base == self.base).map_or("", |(_, name)| name);
        f.pad(&format!("{name}{}", if self.has_rules { "+rules" } else { "" }))
    }
}

impl FromStr for System {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, has_rules) = match text.strip_suffix("+rules") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let known = NAMES.iter().find(|(_, known)| *known == name);
        let names: Vec<&str> = NAMES.iter().map(|(_, name)| *name).collect();
        let unknown = || format!("expected {}, each also with +rules; found {text:?}", names.join(", "));
        known.map(|&(base, _)| Self { base, has_rules }).ok_or_else(unknown)
    }
}

/// The system of a part, and where it finds it.
#[derive(Clone, Debug, Args)]
pub(crate) struct SystemArgs {
    #[arg(long)]
    pub(crate) system: System,
    /// The port of a server, or the address of a node of the mirrors
    #[arg(long)]
    pub(crate) at: String,
    /// The address of a mirror's listener for HTTP
    #[arg(long)]
    pub(crate) http: Option<String>,
    /// Number of mirrors
    #[arg(long, default_value_t = 1)]
    pub(crate) mirrors: u32,
    /// Events between two checkpoints
    #[arg(long)]
    pub(crate) every_events: Option<u64>,
}

impl SystemArgs {
    pub(crate) fn port(&self) -> Result<u16, Problem> {
        Ok(self.at.parse()?)
    }

    pub(crate) fn words(&self) -> Vec<String> {
        let mut words: Vec<String> =
            ["--system", &self.system.to_string(), "--at", &self.at, "--mirrors"].map(str::to_owned).to_vec();
        words.push(self.mirrors.to_string());
        if let Some(http) = &self.http {
            words.extend(["--http".to_owned(), http.clone()]);
        }
        if let Some(every) = self.every_events {
            words.extend(["--every-events".to_owned(), every.to_string()]);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_read_as_they_are_written() {
        for (base, _) in NAMES {
            for has_rules in [false, true] {
                let system = System { base, has_rules };
                assert_eq!(system.to_string().parse(), Ok(system));
            }
        }
        assert!("kafka".parse::<System>().is_err());
    }
}
