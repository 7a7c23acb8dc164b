//! UDP in both directions between this machine and a node.
//!
//! The datagram is sealed under a key that no node has. A node answers such a datagram by saying so, to anyone: an answer
//! therefore proves that datagrams pass in both directions, and needs no key of the cluster.

use super::finding::{Finding, capped};
use super::nodes::{Seen, spread};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout};
use treefold::parts::stray_datagram;

const CHECK: &str = "udp";

/// Datagrams that are sent to a node before it counts as silent: single ones get lost.
const TRIES: u32 = 3;
/// Longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64;

/// Sends datagrams until the node answers one. Returns the time that the answer took.
pub(super) async fn probe(addr: SocketAddr, limit: Duration) -> io::Result<Duration> {
    let any: SocketAddr =
        if addr.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(addr).await?;
    let mut last = io::Error::from(ErrorKind::TimedOut);
    for _ in 0..TRIES {
        match timeout(limit / TRIES, asked(&socket)).await {
            Ok(Ok(took)) => return Ok(took),
            // The refusal of an earlier datagram may be reported here, so another one is tried.
            Ok(Err(error)) => last = error,
            Err(_) => {}
        }
    }
    Err(last)
}

async fn asked(socket: &UdpSocket) -> io::Result<Duration> {
    let (datagram, wanted) = stray_datagram().ok_or_else(|| io::Error::other("no random bytes"))?;
    let sent = Instant::now();
    socket.send(&datagram).await?;
    let mut buffer = [0; ANSWER_BYTES_MAX];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if buffer[..length] == wanted[..] {
            return Ok(sent.elapsed());
        }
    }
}

pub(super) fn check(seen: &[Seen]) -> Vec<Finding> {
    let tested = || seen.iter().filter_map(|node| Some((node, node.udp.as_ref()?)));
    let times: Vec<Duration> = tested().filter_map(|(_, udp)| udp.as_ref().ok().copied()).collect();
    let failed = tested().filter_map(|(node, udp)| Some(silent(node, udp.as_ref().err()?))).collect();
    let blocked = seen.iter().filter(|node| node.facts().is_some_and(|facts| facts.unreached_by_udp));
    let blocked = blocked.map(|node| {
        Finding::fail(
            CHECK,
            format!(
                "no member reaches {} by UDP, so gossip to it goes over TCP and dead members are found late",
                node.name
            ),
            format!("open the UDP port {} between the nodes, in both directions", node.port()),
        )
    });
    let mut findings = capped(failed);
    findings.extend(capped(blocked.collect()));
    if !times.is_empty() {
        let found = format!(
            "datagrams reach {} and come back, within {}",
            super::nodes::count(times.len()),
            spread(&times)
        );
        findings.insert(0, Finding::ok(CHECK, found));
    }
    findings
}

fn silent(node: &Seen, error: &io::Error) -> Finding {
    let (name, port) = (&node.name, node.port());
    if node.tcp.is_err() {
        return Finding::fail(
            CHECK,
            format!("{name} gives no answer by UDP, as by TCP"),
            "see the line on TCP",
        );
    }
    if error.kind() == ErrorKind::ConnectionRefused {
        return Finding::fail(
            CHECK,
            format!("{name} accepts TCP, but no program has its UDP port {port}"),
            format!("publish or forward the port for UDP too (-p {port}:{port}/udp, protocol: UDP)"),
        );
    }
    Finding::fail(
        CHECK,
        format!("{name} accepts TCP, but {TRIES} datagrams got no answer ({error})"),
        format!(
            "open the UDP port {port} in both directions, in firewalls and security groups and at the container (-p {port}:{port}/udp)"
        ),
    )
}
