//! Front mode: all open calls of a client share one connection to one node.
//!
//! A task on the caller's runtime owns the connection, and callers send their asks to it over a channel.
//! The task takes all waiting asks at once and writes their requests with one system call, so a thousand
//! callers cost far fewer than a thousand writes. The connection is made together with the client, and made
//! again when an ask finds it broken. Calls that were open when it broke end with [`Error::Lost`], since it
//! is not known whether they were carried out.

use super::client_id;
use crate::channel::{ReadEnd, WriteEnd};
use crate::credentials::Renewing;
use crate::discovery::lookup;
use crate::driver::asks::{PlacementAnswer, SharesAnswer};
use crate::driver::operators::OperatorAnswer;
use crate::error::{Error, copy_of};
use crate::options::ClusterOptions;
use crate::transport::{self, GreetError, Greeted, Identity};
use crate::wire::{Inbox, Incoming, Outbox, WireError};
use bytes::Bytes;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot};
use treefold_core::call::{CallOptions, Outcome};
use treefold_core::message::{Message, Request};
use treefold_core::params::{Params, REDUCE_PARAMS};
use treefold_core::placement::PlacementAsk;
use treefold_core::schedule::share::ShareSetting;
use treefold_core::status::NodeStatus;

/// Asks that may wait for the connection's task. With more, the caller waits.
const ASKS_QUEUED_MAX: usize = 1_024;
/// Asks taken in one go.
const ASKS_PER_TURN_MAX: usize = 256;

/// A caller's handle to the connection's task.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    asks: mpsc::Sender<Ask>,
    cancels: mpsc::UnboundedSender<u64>,
    next_id: Arc<AtomicU64>,
    addr: Arc<Mutex<Option<SocketAddr>>>,
}

#[derive(Debug)]
struct Ask {
    id: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Call { name: Arc<str>, params: Params<Bytes>, options: CallOptions, answer: Answer<Outcome<Bytes>> },
    Status { answer: Answer<NodeStatus> },
    Operators { payload: Option<Bytes>, answer: Answer<OperatorAnswer> },
    Shares { settings: Vec<ShareSetting>, answer: Answer<SharesAnswer> },
    Placement { ask: PlacementAsk, answer: Answer<PlacementAnswer> },
}

type Answer<T> = oneshot::Sender<Result<T, Error>>;

/// The caller that waits for an answer. A failed send is no error: the caller has stopped waiting.
enum Waiter {
    Call(Answer<Outcome<Bytes>>),
    Status(Answer<NodeStatus>),
    Operators(Answer<OperatorAnswer>),
    Shares(Answer<SharesAnswer>),
    Placement(Answer<PlacementAnswer>),
}

impl Waiter {
    fn fail(self, error: Error) {
        match self {
            Self::Call(answer) => drop(answer.send(Err(error))),
            Self::Status(answer) => drop(answer.send(Err(error))),
            Self::Operators(answer) => drop(answer.send(Err(error))),
            Self::Shares(answer) => drop(answer.send(Err(error))),
            Self::Placement(answer) => drop(answer.send(Err(error))),
        }
    }
}

impl Front {
    /// Connects to the first of `addrs` that answers.
    pub(crate) async fn connect(addrs: Vec<String>, cluster: ClusterOptions) -> Result<Self, Error> {
        let (asks, asks_end) = mpsc::channel(ASKS_QUEUED_MAX);
        // Unbounded, but each cancellation belongs to a call that was open, and open calls are bounded.
        let (cancels, cancels_end) = mpsc::unbounded_channel();
        let addr = Arc::new(Mutex::new(None));
        let mut task = Task {
            addrs,
            identity: Identity::new(client_id(), cluster, false),
            asks: asks_end,
            cancels: cancels_end,
            addr: Arc::clone(&addr),
        };
        let first = task.connect().await?;
        tokio::spawn(task.run(first));
        Ok(Self { asks, cancels, next_id: Arc::new(AtomicU64::new(1)), addr })
    }

