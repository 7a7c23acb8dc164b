//! The forms in which readers get messages: packets of a stream, lines of JSON, and server-sent events.
//!
//! ```text
//! {"begins":{"at":"flights=1.500","rules_version":1}}      id:
//!                                                          event: begins
//!                                                          data: {"at":"flights=1.500","rules_version":1}
//!
//! {"event":{"epoch":1,"position":501,"sent_ms":…,…}}       id: flights=1.501
//!                                                          event: event
//!                                                          data: {"epoch":1,"position":501,"sent_ms":…,…}
//! ```
//!
//! A server-sent event has an id where a reader can resume. `begins` has an empty one: a browser that loses the
//! connection within a snapshot would else resume from a place whose state it has dropped.

use super::place::Served;
use super::shelf::{Channel, Shelf};
use bytes::Bytes;
use serde::Serialize;
use std::io::Write;
use std::ops::DerefMut;
use std::sync::Arc;
use treefold_http::messages::Framing;
use treefold_mirror::event::{Name, write_json};
use treefold_mirror::keyed::{KeyValue, rows};
use treefold_mirror::message::{Begins, Message, Place, Selected};
use treefold_mirror::mirror::ResumeError;
use treefold_mirror::opened::{Opened, selected_rows};
use treefold_mirror::packet::PacketError;
use treefold_mirror::{Cut, Event};

/// A form of messages.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    /// Packets of a stream.
    Packets,
    /// Lines of JSON, for this feed.
    Lines(Name),
    /// Server-sent events, for this feed.
    Sent(Name),
}

/// Writes the messages of one reader.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    pub(super) form: Form,
    pub(super) channel: Arc<Channel>,
    pub(super) deletes: Vec<Name>,
}

/// A written message.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Its tag and its bytes.
    pub(super) message: Option<(u64, Bytes)>,
    /// For a packet without an event for this reader: the place behind it.
    pub(super) passed: Option<Place>,
}

impl Writer {
    /// True if the message of a piece needs no work: it is the mirror's bytes as they are, or it is on the shelf.
    pub(super) fn has_written(&self, piece: &Bytes, shelf: &Shelf) -> bool {
        let takes_as_it_is = matches!(self.form, Form::Packets) && self.channel.filter.is_whole();
        takes_as_it_is || shelf.find(&self.channel, self.form.number(), piece).is_some()
    }

    /// Writes a message. `shelf` locks the shelf.
    pub(super) fn write<L: DerefMut<Target = Shelf>>(
        &self,
        served: Served,
        shelf: impl Fn() -> L,
    ) -> Result<Written, PacketError> {
        let message = match (&self.form, served) {
            (Form::Packets, served) => return self.packet(served, shelf),
            (_, Served::Events(packet, after)) => return self.events(&packet, after, shelf),
            (_, Served::Piece(piece, of)) => self.shared_piece(&piece, of, shelf, |out| {
                rows(&piece).try_for_each(|row| {
                    let row = row?;
                    if self.channel.filter.takes_key(&row.key) {
                        self.form.say("row", None, &row, out);
                    }
                    Ok(())
                })
            })?,
            (form, served) => {
                let mut out = Vec::new();
                form.say_all(served, &mut out);
                out.into()
            }
        };
        Ok(Written { message: Some((0, message)).filter(|(_, bytes)| !bytes.is_empty()), passed: None })
    }

