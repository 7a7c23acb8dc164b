//! Node processes, and legitimate clients that call them.
//!
//! Every node serves one partition of `micro`. A legitimate call is one of `micro/sum` that must name all partitions and have
//! their sum, so that wrong answers are known.
//!
//! Invariant: only processes that a cluster has started are ended, and no node outlives this program.

use crate::finding::Setback;
use crate::keys::Keys;
use crate::lab::Lab;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use treefold::operators::merge::Sum;
use treefold::{Client, ClusterOptions, Credentials, NodeId, NodeStatus, Status, Token};

/// Limit on connects, reads and writes of attackers.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
/// Limit on the time until a node prints its address.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Limit on the time until all nodes know each other.
const MEET_TIMEOUT: Duration = Duration::from_secs(20);
/// Limit on the time until a command that must fail has ended.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two looks at a cluster that is not ready.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Deadline of legitimate calls.
pub(crate) const DEADLINE: Duration = Duration::from_secs(2);
/// Legitimate calls through each node before an attack.
const CONTROL_CALLS: usize = 3;
/// Attempts to find a free port for TCP and UDP.
const PORT_TRIES: usize = 50;

/// The address of a node that may take any port.
pub(crate) const ANY_PORT: &str = "127.0.0.1:0";
const TOKEN_VARIABLE: &str = "TREEFOLD_TOKEN";
const TOKEN_FILE_VARIABLE: &str = "TREEFOLD_TOKEN_FILE";
const KEYS_VARIABLE: &str = "TREEFOLD_KEYS";

/// The node processes of one attack.
pub(crate) struct Cluster<'a> {
    lab: &'a Lab,
    /// The nodes' files: logs and recordings.
    pub(crate) directory: TempDir,
    pub(crate) name: String,
    pub(crate) token: Option<String>,
    /// The files of a legitimate node and of a legitimate client, in a cluster with certificates.
    keys: Option<[PathBuf; 2]>,
    /// Arguments of every node.
    words: Vec<String>,
    pub(crate) nodes: Vec<NodeProcess>,
    partitions: usize,
}

pub(crate) struct NodeProcess {
    pub(crate) addr: SocketAddr,
    pub(crate) process: u32,
    child: Child,
    log: PathBuf,
    /// The arguments with which it can be started again at its address.
    words: Vec<String>,
}

/// The end of a command that has ended by itself.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
}

/// How legitimate calls fared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) asked: usize,
    pub(crate) full: usize,
    pub(crate) wrong: usize,
    pub(crate) slowest: Duration,
    /// The first problem.
    pub(crate) problem: Option<String>,
}

impl Tally {
    pub(crate) fn is_full(&self) -> bool {
        self.full == self.asked && self.wrong == 0
    }

    pub(crate) fn note(&mut self, outcome: Result<(), (bool, String)>, took: Duration) {
        self.asked += 1;
        self.slowest = self.slowest.max(took);
        match outcome {
            Ok(()) => self.full += 1,
            Err((is_wrong, problem)) => {
                self.wrong += usize::from(is_wrong);
                self.problem.get_or_insert(problem);
            }
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.asked += other.asked;
        self.full += other.full;
        self.wrong += other.wrong;
        self.slowest = self.slowest.max(other.slowest);
        if self.problem.is_none() {
            self.problem = other.problem;
        }
    }

    /// As in "18 of 20 calls full, 2 wrong, slowest 12 ms".
    pub(crate) fn text(&self) -> String {
        let Self { asked, full, wrong, slowest, .. } = self;
        let wrong = if *wrong > 0 { format!(", {wrong} wrong") } else { String::new() };
        let problem = self.problem.as_ref().map(|problem| format!(" (the first problem: {problem})"));
        let ms = slowest.as_millis();
        format!(
            "{full} of {asked} calls full{wrong}, the slowest after {ms} ms{}",
            problem.unwrap_or_default()
        )
    }
}

impl<'a> Cluster<'a> {
    /// Starts nodes without a token.
    pub(crate) fn start(lab: &'a Lab, nodes: usize) -> Result<Self, Setback> {
        Self::start_told(lab, nodes, None, &[])
    }

    /// Starts nodes with a random token.
    pub(crate) fn start_with_token(lab: &'a Lab, nodes: usize) -> Result<Self, Setback> {
        Self::start_told(lab, nodes, Some(random_token()?), &[])
    }

