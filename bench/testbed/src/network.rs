//! Racks: each is a switch with hosts. All of them are namespaces, with links between them.
//!
//! ```text
//!   host ══ edge ══╗                    ╔══ edge ══ host
//!   host ══ edge ══╬═ switch ══ uplink ══ switch ═╬══ edge ══ host
//!   relay ═ fast ══╝                    ╚══ fast ═ relay
//! ```
//!
//! A link is a veth pair with a token bucket at both ends, or two TAP interfaces between which a thread delays
//! frames ([`crate::delay`]). Traffic from the host is shaped at the host.
//! Traffic to the host is shaped, and queued, at the switch, as at a real one. Nothing is ever put into the
//! namespace in which this program was started.

use crate::delay::{self, Delayer};
use crate::space::Space;
use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Bytes of the queue in front of a link: a shallow switch buffer.
const QUEUE_BYTES: u32 = 256 << 10;

/// Bytes that may leave a link at once: the largest piece that the kernel passes on, so that no piece is
/// split.
const BURST_BYTES: u32 = 66 << 10;

/// Most hosts, limited by the host part of the addresses.
const RACK_HOSTS_MAX: usize = 200;

/// A planned host.
#[derive(Clone, Debug)]
pub(crate) struct HostPlan {
    pub(crate) name: String,
    pub(crate) rack: usize,
    /// Speed of its link, in both directions.
    pub(crate) mbit: u32,
}

/// A host with its link.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) plan: HostPlan,
    pub(crate) address: String,
    pub(crate) space: Space,
    /// The switch's end of the link.
    port: String,
}

/// All switches and hosts.
#[derive(Debug)]
pub(crate) struct Network {
    switches: Vec<Space>,
    pub(crate) hosts: Vec<Host>,
    /// Speed of the link between the switches.
    pub(crate) uplink_mbit: u32,
    /// Of the hosts' links, if they can be delayed.
    delayer: Option<Delayer>,
}

/// Bytes that the links have carried so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carried {
    /// Per host: to it, and from it.
    pub(crate) hosts: Vec<(u64, u64)>,
    /// Between the switches: to the first, and from it.
    pub(crate) uplink: (u64, u64),
}

impl Network {
    /// Sets up one or two racks, with links of hosts that can be delayed if `delayed`.
    pub(crate) fn new(plans: &[HostPlan], uplink_mbit: u32, delayed: bool) -> io::Result<Self> {
        let racks = plans.iter().map(|plan| plan.rack + 1).max().unwrap_or(1);
        assert!(
            racks <= 2 && plans.len() <= RACK_HOSTS_MAX,
            "invariant: this program plans at most two racks of few hosts"
        );
        let switches: Vec<Space> = (0..racks).map(|_| Space::new()).collect::<Result<_, _>>()?;
        for switch in &switches {
            configure(
                switch,
                "ip",
                "link set dev lo up\nlink add name bridge0 type bridge\nlink set dev bridge0 up\n",
            )?;
        }
        if let [first, second] = &switches[..] {
            let peer = second.path();
            configure(
                first,
                "ip",
                &format!("link add name uplink0 type veth peer name uplink0 netns {peer}\n"),
            )?;
            for switch in [first, second] {
                configure(switch, "ip", "link set dev uplink0 master bridge0 up\n")?;
                configure(switch, "tc", &shaped("uplink0", uplink_mbit))?;
            }
        }
        let mut network = Self { switches, hosts: Vec::new(), uplink_mbit, delayer: None };
        let mut links = Vec::new();
        for plan in plans {
            network.plug_in(plan, delayed.then_some(&mut links))?;
        }
        network.delayer = delayed.then(|| Delayer::start(links)).transpose()?;
        Ok(network)
    }

    /// Holds every frame on every host's link for this long, in both directions.
    pub(crate) fn set_delay(&self, delay: Duration) {
        let delayer = self.delayer.as_ref();
        delayer.expect("invariant: only beds with delayed links have cases with delays").set_delay(delay);
    }

    /// Adds a host. Its link can be delayed if there is a list of such links.
    fn plug_in(&mut self, plan: &HostPlan, delayed: Option<&mut Vec<[delay::End; 2]>>) -> io::Result<()> {
        let place = self.hosts.len();
        let (space, port) = (Space::new()?, format!("port{place}"));
        let address = format!("10.77.{}.{}", plan.rack, place + 1);
        let switch = &self.switches[plan.rack];
        match delayed {
            Some(links) => {
                links.push([space.run(|| delay::end("eth0"))??, switch.run(|| delay::end(&port))??]);
            }
            None => {
                let peer = space.path();
                configure(
                    switch,
                    "ip",
                    &format!("link add name {port} type veth peer name eth0 netns {peer}\n"),
                )?;
            }
        }
        configure(switch, "ip", &format!("link set dev {port} master bridge0 up\n"))?;
        configure(switch, "tc", &shaped(&port, plan.mbit))?;
        configure(
            &space,
            "ip",
            &format!("link set dev lo up\naddr add {address}/16 dev eth0\nlink set dev eth0 up\n"),
        )?;
        configure(&space, "tc", &shaped("eth0", plan.mbit))?;
        self.hosts.push(Host { plan: plan.clone(), address, space, port });
        Ok(())
    }

    /// Returns the bytes that the links have carried so far.
    pub(crate) fn carried(&self) -> io::Result<Carried> {
        let read = || std::fs::read_to_string("/proc/thread-self/net/dev");
        let tables: Vec<String> =
            self.switches.iter().map(|switch| switch.run(read)?).collect::<io::Result<_>>()?;
        let of = |rack: usize, port: &str| {
            let line =
                tables[rack].lines().find_map(|line| line.trim().strip_prefix(port)?.strip_prefix(':'));
            let figures: Vec<u64> = line
                .unwrap_or_default()
                .split_whitespace()
                .filter_map(|figure| figure.parse().ok())
                .collect();
            // Received is the first figure, sent the ninth. The switch sends the traffic that goes to the
            // host.
            match figures[..] {
                [received, _, _, _, _, _, _, _, sent, ..] => Ok((sent, received)),
                _ => Err(io::Error::other(format!("the kernel has no counters for {port}"))),
            }
        };
        let hosts = self.hosts.iter().map(|host| of(host.plan.rack, &host.port)).collect::<Result<_, _>>()?;
        let uplink = if self.switches.len() > 1 { of(1, "uplink0")? } else { (0, 0) };
        Ok(Carried { hosts, uplink })
    }

    /// Returns the first host with this name.
    pub(crate) fn host(&self, name: &str) -> &Host {
        let found = self.hosts.iter().find(|host| host.plan.name == name);
        found.expect("invariant: only planned hosts are asked for")
    }
}

fn shaped(interface: &str, mbit: u32) -> String {
    format!("qdisc add dev {interface} root tbf rate {mbit}mbit burst {BURST_BYTES} limit {QUEUE_BYTES}\n")
}

/// Runs a tool of iproute2 with its commands, one per line.
fn configure(space: &Space, tool: &str, commands: &str) -> io::Result<()> {
    let mut command = Command::new(tool);
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    space.contain(&mut command);
    let absent =
        |error: io::Error| io::Error::new(error.kind(), format!("can't run {tool} (iproute2): {error}"));
    let mut child = command.spawn().map_err(absent)?;
    let mut stdin = child.stdin.take().expect("invariant: spawned with a pipe for its input");
    stdin.write_all(commands.as_bytes())?;
    drop(stdin);
    let ended = child.wait_with_output()?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr).trim().replace('\n', "; ");
    Err(io::Error::other(format!("{tool} refuses {:?}: {said}", commands.trim())))
}