    /// Writes a message for a stream.
    fn packet<L: DerefMut<Target = Shelf>>(
        &self,
        served: Served,
        shelf: impl Fn() -> L,
    ) -> Result<Written, PacketError> {
        let filter = &self.channel.filter;
        let message = match served {
            Served::Events(packet, after) if !filter.is_whole() => return self.events(&packet, after, shelf),
            Served::Events(packet, _) => Message::Events(packet),
            Served::Piece(piece, of) if !filter.is_whole() => {
                let selected = self.shared_piece(&piece, of, shelf, |out| {
                    out.extend_from_slice(&selected_rows(&piece, filter)?);
                    Ok(())
                })?;
                if selected.is_empty() {
                    return Ok(Written::default());
                }
                Message::Piece(selected)
            }
            Served::Piece(piece, _) => Message::Piece(piece),
            Served::Rows(rows) => {
                let mut piece = Vec::new();
                rows.iter().for_each(|row| row.write(&mut piece));
                Message::Piece(piece.into())
            }
            Served::Resumes(cut) => Message::Resumes(cut),
            Served::Begins(begins, _) => Message::Begins(begins),
            Served::Complete(place) => Message::Complete(place),
            Served::At(place) => Message::At(place),
            Served::Alive => Message::Alive,
            Served::Lagging(because) => Message::Lagging(because),
        };
        Ok(Written { message: Some(message.write()), passed: None })
    }

    /// Writes the selected events of a packet after a place.
    fn events<L: DerefMut<Target = Shelf>>(
        &self,
        packet: &Bytes,
        after: Cut,
        shelf: impl Fn() -> L,
    ) -> Result<Written, PacketError> {
        let opened = shelf().open(packet)?;
        let write = |out: &mut Vec<u8>| {
            let selected = opened.selected(&self.channel.filter, &self.deletes, after.position);
            self.form.say_events(&opened, selected, out);
            Ok(())
        };
        // A packet that a reader has in part is written for it alone.
        let bytes = if after.position < opened.head.first.position {
            self.shared(packet, shelf, write)?
        } else {
            let mut out = Vec::new();
            write(&mut out)?;
            out.into()
        };
        if bytes.is_empty() {
            let cut = Cut { position: opened.last(), ..opened.head.first };
            let place = Place { cut, streams: opened.head.streams.clone(), sent_ms: opened.head.sent_ms };
            return Ok(Written { message: None, passed: Some(place) });
        }
        let message = match self.form {
            Form::Packets => Message::Selected(bytes).write(),
            Form::Lines(_) | Form::Sent(_) => (0, bytes),
        };
        Ok(Written { message: Some(message), passed: None })
    }

    /// The message written from a packet: the one on the shelf, or a new one, which is put there.
    fn shared<L: DerefMut<Target = Shelf>>(
        &self,
        from: &Bytes,
        shelf: impl Fn() -> L,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), PacketError>,
    ) -> Result<Bytes, PacketError> {
        if let Some(known) = shelf().find(&self.channel, self.form.number(), from) {
            return Ok(known);
        }
        let bytes = written(write)?;
        shelf().keep(&self.channel, self.form.number(), from, &bytes);
        Ok(bytes)
    }

    /// As [`shared`](Self::shared), for a piece of the snapshot at a place. An empty message is not put on the shelf: it
    /// would displace messages that save more work.
    fn shared_piece<L: DerefMut<Target = Shelf>>(
        &self,
        piece: &Bytes,
        of: Cut,
        shelf: impl Fn() -> L,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), PacketError>,
    ) -> Result<Bytes, PacketError> {
        if let Some(known) = shelf().find(&self.channel, self.form.number(), piece) {
            return Ok(known);
        }
        let bytes = written(write)?;
        if !bytes.is_empty() {
            shelf().keep_piece(&self.channel, self.form.number(), (piece, of), &bytes);
        }
        Ok(bytes)
    }
}

fn written(write: impl FnOnce(&mut Vec<u8>) -> Result<(), PacketError>) -> Result<Bytes, PacketError> {
    let mut out = Vec::new();
    write(&mut out)?;
    out.shrink_to_fit();
    Ok(out.into())
}

/// A place that the reader has reached.
#[derive(Serialize)]
pub(crate) struct Reached {
    pub(crate) at: String,
}

/// The beginning of a snapshot.
#[derive(Serialize)]
pub(crate) struct Beginning {
    pub(crate) at: String,
    pub(crate) rules_version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) because: Option<Because>,
}

/// The reason why a reader gets a snapshot.
#[derive(Serialize)]
pub(crate) struct Because {
    name: &'static str,
    message: String,
}