    /// Sends a call to the front; dropping the future cancels it.
    pub(crate) async fn call(
        &self,
        name: Arc<str>,
        params: Params<Bytes>,
        options: CallOptions,
    ) -> Result<Outcome<Bytes>, Error> {
        let (answer, answered) = oneshot::channel();
        let id = self.ask(What::Call { name, params, options, answer }).await?;
        let mut unless_done = CancelOnDrop { cancels: &self.cancels, id: Some(id) };
        let outcome = answered.await.unwrap_or(Err(Error::Lost));
        unless_done.id = None;
        outcome
    }

    pub(crate) async fn status(&self) -> Result<NodeStatus, Error> {
        let (answer, answered) = oneshot::channel();
        self.ask(What::Status { answer }).await?;
        answered.await.unwrap_or(Err(Error::Lost))
    }

    /// Sends an operator to the front if there is a payload, and returns the operators that the front has.
    pub(crate) async fn operators(&self, payload: Option<Bytes>) -> Result<OperatorAnswer, Error> {
        let (answer, answered) = oneshot::channel();
        self.ask(What::Operators { payload, answer }).await?;
        answered.await.unwrap_or(Err(Error::Lost))
    }

    /// Sets shares at the front, and returns those that it has.
    pub(crate) async fn shares(&self, settings: Vec<ShareSetting>) -> Result<SharesAnswer, Error> {
        let (answer, answered) = oneshot::channel();
        self.ask(What::Shares { settings, answer }).await?;
        answered.await.unwrap_or(Err(Error::Lost))
    }

    /// Passes an operator's request to the front, and returns the placement there.
    pub(crate) async fn placement(&self, ask: PlacementAsk) -> Result<PlacementAnswer, Error> {
        let (answer, answered) = oneshot::channel();
        self.ask(What::Placement { ask, answer }).await?;
        answered.await.unwrap_or(Err(Error::Lost))
    }

    /// The front's address, while there is a connection.
    pub(crate) fn addr(&self) -> Option<SocketAddr> {
        *self.addr.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, what: What) -> Result<u64, Error> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        // The task ends when all callers are gone, or together with the runtime that it was started on.
        self.asks.send(Ask { id, what }).await.map_err(|_| Error::Closed)?;
        Ok(id)
    }
}

struct CancelOnDrop<'a> {
    cancels: &'a mpsc::UnboundedSender<u64>,
    id: Option<u64>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let _ = self.cancels.send(id);
        }
    }
}

/// The task that owns the connection.
struct Task {
    addrs: Vec<String>,
    identity: Identity,
    asks: mpsc::Receiver<Ask>,
    cancels: mpsc::UnboundedReceiver<u64>,
    addr: Arc<Mutex<Option<SocketAddr>>>,
}

impl Task {
    async fn run(mut self, first: Greeted) {
        let mut batch = Vec::with_capacity(ASKS_PER_TURN_MAX);
        let mut greeted = Some(first);
        loop {
            if let Some(greeted) = greeted.take() {
                let mut connection = Connection::new(greeted, &self.identity);
                batch.drain(..).for_each(|ask| connection.push(ask));
                let is_over = connection.serve(&mut self.asks, &mut self.cancels).await;
                self.note(None);
                connection.fail_all();
                if is_over {
                    return;
                }
            }
            if self.asks.recv_many(&mut batch, ASKS_PER_TURN_MAX).await == 0 {
                return;
            }
            match self.connect().await {
                Ok(again) => greeted = Some(again),
                Err(error) => batch.drain(..).for_each(|ask| ask.into_waiter().fail(copy_of(&error))),
            }
        }
    }

    /// Connects to the first address that answers, or returns the error of the last one.
    async fn connect(&mut self) -> Result<Greeted, Error> {
        let nowhere = io::Error::from(io::ErrorKind::AddrNotAvailable);
        let mut refused = Error::Connect { addr: self.addrs.join(", "), source: nowhere };
        for given in &self.addrs {
            let found = lookup(given).await;
            if let Some(source) = found.problem {
                refused = Error::Connect { addr: given.clone(), source };
            }
            for addr in found.addrs {
                // A new generation each time: the front may not have noticed yet that the old connection is
                // gone.
                self.identity.node = client_id();
                match transport::dial(addr, &self.identity).await {
                    Ok(greeted) => {
                        self.note(Some(greeted.peer.addr));
                        return Ok(greeted);
                    }
                    Err(error) => refused = refusal(addr, error),
                }
            }
        }
        Err(refused)
    }

