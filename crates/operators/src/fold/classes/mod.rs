//! Equivalence classes: groups the endpoints that send equal packets (MRNet §3.1, §4.2, Paradyn's start-up).
//!
//! Thousands of daemons on similar machines report similar data. Instead of a thousand copies, the front-end
//! gets each value once, with the endpoints that sent it. If values are large, it gets their checksums, and
//! asks one representative of each class for the whole value.
//!
//! ```text
//!  endpoints send    any packet, of any encoding; equal bytes are one class
//!  nodes send up     blobs u64s u64s blobs blob
//!                    each class's key, its representative (least member), its size, its members;
//!                    then the members of all classes that are not listed
//! ```
//!
//! A key is the packet's bytes or their SHA-256. Classes ascend by key. Members are the endpoints' numbers,
//! encoded as runs (`members`).
//!
//! If there are more than `classes_max` classes, those with the least keys stay, and the members of all
//! others are listed together as `others`. So no endpoint is lost. A key among the least of all is also among
//! the least of every subtree, so every tree keeps the same classes. (An error instead would lose the wave at
//! the node that exceeds the limit, and that node differs from tree to tree.) The bytes of all keys are
//! limited too, by `key_bytes_max`. Exceeding it is an error; use checksums in that case.

mod members;

use super::{FilterError, Fold, Piece, Source, params};
use crate::builtin::{Builtin, Made, Param, stateless};
use crate::error::Result;
use crate::packet::{Packet, PacketError, Row};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use treefold_core::partitions::PartitionSet;

pub(crate) const ENTRY: Builtin = Builtin {
    name: "classes",
    summary: "lists each different packet once, with the endpoints that sent it",
    params: &[
        Param {
            name: "by",
            meaning: "key of a class: \"value\", the packet itself, or \"checksum\", its SHA-256; value by default",
        },
        Param {
            name: "classes_max",
            meaning: "most classes listed; further endpoints are listed as others: 1 to 65536; 1024 by default",
        },
        Param {
            name: "key_bytes_max",
            meaning: "most bytes of all keys, else the wave fails: 32 to 67108864; 16777216 by default",
        },
    ],
    made: Made::Fold(|name| stateless(name, Classifier::open)),
};

/// Largest allowed `classes_max`.
pub const CLASSES_MAX: u32 = 1 << 16;
/// Largest allowed `key_bytes_max`.
pub const KEY_BYTES_MAX: u64 = 64 << 20;
/// Bytes of a checksum.
const CHECKSUM_BYTES: usize = 32;

/// The key of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The packet that its members sent.
    #[default]
    Value,
    /// The SHA-256 of the packet that its members sent.
    Checksum,
}

/// The parameters of `classes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Classify {
    /// The key of a class.
    pub by: By,
    /// Most classes that are listed; the members of further classes are listed together.
    pub classes_max: u32,
    /// Most bytes of all keys; beyond it, the wave fails.
    pub key_bytes_max: u64,
}

impl Default for Classify {
    fn default() -> Self {
        Self { by: By::Value, classes_max: 1024, key_bytes_max: 16 << 20 }
    }
}

/// The endpoints of a stream, grouped by the packets they sent.
///
/// Invariant: no class is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    classes: BTreeMap<Bytes, PartitionSet>,
    others: PartitionSet,
}

/// One class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class<'a> {
    /// The packet that its members sent, or its SHA-256.
    pub key: &'a Bytes,
    /// The member to ask for more: the one with the least number.
    pub representative: u32,
    /// All members.
    pub members: &'a PartitionSet,
}

impl Classes {
    /// Reads the classes from a packet of this filter.
    ///
    /// # Errors
    /// If the packet contains no valid classes; the error gives the reason.
    pub fn of(packet: &Packet) -> std::result::Result<Self, Unclassified> {
        let columns = (packet.u64s(1)?.iter(), packet.u64s(2)?.iter(), packet.blobs(3)?);
        let (mut representatives, mut sizes, mut members) = columns;
        let (mut classes, mut before) = (BTreeMap::new(), None);
        for key in packet.blobs(0)? {
            if before.replace(key).is_some_and(|before| before >= key) {
                return Err(Unclassified::Impossible("the keys don't ascend"));
            }
            let members = members.next().ok_or(Unclassified::Impossible("a class lacks its members"))?;
            let members = members::read(members)
                .ok_or(Unclassified::Impossible("the members are not ascending runs"))?;
            if representatives.next() != members.least().map(u64::from)
                || sizes.next() != Some(members.len() as u64)
            {
                return Err(Unclassified::Impossible("a class and its members contradict each other"));
            }
            classes.insert(packet.share(key), members);
        }
        if (representatives.len(), sizes.len(), members.len()) != (0, 0, 0) {
            return Err(Unclassified::Impossible("a column is longer than the list of keys"));
        }
        let others = members::read(packet.blob(4)?)
            .ok_or(Unclassified::Impossible("the others are not ascending runs"))?;
        Ok(Self { classes, others })
    }

