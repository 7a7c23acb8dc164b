//! Who says the same: equivalence classes of endpoints (MRNet §3.1, §4.2, Paradyn's start-up).
//!
//! Thousands of daemons on like machines report like things. Instead of a thousand copies the front-end gets each
//! value once, with who sent it; or, when values are large, their checksums, and asks one representative of each class
//! for the whole.
//!
//! ```text
//!  endpoints send    any packet, of any encoding; equal bytes are one class
//!  what goes up      blobs u64s u64s blobs blob
//!                    each class's key, its representative (least member), how many members, the members;
//!                    then the members of all classes that are not listed
//! ```
//!
//! A key is what was sent, or its SHA-256. Classes ascend by key. Members are endpoints' numbers as runs
//! (`members`).
//!
//! Of more than `classes_max` classes, those with the least keys stay, and the members of all others are listed
//! together as `others`: nobody is lost, and since a key that is among the least of all is among the least of
//! every subtree, the same classes stay in every tree. (An error instead would lose the wave at the node that is
//! over the limit, which is not the same node in every tree.) The bytes of all keys have a limit too,
//! `key_bytes_max`, and that one is an error: whoever meets it wants checksums.

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
    summary: "each different packet once, with the endpoints that sent it",
    params: &[
        Param {
            name: "by",
            meaning: "what a class is known by: \"value\", the packet itself, or \"checksum\", its SHA-256; value by default",
        },
        Param {
            name: "classes_max",
            meaning: "classes listed, beyond which endpoints are listed as others: 1 to 65536; 1024 by default",
        },
        Param {
            name: "key_bytes_max",
            meaning: "bytes of all keys, beyond which the wave fails: 32 to 67108864; 16777216 by default",
        },
    ],
    made: Made::Fold(|name| stateless(name, Classifier::open)),
};

/// The most classes that can be asked for.
pub const CLASSES_MAX: u32 = 1 << 16;
/// The most that `key_bytes_max` can be.
pub const KEY_BYTES_MAX: u64 = 64 << 20;
/// Bytes of a checksum.
const CHECKSUM_BYTES: usize = 32;

/// What a class is known by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// What its members sent.
    #[default]
    Value,
    /// The SHA-256 of what its members sent.
    Checksum,
}

/// The parameters of `classes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Classify {
    /// What a class is known by.
    pub by: By,
    /// How many classes are listed; the members of more are listed together.
    pub classes_max: u32,
    /// Bytes of all keys, beyond which the wave fails.
    pub key_bytes_max: u64,
}

impl Default for Classify {
    fn default() -> Self {
        Self { by: By::Value, classes_max: 1024, key_bytes_max: 16 << 20 }
    }
}

/// The endpoints of a stream by what they sent.
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
    /// What its members sent, or the SHA-256 of it.
    pub key: &'a Bytes,
    /// The member to ask for more: the one with the least number.
    pub representative: u32,
    /// All members.
    pub members: &'a PartitionSet,
}

impl Classes {
    /// The classes that a packet of this filter holds.
    ///
    /// # Errors
    /// The reason in words, when it holds none.
    pub fn of(packet: &Packet) -> std::result::Result<Self, Unclassified> {
        let columns = (packet.u64s(1)?.iter(), packet.u64s(2)?.iter(), packet.blobs(3)?);
        let (mut representatives, mut sizes, mut members) = columns;
        let (mut classes, mut before) = (BTreeMap::new(), None);
        for key in packet.blobs(0)? {
            if before.replace(key).is_some_and(|before| before >= key) {
                return Err(Unclassified::Impossible("the keys don't ascend"));
            }
            let members = members.next().ok_or(Unclassified::Impossible("a class lacks its members"))?;
            let members =
                members::read(members).ok_or(Unclassified::Impossible("members are no ascending runs"))?;
            if representatives.next() != members.least().map(u64::from)
                || sizes.next() != Some(members.len() as u64)
            {
                return Err(Unclassified::Impossible("a class and its members contradict each other"));
            }
            classes.insert(packet.share(key), members);
        }
        if (representatives.len(), sizes.len(), members.len()) != (0, 0, 0) {
            return Err(Unclassified::Impossible("there are more columns than classes"));
        }
        let others =
            members::read(packet.blob(4)?).ok_or(Unclassified::Impossible("others are no ascending runs"))?;
        Ok(Self { classes, others })
    }

    /// The classes by ascending key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Class<'_>> {
        self.classes.iter().map(|(key, members)| {
            let representative = members.least().expect("invariant: no class is empty");
            Class { key, representative, members }
        })
    }

    /// The members of all classes that were too many to be listed.
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

/// Why a packet holds no classes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unclassified {
    /// It has other fields.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// It has the fields, and something in them that no filter writes.
    #[error("no classes: {0}")]
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

    /// What a piece says: an endpoint is a class of one.
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
            return Err(FilterError::Impossible { from, why: "endpoints are numbered below 4294967295" });
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
            return Err(FilterError::Impossible { from, why: "a checksum has not 32 bytes" });
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