impl Because {
    /// The reader's place is none in this feed.
    fn unknown(problem: &str) -> Self {
        Self { name: "unknown_place", message: format!("{problem}; take a snapshot") }
    }
}

impl From<ResumeError> for Because {
    fn from(error: ResumeError) -> Self {
        Self { name: error.name(), message: error.to_string() }
    }
}

impl Form {
    fn number(&self) -> u8 {
        match self {
            Self::Packets => 0,
            Self::Lines(_) => 1,
            Self::Sent(_) => 2,
        }
    }

    fn cut(&self, cut: Cut) -> String {
        match self {
            Self::Packets => String::new(),
            Self::Lines(feed) | Self::Sent(feed) => format!("{feed}={cut}"),
        }
    }

    fn time(&self, place: &Place) -> String {
        match self {
            Self::Packets => String::new(),
            Self::Lines(feed) | Self::Sent(feed) => place.vector_time(feed.clone()).to_string(),
        }
    }

    /// Appends a message with a name and an id.
    pub(crate) fn say(&self, name: &str, id: Option<&str>, content: &impl Serialize, out: &mut Vec<u8>) {
        self.open(name, id, out);
        let written = serde_json::to_writer(&mut *out, content);
        written.expect("invariant: names, keys and values can be written to a vector");
        self.close(out);
    }

    fn open(&self, name: &str, id: Option<&str>, out: &mut Vec<u8>) {
        self.framing().open(name, id, out);
    }

    fn close(&self, out: &mut Vec<u8>) {
        self.framing().close(out);
    }

    fn framing(&self) -> Framing {
        if matches!(self, Self::Sent(_)) { Framing::Sent } else { Framing::Lines }
    }

    /// Appends the messages that are written for one reader.
    fn say_all(&self, served: Served, out: &mut Vec<u8>) {
        match served {
            Served::Resumes(cut) => {
                let at = self.cut(cut);
                self.say("resumes", Some(&at), &Reached { at: at.clone() }, out);
            }
            Served::Begins(Begins { cut, rules_version, because, .. }, unknown) => {
                let because = unknown.as_deref().map(Because::unknown).or(because.map(Because::from));
                self.say("begins", Some(""), &Beginning { at: self.cut(cut), rules_version, because }, out);
            }
            Served::Rows(rows) => rows.iter().for_each(|row: &KeyValue| self.say("row", None, row, out)),
            Served::Complete(place) => {
                let at = self.time(&place);
                self.say("complete", Some(&at), &Reached { at: at.clone() }, out);
            }
            Served::At(place) => {
                let at = self.time(&place);
                self.say("reached", Some(&at), &Reached { at: at.clone() }, out);
            }
            Served::Alive => out.extend_from_slice(self.framing().alive()),
            Served::Lagging(because) => self.say("lagging", None, &Because::from(because), out),
            Served::Piece(..) | Served::Events(..) => {
                unreachable!("invariant: pieces and packets are written for all readers of a channel")
            }
        }
    }

    /// Appends events of a packet.
    fn say_events<'a>(
        &self,
        opened: &Opened,
        events: impl Iterator<Item = (u64, &'a Event)>,
        out: &mut Vec<u8>,
    ) {
        if matches!(self, Self::Packets) {
            let mut events = events.peekable();
            if events.peek().is_some() {
                Selected::write(&opened.head, opened.last(), events, out);
            }
            return;
        }
        for (position, event) in events {
            self.say_event(Cut { position, ..opened.head.first }, opened.head.sent_ms, event, out);
        }
    }

    /// Appends an event.
    pub(crate) fn say_event(&self, at: Cut, sent_ms: u64, event: &Event, out: &mut Vec<u8>) {
        self.open("event", Some(&self.cut(at)), out);
        let Cut { epoch, position } = at;
        write!(out, "{{\"epoch\":{epoch},\"position\":{position},\"sent_ms\":{sent_ms}")
            .expect("invariant: a vector takes all bytes");
        let members = out.len();
        write_json(event, out);
        // The event's own brace gives way to the members before it.
        out[members] = b',';
        self.close(out);
    }
}