    /// Starts nodes with certificates.
    pub(crate) fn start_with_keys(lab: &'a Lab, nodes: usize) -> Result<(Self, Keys), Setback> {
        let mut cluster = Self::empty(lab, nodes, None)?;
        let keys = Keys::new(cluster.directory.path(), &cluster.name)?;
        cluster.keys = Some([keys.of_node()?, keys.of_client()?]);
        for _ in 0..nodes {
            cluster.add(&["--listen", ANY_PORT])?;
        }
        cluster.ready()?;
        Ok((cluster, keys))
    }

    /// Starts nodes that all get the same further arguments, and shows that legitimate calls are full.
    pub(crate) fn start_told(
        lab: &'a Lab,
        nodes: usize,
        token: Option<String>,
        words: &[&str],
    ) -> Result<Self, Setback> {
        let mut cluster = Self::empty(lab, nodes, token)?;
        cluster.words = words.iter().map(|&word| word.to_owned()).collect();
        for _ in 0..nodes {
            cluster.add(&["--listen", ANY_PORT])?;
        }
        cluster.ready()?;
        Ok(cluster)
    }

    /// A cluster of which no node runs yet. [`add`](Self::add) starts them.
    pub(crate) fn empty(lab: &'a Lab, partitions: usize, token: Option<String>) -> Result<Self, Setback> {
        let directory = tempfile::tempdir().map_err(Setback::doing("make a directory"))?;
        let name = format!("attacked-{}", std::process::id());
        Ok(Self { lab, directory, name, token, keys: None, words: Vec::new(), nodes: Vec::new(), partitions })
    }

    /// Starts the next node, which joins the first.
    pub(crate) fn add(&mut self, words: &[&str]) -> Result<(), Setback> {
        let at = self.nodes.len();
        let node = self.spawn(at, words)?;
        self.nodes.push(node);
        Ok(())
    }

    fn spawn(&self, at: usize, words: &[&str]) -> Result<NodeProcess, Setback> {
        let seed = self.nodes.iter().enumerate().find(|&(other, _)| other != at).map(|(_, node)| node.addr);
        let mut all: Vec<String> =
            words.iter().chain(&["--workers", "2"]).map(|&word| word.to_owned()).collect();
        all.extend(["--serve".to_owned(), format!("micro:partitions={at}/{}", self.partitions)]);
        all.extend(self.words.iter().cloned());
        if let Some(seed) = seed {
            all.extend(["--join".to_owned(), seed.to_string()]);
        }
        let log = self.directory.path().join(format!("node-{at}.log"));
        let file = File::options().create(true).append(true).open(&log);
        let file = file.map_err(Setback::doing(format_args!("open {}", log.display())))?;
        let mut command = self.command(self.token.as_deref(), &all);
        command.stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().map_err(Setback::doing(format_args!("start node {at}")))?;
        let stdout = child.stdout.take().expect("invariant: spawned with a pipe for its output");
        let process = child.id();
        let words = words.iter().map(|&word| word.to_owned()).collect();
        let mut node = NodeProcess { addr: SocketAddr::from(([0; 4], 0)), process, child, log, words };
        node.addr = listening(stdout).ok_or_else(|| {
            Setback::new(format!("node {at} prints no address; its log: {}", node.log_text().trim()))
        })?;
        let addr = node.addr.to_string();
        node.words.iter_mut().filter(|word| *word == ANY_PORT).for_each(|word| word.clone_from(&addr));
        Ok(node)
    }

    /// The command of one more node of this cluster, with any token, that this program's end ends.
    fn command(&self, token: Option<&str>, words: &[String]) -> Command {
        let mut command = Command::new(&self.lab.treefold);
        command.arg("node").args(["--cluster", &self.name]).args(words).stdin(Stdio::null());
        command.env_remove(TOKEN_VARIABLE).env_remove(TOKEN_FILE_VARIABLE).env_remove(KEYS_VARIABLE);
        match (token, &self.keys) {
            (Some(token), _) => _ = command.env(TOKEN_VARIABLE, token),
            (None, Some([node, _])) => _ = command.env(KEYS_VARIABLE, node),
            (None, None) => {}
        }
        die_with_parent(&mut command);
        command
    }

    /// Runs a node that is expected to end by itself, and that is ended after `within`.
    pub(crate) fn run_briefly(
        &self,
        token: Option<&str>,
        words: &[&str],
        within: Duration,
    ) -> Result<Ended, Setback> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        end_within(self.command(token, &words), within)
    }

