//! A terms aggregation over many shards: one root that folds all shards' lists, and a tree of relays.
//!
//! The case is that of Elasticsearch's pull request 58377: each shard returns 1,000 terms, drawn from 100,000, with their
//! counts, and the coordinator adds them up. Here the coordinator, and each relay of the tree, is a process with the real driver, and the
//! ready reduce `sum-lines`. This process plays the caller and the shards, whose lists it has made before.

use crate::Failure;
use crate::median;
use crate::peer::{Answers, Ends, Peer, call, node_id};
use crate::root::{Root, allow_files, limits};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use treefold::PartitionSet;
use treefold::operators::Body;
use treefold_core::id::NodeId;
use treefold_core::tree::Tree;

/// Most counts of a term in one shard.
const COUNT_MAX: u64 = 10_000;
/// The seed of all lists.
const SEED: u64 = 58_377;
/// Files that this process has open for each relay: its pipes and its parent's connection.
const FILES_OF_RELAY: u32 = 4;

/// The sizes of the case.
#[derive(Clone, Debug, Args)]
pub(crate) struct Case {
    /// Terms of all shards together
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    cardinality: u32,

    /// Terms that a shard draws; equal ones count once
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    terms: u32,

    /// Most children of a node of the tree
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(2..))]
    fan_out: u32,

    /// Time over which the shards answer, each at a random moment, in milliseconds
    #[arg(long, default_value_t = 0)]
    spread: u64,

    /// Shapes; several, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Shape::Flat, Shape::Tree])]
    shapes: Vec<Shape>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Shape {
    /// The root asks all shards
    Flat,
    /// Relays are between the root and the shards
    Tree,
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == Self::Flat { "flat" } else { "tree" })
    }
}

/// One shape with one number of shards: medians over the rounds.
#[derive(Serialize)]
pub(crate) struct Figure {
    pub(crate) shape: Shape,
    pub(crate) shards: u32,
    pub(crate) relays: usize,
    /// Bytes of all shards' lists.
    pub(crate) sent_mib: f64,
    /// Bytes of the answer.
    pub(crate) answer_mib: f64,
    /// Time from the call to the answer, with all processes on this machine's processors.
    pub(crate) latency_ms: f64,
    /// Processor time of the root's process.
    pub(crate) root_ms: f64,
    /// The longest sum of processor times on a way from a leaf relay to the root: the time that the call would take if every process
    /// had a machine of its own and the network took no time.
    pub(crate) path_ms: f64,
    /// The most memory of the root's process during a call, above that before the first call.
    pub(crate) root_mib: f64,
}

/// The lists of all shards, and what they must add up to.
struct Lists {
    partials: Vec<Bytes>,
    pauses: Vec<Duration>,
    sums: HashMap<String, u64>,
}

impl Lists {
    fn draw(shards: u32, case: &Case) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
        let dictionary: Vec<String> = (0..case.cardinality).map(|_| random.next_u64().to_string()).collect();
        let mut sums: HashMap<String, u64> = HashMap::new();
        let mut pauses = Vec::new();
        let mut list = || {
            let drawn: BTreeMap<&str, u64> = (0..case.terms)
                .map(|_| {
                    let term = random.next_u64() % u64::from(case.cardinality);
                    (dictionary[term as usize].as_str(), random.next_u64() % COUNT_MAX)
                })
                .collect();
            pauses.push(Duration::from_micros(random.next_u64() % (case.spread * 1_000).max(1)));
            let mut lines = String::new();
            for (term, count) in drawn {
                // Writing to a string cannot fail.
                let _ = writeln!(lines, "{term}\t{count}");
                *sums.entry(term.to_owned()).or_default() += count;
            }
            Bytes::from(lines)
        };
        let partials = (0..shards).map(|_| list()).collect();
        Self { partials, pauses, sums }
    }

    fn bytes(&self) -> usize {
        self.partials.iter().map(Bytes::len).sum()
    }

    /// Compares an answer with the sums.
    fn check(&self, answer: &[u8]) -> Result<(), Failure> {
        let mut lines = 0;
        for line in std::str::from_utf8(answer)?.lines() {
            let (term, count) = line.split_once('\t').ok_or("a line of the answer has no tab")?;
            if self.sums.get(term) != Some(&count.parse()?) {
                return Err(format!("the answer counts {count} for the term {term}, which is wrong").into());
            }
            lines += 1;
        }
        if lines != self.sums.len() {
            return Err(format!("the answer has {lines} of {} terms", self.sums.len()).into());
        }
        Ok(())
    }
}

