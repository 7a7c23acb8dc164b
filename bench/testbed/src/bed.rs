//! A running testbed: network, indexes, nodes that know each other, and the words for queries.
//!
//! Hosts are named by their purpose: `front0`, `client0`, `relay0`, `back0`, each numbered through all racks.
//! Back-end p holds partition p and is in rack p mod racks, so every range of partitions is spread evenly
//! over the racks.

use crate::group::Groups;
use crate::guard::Guard;
use crate::network::{HostPlan, Network};
use crate::node::{Node, PORT, Spawned};
use crate::settings::Settings;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use treefold::Client;
use treefold_search::{Bar, IndexOptions, Run, SERVICE, Words, WordsParams};

/// Most time until all nodes know each other.
const MEET_TIMEOUT: Duration = Duration::from_secs(30);

/// The words for queries: this many of the most frequent ones, with at least this many letters.
const WORDS: usize = 2_000;
const WORD_LETTERS_MIN: usize = 4;

/// Bytes of text of each partition that are searched for these words.
const WORDS_BYTES_MAX: u64 = 1 << 20;

/// The deadline of calls before the measurement.
const ASK_DEADLINE: Duration = Duration::from_secs(120);

/// The planned hosts of a testbed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) racks: usize,
    pub(crate) back_ends: u32,
    pub(crate) relays_per_rack: usize,
    /// Share of a processor for each relay; `None` sets no limit.
    pub(crate) relay_processors: Option<f64>,
    /// True if the links of hosts can be delayed.
    pub(crate) delayed: bool,
}

/// A complete running testbed. Fields are dropped in this order: nodes, their network, files on disk.
#[derive(Debug)]
pub(crate) struct Bed {
    pub(crate) nodes: Vec<Node>,
    pub(crate) network: Network,
    pub(crate) guard: Guard,
    /// Of the relays, if the plan holds them to a share of a processor.
    groups: Option<Groups>,
    pub(crate) cluster: String,
    pub(crate) plan: Plan,
}

impl Bed {
    /// Sets up the testbed.
    ///
    /// # Errors
    /// A message for the user about the step that failed.
    pub(crate) fn new(settings: &Settings, plan: Plan) -> Result<Self, String> {
        let groups = match plan.relay_processors {
            Some(_) => {
                Some(Groups::find().ok_or("no control group for processors (cgroup cpu) is mounted here")?)
            }
            None => None,
        };
        let told = |what: &'static str| move |error: std::io::Error| format!("{what}: {error}");
        let guard = Guard::new(groups.as_ref().map(Groups::base)).map_err(told("no guard"))?;
        let data = guard.directory().join("index");
        let mut options = IndexOptions::new(plan.back_ends);
        options.data_directory = Some(data.clone());
        options.files_max = Some(settings.files);
        treefold_search::index(&settings.folder, &options, &Bar::new()).map_err(|error| error.to_string())?;
        let network = Network::new(&hosts(settings, plan), settings.uplink_mbit, plan.delayed)
            .map_err(told("no network"))?;
        let cluster = format!("testbed-{}", std::process::id());
        let mut bed = Self { nodes: Vec::new(), network, guard, groups, cluster, plan };
        bed.start_nodes(settings, &data).map_err(told("no nodes"))?;
        if let Some(processors) = plan.relay_processors {
            bed.hold_relays(processors)?;
        }
        bed.meet()?;
        Ok(bed)
    }

    /// Limits each relay to a share of a processor. The plan must have a share.
    pub(crate) fn hold_relays(&self, processors: f64) -> Result<(), String> {
        let groups = self.groups.as_ref().expect("invariant: the plan holds relays to a share");
        for relay in self.nodes.iter().filter(|node| node.name.starts_with("relay")) {
            let held = groups.hold(&relay.name, relay.process(), processors);
            held.map_err(|error| format!("{} can't be held to a share of a processor: {error}", relay.name))?;
        }
        Ok(())
    }