    fn note(&self, addr: Option<SocketAddr>) {
        *self.addr.lock().unwrap_or_else(PoisonError::into_inner) = addr;
    }
}

fn refusal(addr: SocketAddr, error: GreetError) -> Error {
    let addr = addr.to_string();
    match error {
        GreetError::Io(source) => Error::Connect { addr, source },
        problem => Error::Handshake { addr, problem: problem.to_string() },
    }
}

impl Ask {
    fn into_waiter(self) -> Waiter {
        match self.what {
            What::Call { answer, .. } => Waiter::Call(answer),
            What::Status { answer } => Waiter::Status(answer),
            What::Operators { answer, .. } => Waiter::Operators(answer),
            What::Shares { answer, .. } => Waiter::Shares(answer),
            What::Placement { answer, .. } => Waiter::Placement(answer),
        }
    }
}

/// A connection, and the callers that wait for answers over it.
struct Connection {
    read: ReadEnd,
    write: WriteEnd,
    inbox: Inbox,
    outbox: Outbox,
    outbox_bytes_max: usize,
    waiting: HashMap<u64, Waiter>,
    renewing: Renewing,
}

impl Connection {
    fn new(greeted: Greeted, identity: &Identity) -> Self {
        let Greeted { session, read, write, inbox, .. } = greeted;
        let (mut outbox, outbox_bytes_max) =
            (Outbox::new(identity.limits.clone()), identity.limits.outbox_bytes_max);
        outbox.heed(&inbox).expect("invariant: nothing was queued before the greeting");
        let renewing = Renewing::new(identity.credentials().cloned(), session);
        Self { read, write, inbox, outbox, outbox_bytes_max, waiting: HashMap::new(), renewing }
    }

    /// Carries asks and answers until the connection breaks. Returns true if it ends because no caller is
    /// left.
    async fn serve(
        &mut self,
        asks: &mut mpsc::Receiver<Ask>,
        cancels: &mut mpsc::UnboundedReceiver<u64>,
    ) -> bool {
        let mut batch = Vec::with_capacity(ASKS_PER_TURN_MAX);
        let mut is_written = true;
        loop {
            if self.take_frames().is_err() {
                return false;
            }
            if !is_written || !self.outbox.is_empty() {
                match self.write.write_some(&mut self.outbox) {
                    Ok(all) => is_written = all,
                    Err(_) => return false,
                }
            }
            // If the front stops reading, no more asks are taken until it reads again, and callers wait.
            let takes_asks = self.outbox.len_bytes() <= self.outbox_bytes_max;
            tokio::select! {
                read = self.read.read_into(&mut self.inbox) => {
                    if !matches!(read, Ok(bytes) if bytes > 0) {
                        return false;
                    }
                }
                taken = asks.recv_many(&mut batch, ASKS_PER_TURN_MAX), if takes_asks => {
                    if taken == 0 {
                        return true;
                    }
                    batch.drain(..).for_each(|ask| self.push(ask));
                }
                Some(id) = cancels.recv() => self.cancel(id),
                renewal = self.renewing.next() => {
                    if let Err(error) = self.outbox.push_renewal(&renewal) {
                        tracing::warn!(%error, "can't prove the new certificate");
                    }
                }
                ready = self.write.writable(), if !is_written => {
                    if ready.is_err() {
                        return false;
                    }
                }
            }
        }
    }

    fn push(&mut self, ask: Ask) {
        let id = ask.id;
        let (waiter, message) = match ask.what {
            What::Call { answer, .. } if answer.is_closed() => return,
            What::Call { name, params, options, answer } => {
                let request = Request { id, name, params, options };
                (Waiter::Call(answer), Message::Request(Box::new(request)))
            }
            What::Status { answer } => (Waiter::Status(answer), Message::StatusRequest { id }),
            What::Operators { payload, answer } => {
                (Waiter::Operators(answer), Message::OperatorRequest { id, payload })
            }
            What::Shares { settings, answer } => {
                (Waiter::Shares(answer), Message::SharesRequest { id, settings })
            }
            What::Placement { ask, answer } => {
                (Waiter::Placement(answer), Message::PlacementRequest { id, ask })
            }
        };
        match self.outbox.push(&message) {
            Ok(()) => drop(self.waiting.insert(id, waiter)),
            Err(error) => waiter.fail(unsayable(&error)),
        }
    }

