//! The resources used between two moments: every link, the machine's processors, and the processor time by
//! role.
//!
//! A figure of a testbed on one machine is meaningful only if a link that was made slow limits it. So each
//! figure comes with the most loaded link and the load of the machine.

use crate::bed::Bed;
use crate::network::Carried;
use std::fs;
use std::io;
use std::time::Instant;

/// The unit of times in /proc, on every Linux that has it (USER_HZ).
const TICKS_PER_S: f64 = 100.0;

/// All counters at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub(crate) at: Instant,
    carried: Carried,
    /// Of all processors: busy, and busy or idle.
    machine_ticks: (u64, u64),
    /// Of each node, in the testbed's order.
    node_ticks: Vec<u64>,
}

/// The resources used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) seconds: f64,
    /// Load of the machine's processors.
    pub(crate) machine_percent: f64,
    /// Processors kept busy by the relays, the back-ends and the fronts.
    pub(crate) relay_processors: f64,
    pub(crate) back_end_processors: f64,
    pub(crate) front_processors: f64,
    /// Traffic into the fronts' links, and into the relays' links, in total.
    pub(crate) fronts_in_mbit: f64,
    pub(crate) relays_in_mbit: f64,
    /// The link with the highest share of its capacity in use.
    pub(crate) fullest: String,
    pub(crate) fullest_percent: f64,
}

impl Moment {
    /// Reads all counters now.
    pub(crate) fn of(bed: &Bed) -> io::Result<Self> {
        let node_ticks =
            bed.nodes.iter().map(|node| process_ticks(node.process())).collect::<Result<_, _>>()?;
        Ok(Self {
            at: Instant::now(),
            carried: bed.network.carried()?,
            machine_ticks: machine_ticks()?,
            node_ticks,
        })
    }

    /// Computes the usage from this moment to a later one.
    pub(crate) fn until(&self, later: &Self, bed: &Bed) -> Usage {
        let seconds = later.at.duration_since(self.at).as_secs_f64();
        let mut usage = Usage { seconds, ..Usage::default() };
        let (busy, all) =
            (later.machine_ticks.0 - self.machine_ticks.0, later.machine_ticks.1 - self.machine_ticks.1);
        usage.machine_percent = 100.0 * busy as f64 / all.max(1) as f64;
        for ((node, before), after) in bed.nodes.iter().zip(&self.node_ticks).zip(&later.node_ticks) {
            let processors = (after - before) as f64 / TICKS_PER_S / seconds;
            match role(&node.name) {
                "relay" => usage.relay_processors += processors,
                "front" => usage.front_processors += processors,
                _ => usage.back_end_processors += processors,
            }
        }
        let mbit = |before: u64, after: u64| (after - before) as f64 * 8.0 / 1e6 / seconds;
        for ((host, before), after) in
            bed.network.hosts.iter().zip(&self.carried.hosts).zip(&later.carried.hosts)
        {
            let (to, from) = (mbit(before.0, after.0), mbit(before.1, after.1));
            match role(&host.plan.name) {
                "relay" => usage.relays_in_mbit += to,
                "front" => usage.fronts_in_mbit += to,
                _ => {}
            }
            usage.note_link(&host.plan.name, to, from, host.plan.mbit);
        }
        let (before, after) = (self.carried.uplink, later.carried.uplink);
        let (to, from) = (mbit(before.0, after.0), mbit(before.1, after.1));
        usage.note_link("uplink", to, from, bed.network.uplink_mbit);
        usage
    }
}

impl Usage {
    fn note_link(&mut self, name: &str, to: f64, from: f64, mbit: u32) {
        for (used, way) in [(to, "in"), (from, "out")] {
            let percent = 100.0 * used / f64::from(mbit);
            if percent > self.fullest_percent {
                (self.fullest, self.fullest_percent) = (format!("{name} {way}"), percent);
            }
        }
    }
}

/// Returns the role of a host: the letters of its name before the number.
fn role(name: &str) -> &str {
    name.trim_end_matches(|character: char| character.is_ascii_digit())
}

/// Returns the ticks of processor time, user and kernel, of a process.
fn process_ticks(process: u32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name, in parentheses, may contain anything. Behind it, the state is field 3, and user and kernel
    // time are 14 and 15.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace().skip(11);
    let ticks: Vec<u64> = fields.take(2).filter_map(|ticks| ticks.parse().ok()).collect();
    match ticks[..] {
        [user, kernel] => Ok(user + kernel),
        _ => Err(io::Error::other(format!("/proc/{process}/stat has no times"))),
    }
}

fn machine_ticks() -> io::Result<(u64, u64)> {
    let stat = fs::read_to_string("/proc/stat")?;
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|ticks| ticks.parse().ok()).collect();
    match ticks[..] {
        [user, nice, system, idle, waiting, interrupts, soft, stolen, ..] => {
            let busy = user + nice + system + interrupts + soft + stolen;
            Ok((busy, busy + idle + waiting))
        }
        _ => Err(io::Error::other("/proc/stat has no line for all processors")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_s_role_is_its_name_without_its_number() {
        assert_eq!(["relay0", "back12", "front1"].map(role), ["relay", "back", "front"]);
    }

    #[test]
    fn ticks_of_this_process_and_machine_are_readable() {
        assert!(process_ticks(std::process::id()).is_ok());
        let (busy, all) = machine_ticks().unwrap();
        assert!(busy > 0 && busy <= all);
        assert!(process_ticks(u32::MAX).is_err());
    }
}
