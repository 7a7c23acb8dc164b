//! The connections that a process is making now.
//!
//! In a cluster without a token and without certificates, a greeting proves nothing, and any process could greet under the name
//! of a node that lives. So a node gives each connection that it makes a random number, and the listening side asks for it:
//!
//! ```text
//!   node A ── Hello: A, dial 17 ──────────────────────────► node B
//!   node A ◄── Hello of a client: asks 17 ──── at A's address ── B
//!   node A ── Hello, as it makes the connection 17; else Fault ► B
//! ```
//!
//! A process that takes the name of A is found out, because A knows nothing of its number.

use crate::entropy;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The numbers of the connections that this process is making. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dials(Arc<Mutex<BTreeSet<u64>>>);

/// A connection that this process is making, until this is dropped.
pub(super) struct Dial {
    dials: Dials,
    pub(super) number: u64,
}

impl Dials {
    pub(super) fn begin(&self) -> Dial {
        // 0 stands for no number.
        let number = entropy::draw().max(1);
        self.lock().insert(number);
        Dial { dials: self.clone(), number }
    }

    /// True if this process is making the connection.
    pub(super) fn has(&self, number: u64) -> bool {
        self.lock().contains(&number)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Dial {
    fn drop(&mut self) {
        self.dials.lock().remove(&self.number);
    }
}
