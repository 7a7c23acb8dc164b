//! Nodes whose workers wait for their children: what event-driven workers are compared with (DAC §5.4, NoED).
//!
//! In the paper's other scheme a worker thread serves a request from its local to its answer, and is blocked while it waits
//! for its children. Treefold's nodes never do that. So these nodes have an application that does: its local runs on one of
//! the node's workers, calls each child with a call of one partition, does its own work on the node's emulated processors,
//! waits for the children, and folds what they answered.
//!
//! ```text
//!   worker of node 0: ask 12, 6, 3, 2, 1 | own work | wait … fold 12 | wait … fold 6 | …
//!   worker of node 12: ask 18, 15, 14, 13 | own work | wait …
//! ```
//!
//! The tree is binomial: a node of the range `from..to` keeps the first half and gives the rest to a child, again and again.
//! Each call has a root of its own. A child that has not answered by the deadline is missing in the sum.
//!
//! [`Trees::Pruned`] adds the paper's eager pruning (§5.5, *EP only*): nodes that are slow at the call's planned instant are leaves
//! below the root, and the deadlines of children are staged as in §4.4. The caller knows which nodes are slow at once, which is
//! kinder to the scheme than load figures that must show it first.
//!
//! All calls between the nodes are real ones, so waiting workers are really blocked threads, and a node without free workers
//! leaves its callers waiting, which may wait for each other.

use super::caller::times_of;
use super::slowing::Slowing;
use crate::load::pace::Arrival;
use crate::load::trial::{Calls, Ended, Ending};
use bytes::Bytes;
use clap::Parser;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use treefold::{Client, ClusterOptions, Node, PartitionSet, Service, Shape};
use treefold_cli::exit::Failure;
use treefold_micro::{Emulated, Emulation, Timed};
use treefold_operators::{Body, Codec, Operator, OperatorError, Outcome, Partition, Placement};

const SERVICE: &str = "blocking";
const KIND: &str = "blocking/micro";

/// Time that staged deadlines keep for one hop.
const HOP: Duration = Duration::from_millis(1);

/// Time beyond the deadline for which a caller waits if it takes partial answers. A root that has waited for its children until
/// the deadline answers just after it.
const PARTIAL_GRACE: Duration = Duration::from_millis(200);

/// The option that makes a node of this program a blocking one.
const POOL_OPTION: &str = "--blocking-pool";

/// Time until every node has met all others and answers for them.
const EXACT_TIMEOUT: Duration = Duration::from_secs(60);
const EXACT_INTERVAL: Duration = Duration::from_millis(50);

/// The trees of blocking nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Trees {
    /// Slow nodes stand anywhere, and all nodes have the call's deadline.
    Random,
    /// Slow nodes are leaves below the root, and a child has less time than its parent.
    Pruned,
}

impl Trees {
    /// Name of a series.
    pub(super) fn series(self, workers: u32) -> String {
        match self {
            Self::Random => format!("blocking:{workers}"),
            Self::Pruned => format!("blocking:{workers},pruned"),
        }
    }
}

/// Parameters: a call's work, and the part of its tree that is below the called node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Span {
    emulation: Emulation,
    /// The tree's places, by partition: the root's first, the slow nodes' last if the tree is pruned.
    places: Vec<u32>,
    /// Number of the last places that are leaves below the root. 0 if the tree is not pruned.
    pruned: u32,
    /// True if a child has less time than its parent.
    is_staged: bool,
    /// The range that the called node, the first of it, answers for.
    from: u32,
    to: u32,
    /// The call's deadline, in microseconds since 1970. All nodes are on one machine.
    until_us: u64,
}

impl Span {
    /// A whole call of this work.
    fn of_call(emulation: Emulation, partitions: u32, trees: Trees, deadline: Duration) -> Self {
        let is_slow = |partition: &u32| emulation.slow.iter().any(|(slow, _)| slow == partition);
        let (mut places, slow): (Vec<u32>, Vec<u32>) = match trees {
            Trees::Random => ((0..partitions).collect(), Vec::new()),
            Trees::Pruned => (0..partitions).partition(|partition| !is_slow(partition)),
        };
        // If all nodes are slow, no place is better than another.
        let pruned = if places.is_empty() { 0 } else { slow.len() as u32 };
        if places.is_empty() {
            places.clone_from(&slow);
        }
        let root = (emulation.seed % places.len() as u64) as usize;
        places.rotate_left(root);
        if pruned > 0 {
            places.extend(slow);
        }
        let until_us = since_1970_us().saturating_add(deadline.as_micros() as u64);
        let is_staged = trees == Trees::Pruned;
        Self { emulation, places, pruned, is_staged, from: 0, to: partitions, until_us }
    }

