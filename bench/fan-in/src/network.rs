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
use crate::peer::{Answers, Ends, Peer, call, node_id};
use crate::root::{Root, allow_files, limits};
use bytes::Bytes;
use serde::Serialize;
use std::rc::Rc;
use std::time::Instant;
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use treefold::PartitionSet;
use treefold::operators::Body;
use treefold::operators::merge::Sum;
use treefold_core::id::NodeId;
use treefold_core::tree::Tree;

/// Least partials of the calls of one round.
const PARTIALS_OF_ROUND: u32 = 20_000;
/// Most calls of one round.
const CALLS_OF_ROUND: u32 = 50;
/// Time after the answer during which the root's work still counts for the call.
const AFTERMATH: std::time::Duration = std::time::Duration::from_millis(20);
/// Most calls until every child must have answered. A root that dials thousands at once may abandon some
/// connections in its first call.
const FIRST_CALLS_MAX: usize = 20;

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

/// Each child's partial is its number.
struct Numbers;

impl Answers for Numbers {
    fn partial(&self, child: u32) -> Result<Bytes, Failure> {
        Ok(Sum(i64::from(child)).encode()?)
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
        let ends = Rc::new(Ends { limits: limits.clone(), failed: tell, answers: Rc::new(Numbers) });
        let port = ends.listen()?;
        let (parent, root) = Peer::connect(process.addr, node_id(children, port), limits).await?;
        let (time, memory) = (process.processor_time()?, process.memory_bytes()?);
        if dials == Dials::Children {
            ends.connect(process.addr, 0..children, port).await?;
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
        let tree = Tree::join(self.root, PartitionSet::new(), &leaves);
        let call = call("fan/sum", ().encode()?, self.calls, tree);
        let (before, began_at) = (self.process.processor_time()?, Instant::now());
        let (partials, came) = self.parent.ask(call, &mut self.failed).await?;
        let latency = began_at.elapsed().as_secs_f64();
        tokio::time::sleep(AFTERMATH).await;
        let root_time = self.process.processor_time()?.saturating_sub(before).as_secs_f64();
        let all = (0..).zip(order(self.children, true));
        let mut sum = 0;
        for partial in &partials {
            sum += Sum::decode(partial)?.0;
        }
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