    fn start_nodes(&mut self, settings: &Settings, data: &std::path::Path) -> std::io::Result<()> {
        let first = format!("{}:{PORT}", self.network.host("front0").address);
        let planned: Vec<_> =
            self.network.hosts.iter().filter(|host| !host.plan.name.starts_with("client")).collect();
        let bar = progress("starting nodes", planned.len());
        let mut spawned = Vec::new();
        for host in planned {
            let name = &host.plan.name;
            let mut arguments = vec!["--rack".to_owned(), format!("r{}", host.plan.rack)];
            if name != "front0" {
                arguments.extend(["--join".to_owned(), first.clone()]);
            }
            if name.starts_with("relay") {
                arguments.push("--relay".to_owned());
            }
            if let Some(partition) = name.strip_prefix("back") {
                let (folder, total) = (settings.folder.display(), self.plan.back_ends);
                let (data, files) = (data.display(), settings.files);
                let serve =
                    format!("{SERVICE}={folder}:partitions={partition}/{total}:data={data}:files={files}");
                let micro = format!("{}:partitions={partition}/{total}", treefold_micro::SERVICE);
                let one = ["--processors", "1", "--workers", "1", "--serve", &micro, "--serve"];
                arguments.extend(one.map(str::to_owned).into_iter().chain([serve]));
            }
            let node = Spawned::new(&settings.treefold, host, &self.cluster, &arguments)?;
            // The first node must listen before the others connect to it.
            if name == "front0" {
                self.nodes.push(node.listening()?);
            } else {
                spawned.push(node);
            }
            bar.inc(1);
        }
        for node in spawned {
            self.nodes.push(node.listening()?);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Waits until every front knows all nodes.
    fn meet(&self) -> Result<(), String> {
        for front in 0..self.plan.racks {
            self.ask(front, async |client: &Client| {
                let give_up_at = Instant::now() + MEET_TIMEOUT;
                loop {
                    let status = client.status().await.map_err(|error| error.to_string())?;
                    let in_sight = status.members.len() + 1;
                    match in_sight >= self.nodes.len() {
                        true => return Ok(()),
                        false if Instant::now() >= give_up_at => {
                            return Err(format!(
                                "only {in_sight} of {} nodes found each other in time",
                                self.nodes.len()
                            ));
                        }
                        false => tokio::time::sleep(Duration::from_millis(50)).await,
                    }
                }
            })?;
        }
        Ok(())
    }

    /// Returns the address of a front.
    pub(crate) fn front(&self, number: usize) -> String {
        format!("{}:{PORT}", self.network.host(&format!("front{number}")).address)
    }

    /// Runs `work` on the host of a front, with a client of that front.
    pub(crate) fn ask<T: Send>(
        &self,
        front: usize,
        work: impl AsyncFnOnce(&Client) -> Result<T, String> + Send,
    ) -> Result<T, String> {
        let address = self.front(front);
        let host = self.network.host(&format!("front{front}"));
        let inside = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime
                .map_err(|error| error.to_string())?
                .block_on(async { work(&connect(&address, &self.cluster).await?).await })
        };
        host.space.run(inside).map_err(|error| error.to_string())?
    }

    /// Returns the most frequent words in the searched text.
    pub(crate) fn words(&self) -> Result<Vec<String>, String> {
        let params = WordsParams { bytes_max: Some(WORDS_BYTES_MAX), ..WordsParams::default() };
        let counts: Run = self.ask(0, async |client: &Client| {
            let call = client.aggregate("search/words", &Words, &params).deadline(ASK_DEADLINE);
            let reply = call.await.map_err(|error| error.to_string())?;
            reply.value.ok_or_else(|| format!("no word count: {:?}", reply.missing))
        })?;
        let letters =
            |word: &str| word.chars().all(char::is_alphabetic) && word.chars().count() >= WORD_LETTERS_MIN;
        let mut words: Vec<(&str, u64)> = counts.iter().filter(|(word, _)| letters(word)).collect();
        words.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        Ok(words.into_iter().take(WORDS).map(|(word, _)| word.to_owned()).collect())
    }
}

/// Connects a client to the node at an address, from the network of this thread.
pub(crate) async fn connect(address: &str, cluster: &str) -> Result<Client, String> {
    let client = Client::builder().at([address]).cluster(cluster).connect().await;
    client.map_err(|error| format!("{address} can't be reached: {error}"))
}

fn hosts(settings: &Settings, plan: Plan) -> Vec<HostPlan> {
    let host = |name: String, rack, mbit| HostPlan { name, rack, mbit };
    let mut hosts = Vec::new();
    for rack in 0..plan.racks {
        hosts.push(host(format!("front{rack}"), rack, settings.edge_mbit));
        hosts.push(host(format!("client{rack}"), rack, settings.client_mbit()));
        for relay in 0..plan.relays_per_rack {
            hosts.push(host(
                format!("relay{}", rack * plan.relays_per_rack + relay),
                rack,
                settings.relay_mbit,
            ));
        }
    }
    let back = |number: u32| host(format!("back{number}"), number as usize % plan.racks, settings.edge_mbit);
    hosts.extend((0..plan.back_ends).map(back));
    hosts
}

/// Creates a progress bar over `steps` steps.
pub(crate) fn progress(what: &str, steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {pos}/{len} {wide_bar} {msg}");
    let bar = ProgressBar::new(steps as u64);
    bar.with_style(style.expect("invariant: the template is well-formed")).with_prefix(what.to_owned())
}

/// A description for a user or a script, to inspect the testbed or to check that it is gone.
#[derive(serde::Serialize)]
pub(crate) struct Shown {
    /// The processes of the nodes and of the guard.
    processes: Vec<u32>,
    hosts: Vec<ShownHost>,
    directory: PathBuf,
}

#[derive(serde::Serialize)]
struct ShownHost {
    name: String,
    address: String,
    /// The path for nsenter --net.
    space: String,
    mbit: u32,
}

impl Shown {
    pub(crate) fn of(bed: &Bed) -> Self {
        let nodes = bed.nodes.iter().map(Node::process);
        let hosts = bed.network.hosts.iter().map(|host| ShownHost {
            name: host.plan.name.clone(),
            address: host.address.clone(),
            space: host.space.path(),
            mbit: host.plan.mbit,
        });
        Self {
            processes: nodes.chain([bed.guard.process()]).collect(),
            hosts: hosts.collect(),
            directory: bed.guard.directory().to_owned(),
        }
    }
}
