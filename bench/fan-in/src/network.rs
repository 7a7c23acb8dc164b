//! One root process; this process is its parent and all of its children.
//!
//! The root is a node with the real driver, one connection per child, and the real protocol. This process
//! holds the other ends. Each child has a separate name and loopback address, and behaves like a node: it
//! exchanges greetings with the root, and answers the root's call with a partial. The parent sends the root a
//! call with a tree of all children.
//!
//! The children do not gossip. The datagrams of ten thousand members in one process would cost more than the
//! measured work. A node can be asked without membership: a tree names its nodes, and a greeting admits them.

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

/// Least partials of the calls of one round.
const PARTIALS_OF_ROUND: u32 = 20_000;
/// Most calls of one round.
const CALLS_OF_ROUND: u32 = 50;
/// Connections that may wait to be accepted; the kernel may allow fewer.
const BACKLOG: u32 = 16_384;
/// Time after the answer during which the root's work still counts for the call.
const AFTERMATH: std::time::Duration = std::time::Duration::from_millis(20);
/// Most calls until every child must have answered. A root that dials thousands at once may abandon some
/// connections in its first call.
const FIRST_CALLS_MAX: usize = 20;
/// I/O slices of one write.
const SLICES: usize = 8;

/// The side that opens the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Dials {
    /// Each child connects to the root before the first call
    Children,
    /// The root connects to all children at once in the first call
    Root,
}

/// The costs for one number of children.
#[derive(Serialize)]
pub(crate) struct Figure {
    pub(crate) children: u32,
    /// Processor time of the root's process per new connection, in µs.
    pub(crate) connect_us: f64,
    /// Growth of the root's private memory per connection, after all have been used.
    pub(crate) connection_kib: f64,
    /// Partials that arrived in the first call.
    pub(crate) first_came: u32,
    pub(crate) calls: usize,
    /// Time from the parent's call to the root's answer.
    pub(crate) latency_ms: f64,
    /// Processor time of the root's process for one call.
    pub(crate) root_call_ms: f64,
    /// Processor time of the root's process per child: its call and its partial.
    pub(crate) root_partial_us: f64,
}

/// A connection to the root.
struct Peer {
    stream: TcpStream,
    inbox: Inbox,
    outbox: Outbox,
}

/// Returns the loopback address of a child, or of the parent, whose number follows the last child's.
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

    /// Connects from the node's address and exchanges greetings. Returns the root's id too.
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
                Incoming::Fault(fault) => return Err(format!("the root reported a fault: {fault}").into()),
                _ => {}
            }
        }
    }
}

/// The children's ends of the connections, until all are connected.
struct Ends {
    limits: Limits,
    /// Receiver of the failures.
    failed: mpsc::UnboundedSender<Failure>,
}

impl Ends {
    fn answer(&self, peer: Peer, child: u32) {
        let failed = self.failed.clone();
        spawn_local(async move {
            if let Err(failure) = peer.answer_calls(child).await {
                // The measurement may be over, and the receiver gone.
                let _ = failed.send(failure);
            }
        });
    }

    /// Connects each child to the root.
    async fn connect(&self, root: SocketAddr, children: u32, port: u16) -> Result<(), Failure> {
        for child in 0..children {
            let (peer, _) = Peer::connect(root, node_id(child, port), self.limits.clone()).await?;
            self.answer(peer, child);
        }
        Ok(())
    }

    /// Accepts the root's connections to the children, each at the child's address.
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
                // The root may abandon a slow connection and dial again.
                if let Ok(peer) = greet.await {
                    this.answer(peer, child);
                }
            });
        }
    }
}

/// A root with the connections of all its children.
struct Fan {
    process: Root,
    root: NodeId,
    parent: Peer,
    children: u32,
    /// The port in the children's ids.
    port: u16,
    failed: mpsc::UnboundedReceiver<Failure>,
    calls: u64,
}

/// The measured values of one call, in seconds.
struct Sample {
    latency: f64,
    root_time: f64,
    came: u32,
}

/// A fan with the cost of connecting it.
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
            // The extra cost of the first call over a later one.
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

    /// Makes one call. Returns its latency and the root's processor time.
    async fn call(&mut self) -> Result<Sample, Failure> {
        self.calls += 1;
        // The root asks its children in the order of the tree, so they answer in about that order. Their
        // partitions are scattered, so that the received ones do not form one range early.
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
                Incoming::Fault(fault) => return Err(format!("the root reported a fault: {fault}").into()),
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
            return Err(format!(
                "expected the sum {expected} of the partials that arrived, but the root answered {sum}"
            )
            .into());
        }
        Ok(Sample { latency, root_time, came: came.len() as u32 })
    }

    /// Makes one call that every child must answer.
    async fn call_all(&mut self) -> Result<Sample, Failure> {
        let sample = self.call().await?;
        if sample.came == self.children {
            return Ok(sample);
        }
        Err(format!("only {} of {} partials arrived", sample.came, self.children).into())
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

/// Measures roots with these numbers of children, alternately. All roots run throughout.
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
