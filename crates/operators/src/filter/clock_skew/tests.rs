//! Tests small trees of clocks with known offsets: every estimate lies within its own bound.

use super::*;
use crate::filter::Piece;

const MS: u64 = 1_000_000;

fn open() -> Box<dyn Filter> {
    ClockSkew.open(&Bytes::new()).unwrap()
}

fn down(filter: &mut dyn Filter, payload: &Bytes, now_ns: u64) -> Bytes {
    let mut out = Vec::new();
    filter.down(Descent { tag: 0, payload, now_ns }, &mut out).unwrap();
    assert_eq!(out.len(), 1);
    out.remove(0)
}

fn up(filter: &mut dyn Filter, source: Source, payload: Bytes, now_ns: u64) -> Option<Bytes> {
    let mut out = Vec::new();
    filter.up(Wave { tag: 0, pieces: &[Piece { source, payload }], now_ns }, &mut out).unwrap();
    assert!(out.len() <= 1);
    out.pop()
}

fn skews(packet: &Bytes) -> Vec<Skew> {
    ClockSkews::decode(packet).unwrap().skews
}

/// Runs one round over one hop. The child's clock is 1 s ahead; a packet takes 2 ms down and 6 ms up.
fn round(parent: &mut dyn Filter, child: &mut dyn Filter, at_ns: u64) -> (Bytes, u64) {
    let ahead = 1_000 * MS;
    let probe = down(parent, &Bytes::new(), at_ns);
    let to_endpoint = down(child, &probe, at_ns + ahead + 2 * MS);
    let reply = up(child, Source::Endpoint(7), to_endpoint, at_ns + ahead + 3 * MS).expect("a reply");
    (reply, at_ns + 9 * MS)
}

#[test]
fn four_stamps_give_skew_and_bound() {
    let (mut parent, mut child) = (open(), open());
    let (reply, came_ns) = round(&mut *parent, &mut *child, 0);
    let packet = up(&mut *parent, Source::Child(0), reply, came_ns).expect("for the front-end");
    // The skew is wrong by half the difference of the two directions, and the bound is half their sum.
    let expected = Skew { endpoint: 7, skew_ns: (1_000 * MS - 2 * MS) as i64, error_ns: 4 * MS + 1 };
    assert_eq!(skews(&packet), [expected]);
}

#[test]
fn reported_hops_add_up_to_the_skew() {
    let open = || ClockSkew.open(&Params { window: 16, hops: true }.encode().unwrap()).unwrap();
    let (mut root, mut inner, mut leaf) = (open(), open(), open());
    // Each clock is a second ahead of the one above it; a packet takes 1 ms down a hop and 3 ms up.
    let at = |level: u64, ms: u64| level * 1_000 * MS + ms * MS;
    let first = down(&mut *root, &Bytes::new(), at(0, 0));
    let second = down(&mut *inner, &first, at(1, 1));
    let probe = down(&mut *leaf, &second, at(2, 2));
    let reply = up(&mut *leaf, Source::Endpoint(7), probe, at(2, 2)).unwrap();
    let reply = up(&mut *inner, Source::Child(0), reply, at(1, 5)).unwrap();
    let told = ClockSkews::decode(&up(&mut *root, Source::Child(0), reply, at(0, 8)).unwrap()).unwrap();
    let hop = Offset { skew_ns: (999 * MS) as i64, error_ns: 2 * MS + 1 };
    assert_eq!(told.hops, [[hop, hop]]);
    assert_eq!(told.skews, [Skew { endpoint: 7, skew_ns: 2 * hop.skew_ns, error_ns: 2 * hop.error_ns }]);
}

#[test]
fn the_round_of_least_delay_is_used_while_it_is_in_the_window() {
    let (mut parent, mut child) =
        (ClockSkew.open(&Params { window: 2, hops: false }.encode().unwrap()).unwrap(), open());
    let mut errors = Vec::new();
    for waited in [5, 0, 9, 9] {
        let (reply, came_ns) = round(&mut *parent, &mut *child, 0);
        let packet = up(&mut *parent, Source::Child(0), reply, came_ns + waited * 2 * MS).unwrap();
        errors.push((skews(&packet)[0].error_ns - 1) / MS);
    }
    assert_eq!(errors, [4 + 5, 4, 4, 4 + 9]);
}

#[test]
fn replies_to_another_nodes_probe_are_ignored() {
    let (mut lost, mut parent, mut child) = (open(), open(), open());
    down(&mut *parent, &Bytes::new(), 17);
    let (reply, came_ns) = round(&mut *lost, &mut *child, 0);
    assert_eq!(up(&mut *parent, Source::Child(0), reply, came_ns), None);
}

#[test]
fn a_lost_childs_rounds_are_forgotten() {
    let (mut parent, mut child) = (open(), open());
    let (reply, came_ns) = round(&mut *parent, &mut *child, 0);
    assert!(up(&mut *parent, Source::Child(0), reply.clone(), came_ns).is_some());
    parent.replaced(Source::Child(0), &[Source::Child(1)]);
    let answer = ClockSkews::decode(&reply).unwrap().answers.unwrap();
    let unknown = Answer { probe: Probe { round: 99, sent_ns: 0 }, ..answer };
    let late = ClockSkews { skews: skews(&reply), hops: vec![], answers: Some(unknown) };
    assert_eq!(
        up(&mut *parent, Source::Child(0), late.encode().unwrap(), came_ns),
        None,
        "the hop has no measurement"
    );
}

#[test]
fn clocks_that_jump_give_no_measurement() {
    let stamps = |t0, t1, t2, t3| {
        let answer = Answer { probe: Probe { round: 0, sent_ns: t0 }, received_ns: t1, replied_ns: t2 };
        Offset::of(&answer, t3)
    };
    assert_eq!(stamps(10, 15, 16, 20), Some(Offset { skew_ns: 0, error_ns: 9 / 2 + 1 }));
    assert_eq!(stamps(10, 15, 16, 9), None, "the reply came before the probe was sent");
    assert_eq!(stamps(10, 16, 15, 20), None, "the reply was sent before the probe arrived");
    assert_eq!(stamps(0, u64::MAX, u64::MAX, 5), None, "584 years ahead");
}

#[test]
fn rounds_under_way_are_bounded() {
    let (mut parent, mut child) = (open(), open());
    let (reply, came_ns) = round(&mut *parent, &mut *child, 0);
    (1..=ROUNDS_MAX as u64).for_each(|at| drop(down(&mut *parent, &Bytes::new(), at)));
    assert_eq!(up(&mut *parent, Source::Child(0), reply, came_ns), None, "too many rounds ago");
}

#[test]
fn packets_that_are_neither_probe_nor_reply_are_refused() {
    let junk = || "junk".to_owned().encode().unwrap();
    let (mut filter, mut out) = (open(), Vec::new());
    assert!(filter.down(Descent { tag: 0, payload: &junk(), now_ns: 0 }, &mut out).is_err());
    let root = ClockSkews { skews: vec![], hops: vec![], answers: None }.encode().unwrap();
    for (source, payload) in
        [(Source::Endpoint(0), junk()), (Source::Child(0), junk()), (Source::Child(0), root)]
    {
        let pieces = [Piece { source, payload }];
        let refused =
            filter.up(Wave { tag: 0, pieces: &pieces, now_ns: 0 }, &mut out).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("the packet of {source}: ")), "{refused}");
    }
    assert!(out.is_empty());
    let refused =
        ClockSkew.open(&Params { window: 0, hops: false }.encode().unwrap()).err().expect("refused");
    assert_eq!(refused.to_string(), "parameter `window`: 0 is not within 1 to 1024");
}
