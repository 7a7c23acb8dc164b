//! Asks nodes: by TCP, by a greeting, for their status, and by UDP. Many at once, each within a time limit.

use super::clocks::Offset;
use super::finding::{Finding, capped};
use super::udp;
use crate::output::short;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::timeout;
use treefold::{Client, ClusterOptions, Error, NodeStatus};
use treefold_core::id::NodeId;
use treefold_core::status::{Counters, OpenWork};

const TCP: &str = "tcp";

/// Nodes that are asked at a time.
const AT_ONCE: usize = 32;

/// The results for one node.
pub(super) struct Seen {
    /// Its address, as it was given or as members know it.
    pub(super) name: String,
    pub(super) addr: Option<SocketAddr>,
    /// Time to connect.
    pub(super) tcp: io::Result<Duration>,
    /// Its answer; absent if there was no connection, or no valid key or token to greet with.
    pub(super) answer: Option<Result<Facts, Error>>,
    /// Time for a datagram and its answer; absent if its address is unknown.
    pub(super) udp: Option<io::Result<Duration>>,
    /// Its whole status, of the first node that answers only: it can have a thousand members.
    pub(super) status: Option<Box<NodeStatus>>,
}

impl Seen {
    pub(super) fn facts(&self) -> Option<&Facts> {
        self.answer.as_ref()?.as_ref().ok()
    }

    pub(super) fn port(&self) -> u16 {
        self.addr.map_or(0, |addr| addr.port())
    }
}

/// The parts of a status that are kept of every node.
pub(super) struct Facts {
    pub(super) node: NodeId,
    /// The members in its sight, with itself.
    pub(super) members: BTreeSet<NodeId>,
    pub(super) build: String,
    /// Its clock against this machine's; absent if it does not report its clock.
    pub(super) offset: Option<Offset>,
    pub(super) unreached_by_udp: bool,
    /// Members whose total of a service it refuses, as text.
    pub(super) refused: BTreeSet<String>,
    pub(super) counters: Counters,
    pub(super) open: OpenWork,
}

impl Facts {
    fn of(status: &NodeStatus, sent: (SystemTime, Duration)) -> Self {
        let refused = status.totals.iter().flat_map(|total| {
            let (service, agreed) = (&total.service, &total.agreed);
            total.refused.iter().map(move |refused| {
                format!(
                    "{} has the total {} of {service}, and the cluster has {agreed}",
                    refused.node.addr, refused.claim
                )
            })
        });
        Self {
            node: status.card.node,
            members: status.members.iter().map(|member| member.card.node).chain([status.card.node]).collect(),
            build: status.process.build.clone(),
            offset: Offset::of(status.process.unix_ms, sent.0, sent.1),
            unreached_by_udp: status.unreached_by_udp,
            refused: refused.collect(),
            counters: status.counters,
            open: status.open,
        }
    }
}

/// Asks nodes, in the order of their names. Without options nobody is greeted.
pub(super) async fn ask(names: Vec<String>, options: Option<&ClusterOptions>, limit: Duration) -> Vec<Seen> {
    let (mut names, mut running, mut seen) = (names.into_iter().enumerate(), JoinSet::new(), Vec::new());
    loop {
        while running.len() < AT_ONCE
            && let Some((at, name)) = names.next()
        {
            let options = options.cloned();
            running.spawn(async move { (at, asked(name, options, limit).await) });
        }
        let Some(done) = running.join_next().await else { break };
        seen.extend(done.ok());
        keep_one_status(&mut seen);
    }
    seen.sort_by_key(|(at, _)| *at);
    seen.into_iter().map(|(_, seen)| seen).collect()
}

fn keep_one_status(seen: &mut [(usize, Seen)]) {
    let statuses = seen.iter_mut().filter_map(|(_, seen)| seen.status.is_some().then_some(&mut seen.status));
    statuses.skip(1).for_each(|status| *status = None);
}

