//! The rights of a peer.
//!
//! Every message of a peer passes [`Loop::denied`] before core sees it. A member may send everything that members send each
//! other: what its clients may do, it has checked itself. A client may send nothing that only members send. In a cluster
//! whose processes have certificates, it may do what its certificate says:
//!
//! | message | right |
//! |---|---|
//! | a call, or a client's part of one | `call`, for its service; with a reduce that is sent, also `operate` |
//! | opening a stream | `stream`, `feed` or `read`, for its service; with an operator that is sent, also `operate` |
//! | attaching as a worker | `push`, for its application |
//! | pushing or listing operators, setting shares | `operate` |
//! | cards, gossip, partials, wanting an operator, the start of a network | `join` |
//!
//! All other messages are answers, questions about the cluster's state, or belong to something that was opened with a right,
//! and core checks that they come from the peer that has it.
//!
//! The task [`Loop::keep_credentials`] reads this process's file again, proves a new certificate to the peers, and closes links
//! to peers whose certificates are no longer valid.

use super::Loop;
use super::link::{End, Link};
use crate::credentials::{Credentials, Held, Proven, Renewal};
use crate::filter::names_of;
use crate::foreign::{NAME_PREFIX, named};
use crate::wire::Side;
use bytes::Bytes;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use treefold_core::call::Outcome;
use treefold_core::error::CallError;
use treefold_core::message::Message;
use treefold_core::placement::PlacementAsk;
use treefold_core::push::message::PushMessage;
use treefold_core::right::Right;
use treefold_core::stream::message::{StreamMessage, StreamOpen};
use treefold_core::stream::{StreamError, StreamSpec};

/// Time between two looks at the file of this process and at the certificates of its peers.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// A right that the sender of a message lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Denial {
    right: Right,
    /// The service; `None` for what is about none.
    service: Option<Arc<str>>,
    /// The sender's name in its certificate.
    name: String,
}

impl Denial {
    fn error(&self) -> CallError {
        let service = self.service.as_deref().unwrap_or_default().to_owned();
        CallError::Denied { right: self.right.name().to_owned(), service }
    }

    /// The answer to the sender, if it waits for one.
    pub(super) fn answer_to(&self, message: &Message<Bytes>) -> Option<Message<Bytes>> {
        let error = self.error();
        let text: Arc<str> = error.to_string().into();
        Some(match message {
            Message::Request(request) => {
                Message::Reply { id: request.id, outcome: Box::new(Outcome::rejected(error)) }
            }
            Message::Stream(message) => {
                let StreamMessage::Open(StreamOpen { stream, .. }) = **message else { return None };
                let (right, service) = (self.right.name().into(), self.service.clone().unwrap_or_default());
                let reason = StreamError::Denied { right, service };
                Message::Stream(Box::new(StreamMessage::Close { stream, reason }))
            }
            Message::Push(message) if matches!(**message, PushMessage::Attach { .. }) => {
                Message::Push(Box::new(PushMessage::Attached { result: Err(text) }))
            }
            Message::OperatorRequest { id, .. } => Message::OperatorReply { id: *id, result: Err(text) },
            Message::SharesRequest { id, .. } => Message::SharesReply { id: *id, result: Err(text) },
            Message::PlacementRequest { id, .. } => Message::PlacementReply { id: *id, result: Err(text) },
            _ => return None,
        })
    }

    /// The text for this process's log.
    pub(super) fn problem(&self) -> Arc<str> {
        format!("{:?}: {}", self.name, self.error()).into()
    }
}

/// The right that the sender of a message lacks. An opened stream is marked with the rights of its opener.
fn denied(peer: &Proven, message: &mut Message<Bytes>) -> Option<Denial> {
    if peer.may_join() {
        return None;
    }
    let lacks = |right, service: Option<&str>| {
        let allowed = peer.allows(right, service);
        (!allowed).then(|| denial(peer, right, service))
    };
    match message {
        Message::Call(call) => may_not_call(peer, &call.name),
        Message::Request(request) => may_not_call(peer, &request.name),
        Message::Stream(message) => match &mut **message {
            StreamMessage::Open(open) => may_not_open(peer, &mut open.spec),
            _ => None,
        },
        Message::Push(message) => match &**message {
            PushMessage::Attach { application, .. } => lacks(Right::Push, Some(application)),
            _ => None,
        },
        Message::OperatorRequest { .. } | Message::OperatorWant { .. } => lacks(Right::Operate, None),
        Message::SharesRequest { settings, .. } if !settings.is_empty() => lacks(Right::Operate, None),
        Message::PlacementRequest { ask, .. } if *ask != PlacementAsk::Show => lacks(Right::Operate, None),
        message if is_for_members(message) => lacks(Right::Join, None),
        _ => None,
    }
}

/// True for messages that only members send.
fn is_for_members<P>(message: &Message<P>) -> bool {
    matches!(
        message,
        Message::Cards(_)
            | Message::Gossip { .. }
            | Message::Partial(_)
            | Message::ReducesWant
            | Message::Reduces { .. }
    )
}

