//! Plain waves give back what they were made of.

use super::*;
use crate::error::{Missing, Reason};
use crate::id::{NodeId, WaveId};
use crate::wave::contributors::Part;
use alloc::format;
use bytes::Bytes;

pub(crate) fn answered(sequence: u64) -> Answered<Bytes> {
    let parent = NodeId { addr: ([10, 0, 0, 1], 7700).into(), generation: 3 };
    let now = Instant::from_nanos(1_000 * sequence);
    let contributors = PartitionSet::from_range(2..5);
    let mut parts = Parts::new();
    parts.take_in(Part {
        payload: Bytes::from(format!("answer {sequence}")),
        contributors: contributors.clone(),
    });
    let ask = Ask {
        slice: Slice::WHOLE,
        name: "micro/sum".into(),
        kind: Some(0),
        account_id: 0,
        params: Params::from(Bytes::from_static(b"params")),
        deadline_at: now + crate::time::Duration::from_secs(1),
        waiting: Waiting::default(),
        losses_max: 0,
        hedge: false,
        explain: false,
        loads_wanted: true,
        push: None,
        in_flight: 0,
        whole: false,
    };
    Answered {
        tag: Tag { wave: WaveId { origin: 1, sequence }, branch: 0 },
        asked: contributors,
        ask,
        parent: Parent::Node(parent),
        deposed: SmallVec::new(),
        own: PartitionSet::from_range(2..3),
        parts,
        losses: Losses::default(),
        tale: Tale {
            timing: Timing { own_done_at: Some(now), ..Timing::starting(now) },
            ..Tale::starting(now)
        },
        missing: Vec::new(),
        offered: Vec::new(),
    }
}

#[test]
fn a_plain_wave_is_the_same_when_it_is_whole_again() {
    let before = format!("{:?}", answered(7));
    let plain = Plain::of(answered(7), &mut Recent::default()).expect("nothing unusual happened in it");
    assert_eq!((plain.tag(), plain.bytes()), (answered(7).tag, answered(7).bytes()));
    assert_eq!(format!("{:?}", plain.whole()), before);
}

#[test]
fn plain_waves_share_their_terms() {
    let mut recent = Recent::default();
    let mut plain = |wave| Plain::of(wave, &mut recent).expect("nothing unusual happened in it");
    let mut other = answered(2);
    other.own = PartitionSet::from_range(3..4);
    let (first, other, third) = (plain(answered(1)), plain(other), plain(answered(3)));
    assert!(Arc::ptr_eq(&first.terms, &third.terms) && !Arc::ptr_eq(&first.terms, &other.terms));
}

#[test]
fn a_wave_with_losses_reports_or_several_parts_is_kept_whole() {
    let changes: [fn(&mut Answered<Bytes>); 7] = [
        |wave| wave.ask.explain = true,
        |wave| wave.losses.give_up(NodeId { addr: ([10, 0, 0, 2], 1).into(), generation: 1 }, 1),
        |wave| {
            let partitions = PartitionSet::from_range(4..5);
            wave.missing.push(Missing { partitions, node: None, reason: Reason::Late });
        },
        |wave| {
            let part =
                Part { payload: Bytes::from_static(b"more"), contributors: PartitionSet::from_range(8..9) };
            wave.parts.take_in(part);
        },
        |wave| wave.parts = Parts::new(),
        |wave| {
            let own = alloc::vec![(2, Bytes::from_static(b"own"))];
            wave.ask.params = Params::new(Bytes::new(), own).expect("each partition is there once");
        },
        |wave| {
            let apart = Params::from(Bytes::new()).with_reduce(Some(Bytes::from_static(b"fold")));
            wave.ask.params = apart;
        },
    ];
    for change in changes {
        let mut wave = answered(1);
        change(&mut wave);
        let before = format!("{wave:?}");
        let whole = Plain::of(wave, &mut Recent::default()).expect_err("it is unusual");
        assert_eq!(format!("{whole:?}"), before);
    }
}
