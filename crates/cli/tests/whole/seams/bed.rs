//! The places: real processes with one partition each, a front without any, and what is between them.

use crate::real::{NodeProcess, treefold, wait_until, while_hardly_running};
use crate::up::{mark, processes_with};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use treefold::push::{Worker, WorkerBuilder, application};
use treefold::{Client, ClientBuilder, ClusterOptions, Credentials, Node, NodeBuilder, PartitionSet, Token};
use treefold_cli::serve::known_services;
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

/// A folder of documents, and its index.
struct Documents(tempfile::TempDir);

impl Documents {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: String| folder.path().join("documents").join(name);
        std::fs::create_dir(file(String::new())).expect("a folder");
        for number in 0..40 {
            let text = format!("a word of all, and word{number} of this one");
            std::fs::write(file(format!("{number}.txt")), text).expect("it can be written");
        }
        Self(folder)
    }

    /// The services of a process with a partition, without it.
    fn services(&self) -> Vec<String> {
        let path = |name| self.0.path().join(name).display().to_string();
        let search = format!("search={}:data={}", path("documents"), path("index"));
        vec![NUMBERS.to_owned(), "echo".to_owned(), "mirror=flights:http=127.0.0.1:0".to_owned(), search]
    }
}

/// Processes that serve `numbers`, `echo`, a folder of documents and a mirror, and a front with a gateway.
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
    /// Nodes that take in workers: first the victim, then one that lives. None in a network.
    pub(crate) doors: Vec<String>,
    /// The words of each partition's documents.
    words: Vec<BTreeMap<String, u64>>,
    _documents: Documents,
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
        bed.wait_until("relays fold for the services", || {
            let status = bed.run(&["status", "--at", &bed.front, "-o", "json"]);
            let status: Value = serde_json::from_str(&status).expect("JSON");
            let members = status["members"].as_array().expect("a list");
            // The holders and the relays.
            let knows = |member: &&Value| {
                ["numbers", "search"].iter().all(|service| member["services"].get(service).is_some())
            };
            members.iter().filter(knows).count() == 6
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
        keys(&["issue", "client", "client", "--may", "call,stream,push,feed,read,operate"]);
        // The origin of a feed is a node of the cluster.
        keys(&["issue", "node", "origin", "--at", "127.0.0.1", "--may", "join,feed"]);
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
        let documents = Documents::new();
        let front = start(&["--accept", "words", "--gateway", "127.0.0.1:0"]);
        let holders: Vec<usize> = (0..HOLDERS)
            .map(|id| {
                let services = documents.services().into_iter();
                let services: Vec<String> =
                    services.map(|service| format!("{service}:partitions={id}/{HOLDERS}")).collect();
                let services = services.iter().flat_map(|service| ["--serve", service]);
                start(&["--accept", "words"].into_iter().chain(services).collect::<Vec<_>>())
            })
            .collect();
        let between: Vec<usize> = (0..relays).map(|_| start(&["--relay", "--accept", "words"])).collect();
        let doors = if between.is_empty() { &holders } else { &between };
        let doors = [doors.last(), doors.first()].into_iter().flatten();
        let ids = |nodes: &[NodeProcess], which: &[usize]| which.iter().map(|at| nodes[*at].id()).collect();
        let bed = Self {
            name,
            front: nodes[front].addr.clone(),
            gateway: gateway_of(&nodes[front].line()),
            holders: ids(&nodes, &holders),
            between: ids(&nodes, &between),
            doors: doors.map(|at| nodes[*at].addr.clone()).collect(),
            words: Vec::new(),
            _documents: documents,
            trust,
            embedded: None,
            _running: Running::Nodes { _nodes: nodes },
        };
        bed.whole()
    }

    /// The front is in this process.
    pub(crate) fn embedded() -> Self {
        let mut bed = Self::of_nodes("a cluster of a node in this process", Trust::Open, 0);
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let (node, gateway) = runtime.block_on(async {
            let guests = treefold_cli::foreign::guests();
            let node = Node::builder().join([&bed.front]).foreign(guests).service(application("words"));
            let node = known_services().into_iter().fold(node, NodeBuilder::service);
            let node = node.start().await.expect("it starts");
            let options = GatewayOptions::new(([127, 0, 0, 1], 0).into());
            let gateway = Gateway::start(node.client(), options).await.expect("it starts");
            (node, gateway)
        });
        bed.front = node.addr().to_string();
        bed.gateway = gateway_of(&format!("gateway at {}", gateway.url()));
        bed.embedded = Some(Embedded { node, _gateway: gateway, _runtime: runtime });
        bed.whole()
    }

    /// Two inner processes, each above two holders.
    pub(crate) fn network() -> Self {
        let (host, folder) = (mark("seams"), tempfile::tempdir().expect("a folder"));
        let text = format!("{host}:0 => {host}:[1-2]; {host}:1 => {host}:[3-4]; {host}:2 => {host}:[5-6];");
        let topology = folder.path().join("tree.top");
        std::fs::write(&topology, text).expect("it can be written");
        let mut command = Trust::Token.command();
        command.arg("up").arg(&topology).args(["--local", "--gateway", "127.0.0.1:0"]);
        let documents = Documents::new();
        command.args(documents.services().iter().flat_map(|service| ["--serve", service]));
        command.stdout(Stdio::piped());
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
            doors: Vec::new(),
            words: Vec::new(),
            _documents: documents,
            trust: Trust::Token,
            embedded: None,
            _running: Running::Network { up, _folder: folder },
        };
        bed.whole()
    }

    /// Waits until it is whole, and learns the words of each partition.
    fn whole(mut self) -> Self {
        self.wait_until_whole();
        let words = |id: u32| {
            let (id, words) = (id.to_string(), ["call", "search/words", "--params", "{}", "-o", "json"]);
            let printed = self.run(&[&words[..], &["--at", &self.front, "--partitions", &id]].concat());
            let answer: Value = serde_json::from_str(&printed).expect("JSON");
            let words = answer["value"].as_object().unwrap_or_else(|| panic!("{answer}")).iter();
            words.map(|(word, count)| (word.clone(), count.as_u64().expect("a number"))).collect()
        };
        self.words = (0..HOLDERS).map(words).collect();
        self
    }

    /// Holds lines of counted words against those of these partitions. A slice may have another one, which is missing from a
    /// slice beside it.
    pub(crate) fn check_words(&self, lines: &str, partitions: &PartitionSet, at: &str) {
        let sum = |partitions: &PartitionSet| {
            let mut sums = BTreeMap::<&str, u64>::new();
            for (word, count) in partitions.iter().flat_map(|id| &self.words[id as usize]) {
                *sums.entry(word).or_default() += count;
            }
            sums
        };
        let (least, most) = (sum(partitions), sum(&PartitionSet::first(HOLDERS)));
        let counted: BTreeMap<&str, u64> = lines
            .lines()
            .map(|line| {
                let (word, count) = line.split_once(' ').expect("a word and its count");
                (word, count.parse().expect("a number"))
            })
            .collect();
        assert!(least.keys().all(|word| counted.contains_key(word)), "{at}: {lines}");
        for (word, count) in counted {
            let least = least.get(word).copied().unwrap_or(0);
            assert!((least..=most[word]).contains(&count), "{at}: {word} {count}, and not {least}");
        }
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

    /// The command of a feed's origin, which is a node of its own.
    pub(crate) fn origin(&self, words: &[&str]) -> Command {
        let mut command = self.command(words);
        command.envs(self.trust.keys("origin").map(|keys| ("TREEFOLD_KEYS", keys))).stdin(Stdio::piped());
        command
    }

    /// The token, if that is how its processes know each other.
    pub(crate) fn token(&self) -> Option<&'static str> {
        matches!(self.trust, Trust::Token).then_some(TOKEN)
    }

    /// Whether programs in C may connect, which hold no keys.
    pub(crate) fn takes_c(&self) -> bool {
        !matches!(self.trust, Trust::Keys(_))
    }

    fn options(&self) -> ClusterOptions {
        let keys = self.trust.keys("client").map(|keys| Credentials::load(keys).expect("keys"));
        let token = self.token().map(Token::new);
        let options = ClusterOptions::default();
        let options = keys.into_iter().fold(options, ClusterOptions::credentials);
        token.into_iter().fold(options, ClusterOptions::token)
    }

    /// A worker, not attached yet.
    pub(crate) fn worker(&self, number: u32) -> WorkerBuilder {
        Worker::builder("words", number).at(&self.doors).cluster(self.options())
    }

    /// The client of the node in this process, or of the front.
    pub(crate) async fn client_of_front(&self) -> Client {
        if let Some(embedded) = &self.embedded {
            return embedded.node.client();
        }
        let client = Client::builder().at([&self.front]).cluster(self.options());
        client.connect().await.expect("it connects")
    }

    /// The client of the node in this process, or one without a front.
    pub(crate) async fn client(&self) -> Client {
        if let Some(embedded) = &self.embedded {
            return embedded.node.client();
        }
        let client = Client::builder().at([&self.front]).cluster(self.options()).direct(true);
        let client = known_services().into_iter().fold(client, ClientBuilder::service);
        client.foreign(treefold_cli::foreign::guests()).connect().await.expect("it connects")
    }

    /// Sends the guest, and returns the name of its filter.
    pub(crate) fn push_operator(&self) -> String {
        self.run(&["operator", "push", GUEST, "--at", &self.front]).trim().to_owned()
    }

    pub(crate) fn wait_until(&self, what: &str, holds: impl FnMut() -> bool) {
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