fn denial(peer: &Proven, right: Right, service: Option<&str>) -> Denial {
    Denial { right, service: service.map(Arc::from), name: peer.name().to_owned() }
}

fn may_not_call(peer: &Proven, name: &str) -> Option<Denial> {
    let (service, aggregation) = name.split_once('/').unwrap_or((name, ""));
    if !peer.allows(Right::Call, Some(service)) {
        return Some(denial(peer, Right::Call, Some(service)));
    }
    let brings_code = aggregation.starts_with(NAME_PREFIX);
    (brings_code && !peer.allows(Right::Operate, None)).then(|| denial(peer, Right::Operate, None))
}

fn may_not_open(peer: &Proven, spec: &mut Arc<StreamSpec<Bytes>>) -> Option<Denial> {
    let service = &spec.service;
    let opening = [Right::Stream, Right::Feed, Right::Read];
    if !opening.into_iter().any(|right| peer.allows(right, Some(service))) {
        return Some(denial(peer, Right::Stream, Some(service)));
    }
    let brings_code = names_of(spec).iter().any(|name| named(name).is_some());
    if brings_code && !peer.allows(Right::Operate, None) {
        return Some(denial(peer, Right::Operate, None));
    }
    let opener = spec.opener.and(peer.rights());
    if spec.opener != opener {
        Arc::make_mut(spec).opener = opener;
    }
    None
}

impl Loop {
    /// The right that a peer lacks for a message; `None` if it may send it.
    pub(super) fn denied(&self, link: &Link, message: &mut Message<Bytes>) -> Option<Denial> {
        let session = link.session.borrow();
        match &session.peer {
            Some(peer) => denied(peer, message),
            None if link.peer.is_client() && is_for_members(message) => {
                Some(Denial { right: Right::Join, service: None, name: link.peer.to_string() })
            }
            None => None,
        }
    }

    /// True if the peer may be a member.
    pub(super) fn may_join(&self, link: &Link) -> bool {
        link.session.borrow().peer.as_ref().is_none_or(Proven::may_join)
    }

    /// A peer proves a new certificate. If it is not valid, the link is closed.
    pub(super) fn take_renewal(self: &Rc<Self>, link: &Rc<Link>, renewal: &Renewal) {
        let Some(credentials) = self.identity.credentials() else { return };
        let proven = {
            let session = link.session.borrow();
            let held = credentials.current();
            held.prove_again(renewal, side_of_peer(link), &session.secret)
                .and_then(|proven| proven.check_name(link.peer).map(|()| proven))
        };
        match proven {
            Ok(proven) => link.session.borrow_mut().peer = Some(proven),
            Err(refusal) => {
                self.complaints
                    .about(link.peer, format_args!("its new certificate is not accepted: {refusal}"));
                self.lose(link.peer);
            }
        }
    }

    /// The task that keeps this process's credentials, and those of its peers, up to date.
    pub(super) async fn keep_credentials(self: Rc<Self>, credentials: Credentials) {
        let mut before = credentials.current();
        loop {
            tokio::time::sleep(CHECK_EVERY).await;
            credentials.refresh();
            let held = credentials.current();
            if !held.trusts_as(&before) && self.renews_keys() {
                // Processes of the old authority may know the key.
                self.renew_key();
            }
            let links = self.peers.borrow().links();
            for link in &links {
                self.prove_to(link, &held);
                self.check_again(link, &held);
            }
            before = held;
        }
    }

    /// Proves this process's certificate to a peer that has been shown another one.
    fn prove_to(&self, link: &Rc<Link>, held: &Arc<Held>) {
        let renewal = {
            let session = &mut *link.session.borrow_mut();
            if session.shown.as_ref().is_none_or(|shown| Arc::ptr_eq(shown, held)) {
                return;
            }
            session.shown = Some(Arc::clone(held));
            held.renewal(side_of_peer(link).other(), &session.secret)
        };
        let pushed = renewal.map(|renewal| link.outbox.borrow_mut().push_renewal(&renewal));
        match pushed {
            Ok(Ok(())) => self.mark_dirty(link),
            Ok(Err(error)) => self.complaints.about(link.peer, error),
            Err(error) => self.complaints.about(link.peer, error),
        }
    }

    fn check_again(self: &Rc<Self>, link: &Rc<Link>, held: &Held) {
        let checked = {
            let mut session = link.session.borrow_mut();
            session.peer.as_mut().map_or(Ok(()), |peer| peer.check_again(held, side_of_peer(link)))
        };
        if let Err(refusal) = checked {
            self.complaints.about(link.peer, format_args!("the connection ends: {refusal}"));
            self.lose(link.peer);
        }
    }
}

/// The peer's side of a link.
fn side_of_peer(link: &Link) -> Side {
    match link.end {
        End::Dialled => Side::Listens,
        End::Welcomed => Side::Dials,
    }
}
