//! Complex sequence: after an event A of a key, events of type B of that key are dropped, until an event C
//! (mirroring §3.2.1, `set_complex_seq`). Example: after a flight has landed, its positions are dropped.

use super::Condition;
use crate::event::Name;
use serde::{Deserialize, Serialize};

/// Drops a type after an event, until another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sequence {
    /// A: begins the dropping. The event itself passes.
    pub after: Condition,
    /// B: the type of the events that are dropped.
    pub discard: Name,
    /// C: ends the dropping, and passes if it is of another type than B or begins nothing. Without it, the
    /// dropping never ends for that key.
    pub until: Option<Condition>,
}