    /// Iterates over the classes by ascending key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Class<'_>> {
        self.classes.iter().map(|(key, members)| {
            let representative = members.least().expect("invariant: no class is empty");
            Class { key, representative, members }
        })
    }

    /// Returns the members of all classes beyond `classes_max`.
    pub fn others(&self) -> &PartitionSet {
        &self.others
    }

    fn packet(&self) -> Packet {
        let keys: Vec<&Bytes> = self.classes.keys().collect();
        let representatives: Vec<u64> = self.iter().map(|class| u64::from(class.representative)).collect();
        let sizes: Vec<u64> = self.classes.values().map(|members| members.len() as u64).collect();
        let members: Vec<Vec<u8>> = self.classes.values().map(members::written).collect();
        Row::new()
            .blobs(&keys)
            .u64s(&representatives)
            .u64s(&sizes)
            .blobs(&members)
            .blob(&members::written(&self.others))
            .packet()
    }
}

/// The reason why a packet contains no valid classes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unclassified {
    /// The packet has other fields.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// The packet has the right fields, but a content that no filter writes.
    #[error("the packet contains no valid classes: {0}")]
    Impossible(&'static str),
}

struct Classifier {
    by: By,
    classes_max: usize,
    key_bytes_max: u64,
}

impl Classifier {
    fn open(params: &Bytes) -> Result<Self> {
        let Classify { by, classes_max, key_bytes_max } = params::read(params)?;
        Ok(Self {
            by,
            classes_max: params::within("classes_max", classes_max, 1..=CLASSES_MAX)? as usize,
            key_bytes_max: params::within(
                "key_bytes_max",
                key_bytes_max,
                CHECKSUM_BYTES as u64..=KEY_BYTES_MAX,
            )?,
        })
    }

    /// Reads a piece as classes: an endpoint forms a class of one member.
    fn classes_of(&self, piece: &Piece) -> Result<Classes, FilterError> {
        let from = piece.source;
        let endpoint = match from {
            Source::Endpoint(endpoint) => endpoint,
            Source::Child(_) => {
                let packet = Packet::read(&piece.payload).map_err(FilterError::packet(from))?;
                return self.classes_of_child(from, &packet);
            }
        };
        if endpoint == u32::MAX {
            return Err(FilterError::Impossible { from, why: "endpoint numbers must be below 4294967295" });
        }
        let key = match self.by {
            By::Value => piece.payload.clone(),
            By::Checksum => Bytes::copy_from_slice(&Sha256::digest(&piece.payload)),
        };
        let members = PartitionSet::from_range(endpoint..endpoint + 1);
        Ok(Classes { classes: BTreeMap::from([(key, members)]), others: PartitionSet::new() })
    }

    fn classes_of_child(&self, from: Source, packet: &Packet) -> Result<Classes, FilterError> {
        let classes = Classes::of(packet).map_err(|error| match error {
            Unclassified::Packet(cause) => FilterError::Packet { from, cause },
            Unclassified::Impossible(why) => FilterError::Impossible { from, why },
        })?;
        let sums = self.by == By::Checksum;
        if sums && classes.classes.keys().any(|key| key.len() != CHECKSUM_BYTES) {
            return Err(FilterError::Impossible { from, why: "a checksum does not have 32 bytes" });
        }
        Ok(classes)
    }
}

impl Fold for Classifier {
    fn fold(&self, pieces: &[Piece]) -> Result<Bytes> {
        let mut all = Classes::default();
        let mut key_bytes = 0;
        for piece in pieces {
            let Classes { classes, others } = self.classes_of(piece)?;
            all.others.union_with(&others);
            for (key, members) in classes {
                let bytes = key.len() as u64;
                let mut is_new = false;
                all.classes
                    .entry(key)
                    .or_insert_with(|| {
                        is_new = true;
                        PartitionSet::new()
                    })
                    .union_with(&members);
                key_bytes += if is_new { bytes } else { 0 };
                if all.classes.len() > self.classes_max
                    && let Some((key, members)) = all.classes.pop_last()
                {
                    key_bytes -= key.len() as u64;
                    all.others.union_with(&members);
                }
                if key_bytes > self.key_bytes_max {
                    let (bytes, bytes_max) = (key_bytes, self.key_bytes_max);
                    return Err(FilterError::TooManyBytes { limit: "key_bytes_max", bytes, bytes_max }.into());
                }
            }
        }
        Ok(all.packet().into_bytes())
    }
}

#[cfg(test)]
mod tests;
