//! A node's configuration file: TOML, with the same keys as the flags of `treefold node`.
//!
//! ```toml
//! listen = "10.0.0.7:7700"
//! join = ["10.0.0.1:7700", "10.0.0.2:7700"]
//! rack = "r1"
//! serve = ["search=/srv/docs:partitions=0-3/12"]
//!
//! [shares]                     # of the node, if several services compete; the default is 1
//! search = 3.0
//! nightly = "1:batch"
//!
//! [gateway]                    # the front door for HTTP; its table `limits` takes any of the gateway's limits
//! listen = "127.0.0.1:8080"
//!
//! [limits]                     # any of treefold-core's `Limits`, by name
//! payload_bytes_max = 8388608
//!
//! [tuning]                     # any of its `Tuning`; durations in nanoseconds
//! hop_margin = 1000000
//! ```
//!
//! A flag overrides the file. An unknown key is refused by name, because a node that ignores a misspelt limit
//! is worse than a node that does not start.

use crate::commands::node::gateway::GatewayFile;
use crate::exit::Failure;
use crate::parse::share_and_class;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use treefold::shares::ServiceShare;
use treefold::{Limits, Tuning};
use treefold_core::schedule::fair::{SHARE_MAX, SHARE_MIN};

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
    pub(crate) keys: Option<PathBuf>,
    pub(crate) insecure: bool,
    pub(crate) gateway: GatewayFile,
    pub(crate) limits: Option<Limits>,
    pub(crate) tuning: Option<Tuning>,
}

/// A share, as a number or as a text with its class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ShareText(pub(crate) ServiceShare);

impl<'de> Deserialize<'de> for ShareText {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
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
        let (share, class) = share_and_class(&text).ok_or_else(|| {
            let allowed = format!("{SHARE_MIN} to {SHARE_MAX}, or a text as \"1:batch\"");
            serde::de::Error::custom(format_args!("the share is {text}; allowed: {allowed}"))
        })?;
        Ok(Self(ServiceShare { share, class: class.unwrap_or_default() }))
    }
}

impl NodeFile {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let refuse = |problem: String| Failure::usage(format!("{}: {problem}", path.display()));
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::failed(format!("can't read {}: {error}", path.display())))?;
        Self::parse(&text).map_err(refuse)
    }

    /// Parses the file's text.
    ///
    /// An error is one line with key and line number.
    fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            format!("line {line}: {}", error.message().replace('\n', " "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_has_the_same_keys_as_the_flags() {
        let file = NodeFile::parse(
            "listen = '127.0.0.1:7700'\njoin = ['a:1', 'b:2']\nserve = ['micro:partitions=0/1']\n\
             [limits]\npayload_bytes_max = 1024\n",
        )
        .unwrap();
        assert_eq!(file.listen.as_deref(), Some("127.0.0.1:7700"));
        assert_eq!(file.join, ["a:1", "b:2"]);
        let limits = file.limits.unwrap();
        assert_eq!(limits.payload_bytes_max, 1024);
        assert_eq!(limits.peers_max, Limits::DEFAULT.peers_max, "unnamed limits keep their defaults");
    }

    #[test]
    fn shares_are_numbers_or_texts_with_a_class() {
        let file = NodeFile::parse("[shares]\nsearch = 3\nmicro = 0.5\nnightly = '1:batch'\n").unwrap();
        let shares: Vec<_> = file.shares.values().map(|share| share.0).collect();
        assert_eq!(shares, [0.5.into(), ServiceShare::batch(1.0), 3.0.into()]);
        for wrong in ["search = 0", "search = 'much'", "search = '1:slow'"] {
            let refused = NodeFile::parse(&format!("[shares]\n{wrong}\n")).unwrap_err();
            assert!(refused.contains("allowed: 0.001 to 1000"), "{refused}");
        }
    }

    #[test]
    fn an_unknown_key_is_refused_by_name_and_line() {
        let refused = NodeFile::parse("rack = 'r1'\nlisten_addr = 'x'\n").unwrap_err();
        assert!(refused.starts_with("line 2: unknown field `listen_addr`"), "{refused}");
        let refused = NodeFile::parse("[limits]\npayload_bytes = 1\n").unwrap_err();
        assert!(refused.contains("unknown field `payload_bytes`"), "{refused}");
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_refused_with_its_line() {
        let refused = NodeFile::parse("\nprocessors = 'many'\n").unwrap_err();
        assert!(refused.starts_with("line 2: invalid type"), "{refused}");
    }
}
