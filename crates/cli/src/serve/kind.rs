//! Kinds of services, and the one table of them.
//!
//! A [`Kind`] reads an argument of `--serve`; an [`Offer`] is what it has read, and opens the service. A further kind is a
//! file with these two, and a row of [`KINDS`].

use super::folders::Folder;
#[cfg(feature = "mirrors")]
use super::mirror;
use super::words::Words;
use super::{Opened, echo, micro, search};
#[cfg(feature = "full")]
use super::{daemon, exec, hosts, sql, vectors};
use bytes::Bytes;
use std::fmt::Debug;
use std::sync::Arc;
use treefold::{CallError, Operator, PartitionSet, Service};

/// Every kind that this build has.
pub(super) static KINDS: &[&dyn Kind] = &[
    &search::Kind,
    &micro::Kind,
    &echo::Kind,
    #[cfg(feature = "mirrors")]
    &mirror::Kind,
    #[cfg(feature = "full")]
    &hosts::Kind,
    #[cfg(feature = "full")]
    &vectors::Vectors,
    #[cfg(feature = "full")]
    &vectors::Faces,
    #[cfg(feature = "full")]
    &exec::Kind,
    #[cfg(feature = "full")]
    &sql::Kind,
    #[cfg(feature = "full")]
    &daemon::Kind,
];

/// A kind of services that `--serve` can name.
pub(super) trait Kind: Sync {
    /// The word with which an argument begins.
    fn name(&self) -> &'static str;

    /// The key before the numbers of partitions.
    fn numbered_by(&self) -> &'static str {
        "partitions"
    }

    /// Further keys that may follow a colon.
    fn keys(&self) -> &'static [&'static str] {
        &[]
    }

    /// True if values may hold other kinds' keys, because they are command lines.
    fn has_free_text(&self) -> bool {
        false
    }

    /// An argument, for errors.
    fn form(&self) -> &'static str;

    /// Reads an argument.
    fn parse(&self, words: &Words<'_>) -> Result<Arc<dyn Offer>, CallError>;

    /// The service's operators, by which a node folds for others.
    fn operators(&self) -> Vec<(&'static str, Arc<dyn Operator>)> {
        Vec::new()
    }

    /// The service without partitions and operators, if it has filters, by which a node folds for others.
    fn filtering(&self) -> Option<Service> {
        None
    }

    /// Refuses parameters that the service's endpoints could not read.
    fn check_endpoint_params(&self, _: &Bytes) -> Result<(), String> {
        Ok(())
    }
}

/// A service that an argument of `--serve` has named.
pub(super) trait Offer: Debug + Send + Sync {
    /// The service's name.
    fn name(&self) -> &str;

    /// True if opening it may take long.
    fn may_block(&self) -> bool {
        false
    }

    /// True if any node can open any partition of it.
    fn is_shared(&self) -> bool {
        false
    }

    /// Number of emulated processors that the service asks for.
    fn emulated_processors(&self) -> Option<u32> {
        None
    }

    /// The folders and files that it reads and writes.
    fn folders(&self, _total: u32) -> Vec<Folder> {
        Vec::new()
    }

    /// Makes the service with these partitions.
    ///
    /// May block: a folder may have to be indexed first, with a progress bar if standard error is a terminal.
    fn open(&self, partitions: &PartitionSet, total: u32) -> Result<Opened, String>;

    /// Makes the service without partitions, and with a loader for them; `None` if they are opened one by one with
    /// [`open`](Self::open).
    fn open_placed(&self, _total: u32, _replicas: u32) -> Result<Option<Service>, String> {
        Ok(None)
    }
}

/// The kind with which an argument begins.
pub(super) fn kind_of(text: &str) -> Option<&'static dyn Kind> {
    let name = &text[..text.find([':', '=']).unwrap_or(text.len())];
    kind(name)
}

/// The kind of this name.
pub(super) fn kind(name: &str) -> Option<&'static dyn Kind> {
    KINDS.iter().copied().find(|kind| kind.name() == name)
}
