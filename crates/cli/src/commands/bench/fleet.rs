//! Many nodes, each a process of its own, that live no longer than whoever started them.
//!
//! Invariant: no process outlives the benchmark. Dropping a fleet kills it; and should this process die without
//! dropping anything (Ctrl-C, a panic that aborts, `kill -9`), the kernel kills its children for it
//! (`PR_SET_PDEATHSIG`).

use super::cost::{Footprint, cpu_time, footprint};
use crate::commands::{connect, failure_of};
use crate::exit::Failure;
use indicatif::{ProgressBar, ProgressStyle};
use std::io;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// How long one node may take to say where it listens.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How long all may take to know each other.
const MEET_TIMEOUT: Duration = Duration::from_secs(60);

/// Between two looks at who is in sight.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// The most nodes one machine is asked to bear.
pub(crate) const NODES_MAX: i64 = 1024;

/// Node processes on loopback, the first of which the others joined.
pub(crate) struct Fleet {
    nodes: Vec<NodeProcess>,
    cluster: String,
    started_at: Instant,
}

struct NodeProcess {
    addr: String,
    child: Child,
    id: u32,
    /// Kept open, so that a node that prints doesn't meet a closed pipe.
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl Fleet {
    /// Starts `count` nodes; node `i` hosts partition `i` of as many of the micro service.
    pub(crate) async fn start(count: u32) -> Result<Self, Failure> {
        let cluster = format!("bench-{}", std::process::id());
        let bar = progress(u64::from(count));
        let mut fleet = Self { nodes: Vec::new(), cluster, started_at: Instant::now() };
        let first = fleet.spawn(0, count)?.listening().await?;
        bar.inc(1);
        fleet.nodes.push(first);
        let spawned: Vec<Spawned> = (1..count).map(|at| fleet.spawn(at, count)).collect::<Result<_, _>>()?;
        for node in spawned {
            fleet.nodes.push(node.listening().await?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(fleet)
    }

    fn spawn(&self, at: u32, count: u32) -> Result<Spawned, Failure> {
        let refused = |error: io::Error| Failure::failed(format!("can't start node {at}: {error}"));
        let mut command = Command::new(std::env::current_exe().map_err(refused)?);
        command.args(["node", "--listen", "127.0.0.1:0", "--workers", "1", "--processors", "1"]);
        command.args(["--cluster", &self.cluster, "--serve", &format!("micro:partitions={at}/{count}")]);
        if let Some(first) = self.nodes.first() {
            command.args(["--join", &first.addr]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        die_with_parent(&mut command);
        command.spawn().map(Spawned).map_err(refused)
    }

    /// Returns once the first node has all others in sight.
    pub(crate) async fn meet(&self) -> Result<(), Failure> {
        let first = connect(&[self.first_addr().to_owned()], false, &self.cluster).await?;
        let give_up_at = Instant::now() + MEET_TIMEOUT;
        loop {
            let in_sight = first.status().await.map_err(failure_of)?.members.len() + 1;
            if in_sight >= self.nodes.len() {
                return Ok(());
            }
            if Instant::now() >= give_up_at {
                let all = self.nodes.len();
                return Err(Failure::failed(format!(
                    "{in_sight} of {all} nodes in sight after {MEET_TIMEOUT:?}"
                )));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Where the first node listens.
    pub(crate) fn first_addr(&self) -> &str {
        &self.nodes.first().expect("invariant: a fleet has a node").addr
    }

    /// The name of its cluster.
    pub(crate) fn cluster(&self) -> &str {
        &self.cluster
    }

    /// When the first process was started.
    pub(crate) fn started_at(&self) -> Instant {
        self.started_at
    }

    /// Processor time of each node so far; an error when one has died.
    pub(crate) fn cpu_times(&self) -> Result<Vec<Duration>, Failure> {
        self.of_each(cpu_time)
    }

    /// What each node holds now; an error when one has died.
    pub(crate) fn footprints(&self) -> Result<Vec<Footprint>, Failure> {
        self.of_each(footprint)
    }

    fn of_each<T>(&self, measure: impl Fn(u32) -> io::Result<T>) -> Result<Vec<T>, Failure> {
        let died = |node: &NodeProcess, error: io::Error| {
            Failure::failed(format!("node {} died: {error}", node.addr))
        };
        self.nodes.iter().map(|node| measure(node.id).map_err(|error| died(node, error))).collect()
    }

    /// Ends all processes and waits until they are gone.
    pub(crate) async fn end(mut self) {
        // All at once first: a node that sees others die would only start to repair.
        self.nodes.iter_mut().for_each(|node| drop(node.child.start_kill()));
        for node in &mut self.nodes {
            // Dead already is as good.
            let _ = node.child.wait().await;
        }
    }
}

/// A process that has not yet said where it listens.
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
                Ok(NodeProcess { addr: addr.to_owned(), child: self.0, id, _stdout: lines })
            }
            _ => Err(Failure::failed(
                "a node ended, or said nothing, before it was ready; its own words are above",
            )),
        }
    }
}

/// Has the kernel kill the child when this process dies.
fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let tie = move || {
        // SAFETY: prctl with these arguments and getppid touch no memory and may be called between fork and exec.
        let (refused, orphaned) = unsafe {
            (
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0,
                libc::getppid().unsigned_abs() != parent,
            )
        };
        match (refused, orphaned) {
            (true, _) => Err(io::Error::last_os_error()),
            // The parent died before it could be tied to.
            (_, true) => Err(io::ErrorKind::Interrupted.into()),
            _ => Ok(()),
        }
    };
    // SAFETY: the closure allocates nothing and takes no lock, as is demanded between fork and exec.
    unsafe { command.pre_exec(tie) };
}

fn progress(count: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("starting {pos}/{len} nodes {wide_bar}");
    ProgressBar::new(count).with_style(style.expect("invariant: the template is well-formed"))
}
