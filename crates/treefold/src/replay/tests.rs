//! Recordings replay as they were recorded, complete or cut off.

use super::*;
use crate::record::Recorder;
use std::fs;
use treefold_core::config::Tuning;
use treefold_core::id::{NodeId, RequestId};
use treefold_core::input::Command;
use treefold_core::limits::Limits;
use treefold_core::membership::card::MemberCard;

fn config() -> NodeConfig {
    NodeConfig {
        card: MemberCard::new(NodeId::new("127.0.0.1:7700".parse().unwrap(), 1)),
        kinds: Vec::new(),
        tuning: Tuning::default(),
        limits: Limits::default(),
        shares: Default::default(),
        pushed: Default::default(),
        placed: Default::default(),
        seed: 7,
    }
}

/// Records a node that lives for a while: it receives status requests, and its timeouts come.
fn record(path: &Path, closes: bool) {
    let start = Instant::from_nanos(5);
    let mut recorder = Recorder::create(path, &config(), start).unwrap();
    let mut node = Node::new(config(), start);
    let drain = |node: &mut Node<Bytes>, recorder: &mut Recorder| {
        while let Some(effect) = node.poll_effect() {
            recorder.effect(&effect);
        }
    };
    drain(&mut node, &mut recorder);
    for request in 0..20 {
        let at = node.poll_timeout().expect("a member gossips");
        recorder.timeout(at);
        node.handle_timeout(at);
        drain(&mut node, &mut recorder);
        let input = Input::Command(Command::Status { request: RequestId(request) });
        recorder.input(at, &input);
        node.handle_input(at, input);
        drain(&mut node, &mut recorder);
    }
    if closes {
        recorder.finish();
    } else {
        recorder.flush();
    }
}

#[test]
fn a_closed_recording_replays_to_the_same_hash() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.rec");
    record(&path, true);
    let mut steps = Vec::new();
    let summary = run(&path, |step| steps.push((step.number, step.effects.len()))).unwrap();
    assert_eq!(summary.is_faithful(), Some(true));
    assert_eq!((summary.inputs, summary.truncated_at), (40, None));
    assert_eq!(steps.len(), 41, "the start counts as a step");
    assert_eq!(steps.iter().map(|&(_, effects)| effects as u64).sum::<u64>(), summary.effects);
}

#[test]
fn a_truncated_recording_replays_up_to_the_cut() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.rec");
    record(&path, false);
    assert_eq!(run(&path, |_| {}).unwrap().recorded_hash, None, "the recording was not closed");

    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 2]).unwrap();
    let summary = run(&path, |_| {}).unwrap();
    assert_eq!(summary.inputs, 39);
    assert!(summary.truncated_at.is_some_and(|at| at < whole.len() as u64));
}

#[test]
fn a_changed_bit_is_told_from_a_cut() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.rec");
    record(&path, false);
    let good = fs::read(&path).unwrap();
    for at in (MAGIC.len()..good.len()).step_by(5) {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        fs::write(&path, bad).unwrap();
        match run(&path, |_| {}) {
            Err(RecordingError::BadRecord { offset, problem }) => {
                assert!(offset <= at as u64 && problem.contains("changed"), "byte {at}: {problem}");
            }
            other => panic!("byte {at}: {other:?}"),
        }
    }
}

#[test]
fn other_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("not.rec");
    fs::write(&path, "something else").unwrap();
    assert!(matches!(run(&path, |_| {}), Err(RecordingError::BadMagic { .. })));
    fs::write(&path, MAGIC).unwrap();
    assert!(matches!(run(&path, |_| {}), Err(RecordingError::NoHeader { offset: 8 })));
    let senseless = [&MAGIC[..], &[0xff; HEAD_BYTES]].concat();
    fs::write(&path, senseless).unwrap();
    assert!(matches!(run(&path, |_| {}), Err(RecordingError::BadRecord { offset: 8, .. })));
    assert!(matches!(run(dir.path().join("absent"), |_| {}), Err(RecordingError::Io { .. })));
}
