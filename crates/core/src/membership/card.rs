//! A member's card: what every other member knows of it.
//!
//! A card is written by its owner alone and replaced as a whole, so two copies are compared by version only and
//! never merged. What a card may hold is bounded here: an index is built from cards that came over the network,
//! and a range of four billion partitions is a few bytes on the wire.

use crate::id::NodeId;
use crate::partitions::PartitionSet;
use alloc::collections::BTreeMap;
use alloc::string::String;
use core::fmt;

/// Bytes in the name of a rack, a zone or a service.
pub const NAME_BYTES_MAX: usize = 128;
/// Services on one card.
pub const SERVICES_MAX: usize = 1_024;
/// Partitions of one service, and partitions on one card over all its services.
pub const PARTITIONS_MAX: u32 = 1 << 20;

/// What a node tells the cluster of itself. Its version rises with every change; the higher version wins.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MemberCard {
    /// Whose card it is.
    pub node: NodeId,
    /// Rises with every change of the card.
    pub version: u64,
    /// The rack it stands in; empty when nobody said.
    pub rack: String,
    /// The zone it stands in; empty when nobody said.
    pub zone: String,
    /// What it does.
    pub roles: Roles,
    /// How many jobs it runs at a time.
    pub processors: u32,
    /// Service → the partitions of it that live here.
    pub services: BTreeMap<String, ServiceCard>,
}

/// One service on one node.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ServiceCard {
    /// The partitions of the service that live here.
    pub partitions: PartitionSet,
    /// How many partitions the service has in all; where that is not declared, the most that this node has heard of.
    pub total: u32,
    /// True when this node's configuration declares the total; false when it is a guess.
    #[cfg_attr(feature = "serde", serde(default))]
    pub declared: bool,
}

impl ServiceCard {
    /// One more than the highest partition that lives here; 0 without partitions.
    pub fn end(&self) -> u32 {
        self.partitions.runs().last().map_or(0, |&(_, end)| end)
    }
}

/// What a node does, as a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Roles {
    /// Holds partitions and runs locals.
    pub provider: bool,
    /// Folds what passes; holds nothing.
    pub relay: bool,
}

/// A card that no member would take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardError {
    /// A field is larger than its limit.
    TooLarge {
        /// Which field.
        field: &'static str,
        /// The most it may be.
        limit: u64,
    },
    /// A partition of a service lies at or beyond the service's total.
    PartitionBeyondTotal,
    /// The node's address cannot be dialled from elsewhere: port 0, or an IPv6 scope or flow label.
    Unreachable,
}

impl MemberCard {
    /// The card of a node that holds nothing yet.
    pub fn new(node: NodeId) -> Self {
        Self {
            node,
            version: 1,
            rack: String::new(),
            zone: String::new(),
            roles: Roles::default(),
            processors: 1,
            services: BTreeMap::new(),
        }
    }

    /// Checks every limit that a card from the network is held to.
    ///
    /// # Errors
    /// The first field that breaks its limit.
    pub fn check(&self) -> Result<(), CardError> {
        check_reachable(&self.node)?;
        check_name("card.rack", &self.rack)?;
        check_name("card.zone", &self.zone)?;
        if self.services.len() > SERVICES_MAX {
            return Err(CardError::TooLarge { field: "card.services", limit: SERVICES_MAX as u64 });
        }
        let mut held = 0;
        for (name, service) in &self.services {
            check_name("service.name", name)?;
            if service.total > PARTITIONS_MAX {
                return Err(CardError::TooLarge { field: "service.total", limit: PARTITIONS_MAX.into() });
            }
            if service.end() > service.total {
                return Err(CardError::PartitionBeyondTotal);
            }
            held += service.partitions.len();
        }
        if held > PARTITIONS_MAX as usize {
            return Err(CardError::TooLarge { field: "card.partitions", limit: PARTITIONS_MAX.into() });
        }
        Ok(())
    }
}

fn check_name(field: &'static str, name: &str) -> Result<(), CardError> {
    if name.len() > NAME_BYTES_MAX {
        return Err(CardError::TooLarge { field, limit: NAME_BYTES_MAX as u64 });
    }
    Ok(())
}

/// A scope or a flow label means something on one host only, so a name that bears one has no one encoding.
fn check_reachable(node: &NodeId) -> Result<(), CardError> {
    let local_only = match node.addr {
        core::net::SocketAddr::V4(_) => false,
        core::net::SocketAddr::V6(addr) => addr.scope_id() != 0 || addr.flowinfo() != 0,
    };
    if local_only || node.is_client() { Err(CardError::Unreachable) } else { Ok(()) }
}

impl fmt::Display for CardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { field, limit } => write!(f, "{field} is larger than {limit}"),
            Self::PartitionBeyondTotal => f.write_str("a partition lies beyond the service's total"),
            Self::Unreachable => f.write_str("the node's address cannot be reached from elsewhere"),
        }
    }
}

impl core::error::Error for CardError {}