    /// As [`run_briefly`](Self::run_briefly), with any keys.
    pub(crate) fn run_with_keys(
        &self,
        keys: &Path,
        words: &[&str],
        within: Duration,
    ) -> Result<Ended, Setback> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let mut command = self.command(None, &words);
        command.env(KEYS_VARIABLE, keys);
        end_within(command, within)
    }
    /// Runs a node that must refuse its arguments.
    pub(crate) fn refused(&self, words: &[&str]) -> Result<Ended, Setback> {
        self.run_briefly(None, words, REFUSAL_TIMEOUT)
    }

    /// Waits until all nodes know each other, and shows that calls through each of them are full.
    pub(crate) fn ready(&mut self) -> Result<(), Setback> {
        let give_up_at = Instant::now() + MEET_TIMEOUT;
        let all: Vec<usize> = (0..self.nodes.len()).collect();
        loop {
            let tally = self.calls(CONTROL_CALLS, &all);
            let in_sight = self.members_least();
            if tally.is_full() && in_sight == self.nodes.len() {
                return Ok(());
            }
            if Instant::now() >= give_up_at {
                return Err(Setback::new(format!(
                    "the cluster does not work before the attack: {}; {in_sight} of {} nodes in sight",
                    tally.text(),
                    self.nodes.len()
                )));
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Kills a node, and waits until it has ended.
    pub(crate) fn kill(&mut self, at: usize) -> Result<(), Setback> {
        self.nodes[at].end().map_err(Setback::doing(format_args!("kill node {at}")))
    }

    /// Starts a killed node again at its address.
    pub(crate) fn restart(&mut self, at: usize) -> Result<(), Setback> {
        let words = self.nodes[at].words.clone();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.nodes[at] = self.spawn(at, &words)?;
        Ok(())
    }

    pub(crate) fn options(&self) -> ClusterOptions {
        let options = ClusterOptions::new(&self.name).token(self.token.clone().and_then(Token::new));
        match &self.keys {
            Some([_, client]) => {
                options.credentials(Credentials::load(client).expect("invariant: this file was issued"))
            }
            None => options,
        }
    }

    /// A legitimate client of the node at `at`.
    pub(crate) fn client(&self, at: usize) -> Result<Client, treefold::Error> {
        self.client_of(self.nodes[at].addr, self.options())
    }

    /// A client of any address, with any token.
    pub(crate) fn client_of(
        &self,
        addr: SocketAddr,
        options: ClusterOptions,
    ) -> Result<Client, treefold::Error> {
        self.lab.runtime.block_on(Client::builder().at([addr]).cluster(options).connect())
    }

    /// Makes legitimate calls through each of these nodes in turn.
    pub(crate) fn calls(&self, rounds: usize, through: &[usize]) -> Tally {
        let mut tally = Tally::default();
        for &at in through {
            let began_at = Instant::now();
            match self.client(at) {
                Ok(client) => tally.add(self.calls_of(&client, rounds)),
                Err(error) => tally.note(Err((false, error.to_string())), began_at.elapsed()),
            }
        }
        tally
    }

    /// Makes legitimate calls one after the other.
    pub(crate) fn calls_of(&self, client: &Client, calls: usize) -> Tally {
        let mut tally = Tally::default();
        for _ in 0..calls {
            let began_at = Instant::now();
            let reply = self
                .lab
                .runtime
                .block_on(async { client.call::<Sum>("micro/sum", &()).deadline(DEADLINE).await });
            let sum = self.partitions * (self.partitions - 1) / 2;
            tally.note(judged(reply, sum as i64), began_at.elapsed());
        }
        tally
    }

    /// Makes legitimate calls through these nodes for some time, with a pause between them.
    pub(crate) fn calls_for(&self, time: Duration, pause: Duration, through: &[usize]) -> Tally {
        let (end_at, mut tally) = (Instant::now() + time, Tally::default());
        while Instant::now() < end_at {
            tally.add(self.calls(1, through));
            thread::sleep(pause);
        }
        tally
    }

    /// A node's status, as a legitimate client reads it.
    pub(crate) fn status(&self, at: usize) -> Result<NodeStatus, treefold::Error> {
        let client = self.client(at)?;
        self.lab.runtime.block_on(client.status())
    }

    /// The least number of members that a node has in sight, itself included.
    pub(crate) fn members_least(&self) -> usize {
        let seen = |at| self.status(at).map_or(0, |status| status.members.len() + 1);
        (0..self.nodes.len()).map(seen).min().unwrap_or(0)
    }

    /// The greatest number of members that a node has in sight, itself included.
    pub(crate) fn members_most(&self) -> usize {
        let seen = |at| self.status(at).map_or(0, |status| status.members.len() + 1);
        (0..self.nodes.len()).map(seen).max().unwrap_or(0)
    }

    /// The name of a node.
    pub(crate) fn id(&self, at: usize) -> Result<NodeId, Setback> {
        let status = self.status(at).map_err(Setback::doing(format_args!("read the status of node {at}")))?;
        Ok(status.card.node)
    }

    pub(crate) fn lab(&self) -> &Lab {
        self.lab
    }

    /// Runs the future of a legitimate client.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.lab.runtime.block_on(future)
    }

    /// All nodes by their places.
    pub(crate) fn places(&self) -> Vec<usize> {
        (0..self.nodes.len()).collect()
    }

    /// Places of nodes whose process has ended.
    pub(crate) fn dead(&mut self) -> Vec<usize> {
        let nodes = self.nodes.iter_mut().enumerate();
        nodes.filter_map(|(at, node)| node.child.try_wait().ok().flatten().map(|_| at)).collect()
    }

    pub(crate) fn log(&self, at: usize) -> String {
        self.nodes[at].log_text()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl NodeProcess {
    fn end(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    fn log_text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.end();
    }
}

/// Judges an answer. An error tells whether the answer is wrong, and what is amiss.
fn judged(reply: Result<treefold::Reply<Sum>, treefold::Error>, sum: i64) -> Result<(), (bool, String)> {
    let reply = reply.map_err(|error| {
        (matches!(error, treefold::Error::Contradiction { .. } | treefold::Error::Body(_)), error.to_string())
    })?;
    match (reply.status, reply.value) {
        (Status::Full, Some(Sum(value))) if value == sum => Ok(()),
        (Status::Full, value) => {
            Err((true, format!("a full answer of {} partitions is {value:?}, not {sum}", reply.asked.len())))
        }
        (status, _) => {
            let missing = reply.missing.first().map(|missing| missing.reason.to_string()).unwrap_or_default();
            Err((
                false,
                format!(
                    "{}: {} of {} partitions, {missing}",
                    status.name(),
                    reply.contributed.len(),
                    reply.asked.len()
                ),
            ))
        }
    }
}

/// The address that a node prints; `None` if it ends, or prints none in time.
fn listening(stdout: impl Read + Send + 'static) -> Option<SocketAddr> {
    let (send, receive) = mpsc::channel();
    // The thread goes on reading, so that the node never meets a closed pipe.
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    let line = receive.recv_timeout(START_TIMEOUT).ok()?;
    line.strip_prefix("listening on ")?.parse().ok()
}

/// Has the kernel kill a child when this process dies.
fn die_with_parent(command: &mut Command) {
    // SAFETY: prctl with these arguments touches no memory and may be called between fork and exec.
    let tie = || match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: the closure allocates nothing and takes no lock, as required between fork and exec.
    unsafe { command.pre_exec(tie) };
}

/// Runs a command that is ended after `within`, unless it ends before.
fn end_within(mut command: Command, within: Duration) -> Result<Ended, Setback> {
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(Setback::doing("start a node"))?;
    let end_at = Instant::now() + within;
    let code = loop {
        match child.try_wait().map_err(Setback::doing("wait for a node"))? {
            Some(status) => break status.code(),
            None if Instant::now() >= end_at => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => thread::sleep(LOOK_INTERVAL),
        }
    };
    let mut stderr = String::new();
    if let Some(mut pipe) = child.stderr.take() {
        pipe.read_to_string(&mut stderr).map_err(Setback::doing("read a node's errors"))?;
    }
    Ok(Ended { code, stderr })
}

/// A token that nobody can guess.
pub(crate) fn random_token() -> Result<String, Setback> {
    let mut bytes = [0; 16];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes)
        .map_err(Setback::doing("draw a token"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// An address of this machine that is free for TCP and UDP.
pub(crate) fn free_addr() -> Result<SocketAddr, Setback> {
    for _ in 0..PORT_TRIES {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(Setback::doing("find a free port"))?;
        let addr = listener.local_addr().map_err(Setback::doing("find a free port"))?;
        if UdpSocket::bind(addr).is_ok() {
            return Ok(addr);
        }
    }
    Err(Setback::new("no port is free for both TCP and UDP"))
}

/// True if a file or a text contains a secret.
pub(crate) fn contains(path: &Path, secret: &str) -> Result<bool, Setback> {
    let bytes = fs::read(path).map_err(Setback::doing(format_args!("read {}", path.display())))?;
    Ok(bytes.windows(secret.len()).any(|window| window == secret.as_bytes()))
}
