//! Attacks with certificates, in a cluster with an authority of its own.
//!
//! There are none yet, because clusters have no certificates yet. These belong here, each with the typed error that both sides
//! must report:
//!
//! - a client's certificate used to join the cluster as a node;
//! - a certificate of another authority;
//! - an expired certificate, and one that is not valid yet;
//! - a certificate without the right that its holder uses, for each right;
//! - a node's certificate used to greet under another node's name;
//! - a client without a certificate.
//!
//! Give [`Cluster`](crate::cluster::Cluster) a directory of keys beside its token for them, and [`tls`](crate::tls) a
//! configuration with a certificate.

use super::Attack;

pub(super) const ATTACKS: &[Attack] = &[];
