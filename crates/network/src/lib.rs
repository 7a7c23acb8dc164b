//! Stream networks: the processes that a tool's streams run over, and the programs that attach to them.
//!
//! Members of a cluster find each other by gossip. The processes of a network do not: a topology file says which
//! processes there are and which is whose parent, a front-end starts them, and streams run over exactly this tree.
//! MRNet's networks work so (§2.1, §2.5, §2.6).
//!
//! # A map of the code
//!
//! - [`topology`] reads, checks, generates, writes and draws topologies.
//! - [`launch`] starts a topology's processes level by level and watches them ([`Network`]).
//! - [`attach`](mod@attach) makes a program, for instance a tool's daemon, an endpoint of a network's or a cluster's
//!   streams.
//!
//! Nodes, streams and the wire are crate `treefold`'s.

pub mod attach;
pub mod launch;
pub mod topology;

pub use attach::{AttachError, Attached, Attachment, Guest, attach};
pub use launch::{Network, NetworkEvent, UpError, UpOptions};

/// The programs in the pages of the documentation, as tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/attach.md")]
    struct Attach;
    #[doc = include_str!("../../../docs/filters.md")]
    struct Filters;
    #[doc = include_str!("../../../docs/guide.md")]
    struct Guide;
    #[doc = include_str!("../../../docs/placement.md")]
    struct Placement;
    #[doc = include_str!("../../../docs/push.md")]
    struct Push;
    #[doc = include_str!("../../../docs/streams.md")]
    struct Streams;
    #[doc = include_str!("../../../docs/topology.md")]
    struct Topology;
}
