//! The places: real processes with one partition each, a front without any, and what is between them.

use crate::real::{NodeProcess, treefold, wait_until, while_hardly_running};
use crate::up::{mark, processes_with};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use treefold::{Client, ClusterOptions, Credentials, Node, Token};
use treefold_gateway::{Gateway, GatewayOptions};

/// Nodes with a partition.
pub(crate) const HOLDERS: u32 = 4;
/// The partition of the node that is slowed, stopped and killed.
pub(crate) const VICTIM: u32 = HOLDERS - 1;
/// A guest that keeps the greatest rows of sixteen bytes.
const GUEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../wasm/fixtures/top_k.wasm");
const TOKEN: &str = "a secret of this network's";

/// Each partition has the same numbers, with its own behind them. The command makes the slice that it is asked for.
const NUMBERS: &str = "exec=numbers:reduce=merge-sorted:command=sh -c \
    'seq -f \"%06.0f {partition}\" $(($0 * 25)) $(($0 * 25 + 24))' {slice} {slices}";

/// Processes that serve `numbers` and `echo`, and a front with a gateway.
pub(crate) struct Bed {
    pub(crate) name: &'static str,
    /// Address of the front, which lives through all faults.
    pub(crate) front: String,
    /// Address of its gateway.
    pub(crate) gateway: String,
    /// Numbers of the processes with partitions, in their order.
    holders: Vec<u32>,
    /// Numbers of those that only fold. The last one has the victim's faults.
    between: Vec<u32>,
    trust: Trust,
    embedded: Option<Embedded>,
    /// Ends the processes when it is dropped.
    _running: Running,
}

/// A node and its gateway in this process.
struct Embedded {
    node: Node,
    _gateway: Gateway,
    _runtime: tokio::runtime::Runtime,
}

/// By what the processes know each other.
enum Trust {
    Open,
    Token,
    /// The folder with their keys.
    Keys(tempfile::TempDir),
}

impl Trust {
    fn keys(&self, name: &str) -> Option<String> {
        let Self::Keys(folder) = self else { return None };
        Some(folder.path().join(name).with_extension("pem").to_string_lossy().into_owned())
    }

    /// The program, with what a client needs.
    fn command(&self) -> Command {
        let mut command = treefold();
        command.env_remove("TREEFOLD_KEYS").env_remove("TREEFOLD_TOKEN");
        match self {
            Self::Open => {}
            Self::Token => drop(command.env("TREEFOLD_TOKEN", TOKEN)),
            Self::Keys(_) => drop(command.envs(self.keys("client").map(|keys| ("TREEFOLD_KEYS", keys)))),
        }
        command
    }
}

enum Running {
    Nodes { _nodes: Vec<NodeProcess> },
    Network { up: Child, _folder: tempfile::TempDir },
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Self::Network { up, .. } = self {
            // The network ends with it.
            let _ = up.kill();
            let _ = up.wait();
        }
    }
}

/// The address of a gateway, from the line that tells it.
fn gateway_of(line: &str) -> String {
    line.strip_prefix("gateway at http://").unwrap_or_else(|| panic!("it printed {line:?}")).to_owned()
}

impl Bed {
    pub(crate) fn cluster() -> Self {
        Self::of_nodes("a cluster", Trust::Open, 0)
    }

    pub(crate) fn relays() -> Self {
        let bed = Self::of_nodes("a cluster with relays", Trust::Open, 2);
        bed.wait_until("relays fold for the service", || {
            let status = bed.run(&["status", "--at", &bed.front, "-o", "json"]);
            let status: Value = serde_json::from_str(&status).expect("JSON");
            let members = status["members"].as_array().expect("a list");
            // The holders and the relays.
            members.iter().filter(|member| member["services"].get("numbers").is_some()).count() == 6
        });
        bed
    }

