//! The far ends of a node's connections: its parent and its children, all in this process.
//!
//! Each has a name and a loopback address of its own, and behaves like a node: it exchanges greetings, and a child answers each
//! call with a partial.

use crate::Failure;
use bytes::Bytes;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::spawn_local;
use treefold::parts::wire::{Hello, Inbox, Incoming, Outbox};
use treefold::{Limits, PartitionSet};
use treefold_core::id::{NodeId, Tag, WaveId};
use treefold_core::load::figure::{CostFigure, LoadFigure};
use treefold_core::message::{Call, CallTimes, Message, Partial};
use treefold_core::tree::Tree;
use treefold_core::wave::slice::Slice;
use treefold_core::wave::wait::Waiting;

/// Connections that may wait to be accepted; the kernel may allow fewer.
const BACKLOG: u32 = 16_384;
/// The number of every connection that is made here. The nodes ask for it when they call back.
const DIAL: u64 = 1;
/// I/O slices of one write.
const SLICES: usize = 8;

/// The partials of the children.
pub(crate) trait Answers {
    /// Returns the child's partial.
    fn partial(&self, child: u32) -> Result<Bytes, Failure>;

    /// Returns the time after which the child answers.
    fn pause(&self, _child: u32) -> Duration {
        Duration::ZERO
    }
}

/// Returns the loopback address of a child, or of the parent, whose number follows the last child's.
fn ip(number: u32) -> IpAddr {
    let [_, a, b, c] = (number + 2).to_be_bytes();
    Ipv4Addr::new(127, a + 1, b, c).into()
}

pub(crate) fn node_id(number: u32, port: u16) -> NodeId {
    NodeId::new(SocketAddr::new(ip(number), port), 1 << 16 | u64::from(number))
}

/// Creates the call that asks a tree. Its caller waits for the whole answer.
pub(crate) fn call(name: &str, params: Bytes, sequence: u64, tree: Tree) -> Call<Bytes> {
    Call {
        tag: Tag { wave: WaveId { origin: 7, sequence }, branch: 0 },
        name: name.into(),
        params: Some(params.into()),
        times: CallTimes {
            deadline_left: treefold_core::time::Duration::from_secs(300),
            answer_left: treefold_core::time::Duration::from_secs(290),
            sign_after: None,
        },
        waiting: Waiting::Staged,
        losses_max: tree.partitions().len() as u32,
        spare: 0,
        hedge: false,
        tree,
        explain: false,
        loads_wanted: false,
        slice: Slice::WHOLE,
        push: None,
        in_flight: 0,
        whole: false,
    }
}

/// A connection to a node.
pub(crate) struct Peer {
    stream: TcpStream,
    inbox: Inbox,
    outbox: Outbox,
}