    /// The partition of the called node.
    fn partition(&self) -> u32 {
        self.places[self.from as usize]
    }

    /// The children's parts, the largest first.
    fn children(&self) -> Vec<Self> {
        let is_root = self.from == 0;
        let leaves = if is_root { self.pruned } else { 0 };
        let (mut to, mut ranges) = (self.to - leaves, Vec::new());
        while to.saturating_sub(self.from) > 1 {
            let half = self.from + (to - self.from).div_ceil(2);
            ranges.push(half..to);
            to = half;
        }
        ranges.extend((self.to - leaves..self.to).map(|leaf| leaf..leaf + 1));
        // Staged deadlines rank siblings by their sizes, the smallest first.
        let ranked = (1..=ranges.len() as u32).rev().zip(ranges);
        ranked.map(|(rank, range)| self.child(range, rank)).collect()
    }

    fn child(&self, range: Range<u32>, rank: u32) -> Self {
        let reduce_us = (self.emulation.reduce_ms * 1e3) as u64;
        let kept_us = if self.is_staged { reduce_us * u64::from(rank) + HOP.as_micros() as u64 } else { 0 };
        let until_us = self.until_us.saturating_sub(kept_us);
        Self { from: range.start, to: range.end, until_us, ..self.clone() }
    }

    fn left(&self) -> Duration {
        Duration::from_micros(self.until_us.saturating_sub(since_1970_us()))
    }
}

fn since_1970_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// The application of a blocking node.
struct Blocking {
    emulated: Emulated,
    /// Of this node, once it runs.
    client: Arc<OnceLock<Client>>,
    runtime: Handle,
}

impl Blocking {
    /// Answers for a part of a call's tree. Blocks this worker until all children have answered, or the deadline.
    fn serve(&self, partition: &Partition, params: &Bytes) -> Result<Bytes, OperatorError> {
        let asked = Span::decode(params).map_err(OperatorError::invalid_params)?;
        let emulation = asked.emulation.encode()?;
        let client = self.client.get().ok_or_else(|| OperatorError::new("the node does not run yet"))?;
        let children: Vec<_> = asked.children().into_iter().map(|child| self.ask(client, child)).collect();
        let mut partial = self.ended(self.emulated.local(partition, &emulation))?;
        for child in children {
            let answered = self.runtime.block_on(child);
            let Some(theirs) = answered.ok().flatten() else { continue };
            partial = self.ended(self.emulated.reduce(partial, theirs.encode()?, &emulation))?;
        }
        Ok(partial)
    }

    /// Calls a child. Its answer is `None` if there was none in time.
    fn ask(&self, client: &Client, child: Span) -> JoinHandle<Option<Timed>> {
        let client = client.clone();
        self.runtime.spawn(async move { asked(&client, &child, Duration::ZERO).await.ok()?.value })
    }

    fn ended(&self, outcome: Outcome) -> Result<Bytes, OperatorError> {
        match outcome {
            Outcome::Now(result) => result,
            Outcome::Later(pending) => self.runtime.block_on(pending),
        }
    }
}

impl Operator for Blocking {
    fn local(&self, partition: &Partition, params: &Bytes) -> Outcome {
        Outcome::Now(self.serve(partition, params))
    }

    fn reduce(&self, _: Bytes, _: Bytes, _: &Bytes) -> Outcome {
        Outcome::Now(Err(OperatorError::new("a call of this aggregation has one partition")))
    }

    fn finish(&self, partial: Bytes, _: &Bytes) -> Result<Bytes, OperatorError> {
        Ok(partial)
    }

    fn placement(&self) -> Placement {
        Placement::Pool
    }

    fn holds_processor(&self) -> bool {
        true
    }

    fn codecs(&self) -> (Codec, Codec) {
        (Span::CODEC, Timed::CODEC)
    }
}

/// Calls the node that a part of a tree begins with, and waits for so much longer than its deadline.
async fn asked(
    client: &Client,
    span: &Span,
    grace: Duration,
) -> Result<treefold::Reply<Timed>, treefold::Error> {
    let partition = span.partition();
    let call =
        client.call::<Timed>(KIND, span).partitions(PartitionSet::from_range(partition..partition + 1));
    call.shape(Shape::Flat).deadline(span.left() + grace).await
}

/// Arguments of each node of a fleet of blocking nodes, each with this many workers.
pub(super) fn told(nodes: u32, workers: u32) -> Vec<Vec<String>> {
    let words = |node: u32| {
        let (workers, place) = (workers.to_string(), format!("{node}/{nodes}"));
        [POOL_OPTION, &workers, "--partition", &place].map(str::to_owned).to_vec()
    };
    (0..nodes).map(words).collect()
}

