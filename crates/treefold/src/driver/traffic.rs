//! Messages into and out of links.
//!
//! A message that core sends is immediately encoded into the peer's outbox. The flush task writes the bytes,
//! once per peer in each turn of the loop. If a peer's socket accepts no more bytes, a writer task waits for
//! that peer, and only that peer's outbox grows, up to `outbox_bytes_max`. A peer that exceeds this limit
//! counts as lost.

use super::Loop;
use super::launching::LaunchNews;
use super::link::{Link, Route};
use super::operators::Asker;
use crate::channel::ReadEnd;
use crate::transport::say_farewell;
use crate::wire::{Fault, Inbox, Incoming, Outbox, WireError};
use bytes::Bytes;
use std::rc::Rc;
use treefold_core::id::NodeId;
use treefold_core::input::Input;
use treefold_core::message::Message;
use treefold_core::stream::message::StreamMessage;

impl Loop {
    pub(super) fn send(self: &Rc<Self>, to: NodeId, message: Message<Bytes>) {
        if to == self.identity.node {
            return self.send_home(message);
        }
        let mut peers = self.peers.borrow_mut();
        let pushed = match peers.routes.get_mut(&to) {
            Some(Route::Up(links)) => {
                let link = &links[0];
                let pushed = self.push(&mut link.outbox.borrow_mut(), &message);
                self.mark_dirty(link);
                let link = to.is_client().then(|| Rc::clone(link));
                drop(peers);
                if let (Some(link), Ok(waiting)) = (link, &pushed) {
                    self.note_waiting(&link, *waiting);
                }
                return self.account(to, pushed);
            }
            Some(Route::Dialing(outbox)) => self.push(outbox, &message),
            None => {
                drop(peers);
                return self.dial_peer(to, &message);
            }
        };
        drop(peers);
        self.account(to, pushed);
    }

    /// Adds a message to an outbox and returns the number of bytes that wait there. All peers share the frame of a
    /// run.
    pub(super) fn push(&self, outbox: &mut Outbox, message: &Message<Bytes>) -> Result<usize, WireError> {
        if let Message::Stream(message) = message
            && let StreamMessage::Run(run) = &**message
        {
            let frame = self.run_frames.borrow_mut().frame(run, &self.identity.limits)?;
            outbox.push_run(run.stream, &frame);
        } else {
            outbox.push(message)?;
        }
        Ok(outbox.len_bytes())
    }

    /// Handles the result of adding a message to a peer's outbox: the bytes that wait there, or an error.
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

    /// Marks a link to be written at the end of this turn.
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
            self.run_frames.borrow_mut().forget();
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
        // A separate statement, so that the outbox is no longer borrowed when a loss is reported.
        let written = link.write.write_some(&mut link.outbox.borrow_mut());
        match written {
            Ok(true) => {}
            Ok(false) => {
                link.blocked.set(true);
                let task = tokio::task::spawn_local(Rc::clone(self).write_when_possible(Rc::clone(link)));
                link.own_task(task.abort_handle());
            }
            Err(_) => return self.lose(link.peer),
        }
        self.note_waiting(link, link.outbox.borrow().len_bytes());
    }

    async fn write_when_possible(self: Rc<Self>, link: Rc<Link>) {
        loop {
            let ready = link.write.writable().await;
            let written = ready.and_then(|()| link.write.write_some(&mut link.outbox.borrow_mut()));
            self.note_waiting(&link, link.outbox.borrow().len_bytes());
            match written {
                Ok(true) => return link.blocked.set(false),
                Ok(false) => {}
                Err(_) => return self.lose(link.peer),
            }
        }
    }

    /// A link's reader: decodes everything that has arrived, feeds it to core, and reads again.
    pub(super) async fn read(self: Rc<Self>, link: Rc<Link>, mut read: ReadEnd, mut inbox: Inbox) {
        loop {
            if let Err(error) = self.take_frames(&link, &mut inbox) {
                self.complaints.about(link.peer, &error);
                let identity = self.identity.clone();
                // The link's outbox may have been written only up to the middle of a frame. The peer could
                // not decode a fault after that.
                let understood = !link.blocked.get();
                self.lose(link.peer);
                if understood {
                    tokio::task::spawn_local(async move {
                        say_farewell(read, &link.write, &Fault::from(&error), &identity).await;
                    });
                }
                return;
            }
            if link.open.get() {
                self.note_unfinished(&link, inbox.unfinished_bytes());
            }
            if !link.open.get() {
                return;
            }
            match read.read_into(&mut inbox).await {
                Ok(0) | Err(_) => return self.lose(link.peer),
                Ok(_) if link.peer.is_client() => link.heard_at.set(self.now()),
                Ok(_) => {}
            }
        }
    }

    /// Takes a message, if its sender may send it.
    fn take_message(self: &Rc<Self>, link: &Rc<Link>, mut message: Message<Bytes>) {
        let from = link.peer;
        if let Some(denial) = self.denied(link, &mut message) {
            let (problem, answer) = (denial.problem(), denial.answer_to(&message).map(Box::new));
            return self.feed(Input::Refused { from, problem, answer });
        }
        match message {
            Message::OperatorRequest { id, payload } => self.serve_operators(Asker::Peer(from, id), payload),
            Message::OperatorWant { id } => self.lend_to(from, id),
            Message::OperatorLent { id, payload } => self.take_lent(from, id, payload),
            Message::ReducesWant => self.declare_to(from),
            Message::Reduces { reduces } => self.take_lesson(from, reduces),
            mut message => {
                match &mut message {
                    Message::Call(call) => self.expect_operator(from, call),
                    Message::Request(request) => self.resolve_reduce(&mut request.name, &mut request.params),
                    _ => {}
                }
                self.feed(Input::Message { from, message });
            }
        }
    }

    /// Feeds core all complete frames of an inbox.
    ///
    /// # Errors
    /// If nothing that follows can be trusted.
    fn take_frames(self: &Rc<Self>, link: &Rc<Link>, inbox: &mut Inbox) -> Result<(), WireError> {
        let from = link.peer;
        while link.open.get() {
            match inbox.next() {
                Ok(Some(Incoming::Message(message))) => self.take_message(link, message),
                Ok(Some(Incoming::Keys(keys))) => self.take_keys(link, &keys),
                Ok(Some(Incoming::Renewal(renewal))) => self.take_renewal(link, &renewal),
                Ok(Some(Incoming::Launch(word))) if self.may_join(link) => {
                    self.hear(LaunchNews::Said { from, word });
                }
                Ok(Some(Incoming::Launch(_))) => self.complaints.about(from, "it may not join a network"),
                Ok(Some(Incoming::Fault(fault))) => {
                    self.complaints.about(from, format_args!("it reports a fault: {fault}"));
                    self.lose(from);
                }
                Ok(Some(Incoming::Hello(_))) => self.complaints.about(from, "a second greeting"),
                Ok(None) => return Ok(()),
                Err(error) if error.is_fatal() => return Err(error),
                // A message of a later version. It is not wrong, and its sender waits for no answer.
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
