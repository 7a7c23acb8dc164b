//! Tests of the model, and the cluster of three hosts that the pictures show.

use super::*;
use crate::commands::top::slowest::Subtree;
use crate::commands::top::source::Nodes;
use treefold::operators::Merge;
use treefold::{Missing, NodeId, Reason};
use treefold_hosts::sample::{NodeStreams, Stall};
use treefold_hosts::{Figures, Host, Name, Process, Sample};

fn process(pid: u32, name: &str, cpu_mcores: u64, rss_mb: u64) -> Process {
    Process { pid, name: Name::clipped(name), cpu_mcores, rss_bytes: rss_mb << 20 }
}

/// A sample of one host: the first has busy processors, the second lacks memory, the third has traffic.
fn sample(id: u32) -> Sample {
    let figures = Figures {
        cores: 4,
        busy_mcores: [3640, 420, 1000][id as usize],
        iowait_mcores: 80,
        load_1_milli: [5210, 800, 1900][id as usize],
        processes: 120,
        memory_bytes: 16 << 30,
        memory_available_bytes: [9 << 30, 1 << 30, 12 << 30][id as usize],
        swap_bytes: 2 << 30,
        swap_used_bytes: [0, 1 << 30, 0][id as usize],
        rx_bytes_s: [120_000, 4_000, 88 << 20][id as usize],
        tx_bytes_s: [90_000, 2_000, 7 << 20][id as usize],
        read_bytes_s: 3 << 20,
        write_bytes_s: 1 << 20,
        disk_bytes: 100 << 30,
        disk_used_bytes: 43 << 30,
        ..Figures::default()
    };
    Sample {
        host: Host::new(id, ["web-1", "db-1", "cache-1"][id as usize]),
        until_ns: 1_700_000_000_000_000_000,
        interval_ns: 1_000_000_000,
        figures,
        cores_permille: vec![(figures.busy_mcores / 4) as u16; 4],
        stall: Some(Stall { memory_some_permille: [0, 140, 0][id as usize], ..Stall::default() }),
        node: (id != 1).then_some(NodeStreams { streams: u64::from(id) + 1, bytes: 12 << 10 }),
        processes: vec![
            process(100 + id, ["ffmpeg", "postgres", "memcached"][id as usize], 3000 >> id, 900 << id),
            process(7, "sshd", 10, 8),
        ],
    }
}

fn folded(ids: impl IntoIterator<Item = u32>) -> Hosts {
    let all = ids.into_iter().map(|id| Hosts::of(&sample(id), 40).unwrap());
    all.reduce(|mut a, b| {
        a.merge(b).unwrap();
        a
    })
    .unwrap()
}

/// A look at three hosts of four; the fourth does not answer.
pub(crate) fn look() -> Look {
    let node = |port| NodeId::new(([10, 0, 0, 7], port).into(), 1);
    let subtree = |port: u16, level, nodes, total_us, mostly| Subtree {
        node: format!("10.0.0.{port}:7700"),
        rack: "r1".to_owned(),
        level,
        nodes,
        total_us,
        mostly,
    };
    Look {
        hosts: Some(folded(0..3)),
        asked: 4,
        contributed: 3,
        missing: vec![Missing {
            partitions: [3].into_iter().collect(),
            node: Some(node(7700)),
            reason: Reason::Late,
        }],
        elapsed: Duration::from_micros(2_340),
        slowest: vec![
            subtree(1, 0, 3, 2_100, "wait"),
            subtree(2, 1, 1, 1_900, "local"),
            subtree(3, 1, 1, 820, "local"),
        ],
        nodes: Some(Nodes {
            in_sight: 4,
            load_ms_mean: 0.6,
            load_ms_max: 1.9,
            most_loaded: "10.0.0.2:7700".to_owned(),
            streams: 2,
            stream_bytes: 12 << 10,
        }),
        focus: None,
        network: None,
    }
}