/// A node of this program whose workers block.
#[derive(Debug, Parser)]
struct BlockingNode {
    #[arg(long)]
    listen: String,
    #[arg(long)]
    cluster: String,
    #[arg(long, value_delimiter = ',')]
    join: Vec<String>,
    /// Number of its workers.
    #[arg(long, value_name = "N")]
    blocking_pool: u32,
    /// Its partition, and the number of all.
    #[arg(long, value_name = "I/N", value_parser = place)]
    partition: (u32, u32),
}

fn place(text: &str) -> Result<(u32, u32), String> {
    let place = text.split_once('/').and_then(|(node, all)| Some((node.parse().ok()?, all.parse().ok()?)));
    place.ok_or_else(|| "expected the partition and the number of all, as in 3/24".to_owned())
}

/// Runs this process as a blocking node if its arguments say so.
pub(crate) fn node() -> Option<ExitCode> {
    let mut words: Vec<_> = std::env::args_os().collect();
    if !words.iter().any(|word| word == POOL_OPTION) {
        return None;
    }
    // The word that makes this program a node.
    words.remove(1);
    let run = |node: BlockingNode| treefold_cli::on_runtime(node.run());
    Some(treefold_cli::answer(BlockingNode::try_parse_from(words), |_| Default::default(), run))
}

impl BlockingNode {
    async fn run(self) -> Result<treefold_cli::exit::Verdict, Failure> {
        let client = Arc::new(OnceLock::new());
        let blocking = Blocking {
            emulated: Emulated::default(),
            client: Arc::clone(&client),
            runtime: Handle::current(),
        };
        let (partition, total) = self.partition;
        let service =
            Service::new(SERVICE).operator("micro", Arc::new(blocking)).partition(partition, ()).total(total);
        let node = Node::builder()
            .listen(&self.listen)
            .join(&self.join)
            .cluster(ClusterOptions::new(&self.cluster))
            .processors(self.blocking_pool)
            .workers(self.blocking_pool as usize)
            .service(service);
        let node = node.start().await.map_err(|error| Failure::failed(error.to_string()))?;
        // Nobody else sets it.
        let _ = client.set(node.client());
        println!("listening on {}", node.addr());
        std::future::pending().await
    }
}

/// The calls of a run at blocking nodes, at each of several fronts in turn.
pub(super) struct BlockingCalls<'a> {
    pub(super) clients: &'a [Client],
    pub(super) partitions: u32,
    pub(super) emulation: Emulation,
    pub(super) slow: &'a [Slowing],
    pub(super) trees: Trees,
    pub(super) deadline: Duration,
    pub(super) min_coverage: f64,
}

impl Calls for BlockingCalls<'_> {
    fn call(
        &self,
        arrival: Arrival,
        _: Shape,
        planned_s: f64,
    ) -> impl Future<Output = Result<Ended, Failure>> + 'static {
        let client = self.clients[arrival.turn(self.clients.len())].clone();
        let slow = Slowing::at(self.slow, planned_s);
        let emulation = Emulation { seed: arrival.seed, slow, ..self.emulation.clone() };
        let (partitions, min_coverage) = (self.partitions, self.min_coverage);
        let span = Span::of_call(emulation, partitions, self.trees, self.deadline);
        let grace = if min_coverage < 1.0 { PARTIAL_GRACE } else { Duration::ZERO };
        async move { judged(asked(&client, &span, grace).await, partitions, min_coverage) }
    }
}