impl Answers for Lists {
    fn partial(&self, child: u32) -> Result<Bytes, Failure> {
        Ok(self.partials[child as usize].clone())
    }

    fn pause(&self, child: u32) -> Duration {
        self.pauses[child as usize]
    }
}

/// A node of the tree: a process with children, which are such nodes or shards.
struct Relay {
    process: Root,
    node: NodeId,
    children: Children,
    /// Its processor time before the call.
    before: Duration,
}

enum Children {
    Relays(Vec<Relay>),
    Shards(std::ops::Range<u32>),
}

impl Relay {
    /// Starts a node. Its shards connect to it, but its relays do not: it dials them in the first call.
    async fn start(children: Children, ends: &Ends, port: u16, shards: u32) -> Result<Self, Failure> {
        let process = Root::start(shards)?;
        let (_, node) = Peer::connect(process.addr, node_id(shards + 1, port), ends.limits.clone()).await?;
        if let Children::Shards(own) = &children {
            ends.connect(process.addr, own.clone(), port).await?;
        }
        Ok(Self { process, node, children, before: Duration::ZERO })
    }

    fn tree(&self, port: u16) -> Tree {
        let children: Vec<Tree> = match &self.children {
            Children::Relays(relays) => relays.iter().map(|relay| relay.tree(port)).collect(),
            Children::Shards(shards) => shards
                .clone()
                .map(|shard| Tree::leaf(node_id(shard, port), PartitionSet::from_range(shard..shard + 1)))
                .collect(),
        };
        Tree::join(self.node, PartitionSet::new(), &children)
    }

    fn relays(&self) -> &[Self] {
        match &self.children {
            Children::Relays(relays) => relays,
            Children::Shards(_) => &[],
        }
    }

    fn count(&self) -> usize {
        self.relays().iter().map(|relay| relay.count() + 1).sum()
    }

    fn begin(&mut self) -> Result<(), Failure> {
        self.before = self.process.processor_time()?;
        if let Children::Relays(relays) = &mut self.children {
            relays.iter_mut().try_for_each(Self::begin)?;
        }
        Ok(())
    }

    /// Returns the processor time since [`begin`](Self::begin).
    fn time(&self) -> Result<Duration, Failure> {
        Ok(self.process.processor_time()?.saturating_sub(self.before))
    }

    /// Returns the longest sum of processor times on a way from a leaf to here.
    fn path(&self) -> Result<Duration, Failure> {
        let mut longest = Duration::ZERO;
        for relay in self.relays() {
            longest = longest.max(relay.path()?);
        }
        Ok(longest + self.time()?)
    }
}

/// One shape over one number of shards, with its processes.
struct Bed {
    shape: Shape,
    root: Relay,
    parent: Peer,
    failed: mpsc::UnboundedReceiver<Failure>,
    lists: Rc<Lists>,
    port: u16,
    calls: u64,
    /// Memory of the root before the first call.
    idle: u64,
    samples: Vec<Sample>,
}

struct Sample {
    latency: Duration,
    root: Duration,
    path: Duration,
    memory: u64,
    answer: usize,
}

