//! Irregular behaviour of counters, and its effect on samples.

use super::*;
use crate::counters::{DiskCounters, Memory, NetCounters, Room};
use crate::host::Name;
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

fn cpu(busy: u64, iowait: u64, total: u64) -> CpuTime {
    CpuTime { busy, iowait, steal: 0, total }
}

/// A host with two processors whose counters are all zero.
fn idle(at: Instant) -> Counters {
    Counters {
        at,
        wall_ns: 7,
        cpu: cpu(0, 0, 0),
        cores: vec![cpu(0, 0, 0); 2],
        load_1_milli: 0,
        memory: Memory::default(),
        net: BTreeMap::new(),
        disks: BTreeMap::new(),
        room: Room::default(),
        stalled: None,
        processes: Vec::new(),
    }
}

fn two_readings(interval: Duration) -> (Counters, Counters) {
    let start = Instant::now();
    (idle(start), idle(start + interval))
}

fn sample(before: &Counters, after: &Counters) -> Sample {
    between(&Host::new(3, "web"), before, after)
}

fn net(rx_bytes: u64) -> NetCounters {
    NetCounters { rx_bytes, ..NetCounters::default() }
}

fn process(pid: u32, started: u64, cpu_ms: u64) -> ProcessCounters {
    ProcessCounters { pid, started, cpu_ns: cpu_ms * 1_000_000, rss_bytes: 4096, name: Name::clipped("p") }
}

#[test]
fn rates_are_per_second_for_any_interval() {
    let (mut before, mut after) = two_readings(SECOND / 4);
    before.net.insert("eth0".into(), net(1000));
    after.net.insert("eth0".into(), NetCounters { errors: 1, ..net(1500) });
    before.disks.insert("sda".into(), DiskCounters { read_bytes: 0, written_bytes: 10 });
    after.disks.insert("sda".into(), DiskCounters { read_bytes: 4096, written_bytes: 20 });
    let sample = sample(&before, &after);
    assert_eq!((sample.until_ns, sample.interval_ns), (7, 250_000_000));
    assert_eq!((sample.figures.rx_bytes_s, sample.figures.net_errors_milli_s), (2000, 4000));
    assert_eq!((sample.figures.read_bytes_s, sample.figures.write_bytes_s), (16_384, 40));
}

#[test]
fn processor_time_is_a_share_of_the_elapsed_time() {
    let (mut before, mut after) = two_readings(SECOND);
    before.cpu = cpu(100, 50, 1000);
    after.cpu = cpu(150, 49, 1200);
    after.cores = vec![cpu(75, 0, 100), cpu(0, 0, 0)];
    let sample = sample(&before, &after);
    assert_eq!(sample.figures.busy_mcores, 500, "a quarter of two processors");
    assert_eq!(sample.figures.iowait_mcores, 0, "iowait went back, so nothing was gained");
    assert_eq!(sample.cores_permille, [750, 0], "a processor on which no time has passed has no time in use");
}

#[test]
fn new_or_restarted_device_has_gained_nothing() {
    let (mut before, mut after) = two_readings(SECOND);
    before.net.extend([("eth0".into(), net(u64::MAX)), ("gone".into(), net(5))]);
    after.net.extend([("eth0".into(), net(12)), ("new".into(), net(1 << 40))]);
    assert_eq!(sample(&before, &after).figures.rx_bytes_s, 0);
}

#[test]
fn new_processors_are_counted_but_have_no_shares_yet() {
    let (before, mut after) = two_readings(SECOND);
    after.cores.push(cpu(9, 0, 9));
    let sample = sample(&before, &after);
    assert_eq!((sample.figures.cores, sample.cores_permille.len()), (3, 0));
}

#[test]
fn reused_process_id_is_another_process() {
    let (mut before, mut after) = two_readings(SECOND);
    before.processes = vec![process(10, 1, 500), process(11, 1, 9000)];
    after.processes = vec![process(10, 1, 700), process(11, 2, 30), process(12, 2, 40)];
    let used: Vec<(u32, u64)> =
        sample(&before, &after).processes.iter().map(|p| (p.pid, p.cpu_mcores)).collect();
    assert_eq!(used, [(10, 200), (11, 30), (12, 40)]);
}

#[test]
fn process_time_is_at_most_the_interval() {
    let (before, mut after) = two_readings(SECOND / 10);
    after.processes = vec![process(1, 1, 60_000)];
    assert_eq!(sample(&before, &after).processes[0].cpu_mcores, 2000);
}

#[test]
fn sample_has_the_top_of_both_rankings_each_once() {
    let (before, mut after) = two_readings(SECOND);
    after.processes = (0..200).map(|pid| process(pid, 1, u64::from(pid))).collect();
    after.processes[3].rss_bytes = 1 << 30;
    let processes = sample(&before, &after).processes;
    assert!(processes.len() <= 2 * PROCESSES_MAX as usize);
    assert!(processes.is_sorted_by(|before, after| before.pid < after.pid), "each process occurs once");
    assert!(processes.iter().any(|p| p.pid == 3) && processes.iter().any(|p| p.pid == 199));
}

#[test]
fn stalls_are_exact_shares_of_the_interval() {
    let (mut before, mut after) = two_readings(SECOND);
    before.stalled = Some(Stalled { memory_some_us: 5, ..Stalled::default() });
    after.stalled = Some(Stalled { memory_some_us: 250_005, cpu_some_us: 2_000_000, ..Stalled::default() });
    let stall = sample(&before, &after).stall.unwrap();
    assert_eq!((stall.memory_some_permille, stall.cpu_some_permille), (250, 1000));
    before.stalled = None;
    assert_eq!(sample(&before, &after).stall, None, "a first reading has nothing to compare with");
}

#[test]
fn interval_of_zero_does_not_fail() {
    let (before, after) = two_readings(Duration::ZERO);
    assert_eq!(sample(&before, &after).figures.cpu_permille(), 0);
}
