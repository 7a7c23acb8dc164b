//! A member's card: the description of a member that every other member has.
//!
//! Only its owner writes a card, and it is replaced as a whole. So two copies are compared by version and
//! never merged. The content of a card is bounded here: an index is built from cards that came over the
//! network, and a range of four billion partitions is only a few bytes on the wire.

use crate::id::NodeId;
use crate::partitions::PartitionSet;
use crate::placement::{PLACED_PARTITIONS_MAX, REPLICAS_MAX};
use alloc::collections::BTreeMap;
use alloc::string::String;
use core::fmt;

/// Largest number of bytes in the name of a rack, a zone or a service.
pub const NAME_BYTES_MAX: usize = 128;
/// Largest number of services on one card.
pub const SERVICES_MAX: usize = 1_024;
/// Largest number of partitions of one service, and of partitions on one card over all its services.
pub const PARTITIONS_MAX: u32 = 1 << 20;

/// A node's description of itself. Its version rises with every change; the higher version wins.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MemberCard {
    /// The node that the card describes.
    pub node: NodeId,
    /// Rises with every change of the card.
    pub version: u64,
    /// The rack of the node; empty if unknown.
    pub rack: String,
    /// The zone of the node; empty if unknown.
    pub zone: String,
    /// A name that the node keeps when it restarts, also at another address; empty if it has none. Placement knows the
    /// node by it.
    #[cfg_attr(feature = "serde", serde(default))]
    pub name: String,
    /// The roles of the node.
    pub roles: Roles,
    /// The node above it in a network that was started from a topology. `None` for the front-end of a network, and for
    /// a member of a cluster.
    #[cfg_attr(feature = "serde", serde(default))]
    pub parent: Option<NodeId>,
    /// Number of jobs that it runs at a time.
    pub processors: u32,
    /// Service → its partitions on this node.
    pub services: BTreeMap<String, ServiceCard>,
}

/// One service on one node.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ServiceCard {
    /// The partitions of the service on this node.
    pub partitions: PartitionSet,
    /// Number of partitions of the service. If it is not declared, the highest number that this node knows.
    pub total: u32,
    /// True if this node's configuration declares the total; false if it is a guess.
    #[cfg_attr(feature = "serde", serde(default))]
    pub declared: bool,
    /// The node's part in the automatic placement of the service; `None` if the node was given its partitions by hand.
    #[cfg_attr(feature = "serde", serde(default))]
    pub placed: Option<Placed>,
}

/// A node's part in the automatic placement of a service ([`placement`](crate::placement)).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Placed {
    /// Copies of each partition that the cluster shall hold.
    pub replicas: u32,
    /// Partitions that the node holds before any other.
    pub pinned: PartitionSet,
    /// Partitions that the node does not hold.
    pub refused: PartitionSet,
}

impl ServiceCard {
    /// One more than the highest partition on this node; 0 without partitions.
    pub fn end(&self) -> u32 {
        self.partitions.runs().last().map_or(0, |&(_, end)| end)
    }
}

/// The roles of a node, as a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Roles {
    /// Holds partitions and runs locals.
    pub provider: bool,
    /// Folds the partials that pass; holds no partitions.
    pub relay: bool,
    /// Hands its automatically placed partitions over to other nodes.
    #[cfg_attr(feature = "serde", serde(default))]
    pub draining: bool,
}

/// A card that no member would accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardError {
    /// A field is larger than its limit.
    TooLarge {
        /// The field.
        field: &'static str,
        /// The largest value allowed.
        limit: u64,
    },
    /// A partition of a service lies at or beyond the service's total.
    PartitionBeyondTotal,
    /// The node's address cannot be dialled from elsewhere: port 0, or an IPv6 scope or flow label.
    Unreachable,
}

impl MemberCard {
    /// The card of a node that has no services yet.
    pub fn new(node: NodeId) -> Self {
        Self {
            node,
            version: 1,
            rack: String::new(),
            zone: String::new(),
            name: String::new(),
            roles: Roles::default(),
            parent: None,
            processors: 1,
            services: BTreeMap::new(),
        }
    }

    /// Checks every limit for cards from the network.
    ///
    /// # Errors
    /// The first field that breaks its limit.
    pub fn check(&self) -> Result<(), CardError> {
        check_reachable(&self.node)?;
        self.parent.as_ref().map_or(Ok(()), check_reachable)?;
        check_name("card.rack", &self.rack)?;
        check_name("card.zone", &self.zone)?;
        check_name("card.name", &self.name)?;
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
            service.placed.as_ref().map_or(Ok(()), |placed| placed.check(service.total))?;
            held += service.partitions.len();
        }
        if held > PARTITIONS_MAX as usize {
            return Err(CardError::TooLarge { field: "card.partitions", limit: PARTITIONS_MAX.into() });
        }
        Ok(())
    }
}

impl Placed {
    fn check(&self, total: u32) -> Result<(), CardError> {
        if total > PLACED_PARTITIONS_MAX {
            let limit = PLACED_PARTITIONS_MAX.into();
            return Err(CardError::TooLarge { field: "placed.total", limit });
        }
        if self.replicas > REPLICAS_MAX {
            return Err(CardError::TooLarge { field: "placed.replicas", limit: REPLICAS_MAX.into() });
        }
        let all = PartitionSet::first(total);
        let is_within = self.pinned.is_subset(&all) && self.refused.is_subset(&all);
        if is_within { Ok(()) } else { Err(CardError::PartitionBeyondTotal) }
    }
}

fn check_name(field: &'static str, name: &str) -> Result<(), CardError> {
    if name.len() > NAME_BYTES_MAX {
        return Err(CardError::TooLarge { field, limit: NAME_BYTES_MAX as u64 });
    }
    Ok(())
}

/// A scope or a flow label has a meaning on one host only, so a name with one has no single encoding.
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
            Self::PartitionBeyondTotal => f.write_str("a partition is at or beyond the service's total"),
            Self::Unreachable => f.write_str("the node's address cannot be reached from elsewhere"),
        }
    }
}

impl core::error::Error for CardError {}
