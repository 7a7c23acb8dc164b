//! A user's own function over events (mirroring §3.2.1, `set_mirror`).

use crate::event::{Event, Name};
use serde::{Deserialize, Serialize};

/// Applies a function, by its name, to the events of a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionUse {
    /// The name under which the origin knows the function.
    pub name: Name,
    /// The events' type.
    #[serde(rename = "type")]
    pub kind: Name,
}

/// A function over events, with a state of its own. An origin calls it for one event at a time.
pub trait Function: Send {
    /// Pushes the events that are mirrored in place of `event`: none, the event itself, or others.
    ///
    /// Events that it makes get the stream, the number and the key of `event`.
    ///
    /// # Errors
    /// A text for people. The event is then mirrored as it is.
    fn apply(&mut self, event: &Event, out: &mut Vec<Event>) -> Result<(), String>;
}

impl<F> Function for F
where
    F: FnMut(&Event, &mut Vec<Event>) -> Result<(), String> + Send,
{
    fn apply(&mut self, event: &Event, out: &mut Vec<Event>) -> Result<(), String> {
        self(event, out)
    }
}
