//! How a connection begins, and how it ends after an error.
//!
//! The first frame of each side is a [`Hello`] with the sender's protocol versions, cluster and name. Both
//! sides compute the version to speak from the two greetings alone: the newest that both know. A second round
//! is not needed. A side that cannot continue sends the reason in a [`Fault`] before it closes the
//! connection.

use crate::wire::columns::{node_alone, put_node};
use crate::wire::error::{WireError, malformed, within};
use crate::wire::header::{FaultHeader, HelloHeader};
use crate::wire::seal::{Side, Token};
use crate::wire::{NAME_BYTES_MAX, TREES_KEPT_MAX, VERSION, VERSION_LEAST};
use std::fmt;
use treefold_certificates::Refusal;
use treefold_core::id::NodeId;

/// A greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The newest version of the protocol that the sender speaks.
    pub version: u32,
    /// The oldest version that the sender speaks.
    pub version_least: u32,
    /// The sender's cluster. Nodes of different clusters do not talk to each other.
    pub cluster: String,
    /// The sender. [`NodeId::is_client`] tells whether it is a client.
    pub node: NodeId,
    /// Proof that the sender knows the cluster's token (see [`Token`]); empty without a token.
    pub seal: Vec<u8>,
    /// True if the sender belongs to a network that a launcher started. To join such a network, a process
    /// attaches to it ([`Launch`](crate::wire::Launch)), because its processes do not gossip.
    pub by_launcher: bool,
    /// The number of the connection, from a node that makes it in a cluster without a token and without certificates; 0 if there
    /// is none.
    pub dial: u64,
    /// The number of a connection that the receiver is asked about: if it does not make that connection now, it answers with a
    /// fault. 0: it is asked about none.
    pub asks: u64,
    /// How many trees of calls the sender keeps for the receiver, which may name them ([`TREES_KEPT_MAX`]); 0 for a build that
    /// keeps none.
    pub trees: u32,
    /// True if the sender knows parameters that only the reduce gets; false for a build that does not.
    pub reduce_params: bool,
}

impl Hello {
    /// A greeting with this version of the protocol.
    pub fn new(cluster: impl Into<String>, node: NodeId) -> Self {
        Self {
            version: VERSION,
            version_least: VERSION_LEAST,
            cluster: cluster.into(),
            node,
            seal: Vec::new(),
            by_launcher: false,
            dial: 0,
            asks: 0,
            trees: TREES_KEPT_MAX as u32,
            reduce_params: true,
        }
    }

    /// Adds the proof that the sender, on the given side of a session, has the token. `session` is the session's secret.
    #[must_use]
    pub fn sealed(mut self, token: Option<&Token>, side: Side, session: &[u8]) -> Self {
        self.seal = token.map_or_else(Vec::new, |token| token.seal(&self, side, session));
        self
    }

    /// Verifies that the sender has the same token and is on the given side of this session. Without a token here, every
    /// greeting is accepted.
    ///
    /// # Errors
    /// If the seal does not verify. The connection must then be closed.
    pub fn check_seal(&self, token: Option<&Token>, from: Side, session: &[u8]) -> Result<(), WireError> {
        let is_proven = token.is_none_or(|token| token.verify(self, from, session));
        if is_proven { Ok(()) } else { Err(WireError::Token) }
    }

    /// Computes the version that both sides speak, given the other side's greeting.
    ///
    /// # Errors
    /// If there is no common version, or the other side belongs to another cluster. The connection must then
    /// be closed.
    pub fn agree(&self, theirs: &Self) -> Result<u32, WireError> {
        let version = self.version.min(theirs.version);
        if version < self.version_least.max(theirs.version_least) {
            return Err(WireError::Version {
                ours: self.version,
                ours_least: self.version_least,
                theirs: theirs.version,
                theirs_least: theirs.version_least,
            });
        }
        if self.cluster != theirs.cluster {
            let (ours, theirs) = (self.cluster.clone(), theirs.cluster.clone());
            return Err(WireError::Cluster { ours, theirs });
        }
        Ok(version)
    }

    pub(super) fn header(&self) -> Result<HelloHeader, WireError> {
        within("cluster", NAME_BYTES_MAX, self.cluster.len())?;
        let mut node = Vec::new();
        put_node(&mut node, self.node);
        let Self { version, version_least, by_launcher, dial, asks, trees, reduce_params, .. } = *self;
        let (cluster, seal) = (self.cluster.clone(), self.seal.clone());
        Ok(HelloHeader {
            version,
            version_least,
            cluster,
            node,
            seal,
            by_launcher,
            dial,
            asks,
            trees,
            reduce_params,
        })
    }

    pub(super) fn of(header: HelloHeader) -> Result<Self, WireError> {
        within("cluster", NAME_BYTES_MAX, header.cluster.len())?;
        if header.version == 0 || header.version < header.version_least {
            return Err(malformed("version"));
        }
        Ok(Self {
            version: header.version,
            version_least: header.version_least,
            cluster: header.cluster,
            node: node_alone(&header.node, "node")?,
            seal: header.seal,
            by_launcher: header.by_launcher,
            dial: header.dial,
            asks: header.asks,
            trees: header.trees,
            reduce_params: header.reduce_params,
        })
    }
}

/// Why the sender closes the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of fault.
    pub code: FaultCode,
    /// The field or limit that it is about; empty if there is none.
    pub field: String,
    /// The limit's value; 0 if there is none.
    pub limit: u64,
}

