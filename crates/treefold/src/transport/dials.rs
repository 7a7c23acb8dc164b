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

use super::GreetError;
use crate::entropy;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many numbers of ended attempts are remembered.
const ENDED_MAX: usize = 256;

/// The numbers of the connections that this process is making. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dials(Arc<Mutex<Numbers>>);

#[derive(Debug, Default)]
struct Numbers {
    making: BTreeSet<u64>,
    /// The latest numbers of connections that were made or given up, the oldest first.
    ended: VecDeque<u64>,
}

/// A connection that this process is making, until this is dropped.
pub(super) struct Dial {
    dials: Dials,
    pub(super) number: u64,
}

impl Dials {
    pub(super) fn begin(&self) -> Dial {
        // 0 stands for no number.
        let number = entropy::draw().max(1);
        self.lock().making.insert(number);
        Dial { dials: self.clone(), number }
    }

    /// Succeeds if this process is making the connection, or if `number` is 0.
    ///
    /// # Errors
    /// [`GreetError::Io`] if this process has given the connection up, and [`GreetError::NotMine`] if it knows nothing of it.
    pub(super) fn check(&self, number: u64) -> Result<(), GreetError> {
        let numbers = self.lock();
        if number == 0 || numbers.making.contains(&number) {
            return Ok(());
        }
        let is_over = numbers.ended.contains(&number);
        Err(if is_over {
            io::Error::from(io::ErrorKind::ConnectionAborted).into()
        } else {
            GreetError::NotMine
        })
    }

    fn lock(&self) -> MutexGuard<'_, Numbers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Dial {
    fn drop(&mut self) {
        let mut numbers = self.dials.lock();
        numbers.making.remove(&self.number);
        if numbers.ended.len() == ENDED_MAX {
            numbers.ended.pop_front();
        }
        numbers.ended.push_back(self.number);
    }
}