impl BlockingCalls<'_> {
    /// Returns once a call from every root has a whole answer, which means that all nodes have met.
    pub(super) async fn await_exactness(&self) -> Result<(), Failure> {
        let give_up_at = Instant::now() + EXACT_TIMEOUT;
        for root in 0..self.partitions {
            let emulation = Emulation { seed: root.into(), ..self.emulation.clone() };
            loop {
                let span = Span::of_call(emulation.clone(), self.partitions, Trees::Random, self.deadline);
                let reply = asked(&self.clients[0], &span, Duration::ZERO).await;
                let ended = judged(reply, self.partitions, 1.0)?;
                match ended.ending {
                    Ending::Answered(_) => break,
                    _ if Instant::now() < give_up_at => tokio::time::sleep(EXACT_INTERVAL).await,
                    other => {
                        return Err(Failure::failed(format!("no whole answer from node {root}: {other:?}")));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Judges a call: only an answer with this coverage counts.
fn judged(
    result: Result<treefold::Reply<Timed>, treefold::Error>,
    partitions: u32,
    min_coverage: f64,
) -> Result<Ended, Failure> {
    let has = result.as_ref().ok().and_then(|reply| Some(reply.value.as_ref()?.partitions)).unwrap_or(0);
    let all: i64 = (0..i64::from(partitions)).sum();
    let fault = |reply: &treefold::Reply<Timed>| match &reply.value {
        Some(value) if value.partitions > partitions => Some(format!("{value:?} of {partitions}")),
        Some(value) if value.partitions == partitions && value.sum != all => {
            Some(format!("{value:?}, and the sum of all is {all}"))
        }
        _ => None,
    };
    let mut ended = Ended::of(result, fault, times_of)?;
    ended.coverage = f64::from(has) / f64::from(partitions);
    if ended.coverage < min_coverage && matches!(ended.ending, Ending::Answered(_)) {
        ended.ending = Ending::Insufficient;
    }
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(partitions: u32, seed: u64) -> Span {
        let emulation = Emulation { seed, ..Emulation::default() };
        Span::of_call(emulation, partitions, Trees::Random, Duration::from_secs(2))
    }

    fn pruned(partitions: u32, seed: u64, slow: &[u32]) -> Span {
        let slow = slow.iter().map(|&partition| (partition, 5.0)).collect();
        let emulation = Emulation { seed, slow, ..Emulation::default() };
        Span::of_call(emulation, partitions, Trees::Pruned, Duration::from_secs(2))
    }

    /// The partitions of a part, each as often as the tree reaches it.
    fn reached(span: &Span) -> Vec<u32> {
        let below = span.children().iter().flat_map(reached).collect::<Vec<_>>();
        std::iter::once(span.partition()).chain(below).collect()
    }

    #[test]
    fn every_tree_reaches_every_partition_once() {
        for partitions in [1, 2, 3, 7, 24] {
            for seed in [0, 5, 23, u64::MAX] {
                let mut all = reached(&whole(partitions, seed));
                all.sort_unstable();
                assert_eq!(all, (0..partitions).collect::<Vec<_>>(), "root {seed}");
            }
        }
    }

    #[test]
    fn slow_nodes_are_leaves_below_the_root_of_pruned_trees() {
        for slow in [&[][..], &[1], &[1, 2], &[0, 1, 2, 3, 4, 5, 6]] {
            for seed in [0, 1, 2, 5, 23] {
                let root = pruned(7, seed, slow);
                let mut all = reached(&root);
                all.sort_unstable();
                assert_eq!(all, (0..7).collect::<Vec<_>>(), "{slow:?}, seed {seed}");
                if slow.len() < 7 {
                    assert!(!slow.contains(&root.partition()));
                    let leaves = root.children().into_iter().filter(|child| child.from + 1 == child.to);
                    let leaves: Vec<u32> = leaves.map(|leaf| leaf.partition()).collect();
                    assert!(
                        slow.iter().all(|slow| leaves.contains(slow)),
                        "{slow:?}, seed {seed}: {leaves:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn deadlines_of_pruned_trees_are_staged_by_rank() {
        let root = pruned(8, 3, &[1]);
        let less: Vec<u64> =
            root.children().iter().map(|child| (root.until_us - child.until_us) / 1000).collect();
        assert_eq!(less, [21, 16, 11, 6], "5 ms for each reduction that comes later, and 1 ms for the hop");
        let random = whole(8, 3);
        assert!(random.children().iter().all(|child| child.until_us == random.until_us));
    }

    #[test]
    fn trees_are_binomial() {
        let sizes =
            |span: &Span| span.children().iter().map(|child| child.to - child.from).collect::<Vec<_>>();
        assert_eq!(sizes(&whole(16, 3)), [8, 4, 2, 1]);
        assert_eq!(sizes(&whole(24, 3)), [12, 6, 3, 1, 1]);
    }

    #[test]
    fn only_answers_with_enough_coverage_count() {
        let reply = |partitions: u32, sum: i64| {
            Ok(treefold::Reply {
                status: treefold::Status::Full,
                value: Some(Timed { sum, partitions, ..Timed::default() }),
                asked: PartitionSet::first(1),
                contributed: PartitionSet::first(1),
                missing: Vec::new(),
                total_is_guess: false,
                elapsed: Duration::ZERO,
                report: None,
            })
        };
        assert!(matches!(judged(reply(4, 6), 4, 1.0).unwrap().ending, Ending::Answered(_)));
        let part = judged(reply(3, 3), 4, 1.0).unwrap();
        assert_eq!((part.ending, part.coverage), (Ending::Insufficient, 0.75));
        let part = judged(reply(3, 3), 4, 0.5).unwrap();
        assert!(matches!(part.ending, Ending::Answered(_)) && part.coverage == 0.75, "{part:?}");
        assert!(judged(reply(4, 7), 4, 1.0).unwrap_err().to_string().contains("the sum of all is 6"));
    }
}
