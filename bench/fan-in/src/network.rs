//! One root process, and this process as its parent and all of its children.
//!
//! The root is a node with the real driver, one connection for each child, and the real protocol. This process holds the
//! other ends. Each child has a name and a loopback address of its own, and does as a node does: it exchanges greetings with
//! the root, and answers the root's call with a partial. The parent sends the root a call with a tree of all children.
//!
//! No child gossips. Ten thousand members whose datagrams all come from one process would cost more than what is measured,
//! and a node needs no membership to be asked: a tree names its nodes, and a greeting lets them in.

use crate::Failure;
use crate::call::order;
use crate::median;
use crate::root::{Root, allow_files, limits};
use bytes::Bytes;
use serde::Serialize;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{LocalSet, spawn_local};
use treefold::operators::Body;
use treefold::operators::merge::Sum;
use treefold::parts::wire::{Hello, Inbox, Incoming, Outbox};
use treefold::{Limits, PartitionSet};
use treefold_core::id::{NodeId, Tag, WaveId};
use treefold_core::load::figure::{CostFigure, LoadFigure};
use treefold_core::message::{Call, Message, Partial};
use treefold_core::time::Duration;
use treefold_core::tree::Tree;
use treefold_core::wave::slice::Slice;
use treefold_core::wave::wait::Waiting;

/// Partials of the calls of one round, at least.
const PARTIALS_OF_ROUND: u32 = 20_000;
/// Calls of one round, at most.
const CALLS_OF_ROUND: u32 = 50;
/// Connections that wait to be accepted; the kernel may allow fewer.
const BACKLOG: u32 = 16_384;
/// What the root does after its answer belongs to the call.
const AFTERMATH: std::time::Duration = std::time::Duration::from_millis(20);
/// Calls until every child must have answered. A root that dials thousands at once may give some up in its first call.
const FIRST_CALLS_MAX: usize = 20;
/// Slices of one write.
const SLICES: usize = 8;

/// Who makes the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Dials {
    /// Each child connects to the root before the first call
    Children,
    /// The root connects to all children at once in the first call
    Root,
}

/// What one number of children has cost.
#[derive(Serialize)]
pub(crate) struct Figure {
    pub(crate) children: u32,
    /// Processor time of the root's process for each connection that is made, in µs.
    pub(crate) connect_us: f64,
    /// Growth of the root's own memory for each connection, when all have been used.
    pub(crate) connection_kib: f64,
    /// Partials that came in the first call.
    pub(crate) first_came: u32,
    pub(crate) calls: usize,
    /// From the parent's call to the root's answer.
    pub(crate) latency_ms: f64,
    /// Processor time of the root's process for one call.
    pub(crate) root_call_ms: f64,
    /// The same for each child: its call and its partial.
    pub(crate) root_partial_us: f64,
}

/// A connection to the root.
struct Peer {
    stream: TcpStream,
    inbox: Inbox,
    outbox: Outbox,
}

/// The loopback address of a child or, for the number behind the last child's, of the parent.
fn ip(number: u32) -> IpAddr {
    let [_, a, b, c] = (number + 2).to_be_bytes();
    Ipv4Addr::new(127, a + 1, b, c).into()
}

fn node_id(number: u32, port: u16) -> NodeId {
    NodeId::new(SocketAddr::new(ip(number), port), 1 << 16 | u64::from(number))
}

