//! The names of an index's files, for programs that keep indexes elsewhere than in a directory of this machine.
//!
//! A program that copies an index copies its generation first and the manifest last, and one that reads an index reads the
//! manifest first. A directory with the manifest and one partition's folder is enough for [`Shard::open`](crate::Shard::open).

use crate::manifest::{GENERATION, MANIFEST, Manifest, partition_name};

/// The files that a manifest names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published(Manifest);

impl Published {
    /// The manifest's name below an index's directory.
    pub const MANIFEST: &str = MANIFEST;
    /// The beginning of the names of all generations below an index's directory.
    pub const GENERATION: &str = GENERATION;

    /// Reads a manifest. `None` if it is not one of this version's indexes.
    pub fn read(manifest: &[u8]) -> Option<Self> {
        let read = Manifest::parse(manifest).ok()?;
        // It becomes the name of a folder.
        let is_name = read.generation().bytes().all(|byte| byte.is_ascii_hexdigit());
        is_name.then_some(Self(read))
    }

    /// Number of the index's partitions.
    pub fn partitions(&self) -> u32 {
        self.0.partitions
    }

    /// The folder of the index's generation.
    pub fn generation(&self) -> String {
        format!("{GENERATION}{}", self.0.generation())
    }

    /// The folder of a partition, as in `generation-0123/0007`.
    pub fn partition(&self, partition: u32) -> String {
        format!("{}/{}", self.generation(), partition_name(partition))
    }
}
