//! Many nodes, each a separate process, that end no later than the process that started them.
//!
//! Invariant: no node process outlives the benchmark. Dropping a fleet kills its processes. If this process
//! dies without dropping anything (Ctrl-C, a panic that aborts, `kill -9`), the kernel kills its children
//! (`PR_SET_PDEATHSIG`).
//!
//! A node can also be broken on purpose ([`Fleet::kill`], [`Fleet::stop`]) and mended: its index in the fleet
//! determines its address and its partitions, and a new process takes over both.

pub mod cost;
pub mod processes;

use crate::commands::{connect, failure_of};
use crate::exit::Failure;
use crate::trust::Trust;
use indicatif::{ProgressBar, ProgressStyle};
use processes::Processes;
use std::fs::File;
use std::io;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use treefold::PartitionSet;

/// Limit on the time until a started node prints its address.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Limit on the time until all nodes know each other.
const MEET_TIMEOUT: Duration = Duration::from_secs(60);

/// First interval between two readings of the first node's member list.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Longest interval between two readings. A reading is work for the first node, which is busy while others join.
const LOOK_INTERVAL_MAX: Duration = Duration::from_millis(40);

/// Largest number of nodes on one machine.
pub const NODES_MAX: i64 = 1024;

/// Limit on the time until a restarted node listens at its address again: the previous holder must release
/// the port first.
const RESTART_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause between two attempts to start a node again.
const RESTART_INTERVAL: Duration = Duration::from_millis(20);

/// Size of the largest fleet in which all nodes join the first one.
const ONE_SEED_MAX: usize = 128;

/// Number of nodes of a larger fleet that start before all others. Each of the others joins some of them, because one alone
/// would be busy with hundreds that join it at once.
const SEED_NODES: usize = 16;

/// Number of nodes that a node joins at the fleet's start, if there are as many.
const SEEDS: usize = 2;

/// Number of nodes that a node tries to join when it starts again: some of them may be broken, too.
const SEEDS_MAX: usize = 16;

/// Address given to a node that has none yet.
const ANY_PORT: &str = "127.0.0.1:0";

/// Which node hosts which partitions of the micro service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    pub nodes: u32,
    pub partitions: u32,
    /// Number of nodes that host each partition: its own node and the next ones round the ring.
    pub replicas: u32,
}

impl Placement {
    /// As many partitions as nodes, one each.
    pub fn one_each(nodes: u32) -> Self {
        Self { nodes, partitions: nodes, replicas: 1 }
    }

    /// Returns the node's argument of `--serve`.
    pub fn micro_of(self, node: u32) -> String {
        format!("micro:partitions={}/{}", self.partitions_of(node), self.partitions)
    }

    fn partitions_of(self, node: u32) -> PartitionSet {
        let hosts =
            |partition: u32| (0..self.replicas).any(|replica| (partition + replica) % self.nodes == node);
        (0..self.partitions).filter(|&partition| hosts(partition)).collect()
    }
}

/// Node processes on loopback.
///
/// The others joined the first one, or in a large fleet some of the first ones.
pub struct Fleet {
    nodes: Vec<NodeProcess>,
    /// Arguments of each node, without the addresses to listen at and to join.
    told: Vec<Vec<String>>,
    cluster: String,
    started_at: Instant,
    /// File for the nodes' messages. Without one, they go to this process's standard error.
    log: Option<File>,
}