impl Peer {
    fn new(stream: TcpStream, limits: Limits) -> Result<Self, Failure> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, inbox: Inbox::new(limits.clone()), outbox: Outbox::new(limits) })
    }

    /// Connects from the node's own address and exchanges greetings; gives the root's name too.
    async fn connect(root: SocketAddr, node: NodeId, limits: Limits) -> Result<(Self, NodeId), Failure> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(node.addr.ip(), 0))?;
        let mut peer = Self::new(socket.connect(root).await?, limits)?;
        peer.greet(node).await?;
        let root = peer.hear_greeting().await?;
        Ok((peer, root))
    }

    async fn greet(&mut self, node: NodeId) -> Result<(), Failure> {
        self.outbox.push_hello(&Hello::new(treefold::CLUSTER_DEFAULT, node))?;
        self.flush().await
    }

    async fn hear_greeting(&mut self) -> Result<NodeId, Failure> {
        match self.hear().await? {
            Incoming::Hello(hello) => Ok(hello.node),
            other => Err(format!("expected a greeting of the root, found {other:?}").into()),
        }
    }

    async fn say(&mut self, message: &Message<Bytes>) -> Result<(), Failure> {
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

    async fn hear(&mut self) -> Result<Incoming, Failure> {
        loop {
            if let Some(incoming) = self.inbox.next()? {
                return Ok(incoming);
            }
            if self.stream.read_buf(&mut self.inbox.read_buffer()).await? == 0 {
                return Err("the root has closed a connection".into());
            }
        }
    }

    /// Answers each call of the root with the child's partial.
    async fn answer_calls(mut self, child: u32) -> Result<(), Failure> {
        let payload = Sum(i64::from(child)).encode()?;
        loop {
            match self.hear().await? {
                Incoming::Message(Message::Call(call)) => {
                    let partial = Partial {
                        tag: call.tag,
                        payload: Some(payload.clone()),
                        contributors: call.tree.partitions(),
                        missing: Vec::new(),
                        last: true,
                        load: LoadFigure { processors: 1, ..LoadFigure::default() },
                        loads: Vec::new(),
                        cost: CostFigure::default(),
                        given_up: Vec::new(),
                        report: None,
                    };
                    self.say(&Message::Partial(Box::new(partial))).await?;
                }
                Incoming::Fault(fault) => return Err(format!("the root says: {fault}").into()),
                _ => {}
            }
        }
    }
}

/// The children's ends, while they are not all connected.
struct Ends {
    limits: Limits,
    /// Where failures are told.
    failed: mpsc::UnboundedSender<Failure>,
}

impl Ends {
    fn answer(&self, peer: Peer, child: u32) {
        let failed = self.failed.clone();
        spawn_local(async move {
            if let Err(failure) = peer.answer_calls(child).await {
                // The measurement may be over.
                let _ = failed.send(failure);
            }
        });
    }

    /// Each child connects to the root.
    async fn connect(&self, root: SocketAddr, children: u32, port: u16) -> Result<(), Failure> {
        for child in 0..children {
            let (peer, _) = Peer::connect(root, node_id(child, port), self.limits.clone()).await?;
            self.answer(peer, child);
        }
        Ok(())
    }

    /// Lets the root connect to each child, under the child's own address.
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
                    peer.hear_greeting().await?;
                    peer.greet(node_id(child, port)).await?;
                    Ok::<_, Failure>(peer)
                };
                // The root gives a dial up that takes long; it comes again.
                if let Ok(peer) = greet.await {
                    this.answer(peer, child);
                }
            });
        }
    }
}

/// A root and the connections of all of its children.
struct Fan {
    process: Root,
    root: NodeId,
    parent: Peer,
    children: u32,
    /// The port in the children's names.
    port: u16,
    failed: mpsc::UnboundedReceiver<Failure>,
    calls: u64,
}

/// One call as it was measured, in seconds.
struct Sample {
    latency: f64,
    root_time: f64,
    came: u32,
}

/// A fan, and what it cost to connect all of it.
struct Opened {
    fan: Fan,
    connect_us: f64,
    connection_kib: f64,
    first_came: u32,
    samples: Vec<Sample>,
}