impl Peer {
    fn new(stream: TcpStream, limits: Limits) -> Result<Self, Failure> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, inbox: Inbox::new(limits.clone()), outbox: Outbox::new(limits) })
    }

    /// Connects from the node's address and exchanges greetings. Returns the root's id too.
    pub(crate) async fn connect(
        root: SocketAddr,
        node: NodeId,
        limits: Limits,
    ) -> Result<(Self, NodeId), Failure> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(node.addr.ip(), 0))?;
        let mut peer = Self::new(socket.connect(root).await?, limits)?;
        peer.greet(node, DIAL).await?;
        let root = peer.hear_greeting().await?.node;
        Ok((peer, root))
    }

    async fn greet(&mut self, node: NodeId, dial: u64) -> Result<(), Failure> {
        self.outbox.push_hello(&Hello { dial, ..Hello::new(treefold::CLUSTER_DEFAULT, node) })?;
        self.flush().await
    }

    async fn hear_greeting(&mut self) -> Result<Hello, Failure> {
        match self.hear().await? {
            Incoming::Hello(hello) => Ok(hello),
            other => Err(format!("expected a greeting of the root, found {other:?}").into()),
        }
    }

    pub(crate) async fn say(&mut self, message: &Message<Bytes>) -> Result<(), Failure> {
        self.outbox.push(message)?;
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), Failure> {
        while !self.outbox.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let filled = self.outbox.fill_slices(&mut slices);
            let written = self.stream.write_vectored(&slices[..filled]).await?;
            self.outbox.advance(written);
        }
        Ok(())
    }

    pub(crate) async fn hear(&mut self) -> Result<Incoming, Failure> {
        loop {
            if let Some(incoming) = self.inbox.next()? {
                return Ok(incoming);
            }
            if self.stream.read_buf(&mut self.inbox.read_buffer()).await? == 0 {
                return Err("the root has closed a connection".into());
            }
        }
    }

    /// Sends the call, and returns the partials of the answer and its contributors. Ends if a child has failed.
    pub(crate) async fn ask(
        &mut self,
        call: Call<Bytes>,
        failed: &mut mpsc::UnboundedReceiver<Failure>,
    ) -> Result<(Vec<Bytes>, PartitionSet), Failure> {
        self.say(&Message::Call(Box::new(call))).await?;
        let (mut payloads, mut came) = (Vec::new(), PartitionSet::new());
        loop {
            let incoming = tokio::select! {
                Some(failure) = failed.recv() => return Err(failure),
                incoming = self.hear() => incoming?,
            };
            match incoming {
                Incoming::Message(Message::Partial(partial)) => {
                    if let Some(payload) = partial.payload {
                        payloads.push(payload);
                        came.union_with(&partial.contributors);
                    }
                    if partial.last {
                        return Ok((payloads, came));
                    }
                }
                // A large partial is offered first.
                Incoming::Message(Message::Offer { tag, .. }) => self.say(&Message::Grant { tag }).await?,
                Incoming::Fault(fault) => return Err(format!("the root reported a fault: {fault}").into()),
                _ => {}
            }
        }
    }

    /// Answers each call with the child's partial.
    async fn answer_calls(mut self, child: u32, answers: Rc<dyn Answers>) -> Result<(), Failure> {
        let payload = answers.partial(child)?;
        loop {
            match self.hear().await? {
                Incoming::Message(Message::Call(call)) => {
                    let pause = answers.pause(child);
                    if !pause.is_zero() {
                        tokio::time::sleep(pause).await;
                    }
                    let partial = Partial {
                        tag: call.tag,
                        payload: Some(payload.clone()),
                        contributors: call.tree.partitions(),
                        missing: Vec::new(),
                        last: true,
                        load: LoadFigure { processors: 1, ..LoadFigure::default() },
                        own: None,
                        served: None,
                        loads: Vec::new(),
                        cost: CostFigure::default(),
                        given_up: Vec::new(),
                        report: None,
                    };
                    self.say(&Message::Partial(Box::new(partial))).await?;
                }
                Incoming::Fault(fault) => return Err(format!("the node reported a fault: {fault}").into()),
                _ => {}
            }
        }
    }
}

/// The children's ends of the connections, until all are connected.
pub(crate) struct Ends {
    pub(crate) limits: Limits,
    /// Receiver of the failures.
    pub(crate) failed: mpsc::UnboundedSender<Failure>,
    pub(crate) answers: Rc<dyn Answers>,
}

impl Ends {
    fn answer(&self, peer: Peer, child: u32) {
        let (failed, answers) = (self.failed.clone(), Rc::clone(&self.answers));
        spawn_local(async move {
            if let Err(failure) = peer.answer_calls(child, answers).await {
                // The measurement may be over, and the receiver gone.
                let _ = failed.send(failure);
            }
        });
    }

    /// Connects each of the children to the node at `parent`.
    pub(crate) async fn connect(
        &self,
        parent: SocketAddr,
        children: impl IntoIterator<Item = u32>,
        port: u16,
    ) -> Result<(), Failure> {
        for child in children {
            let (peer, _) = Peer::connect(parent, node_id(child, port), self.limits.clone()).await?;
            self.answer(peer, child);
        }
        Ok(())
    }

    /// Listens at the addresses of all children and of the parent, and answers there. Returns their port.
    ///
    /// In a cluster without a token, a node calls back each process that greets it. A connection of a node to a child stays open.
    pub(crate) fn listen(self: &Rc<Self>) -> Result<u16, Failure> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::UNSPECIFIED, 0).into())?;
        let listener = socket.listen(BACKLOG)?;
        let port = listener.local_addr()?.port();
        let (welcome, failed) = (Rc::clone(self).welcome(listener, port), self.failed.clone());
        spawn_local(async move { welcome.await.or_else(|failure| failed.send(failure)) });
        Ok(port)
    }

    async fn welcome(self: Rc<Self>, listener: TcpListener, port: u16) -> Result<(), Failure> {
        loop {
            let (stream, _) = listener.accept().await?;
            let SocketAddr::V4(addr) = stream.local_addr()? else { continue };
            let [_, a, b, c] = addr.ip().octets();
            let child = u32::from_be_bytes([0, a - 1, b, c]) - 2;
            let this = Rc::clone(&self);
            spawn_local(async move {
                let greet = async {
                    let mut peer = Peer::new(stream, this.limits.clone())?;
                    let is_call_back = peer.hear_greeting().await?.asks != 0;
                    peer.greet(node_id(child, port), 0).await?;
                    Ok::<_, Failure>((peer, is_call_back))
                };
                // The root may abandon a slow connection and dial again.
                if let Ok((peer, false)) = greet.await {
                    this.answer(peer, child);
                }
            });
        }
    }
}
