//! Messages in and out of links.
//!
//! What core sends is encoded at once into the peer's outbox; the bytes leave when the flush task runs, once per
//! turn of the loop and peer. Where the system takes no more, a writer task waits for that one peer, and only
//! that peer's outbox grows, up to `outbox_bytes_max`; who is slower than that counts as lost.

use super::Loop;
use super::launching::LaunchNews;
use super::link::{Link, Route};
use super::operators::Asker;
use crate::transport::{say_farewell, write_some};
use crate::wire::{Fault, Inbox, Incoming, Outbox, WireError};
use bytes::Bytes;
use std::rc::Rc;
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;
use treefold_core::id::NodeId;
use treefold_core::input::Input;
use treefold_core::message::Message;

impl Loop {
    pub(super) fn send(self: &Rc<Self>, to: NodeId, message: Message<Bytes>) {
        if to == self.identity.node {
            return self.send_home(message);
        }
        let mut peers = self.peers.borrow_mut();
        let pushed = match peers.routes.get_mut(&to) {
            Some(Route::Up(links)) => {
                let link = &links[0];
                let pushed = push(&mut link.outbox.borrow_mut(), &message);
                self.mark_dirty(link);
                pushed
            }
            Some(Route::Dialing(outbox)) => push(outbox, &message),
            None => {
                drop(peers);
                return self.dial_peer(to, &message);
            }
        };
        drop(peers);
        self.account(to, pushed);
    }

    /// Sees to what came of adding a message to a peer's outbox, which holds so many bytes now.
    pub(super) fn account(self: &Rc<Self>, peer: NodeId, pushed: Result<usize, WireError>) {
        match pushed {
            Ok(waiting) if waiting > self.identity.limits.outbox_bytes_max => {
                self.complaints.about(peer, "takes messages too slowly (outbox_bytes_max)");
                self.lose(peer);
            }
            Ok(_) => {}
            Err(error) => self.complaints.about(peer, format_args!("a message for it was not sent: {error}")),
        }
    }

    /// Has a link written to at the end of this turn.
    pub(super) fn mark_dirty(&self, link: &Rc<Link>) {
        if link.blocked.get() || link.dirty.replace(true) {
            return;
        }
        let mut dirty = self.dirty.borrow_mut();
        dirty.push(Rc::clone(link));
        if dirty.len() == 1 {
            self.flush_wanted.notify_one();
        }
    }

    /// The flush task.
    pub(super) async fn flush(self: Rc<Self>) {
        let mut batch = Vec::new();
        loop {
            self.flush_wanted.notified().await;
            std::mem::swap(&mut batch, &mut *self.dirty.borrow_mut());
            for link in batch.drain(..) {
                link.dirty.set(false);
                self.write(&link);
            }
        }
    }

    fn write(self: &Rc<Self>, link: &Rc<Link>) {
        if !link.open.get() {
            return;
        }
        // A statement of its own, so that the outbox is free again before anyone is told of a loss.
        let written = write_some(&link.write, &mut link.outbox.borrow_mut());
        match written {
            Ok(true) => {}
            Ok(false) => {
                link.blocked.set(true);
                let task = tokio::task::spawn_local(Rc::clone(self).write_when_possible(Rc::clone(link)));
                link.own_task(task.abort_handle());
            }
            Err(_) => self.lose(link.peer),
        }
    }

    async fn write_when_possible(self: Rc<Self>, link: Rc<Link>) {
        loop {
            let ready = link.write.writable().await;
            let written = ready.and_then(|()| write_some(&link.write, &mut link.outbox.borrow_mut()));
            match written {
                Ok(true) => return link.blocked.set(false),
                Ok(false) => {}
                Err(_) => return self.lose(link.peer),
            }
        }
    }

    /// A link's reader: everything that has come is decoded and fed to core, then the next read.
    pub(super) async fn read(self: Rc<Self>, link: Rc<Link>, mut read: OwnedReadHalf, mut inbox: Inbox) {
        loop {
            if let Err(error) = self.take_frames(&link, &mut inbox) {
                self.complaints.about(link.peer, &error);
                let identity = self.identity.clone();
                // The link's own outbox may end within a frame; a fault after that would not be understood.
                let understood = !link.blocked.get();
                self.lose(link.peer);
                if understood {
                    tokio::task::spawn_local(async move {
                        say_farewell(read, &link.write, &Fault::from(&error), &identity).await;
                    });
                }
                return;
            }
            if !link.open.get() {
                return;
            }
            match read.read_buf(&mut inbox.read_buffer()).await {
                Ok(0) | Err(_) => return self.lose(link.peer),
                Ok(_) => {}
            }
        }
    }

    /// Feeds core with all whole frames of an inbox.
    ///
    /// # Errors
    /// When nothing that follows can be trusted.
    fn take_frames(self: &Rc<Self>, link: &Link, inbox: &mut Inbox) -> Result<(), WireError> {
        let from = link.peer;
        while link.open.get() {
            match inbox.next() {
                Ok(Some(Incoming::Message(Message::OperatorRequest { id, payload }))) => {
                    self.serve_operators(Asker::Peer(from, id), payload);
                }
                Ok(Some(Incoming::Message(message))) => self.feed(Input::Message { from, message }),
                Ok(Some(Incoming::Launch(word))) => self.hear(LaunchNews::Said { from, word }),
                Ok(Some(Incoming::Fault(fault))) => {
                    self.complaints.about(from, format_args!("it says: {fault}"));
                    self.lose(from);
                }
                Ok(Some(Incoming::Hello(_))) => self.complaints.about(from, "a second greeting"),
                Ok(None) => return Ok(()),
                Err(error) if error.is_fatal() => return Err(error),
                // A later version's: neither is it wrong, nor does anybody wait.
                Err(error @ WireError::UnknownKind { .. }) => self.complaints.about(from, error),
                Err(error) => {
                    let answer = inbox.take_answer().map(Box::new);
                    self.feed(Input::Refused { from, problem: error.to_string().into(), answer });
                }
            }
        }
        Ok(())
    }
}

/// Adds a message to an outbox, and says how many bytes it holds then.
pub(super) fn push(outbox: &mut Outbox, message: &Message<Bytes>) -> Result<usize, WireError> {
    outbox.push(message)?;
    Ok(outbox.len_bytes())
}