/// A model after many looks, with a load that rises and falls.
pub(crate) fn model(now: Instant) -> Model {
    let mut model = Model::new("10.0.0.1:7700".to_owned(), Sort::Cpu, Duration::from_secs(1), 40);
    for step in 0..200u64 {
        let wave = 500 - (step % 40).abs_diff(20) * 20;
        model.history.push((step != 150).then_some(Point {
            cpu_permille: wave,
            memory_permille: 500,
            net_bytes_s: wave << 17,
            disk_bytes_s: (12 << 20) - (wave << 13),
        }));
    }
    model.observe(look(), now);
    model
}

fn names(model: &Model) -> Vec<&str> {
    model.hosts().iter().map(|line| line.host.name.as_str()).collect()
}

#[test]
fn lists_are_sorted_by_chosen_key() {
    let mut model = model(Instant::now());
    assert_eq!(names(&model), ["web-1", "cache-1", "db-1"]);
    model.apply(Action::Sort(Sort::Memory));
    assert_eq!(names(&model)[0], "db-1", "the host that waits for memory");
    assert_eq!(model.processes()[0].process.name.as_str(), "memcached");
    model.apply(Action::Sort(Sort::Network));
    assert_eq!(names(&model)[0], "cache-1");
}

#[test]
fn chosen_host_shows_its_processes_when_received() {
    let mut model = model(Instant::now());
    model.apply(Action::Next);
    assert_eq!((model.selected, model.wishes().focus), (Some(0), Some(0)), "starts at the top");
    assert!(
        model.processes().iter().all(|placed| placed.host.id == 0),
        "taken from the cluster's list until the host's own have come"
    );
    model.apply(Action::Next);
    model.apply(Action::Next);
    model.apply(Action::Next);
    assert_eq!(model.selected, Some(1), "the list ends");
    let own = Look { focus: Some(folded([1])), hosts: Some(folded([0, 2])), ..look() };
    model.observe(own, Instant::now());
    assert_eq!(model.processes()[0].process.name.as_str(), "postgres", "though the cluster's list lacks it");
    model.apply(Action::Previous);
    assert_eq!(model.selected, Some(0), "the chosen host has left the list, so the choice starts at the top");
    model.apply(Action::Deselect);
    assert_eq!(model.wishes().focus, None);
}

#[test]
fn intervals_step_within_their_limits() {
    let mut model = Model::new(String::new(), Sort::Cpu, Duration::from_millis(700), 10);
    model.apply(Action::Slower);
    assert_eq!(model.interval, Duration::from_secs(1), "to the next longer step");
    (0..20).for_each(|_| assert_eq!(model.apply(Action::Slower), Flow::GoOn));
    assert_eq!(model.interval, INTERVAL_MAX);
    (0..20).for_each(|_| assert_eq!(model.apply(Action::Faster), Flow::GoOn));
    assert_eq!(model.wishes().interval, INTERVAL_MIN);
}

#[test]
fn a_failure_keeps_the_last_look_and_leaves_a_gap() {
    let mut model = model(Instant::now());
    model.fail("no host answers".to_owned());
    assert!(model.folded().is_some() && model.trouble.is_some());
    assert_eq!(model.history.columns(2, 1, |point| point.cpu_permille), [Some(422), None]);
    model.observe(look(), Instant::now());
    assert_eq!(model.trouble, None);
}

#[test]
fn history_is_bounded_and_its_columns_do_not_move() {
    let mut history = History::default();
    for step in 0..1000u64 {
        history.push(Some(Point { cpu_permille: step, ..Point::default() }));
    }
    assert_eq!(history.points.len(), HISTORY_MAX);
    assert_eq!(history.columns(3, 10, |point| point.cpu_permille), [Some(974), Some(984), Some(994)]);
    history.push(Some(Point { cpu_permille: 1000, ..Point::default() }));
    assert_eq!(history.columns(3, 10, |point| point.cpu_permille), [Some(984), Some(994), Some(1000)]);
    assert_eq!(History::default().columns(3, 10, |point| point.cpu_permille), []);
}