async fn asked(name: String, options: Option<ClusterOptions>, limit: Duration) -> Seen {
    let late = || io::Error::from(ErrorKind::TimedOut);
    let looked = timeout(limit, lookup_host(name.as_str())).await;
    let looked = looked
        .unwrap_or_else(|_| Err(late()))
        .and_then(|mut addrs| addrs.next().ok_or_else(|| io::Error::from(ErrorKind::AddrNotAvailable)));
    let addr = match looked {
        Ok(addr) => addr,
        Err(error) => {
            return Seen { name, addr: None, tcp: Err(error), answer: None, udp: None, status: None };
        }
    };
    let datagrams = udp::probe(addr, limit);
    let connection = async {
        let began = Instant::now();
        let connected = timeout(limit, TcpStream::connect(addr)).await.unwrap_or_else(|_| Err(late()));
        let tcp = connected.map(|_| began.elapsed());
        let answer = match options.filter(|_| tcp.is_ok()) {
            Some(options) => Some(greeted(addr, options, limit).await),
            None => None,
        };
        (tcp, answer)
    };
    let (datagrams, (tcp, answer)) = tokio::join!(datagrams, connection);
    let (answer, status) = match answer {
        Some(Ok((facts, status))) => (Some(Ok(facts)), Some(status)),
        Some(Err(error)) => (Some(Err(error)), None),
        None => (None, None),
    };
    Seen { name, addr: Some(addr), tcp, answer, udp: Some(datagrams), status }
}

async fn greeted(
    addr: SocketAddr,
    options: ClusterOptions,
    limit: Duration,
) -> Result<(Facts, Box<NodeStatus>), Error> {
    let ask = async {
        let client = Client::builder().at([addr]).cluster(options).connect().await?;
        let (sent, began) = (SystemTime::now(), Instant::now());
        let status = client.status().await?;
        Ok((Facts::of(&status, (sent, began.elapsed())), Box::new(status)))
    };
    timeout(limit, ask).await.unwrap_or(Err(Error::FrontSilent { waited: limit }))
}

/// Checks whether the nodes accept connections.
pub(super) fn check(seen: &[Seen]) -> Vec<Finding> {
    let times: Vec<Duration> = seen.iter().filter_map(|node| node.tcp.as_ref().ok().copied()).collect();
    let failed = seen.iter().filter_map(|node| Some(unreached(node, node.tcp.as_ref().err()?))).collect();
    let mut findings = capped(failed);
    if !times.is_empty() {
        let found = format!("{} can be reached, within {}", count(times.len()), spread(&times));
        findings.insert(0, Finding::ok(TCP, found));
    }
    findings
}

fn unreached(node: &Seen, error: &io::Error) -> Finding {
    let name = &node.name;
    let advice = match (node.addr, error.kind()) {
        (None, _) => "correct the name, or its entry in DNS".to_owned(),
        (Some(addr), ErrorKind::ConnectionRefused) => format!(
            "start the node, or correct the address; if it runs there, let it listen at more than 127.0.0.1 and publish the TCP port {}",
            addr.port()
        ),
        (Some(addr), ErrorKind::TimedOut) => format!(
            "open the TCP port {} towards it, in firewalls and security groups, or start its host",
            addr.port()
        ),
        _ => "check the route to it".to_owned(),
    };
    Finding::fail(TCP, format!("{name} can't be reached: {error}"), advice)
}

/// The number of nodes in words.
pub(super) fn count(nodes: usize) -> String {
    format!("{nodes} {}", if nodes == 1 { "node" } else { "nodes" })
}

/// The least and the greatest of some times.
pub(super) fn spread(times: &[Duration]) -> String {
    let (least, most) = (times.iter().min(), times.iter().max());
    match (least, most) {
        (Some(least), Some(most)) if least != most => format!("{} to {}", short(*least), short(*most)),
        (Some(only), _) => short(*only),
        (None, _) => String::new(),
    }
}
