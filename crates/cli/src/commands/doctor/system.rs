//! Settings of the system, and of a container around the node, that hurt a node.

use super::finding::Finding;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

const CHECK: &str = "system";
const CONTAINER: &str = "container";

/// Connections that a node lets wait at its address.
const BACKLOG: u64 = 4_096;
/// Buffer of a UDP socket that holds about a hundred datagrams.
const BUFFER_LEAST: u64 = 212_992;
/// Ports for outgoing connections: a node dials every other one.
const PORTS_LEAST: u64 = 10_000;
/// Share of lost datagrams from which on it is a problem, and the least number that is judged.
const LOST_MAX: f64 = 0.001;
const DATAGRAMS_LEAST: u64 = 1_000;

pub(super) fn check() -> Vec<Finding> {
    let read = |path: &str| fs::read_to_string(Path::new("/proc").join(path)).ok();
    let number = |path: &str| read(path)?.trim().parse::<u64>().ok();
    let findings = [
        number("sys/net/core/somaxconn").and_then(|has| {
            at_least(
                "net.core.somaxconn",
                has,
                BACKLOG,
                "connections that wait while many nodes start are refused",
            )
        }),
        number("sys/net/core/rmem_default").and_then(|has| {
            at_least(
                "net.core.rmem_default",
                has,
                BUFFER_LEAST,
                "datagrams of gossip and polls are lost in bursts",
            )
        }),
        read("sys/net/ipv4/ip_local_port_range").and_then(|text| {
            at_least(
                "net.ipv4.ip_local_port_range",
                ports(&text)?,
                PORTS_LEAST,
                "outgoing connections find no port",
            )
        }),
        read("net/snmp").and_then(|text| lost(&text)),
    ];
    let findings: Vec<Finding> = findings.into_iter().flatten().collect();
    if findings.is_empty() {
        return vec![Finding::ok(
            CHECK,
            "backlog, buffers and ports suffice, and no datagrams are lost here",
        )];
    }
    findings
}

/// A problem if a setting is below what a node wants.
fn at_least(name: &str, has: u64, least: u64, harm: &str) -> Option<Finding> {
    let set = if name.ends_with("range") { "\"10240 65535\"".to_owned() } else { least.to_string() };
    (has < least).then(|| {
        Finding::warn(
            CHECK,
            format!("{name} allows {has}: {harm}"),
            format!("run `sysctl -w {name}={set}`, and put it into /etc/sysctl.d"),
        )
    })
}

fn ports(range: &str) -> Option<u64> {
    let (first, last) = range.trim().split_once(char::is_whitespace)?;
    (last.trim().parse::<u64>().ok()? + 1).checked_sub(first.parse().ok()?)
}

/// A problem if this system has lost datagrams because buffers of sockets were full.
fn lost(snmp: &str) -> Option<Finding> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, counts) = (lines.next()?, lines.next()?);
    let of = |wanted: &str| -> Option<u64> {
        let (_, count) = names.split(' ').zip(counts.split(' ')).find(|(name, _)| *name == wanted)?;
        count.parse().ok()
    };
    let (came, lost) = (of("InDatagrams")?, of("RcvbufErrors")?);
    let all = came.saturating_add(lost);
    (all >= DATAGRAMS_LEAST && lost as f64 > LOST_MAX * all as f64).then(|| {
        Finding::warn(
            CHECK,
            format!("{lost} of {all} UDP datagrams since the start were lost in full buffers"),
            "raise net.core.rmem_default (`sysctl -w net.core.rmem_default=1048576`) and start the node again, or give the host more \
             processors",
        )
    })
}

/// Checks that hold only inside a container. `listen` and `advertise` are the node's.
pub(super) fn container(listen: Option<SocketAddr>, advertise: Option<&str>) -> Option<Finding> {
    let kind = container_kind(Path::new("/"), std::env::var_os("KUBERNETES_SERVICE_HOST").is_some())?;
    Some(reachable(kind, listen?, advertise))
}

fn container_kind(root: &Path, is_kubernetes: bool) -> Option<&'static str> {
    let has = |path: &str| root.join(path).exists();
    if is_kubernetes {
        return Some("a pod of Kubernetes");
    }
    if has(".dockerenv") {
        return Some("a container of Docker");
    }
    has("run/.containerenv").then_some("a container of Podman")
}

fn reachable(kind: &str, listen: SocketAddr, advertise: Option<&str>) -> Finding {
    let port = listen.port();
    if listen.ip().is_loopback() {
        let found = format!("this is {kind}, and a node at {listen} can only be reached inside it");
        return Finding::fail(
            CONTAINER,
            found,
            format!("listen at 0.0.0.0:{port}, and advertise the address that other nodes use"),
        );
    }
    if kind.contains("Kubernetes") || advertise.is_some() {
        return Finding::ok(
            CONTAINER,
            format!("this is {kind}; the port {port} must be open for TCP and for UDP"),
        );
    }
    Finding::warn(
        CONTAINER,
        format!("this is {kind}, and the node advertises no address"),
        format!(
            "publish the port for both protocols (-p {port}:{port} -p {port}:{port}/udp), and give --advertise HOST:{port}, or use the network of the host"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_low_setting_comes_with_the_command_that_raises_it() {
        assert_eq!(at_least("net.core.somaxconn", 4_096, BACKLOG, "x"), None);
        let low = at_least("net.core.somaxconn", 128, BACKLOG, "connections are refused").unwrap();
        assert_eq!(
            low.advice.unwrap(),
            "run `sysctl -w net.core.somaxconn=4096`, and put it into /etc/sysctl.d"
        );
        assert_eq!(ports("32768\t60999\n"), Some(28_232));
    }

    #[test]
    fn lost_datagrams_are_counted() {
        let snmp = |lost: u64| {
            format!(
                "Tcp: A B\nTcp: 1 2\nUdp: InDatagrams NoPorts RcvbufErrors\nUdp: 10000 3 {lost}\nUdpLite: X\n"
            )
        };
        assert_eq!(lost(&snmp(1)), None);
        assert!(lost(&snmp(500)).unwrap().found.starts_with("500 of 10500 UDP datagrams"));
    }

    #[test]
    fn a_node_in_a_container_must_be_reachable_from_outside() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(container_kind(root.path(), false), None);
        fs::write(root.path().join(".dockerenv"), "").unwrap();
        let kind = container_kind(root.path(), false).unwrap();
        let any = "0.0.0.0:7700".parse().unwrap();
        assert_eq!(reachable(kind, "127.0.0.1:7700".parse().unwrap(), None).level, Level::Fail);
        assert!(reachable(kind, any, None).advice.unwrap().contains("-p 7700:7700/udp"));
        assert_eq!(reachable(kind, any, Some("host:7700")).level, Level::Ok);
    }
}
