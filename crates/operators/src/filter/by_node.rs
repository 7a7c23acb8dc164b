//! Another filter at some nodes: MRNet's filters by rank.
//!
//! A stream whose filter is called `by-node` has, at each node, the filter that its parameters name for that node.
//! Nodes are named by their addresses, as in `treefold status`, and the front-end by its part:
//!
//! ```text
//!  others:     sum                      front-end   average
//!  front_end:  average                  ├── 10.0.0.1:7700   sum
//!  nodes:                               ├── 10.0.0.2:7700   concatenate, up to 1000 bytes
//!    10.0.0.2:7700: concatenate         │   └── 10.0.0.4:7700   sum
//!                                       └── 10.0.0.3:7700   sum
//! ```
//!
//! Each filter gets what the filters below it send, so it is for the user to choose filters that understand each other.
//! A node that has not been named has the filter of `others`, also if it joins later.

use super::{Filter, FilterError, FilterKind};
use crate::builtin::{Builtin, Made, Param, named};
use crate::error::{OperatorError, Result};
use crate::fold::params;
use bytes::Bytes;
use serde::de::{Deserializer, Error as _, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

pub(crate) const ENTRY: Builtin = Builtin {
    name: NAME,
    summary: "has another filter at some nodes or at the front-end",
    params: &[
        Param {
            name: "others",
            meaning: "the filter at nodes that are not named, {filter, params}; identity by default",
        },
        Param {
            name: "front_end",
            meaning: "the filter at the front-end, {filter, params}; that of its node by default",
        },
        Param {
            name: "nodes",
            meaning: "the filters of nodes by address, {\"10.0.0.2:7700\": {filter, params}, …}",
        },
    ],
    made: Made::Filter(|name| named(name, Unchosen)),
};

/// The name under which a stream asks for it.
pub const NAME: &str = "by-node";

/// Most nodes that have a filter of their own.
pub const NODES_MAX: usize = 16_384;

/// The filters of a stream, by node: the parameters of `by-node`.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ByNode {
    /// The filter at all nodes that have none of their own; by default, packets go on unchanged.
    pub others: Chosen,
    /// The filter at the front-end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub front_end: Option<Chosen>,
    /// The filters of single nodes, by address.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, Chosen>,
}

/// A filter, with its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chosen {
    /// The filter's name.
    pub filter: String,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "Params::is_empty")]
    pub params: Params,
}

impl Default for Chosen {
    fn default() -> Self {
        Self { filter: "identity".into(), params: Params::default() }
    }
}

impl Chosen {
    /// Chooses a filter without parameters.
    pub fn new(filter: impl Into<String>) -> Self {
        Self { filter: filter.into(), params: Params::default() }
    }

    /// Sets its parameters, as the filter reads them.
    #[must_use]
    pub fn params(self, params: Bytes) -> Self {
        Self { params: Params(params), ..self }
    }
}

/// Parameters as a filter reads them. In a text, they are any value; a byte string is taken as it is.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Params(pub Bytes);

impl Params {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Params {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Params {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            Octets(Octets),
            Value(serde_json::Value),
        }
        match Given::deserialize(deserializer)? {
            Given::Octets(Octets(octets)) => Ok(Self(octets)),
            Given::Value(serde_json::Value::Null) => Ok(Self::default()),
            Given::Value(value) => match rmp_serde::to_vec_named(&value) {
                Ok(octets) => Ok(Self(octets.into())),
                Err(error) => Err(D::Error::custom(error)),
            },
        }
    }
}

/// A byte string, and nothing else.
struct Octets(Bytes);

impl<'de> Deserialize<'de> for Octets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OctetsVisitor;
        impl Visitor<'_> for OctetsVisitor {
            type Value = Octets;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a byte string")
            }

            fn visit_bytes<E>(self, octets: &[u8]) -> Result<Octets, E> {
                Ok(Octets(Bytes::copy_from_slice(octets)))
            }
        }
        deserializer.deserialize_bytes(OctetsVisitor)
    }
}

/// The filter itself, which no node opens: it opens the chosen one.
struct Unchosen;