    fn cancel(&mut self, id: u64) {
        if self.waiting.remove(&id).is_some() {
            let pushed = self.outbox.push(&Message::CancelRequest { id });
            debug_assert!(pushed.is_ok(), "a cancellation is a number");
        }
    }

    /// Delivers every answer that has arrived.
    ///
    /// # Errors
    /// If the bytes that follow cannot be trusted, or the front has said goodbye.
    fn take_frames(&mut self) -> Result<(), ()> {
        loop {
            match self.inbox.next() {
                Ok(Some(Incoming::Message(Message::Reply { id, outcome }))) => {
                    // The call may have been cancelled in the meantime.
                    if let Some(Waiter::Call(answer)) = self.waiting.remove(&id) {
                        drop(answer.send(Ok(*outcome)));
                    }
                }
                Ok(Some(Incoming::Message(Message::Status { id, status }))) => {
                    if let Some(Waiter::Status(answer)) = self.waiting.remove(&id) {
                        drop(answer.send(Ok(*status)));
                    }
                }
                Ok(Some(Incoming::Message(Message::OperatorReply { id, result }))) => {
                    if let Some(Waiter::Operators(answer)) = self.waiting.remove(&id) {
                        drop(answer.send(Ok(result)));
                    }
                }
                Ok(Some(Incoming::Message(Message::SharesReply { id, result }))) => {
                    if let Some(Waiter::Shares(answer)) = self.waiting.remove(&id) {
                        drop(answer.send(Ok(result)));
                    }
                }
                Ok(Some(Incoming::Message(Message::PlacementReply { id, result }))) => {
                    if let Some(Waiter::Placement(answer)) = self.waiting.remove(&id) {
                        drop(answer.send(Ok(result)));
                    }
                }
                // Cards and other messages between members are ignored here.
                Ok(Some(
                    Incoming::Message(_)
                    | Incoming::Hello(_)
                    | Incoming::Launch(_)
                    | Incoming::Keys(_)
                    | Incoming::Renewal(_),
                )) => {}
                Ok(Some(Incoming::Fault(fault))) => {
                    tracing::warn!(%fault, "the front closes the connection");
                    return Err(());
                }
                Ok(None) => return Ok(()),
                Err(error) if error.is_fatal() => {
                    tracing::warn!(%error, "the front sends invalid bytes");
                    return Err(());
                }
                Err(error) => tracing::debug!(%error, "a message of the front was dropped"),
            }
        }
    }

    fn fail_all(&mut self) {
        self.waiting.drain().for_each(|(_, waiter)| waiter.fail(Error::Lost));
    }
}

/// The error for a request that cannot be encoded.
fn unsayable(error: &WireError) -> Error {
    use treefold_core::error::CallError;
    Error::Rejected(match error {
        WireError::TooLarge { field: "params.own", limit, got } => {
            let (given, limit) =
                (format_args!("{got} bytes"), format_args!("at most {limit} bytes (own_params_bytes_max)"));
            CallError::bad_field("params_for", given, limit)
        }
        WireError::TooLarge { field: "params.reduce", limit, got } => {
            let (given, limit) = (
                format_args!("{got} bytes"),
                format_args!("at most {limit} bytes (own_params_bytes_max), params_for included"),
            );
            CallError::bad_field(REDUCE_PARAMS, given, limit)
        }
        WireError::Inexpressible { field: REDUCE_PARAMS } => {
            let limit = "none, since the node that would make the call runs a build that does not know them";
            CallError::bad_field(REDUCE_PARAMS, "given", limit)
        }
        WireError::TooLarge { field, limit, got } => {
            CallError::bad_field(field, got, format_args!("at most {limit}"))
        }
        error => CallError::bad_field("request", error, "a request that the protocol can encode"),
    })
}
