//! Certificates of a cluster: who a process is, and what it may do.
//!
//! A cluster has an *authority*, a key pair that signs certificates. A certificate contains a [`Grant`]: the cluster, the
//! process's name, its rights, the services that the rights are for, and the addresses that a node may have. The grant is
//! one URI in the certificate's subject alternative names, so every tool that shows certificates shows it:
//!
//! ```text
//! treefold://prod/node/n1?may=join&services=*&at=10.0.0.7:7700
//! ```
//!
//! A process has one file with everything it needs ([`KeyFile`]): its certificate, its private key, and the authorities that
//! it trusts. During a rotation there are two of these.
//!
//! This crate does not do any network input or output. [`verify`] decides whether a chain of certificates is valid.

#[cfg(feature = "authority")]
mod authority;
mod certificate;
mod grant;
mod key_file;
mod place;
mod verify;

#[cfg(feature = "authority")]
pub use authority::{Authority, AuthorityError};
pub use certificate::Certificate;
pub use grant::{Grant, GrantError, Role, Services};
pub use key_file::{KeyFile, KeyFileError, PRIVATE_FILE_MODE};
pub use place::{Place, PlaceError};
pub use verify::{Anchors, Refusal, Usage, verify, verify_signature};