impl Bed {
    async fn set_up(shape: Shape, shards: u32, lists: &Rc<Lists>, case: &Case) -> Result<Self, Failure> {
        let limits = limits(shards);
        let (tell, failed) = mpsc::unbounded_channel();
        let answers = Rc::clone(lists) as Rc<dyn Answers>;
        let ends = Rc::new(Ends { limits: limits.clone(), failed: tell, answers });
        let port = ends.listen()?;
        let mut level: Vec<Children> = match shape {
            Shape::Flat => vec![Children::Shards(0..shards)],
            Shape::Tree => {
                let first = |number| number * case.fan_out;
                (0..shards.div_ceil(case.fan_out))
                    .map(|number| Children::Shards(first(number)..first(number + 1).min(shards)))
                    .collect()
            }
        };
        let root = loop {
            let mut relays = Vec::new();
            let is_root = level.len() == 1;
            for children in level {
                relays.push(Relay::start(children, &ends, port, shards).await?);
            }
            if is_root {
                break relays.remove(0);
            }
            level = Vec::new();
            while !relays.is_empty() {
                let rest = relays.split_off(relays.len().min(case.fan_out as usize));
                level.push(Children::Relays(std::mem::replace(&mut relays, rest)));
            }
        };
        let (parent, _) = Peer::connect(root.process.addr, node_id(shards, port), limits).await?;
        let idle = root.process.memory_bytes()?;
        let lists = Rc::clone(lists);
        Ok(Self { shape, root, parent, failed, lists, port, calls: 0, idle, samples: Vec::new() })
    }

    async fn call(&mut self) -> Result<Sample, Failure> {
        self.calls += 1;
        let call = call("fan/terms", ().encode()?, self.calls, self.root.tree(self.port));
        self.root.begin()?;
        self.root.process.forget_most_memory()?;
        let began_at = Instant::now();
        let (partials, came) = self.parent.ask(call, &mut self.failed).await?;
        let latency = began_at.elapsed();
        let memory = self.root.process.most_memory_bytes()?.saturating_sub(self.idle);
        let (root, path) = (self.root.time()?, self.root.path()?);
        let [answer] = partials.as_slice() else {
            return Err(format!("the root answered in {} parts", partials.len()).into());
        };
        if came.len() != self.lists.partials.len() {
            return Err(format!(
                "only {} of {} shards are in the answer",
                came.len(),
                self.lists.partials.len()
            )
            .into());
        }
        self.lists.check(answer)?;
        Ok(Sample { latency, root, path, memory, answer: answer.len() })
    }

    fn figure(&self) -> Figure {
        const MIB: f64 = 1_048_576.0;
        let ms = |part: fn(&Sample) -> Duration| {
            median(self.samples.iter().map(|sample| part(sample).as_secs_f64() * 1e3).collect())
        };
        let mib =
            |part: fn(&Sample) -> f64| median(self.samples.iter().map(|sample| part(sample) / MIB).collect());
        Figure {
            shape: self.shape,
            shards: self.lists.partials.len() as u32,
            relays: self.root.count(),
            sent_mib: self.lists.bytes() as f64 / MIB,
            answer_mib: mib(|sample| sample.answer as f64),
            latency_ms: ms(|sample| sample.latency),
            root_ms: ms(|sample| sample.root),
            path_ms: ms(|sample| sample.path),
            root_mib: mib(|sample| sample.memory as f64),
        }
    }
}

/// Measures the shapes over these numbers of shards. The shapes alternate round by round.
pub(crate) fn measure(sizes: &[u32], rounds: u32, case: &Case) -> Result<Vec<Figure>, Failure> {
    let most = sizes.iter().max().copied().unwrap_or(0);
    // All shapes of a size run at once.
    let connections = most.saturating_mul(case.shapes.len() as u32);
    allow_files(connections.saturating_add(most / case.fan_out * 2 * FILES_OF_RELAY))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(LocalSet::new().run_until(async {
        let mut figures = Vec::new();
        for &shards in sizes {
            let lists = Rc::new(Lists::draw(shards, case));
            let mut beds = Vec::new();
            for &shape in &case.shapes {
                beds.push(Bed::set_up(shape, shards, &lists, case).await?);
            }
            for bed in &mut beds {
                // The first call makes connections.
                bed.call().await?;
            }
            for _ in 0..rounds {
                for bed in &mut beds {
                    let sample = bed.call().await?;
                    bed.samples.push(sample);
                }
            }
            figures.extend(beds.iter().map(Bed::figure));
        }
        Ok(figures)
    }))
}
