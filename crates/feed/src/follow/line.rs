//! Updates as lines of JSON, in the form in which HTTP readers get them.

use super::Update;
use crate::serving::{Because, Beginning, Form, Reached};
use serde::Serialize;
use treefold_mirror::event::Name;
use treefold_mirror::message::Begins;

/// Another mirror.
#[derive(Serialize)]
struct Moved<'a> {
    mirror: u32,
    because: &'a str,
}

/// Appends an update of a reader of `feed` as a line of JSON, with its end: an object with one member, which names the
/// update.
pub fn write_line(update: &Update, feed: &Name, out: &mut Vec<u8>) {
    let form = Form::Lines(feed.clone());
    match update {
        Update::Moved { mirror, because } => {
            form.say("moved", None, &Moved { mirror: *mirror, because }, out);
        }
        Update::Begins(Begins { cut, rules_version, because, .. }) => {
            let (at, because) = (format!("{feed}={cut}"), because.map(Because::from));
            form.say("begins", None, &Beginning { at, rules_version: *rules_version, because }, out);
        }
        Update::Row(row) => form.say("row", None, row, out),
        Update::Complete(time) => form.say("complete", None, &Reached { at: time.to_string() }, out),
        Update::Event { at, sent_ms, event } => form.say_event(*at, *sent_ms, event, out),
        Update::At { time, .. } => form.say("reached", None, &Reached { at: time.to_string() }, out),
        Update::Lagging(because) => form.say("lagging", None, &Because::from(*because), out),
    }
}