impl Fan {
    async fn open(children: u32, dials: Dials) -> Result<Opened, Failure> {
        let process = Root::start(children)?;
        let limits = limits(children);
        let (tell, failed) = mpsc::unbounded_channel();
        let ends = Rc::new(Ends { limits: limits.clone(), failed: tell });
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::UNSPECIFIED, 0).into())?;
        let listener = socket.listen(BACKLOG)?;
        let port = listener.local_addr()?.port();
        let (parent, root) = Peer::connect(process.addr, node_id(children, port), limits).await?;
        let (time, memory) = (process.processor_time()?, process.memory_bytes()?);
        match dials {
            Dials::Children => ends.connect(process.addr, children, port).await?,
            Dials::Root => {
                let welcome = Rc::clone(&ends).welcome(listener, port);
                let failed = ends.failed.clone();
                spawn_local(async move { welcome.await.or_else(|failure| failed.send(failure)) });
            }
        }
        let connecting = process.processor_time()?.saturating_sub(time).as_secs_f64();
        let mut fan = Self { process, root, parent, children, port, failed, calls: 0 };
        let first = fan.call().await?;
        let mut last = fan.call().await?;
        for _ in 0..FIRST_CALLS_MAX {
            if last.came == children {
                break;
            }
            last = fan.call().await?;
        }
        let connecting = match dials {
            Dials::Children => connecting,
            // What the first call has cost more than another.
            Dials::Root => first.root_time - last.root_time,
        };
        let grown = fan.process.memory_bytes()?.saturating_sub(memory) as f64 / 1024.0;
        Ok(Opened {
            fan,
            connect_us: connecting * 1e6 / f64::from(children),
            connection_kib: grown / f64::from(children),
            first_came: first.came,
            samples: Vec::new(),
        })
    }

    /// Makes one call; gives its latency and the root's processor time.
    async fn call(&mut self) -> Result<Sample, Failure> {
        self.calls += 1;
        // The root asks its children in the order of the tree, and so they answer about in that order. Their partitions are
        // scattered, so that what has come does not make one range at once.
        let leaf = |(child, partition): (u32, u32)| {
            Tree::leaf(node_id(child, self.port), PartitionSet::from_range(partition..partition + 1))
        };
        let leaves: Vec<Tree> = (0..).zip(order(self.children, true)).map(leaf).collect();
        let call = Call {
            tag: Tag { wave: WaveId { origin: 7, sequence: self.calls }, branch: 0 },
            name: "fan/sum".into(),
            params: Some(().encode()?),
            deadline_left: Duration::from_secs(60),
            answer_left: Duration::from_secs(50),
            waiting: Waiting::Staged,
            losses_max: self.children,
            spare: 0,
            hedge: false,
            tree: Tree::join(self.root, PartitionSet::new(), &leaves),
            explain: false,
            loads_wanted: false,
            slice: Slice::WHOLE,
            push: None,
        };
        let (before, began_at) = (self.process.processor_time()?, Instant::now());
        self.parent.say(&Message::Call(Box::new(call))).await?;
        let (mut came, mut sum) = (PartitionSet::new(), 0);
        loop {
            let incoming = tokio::select! {
                Some(failure) = self.failed.recv() => return Err(failure),
                incoming = self.parent.hear() => incoming?,
            };
            match incoming {
                Incoming::Message(Message::Partial(partial)) => {
                    if let Some(payload) = &partial.payload {
                        sum += Sum::decode(payload)?.0;
                        came.union_with(&partial.contributors);
                    }
                    if partial.last {
                        break;
                    }
                }
                Incoming::Fault(fault) => return Err(format!("the root says: {fault}").into()),
                _ => {}
            }
        }
        let latency = began_at.elapsed().as_secs_f64();
        tokio::time::sleep(AFTERMATH).await;
        let root_time = self.process.processor_time()?.saturating_sub(before).as_secs_f64();
        let all = (0..).zip(order(self.children, true));
        let expected: i64 =
            all.filter(|&(_, partition)| came.contains(partition)).map(|(child, _)| i64::from(child)).sum();
        if sum != expected {
            return Err(format!("the sum of those that came is {expected}, and the root says {sum}").into());
        }
        Ok(Sample { latency, root_time, came: came.len() as u32 })
    }

    /// Makes one call that every child must answer.
    async fn call_all(&mut self) -> Result<Sample, Failure> {
        let sample = self.call().await?;
        if sample.came == self.children {
            return Ok(sample);
        }
        Err(format!("{} of {} partials came", sample.came, self.children).into())
    }
}

impl Opened {
    fn figure(&self) -> Figure {
        let median = |part: fn(&Sample) -> f64| median(self.samples.iter().map(part).collect());
        let (latency, time) = (median(|sample| sample.latency), median(|sample| sample.root_time));
        Figure {
            children: self.fan.children,
            connect_us: self.connect_us,
            connection_kib: self.connection_kib,
            first_came: self.first_came,
            calls: self.samples.len(),
            latency_ms: latency * 1e3,
            root_call_ms: time * 1e3,
            root_partial_us: time * 1e6 / f64::from(self.fan.children),
        }
    }
}

/// Measures roots of these many children, in turns: all roots stand throughout.
pub(crate) fn measure(sizes: &[u32], rounds: u32, dials: Dials) -> Result<Vec<Figure>, Failure> {
    allow_files(sizes.iter().sum())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(LocalSet::new().run_until(async {
        let mut all = Vec::new();
        for &children in sizes {
            all.push(Fan::open(children, dials).await?);
        }
        for _ in 0..rounds {
            for opened in &mut all {
                for _ in 0..(PARTIALS_OF_ROUND / opened.fan.children).clamp(1, CALLS_OF_ROUND) {
                    opened.samples.push(opened.fan.call_all().await?);
                }
            }
        }
        Ok(all.iter().map(Opened::figure).collect())
    }))
}