impl FilterKind for Unchosen {
    fn open(&self, params: &Bytes) -> Result<Box<dyn Filter>> {
        ByNode::read(params)?;
        Err(OperatorError::new("only a node of a stream can choose a filter"))
    }
}

impl ByNode {
    /// Reads the parameters of `by-node`.
    ///
    /// # Errors
    /// If they can't be read, a node is not an address, or a chosen filter is `by-node` itself.
    pub fn read(given: &Bytes) -> Result<Self, FilterError> {
        let read: Self = params::read(given)?;
        if read.nodes.len() > NODES_MAX {
            let why = format!("{} nodes; allowed: at most {NODES_MAX}", read.nodes.len());
            return Err(FilterError::parameter("nodes", why));
        }
        for (field, chosen) in read.all() {
            if chosen.filter == NAME {
                return Err(FilterError::parameter(field, "by-node can't choose itself"));
            }
        }
        match read.nodes.keys().find(|node| node.parse::<SocketAddr>().is_err()) {
            Some(node) => {
                let why = format!(
                    "{node:?} is no address of a node; allowed: HOST:PORT in numbers, as in 10.0.0.2:7700"
                );
                Err(FilterError::parameter("nodes", why))
            }
            None => Ok(read),
        }
    }

    /// Returns the filter of a node.
    pub fn at(&self, node: SocketAddr, is_front_end: bool) -> &Chosen {
        let own = || self.nodes.iter().find(|(name, _)| name.parse() == Ok(node)).map(|(_, chosen)| chosen);
        self.front_end.as_ref().filter(|_| is_front_end).or_else(own).unwrap_or(&self.others)
    }

    /// Returns all filters that are chosen somewhere, with the places of the parameters that name them.
    pub fn all(&self) -> impl Iterator<Item = (String, &Chosen)> {
        let front_end = self.front_end.iter().map(|chosen| ("front_end.filter".to_owned(), chosen));
        let nodes = self.nodes.iter().map(|(node, chosen)| (format!("nodes.{node}.filter"), chosen));
        [("others.filter".to_owned(), &self.others)].into_iter().chain(front_end).chain(nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Body;
    use serde_json::json;

    fn of_json(json: &serde_json::Value) -> Result<ByNode, String> {
        ByNode::read(&json.encode().unwrap()).map_err(|error| error.to_string())
    }

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_node_has_its_own_filter_or_that_of_the_others() {
        let chosen = of_json(&json!({
            "others": {"filter": "sum"},
            "front_end": {"filter": "average"},
            "nodes": {"10.0.0.2:7700": {"filter": "top-k", "params": {"k": 3}}},
        }))
        .unwrap();
        assert_eq!(chosen.at(addr("10.0.0.1:7700"), false).filter, "sum");
        assert_eq!(chosen.at(addr("10.0.0.2:7700"), true).filter, "average");
        let own = chosen.at(addr("10.0.0.2:7700"), false);
        assert_eq!((own.filter.as_str(), own.params.0.clone()), ("top-k", json!({"k": 3}).encode().unwrap()));
        let read_again = ByNode::read(&chosen.encode().unwrap()).unwrap();
        assert_eq!(read_again, chosen, "parameters travel as byte strings");
    }

    #[test]
    fn packets_go_on_unchanged_where_no_filter_is_named() {
        let chosen = of_json(&json!({"front_end": {"filter": "sum"}})).unwrap();
        assert_eq!(chosen.at(addr("[::1]:80"), false), &Chosen::new("identity"));
        assert_eq!(ByNode::read(&Bytes::new()).unwrap(), ByNode::default());
    }

    #[test]
    fn senseless_parameters_are_refused_by_name() {
        for (senseless, why) in [
            (json!({"nodes": {"hosta:7700": {"filter": "sum"}}}), "nodes`: \"hosta:7700\" is no address"),
            (json!({"others": {"filter": "by-node"}}), "others.filter`: by-node can't choose itself"),
            (json!({"front_end": {"filter": "by-node"}}), "front_end.filter`"),
            (json!({"others": {"params": 1}}), "missing field `filter`"),
            (json!({"frontend": {"filter": "sum"}}), "unknown field `frontend`"),
        ] {
            let refused = of_json(&senseless).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