    pub(crate) fn certificates() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().to_string_lossy().into_owned();
        let keys = |words: &[&str]| {
            let made = treefold().arg("keys").args(words).args(["--dir", &at]).output().expect("it starts");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        };
        keys(&["init", "--cluster", "seams"]);
        keys(&["issue", "node", "node", "--at", "127.0.0.1"]);
        keys(&["issue", "client", "client", "--may", "call,stream,operate,read"]);
        Self::of_nodes("a cluster with certificates", Trust::Keys(folder), 0)
    }

    fn of_nodes(name: &'static str, trust: Trust, relays: usize) -> Self {
        let keys = trust.keys("node");
        let keys: Vec<&str> = keys.iter().flat_map(|path| ["--keys", path]).collect();
        let mut nodes: Vec<NodeProcess> = Vec::new();
        let mut start = |words: &[&str]| {
            let join = nodes.first().map(|first| first.addr.clone());
            let join: Vec<&str> = join.iter().flat_map(|first| ["--join", first]).collect();
            nodes.push(NodeProcess::of(trust.command(), &[words, &keys, &join].concat()));
            nodes.len() - 1
        };
        let front = start(&["--gateway", "127.0.0.1:0"]);
        let holders: Vec<usize> = (0..HOLDERS)
            .map(|id| {
                let at = format!(":partitions={id}/{HOLDERS}");
                start(&["--serve", &(NUMBERS.to_owned() + &at), "--serve", &("echo".to_owned() + &at)])
            })
            .collect();
        let between: Vec<usize> = (0..relays).map(|_| start(&["--relay"])).collect();
        let ids = |nodes: &[NodeProcess], which: Vec<usize>| which.iter().map(|at| nodes[*at].id()).collect();
        let bed = Self {
            name,
            front: nodes[front].addr.clone(),
            gateway: gateway_of(&nodes[front].line()),
            holders: ids(&nodes, holders),
            between: ids(&nodes, between),
            trust,
            embedded: None,
            _running: Running::Nodes { _nodes: nodes },
        };
        bed.wait_until_whole();
        bed
    }

    /// The front is in this process.
    pub(crate) fn embedded() -> Self {
        let mut bed = Self::of_nodes("a cluster of a node in this process", Trust::Open, 0);
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let (node, gateway) = runtime.block_on(async {
            let guests = treefold_cli::foreign::guests();
            let node = Node::builder().join([&bed.front]).foreign(guests).start().await.expect("it starts");
            let options = GatewayOptions::new(([127, 0, 0, 1], 0).into());
            let gateway = Gateway::start(node.client(), options).await.expect("it starts");
            (node, gateway)
        });
        bed.front = node.addr().to_string();
        bed.gateway = gateway_of(&format!("gateway at {}", gateway.url()));
        bed.embedded = Some(Embedded { node, _gateway: gateway, _runtime: runtime });
        bed.wait_until_whole();
        bed
    }

    /// Two inner processes, each above two holders.
    pub(crate) fn network() -> Self {
        let (host, folder) = (mark("seams"), tempfile::tempdir().expect("a folder"));
        let text = format!("{host}:0 => {host}:[1-2]; {host}:1 => {host}:[3-4]; {host}:2 => {host}:[5-6];");
        let topology = folder.path().join("tree.top");
        std::fs::write(&topology, text).expect("it can be written");
        let mut command = Trust::Token.command();
        command.arg("up").arg(&topology).args(["--local", "--gateway", "127.0.0.1:0"]);
        command.args(["--serve", NUMBERS, "--serve", "echo"]).stdout(Stdio::piped());
        let mut up = command.spawn().expect("it can be started");
        let mut lines = BufReader::new(up.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let mut line = |start| lines.find(|line| line.starts_with(start)).expect("it is up");
        let front = line("TREEFOLD_AT=").replace("TREEFOLD_AT=", "");
        let gateway = gateway_of(&line("gateway at "));
        let process = |place: u32| {
            let found = processes_with(&format!("{host}:{place}\0"));
            assert_eq!(found.len(), 1, "{host}:{place}");
            found[0] as u32
        };
        let bed = Self {
            name: "a network",
            front,
            gateway,
            holders: (3..=6).map(process).collect(),
            between: (1..=2).map(process).collect(),
            trust: Trust::Token,
            embedded: None,
            _running: Running::Network { up, _folder: folder },
        };
        bed.wait_until_whole();
        bed
    }

    /// The program, with what a client needs.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.trust.command();
        command.args(words).stderr(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// Runs it to its end, and returns what it printed.
    pub(crate) fn run(&self, words: &[&str]) -> String {
        let output = self.command(words).output().expect("it can be started");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// The client of the node in this process, or one without a front.
    pub(crate) async fn client(&self) -> Client {
        if let Some(embedded) = &self.embedded {
            return embedded.node.client();
        }
        let options = match self.trust.keys("client") {
            Some(keys) => ClusterOptions::default().credentials(Credentials::load(keys).expect("keys")),
            None if matches!(self.trust, Trust::Token) => ClusterOptions::default().token(Token::new(TOKEN)),
            None => ClusterOptions::default(),
        };
        let client = Client::builder().at([&self.front]).cluster(options).direct(true);
        client.foreign(treefold_cli::foreign::guests()).connect().await.expect("it connects")
    }

    /// Sends the guest, and returns the name of its filter.
    pub(crate) fn push_operator(&self) -> String {
        self.run(&["operator", "push", GUEST, "--at", &self.front]).trim().to_owned()
    }

    fn wait_until(&self, what: &str, holds: impl FnMut() -> bool) {
        wait_until(&format!("{}: {what}", self.name), holds);
    }

    /// Waits until all partitions contribute to a call.
    pub(crate) fn wait_until_whole(&self) {
        self.wait_until("all partitions contribute", || {
            let words = ["call", "numbers/run", "--at", &self.front, "--deadline", "5s"];
            let status = self.command(&words).output().expect("it can be started").status;
            status.success()
        });
    }

    fn victims(&self) -> impl Iterator<Item = u32> {
        [self.holders.last(), self.between.last()].into_iter().flatten().copied()
    }

    pub(crate) fn signal_victims(&self, kind: i32) {
        self.victims().for_each(|process| signal(process, kind));
    }

    pub(crate) fn kill_all(&self) {
        let killed = |process: &u32| self.victims().any(|victim| victim == *process);
        let others = self.holders.iter().chain(&self.between).filter(|process| !killed(process));
        others.for_each(|process| signal(*process, libc::SIGKILL));
    }

    /// Does the work while the victims run for 20 ms of each 200 ms.
    pub(crate) fn while_victims_hardly_run(&self, work: impl FnOnce(&Self)) {
        while_hardly_running(Duration::from_millis(180), |kind| self.signal_victims(kind), || work(self));
    }
}

/// Sends a signal, and waits until a process that it stops stands still.
fn signal(process: u32, kind: i32) {
    let pid = libc::pid_t::try_from(process).expect("a process id");
    // SAFETY: kill touches no memory; the process was started for this test.
    assert_eq!(unsafe { libc::kill(pid, kind) }, 0);
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|rest| rest.chars().next())
    };
    if kind == libc::SIGSTOP {
        wait_until("the process stands still", || state() == Some('T'));
    }
}