struct NodeProcess {
    addr: String,
    child: Child,
    id: u32,
    /// Kept open, so that a node that prints doesn't meet a closed pipe.
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Fleet {
    /// Starts the nodes of a placement with one processor each.
    pub async fn start(placement: Placement) -> Result<Self, Failure> {
        Self::start_with(placement, vec![1; placement.nodes as usize]).await
    }

    /// Starts the nodes of a placement; each is given its number of processors.
    pub async fn start_with(placement: Placement, processors: Vec<u32>) -> Result<Self, Failure> {
        let micro = |node| placement.micro_of(node);
        Self::start_serving((0..placement.nodes).map(micro).collect(), processors).await
    }

    /// Starts one node for each argument of `--serve`, with the given numbers of processors.
    pub async fn start_serving(serves: Vec<String>, processors: Vec<u32>) -> Result<Self, Failure> {
        assert_eq!(processors.len(), serves.len(), "invariant: each node has processors");
        let words = |(serve, processors): (String, u32)| {
            let processors = processors.to_string();
            ["--workers", "1", "--processors", &processors, "--serve", &serve].map(str::to_owned).to_vec()
        };
        Self::start_told(serves.into_iter().zip(processors).map(words).collect()).await
    }

    /// Starts one node for each list of arguments.
    ///
    /// The addresses to listen at and to join are added.
    pub async fn start_told(told: Vec<Vec<String>>) -> Result<Self, Failure> {
        Self::start_all(told, None).await
    }

    /// Does the same, and has the nodes write their messages to a file.
    pub async fn start_logged(told: Vec<Vec<String>>, log: File) -> Result<Self, Failure> {
        Self::start_all(told, Some(log)).await
    }

    async fn start_all(told: Vec<Vec<String>>, log: Option<File>) -> Result<Self, Failure> {
        // Keys name their cluster, and the nodes read them from the environment too.
        let cluster = match Trust::of_environment()? {
            Trust::Keys(keys) => keys.cluster(),
            Trust::Open | Trust::Token(_) => format!("bench-{}", std::process::id()),
        };
        let nodes = u32::try_from(told.len()).expect("invariant: a fleet has at most NODES_MAX nodes");
        let bar = progress(u64::from(nodes));
        let mut fleet = Self { nodes: Vec::new(), told, cluster, started_at: Instant::now(), log };
        let all = nodes as usize;
        let seeds = if all > ONE_SEED_MAX { SEED_NODES } else { 1.min(all) };
        for batch in [0..1.min(all), 1..seeds, seeds..all] {
            let spawned: Vec<Spawned> =
                batch.map(|at| fleet.spawn(at, ANY_PORT, SEEDS)).collect::<Result<_, _>>()?;
            for node in spawned {
                fleet.nodes.push(node.listening().await?);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok(fleet)
    }

    fn spawn(&self, at: usize, listen: &str, seeds_max: usize) -> Result<Spawned, Failure> {
        let refused = |error: io::Error| Failure::failed(format!("can't start node {at}: {error}"));
        let mut command = Command::new(crate::own_program().map_err(refused)?);
        command.args(["node", "--listen", listen, "--cluster", &self.cluster]).args(&self.told[at]);
        // Each node begins with another seed.
        let others = (0..self.nodes.len()).map(|other| (at + other) % self.nodes.len());
        let seeds: Vec<&str> =
            others.filter(|&other| other != at).map(|other| self.addr(other)).take(seeds_max).collect();
        if !seeds.is_empty() {
            command.args(["--join", &seeds.join(",")]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        if let Some(log) = &self.log {
            command.stderr(log.try_clone().map_err(refused)?);
        }
        die_with_parent(&mut command);
        command.spawn().map(Spawned).map_err(refused)
    }

    /// Kills a node (`kill -9`); it has ended when this returns.
    pub async fn kill(&mut self, at: usize) -> Result<(), Failure> {
        let killed = self.nodes[at].child.kill().await;
        killed.map_err(|error| Failure::failed(format!("can't kill node {at}: {error}")))
    }

    /// Starts a killed node again at the same address, as an operator's supervisor would.
    ///
    /// Returns once it listens. If this is dropped before that, the node stays killed.
    pub async fn restart(&mut self, at: usize) -> Result<(), Failure> {
        let addr = self.nodes[at].addr.clone();
        let give_up_at = Instant::now() + RESTART_TIMEOUT;
        loop {
            match self.spawn(at, &addr, SEEDS_MAX)?.listening().await {
                Ok(node) => {
                    self.nodes[at] = node;
                    return Ok(());
                }
                Err(failure) if Instant::now() >= give_up_at => return Err(failure),
                Err(_) => tokio::time::sleep(RESTART_INTERVAL).await,
            }
        }
    }

    /// Stops a node (`kill -STOP`): its process and its connections stay, but it does nothing.
    pub fn stop(&self, at: usize) -> Result<(), Failure> {
        self.signal(at, libc::SIGSTOP)
    }

    /// Resumes a stopped node (`kill -CONT`).
    pub fn resume(&self, at: usize) -> Result<(), Failure> {
        self.signal(at, libc::SIGCONT)
    }

    fn signal(&self, at: usize, signal: libc::c_int) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::failed(format!("can't signal node {at}: {error}"));
        let pid = libc::pid_t::try_from(self.nodes[at].id).expect("invariant: it came from the kernel");
        // SAFETY: kill touches no memory. The child was not waited for, so the kernel has not reused its id.
        if unsafe { libc::kill(pid, signal) } != 0 {
            return Err(failed(io::Error::last_os_error()));
        }
        Ok(())
    }

    /// Returns once the first node has all other nodes in sight.
    pub async fn meet(&self) -> Result<(), Failure> {
        let give_up_at = Instant::now() + MEET_TIMEOUT;
        let mut interval = LOOK_INTERVAL;
        loop {
            let (seen, all) = (self.in_sight().await, self.nodes.len());
            match seen {
                Ok(in_sight) if in_sight >= all => return Ok(()),
                // A node that is busy with those that join may be late with its answer.
                _ if Instant::now() < give_up_at => tokio::time::sleep(interval).await,
                Ok(in_sight) => {
                    let problem = format!("{in_sight} of {all} nodes in sight after {MEET_TIMEOUT:?}");
                    return Err(Failure::failed(problem));
                }
                Err(failure) => return Err(failure),
            }
            interval = (interval * 2).min(LOOK_INTERVAL_MAX);
        }
    }

    /// Number of nodes that the first node sees, itself included.
    async fn in_sight(&self) -> Result<usize, Failure> {
        let first = connect(&[self.first_addr().to_owned()], false, &self.cluster).await?;
        Ok(first.status().await.map_err(failure_of)?.members.len() + 1)
    }

    /// Returns the next line that a node prints behind its address; `None` if it has ended.
    pub async fn line(&mut self, at: usize) -> Option<String> {
        self.nodes[at].stdout.next_line().await.ok().flatten()
    }

    /// True if a node's process has ended, by itself or killed.
    pub fn has_ended(&mut self, at: usize) -> bool {
        !matches!(self.nodes[at].child.try_wait(), Ok(None))
    }

    /// Number of nodes.
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// Address of the first node; a fleet has at least one.
    pub fn first_addr(&self) -> &str {
        self.addr(0)
    }

    /// Address of the node at this index.
    pub fn addr(&self, at: usize) -> &str {
        &self.nodes[at].addr
    }

    /// Name of the fleet's cluster.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// When the first process was started.
    pub fn started_at(&self) -> Instant {
        self.started_at
    }

    /// Returns the nodes' current processes.
    pub fn processes(&self) -> Processes {
        Processes::new(self.nodes.iter().map(|node| (format!("node {}", node.addr), node.id)))
    }

    /// Ends all processes and waits until they are gone.
    pub async fn end(mut self) {
        // Kill all before waiting for any: a node that sees others die would only start to repair.
        self.nodes.iter_mut().for_each(|node| drop(node.child.start_kill()));
        for node in &mut self.nodes {
            // An error means that the process is dead already.
            let _ = node.child.wait().await;
        }
    }
}

/// A process that has not yet printed its address.
struct Spawned(Child);

impl Spawned {
    async fn listening(mut self) -> Result<NodeProcess, Failure> {
        let stdout = self.0.stdout.take().expect("invariant: spawned with a pipe for its output");
        let mut lines = BufReader::new(stdout).lines();
        let line = tokio::time::timeout(START_TIMEOUT, lines.next_line()).await;
        let said = line.ok().and_then(Result::ok).flatten();
        let addr = said.as_deref().and_then(|line| line.strip_prefix("listening on "));
        let id = self.0.id();
        match (addr, id) {
            (Some(addr), Some(id)) => {
                Ok(NodeProcess { addr: addr.to_owned(), child: self.0, id, stdout: lines })
            }
            _ => Err(Failure::failed(
                "a node ended, or printed no address, before it was ready; its own messages are above",
            )),
        }
    }
}

/// Has the kernel kill the child when this process dies.
pub(crate) fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let tie = move || {
        // SAFETY: prctl with these arguments and getppid touch no memory and may be called between fork and
        // exec.
        let (refused, orphaned) = unsafe {
            (
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0,
                libc::getppid().unsigned_abs() != parent,
            )
        };
        match (refused, orphaned) {
            (true, _) => Err(io::Error::last_os_error()),
            // The parent died before the tie was in place.
            (_, true) => Err(io::ErrorKind::Interrupted.into()),
            _ => Ok(()),
        }
    };
    // SAFETY: the closure allocates nothing and takes no lock, as required between fork and exec.
    unsafe { command.pre_exec(tie) };
}

fn progress(count: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("starting {pos}/{len} nodes {wide_bar}");
    ProgressBar::new(count).with_style(style.expect("invariant: the template is well-formed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_partition_lives_on_as_many_nodes_as_asked() {
        for replicas in 1..=3 {
            let placement = Placement { nodes: 8, partitions: 16, replicas };
            for partition in 0..16 {
                let hosts = (0..8).filter(|&node| placement.partitions_of(node).contains(partition));
                assert_eq!(hosts.count(), replicas as usize);
            }
        }
        assert_eq!(Placement::one_each(3).partitions_of(2).to_string(), "2");
    }
}