macro_rules! fault_codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// The reason of a [`Fault`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum FaultCode {
            $($(#[$doc])* $name,)*
            /// A reason that only later versions know.
            Unknown(u32),
        }

        impl FaultCode {
            fn number(self) -> u32 {
                match self { $(Self::$name => $number,)* Self::Unknown(number) => number }
            }

            fn from_number(number: u32) -> Self {
                match number { $($number => Self::$name,)* _ => Self::Unknown(number) }
            }

            fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* Self::Unknown(_) => "a reason unknown here" }
            }
        }
    };
}

fault_codes! {
    /// The two sides have no version in common. The limit is the newest version that the sender speaks.
    Version = 1, "the two sides have no version of the protocol in common";
    /// The sender belongs to another cluster. It does not say which, because the receiver may be a stranger.
    Cluster = 2, "another cluster";
    /// A frame out of turn.
    OutOfTurn = 3, "a frame out of turn";
    /// A frame's length is out of range.
    Framing = 4, "a frame's length is out of range";
    /// Chunks of an unknown stream, or too many streams of chunks.
    Streams = 5, "chunks that cannot be reassembled";
    /// A value is above its limit.
    TooLarge = 6, "a value is above its limit";
    /// A value is malformed.
    Malformed = 7, "a value is malformed";
    /// The sender has reached its limit of connections.
    TooManyPeers = 8, "too many connections";
    /// The sender has another connection to this peer and keeps that one.
    Duplicate = 9, "a second connection between the same two nodes";
    /// The sender is shutting down.
    ShuttingDown = 10, "the sender is shutting down";
    /// The receiver did not prove that it has the cluster's token.
    Token = 11, "the two sides have different cluster tokens";
    /// One side encrypts the connection, and the other does not.
    Encryption = 12, "only one side encrypts connections, with a token or with certificates";
    /// The sender does not accept the receiver's certificate. The field says why.
    Certificate = 13, "the other side's certificate is not accepted";
    /// The sender has checked the receiver's name at its address, and another process answered there, or none.
    Name = 14, "another process has the name of this one, or nobody can connect to its address";
}

impl Fault {
    /// A fault without a field or a limit.
    pub fn new(code: FaultCode) -> Self {
        Self { code, field: String::new(), limit: 0 }
    }

    pub(super) fn header(&self) -> Result<FaultHeader, WireError> {
        within("field", NAME_BYTES_MAX, self.field.len())?;
        Ok(FaultHeader { code: self.code.number(), field: self.field.clone(), limit: self.limit })
    }

    pub(super) fn of(header: FaultHeader) -> Result<Self, WireError> {
        within("field", NAME_BYTES_MAX, header.field.len())?;
        Ok(Self { code: FaultCode::from_number(header.code), field: header.field, limit: header.limit })
    }
}

impl From<&WireError> for Fault {
    fn from(error: &WireError) -> Self {
        let (code, field, limit) = match error {
            WireError::TooLarge { field, limit, .. } => (FaultCode::TooLarge, *field, *limit),
            WireError::Malformed { field } | WireError::Inexpressible { field } => {
                (FaultCode::Malformed, *field, 0)
            }
            WireError::UnknownTree { limit, .. } => (FaultCode::Malformed, "tree", *limit),
            WireError::BadHello { field } => (FaultCode::Malformed, *field, 0),
            WireError::UnknownKind { .. } => (FaultCode::Malformed, "kind", 0),
            WireError::FrameLength { limit, .. } => (FaultCode::Framing, "length", *limit),
            WireError::OutOfTurn { .. } => (FaultCode::OutOfTurn, "kind", 0),
            WireError::BadStream { .. } => (FaultCode::Streams, "stream", 0),
            WireError::TooManyStreams { limit, .. } => (FaultCode::Streams, "streams_open_max", *limit),
            WireError::Unfinished { limit } => (FaultCode::TooLarge, "unfinished_bytes_max", *limit),
            WireError::Unread { limit } => (FaultCode::TooLarge, "clients_outbox_bytes_max", *limit),
            WireError::Version { ours, .. } => (FaultCode::Version, "version", u64::from(*ours)),
            WireError::Token => (FaultCode::Token, "seal", 0),
            WireError::Cluster { .. } => (FaultCode::Cluster, "", 0),
        };
        Self { code, field: field.to_owned(), limit }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (FaultCode::Certificate, Some(why)) = (self.code, Refusal::sentence(&self.field)) {
            return f.write_str(why);
        }
        f.write_str(self.code.text())?;
        match (self.field.as_str(), self.limit) {
            ("", _) => Ok(()),
            (field, 0) => write!(f, ": {field}"),
            (field, limit) => write!(f, ": {field}, limit {limit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(version_least: u32, version: u32) -> Hello {
        let node = NodeId::new("127.0.0.1:7700".parse().unwrap(), 1);
        Hello { version, version_least, ..Hello::new("treefold", node) }
    }

    #[test]
    fn the_newest_common_version_is_chosen() {
        assert_eq!(hello(1, 3).agree(&hello(2, 5)), Ok(3));
        assert_eq!(hello(2, 5).agree(&hello(1, 3)), Ok(3));
    }

    #[test]
    fn without_a_common_version_both_sides_refuse() {
        let (old, new) = (hello(1, 2), hello(3, 4));
        let refused = old.agree(&new).unwrap_err();
        assert!(refused.is_fatal() && new.agree(&old).is_err());
        assert_eq!(
            Fault::from(&refused).to_string(),
            "the two sides have no version of the protocol in common: version, limit 2"
        );
    }

    #[test]
    fn clusters_do_not_mix() {
        let other = Hello { cluster: "staging".into(), ..hello(1, 1) };
        let refused = hello(1, 1).agree(&other).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the peer belongs to the cluster \"staging\", this node to \"treefold\""
        );
        assert_eq!(Fault::from(&refused).to_string(), "another cluster");
    }
}
