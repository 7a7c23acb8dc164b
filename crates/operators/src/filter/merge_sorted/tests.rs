//! Tests that runs merge in any tree, whole and in order, even if nodes die on the way.

use super::*;
use crate::codec::Body;
use crate::filter::Piece;
use crate::fold::laws;
use proptest::prelude::*;

/// The runs of endpoints 0.., each cut into chunks. A value contains its endpoint, so all entries differ.
type Runs = Vec<Vec<Vec<(Vec<u8>, Vec<u8>)>>>;

fn runs(endpoints: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = Runs> {
    let keys = proptest::collection::vec(0u8..20, 0..16);
    let run = (keys, proptest::collection::vec(0usize..5, 0..6));
    proptest::collection::vec(run, endpoints).prop_map(|runs| {
        let run = |endpoint: u8, mut keys: Vec<u8>, cuts: Vec<usize>| {
            keys.sort_unstable();
            let entry = |(at, key): (u8, u8)| (vec![key], vec![endpoint, at]);
            let mut entries: Vec<_> = (0..).zip(keys).map(entry).collect();
            let mut chunks = Vec::new();
            for cut in cuts {
                let rest = entries.split_off(cut.min(entries.len()));
                chunks.push(std::mem::replace(&mut entries, rest));
            }
            chunks.push(entries);
            chunks
        };
        (0..).zip(runs).map(|(endpoint, (keys, cuts))| run(endpoint, keys, cuts)).collect()
    })
}

/// Returns the packet that `endpoint` sends under `tag`: a chunk, and after the last one an ended empty
/// chunk.
fn sent(runs: &Runs, endpoint: u32, tag: u64, combine: Combine) -> Bytes {
    let run = &runs[endpoint as usize];
    let entries = run.get(tag as usize).cloned().unwrap_or_default();
    let ends = tag as usize + 1 >= run.len();
    match combine {
        Combine::Keep => chunk(&entries, ends).into_bytes(),
        Combine::Sum => {
            let counts: Vec<_> = entries.into_iter().map(|(key, _)| (key, 1)).collect();
            chunk_of_counts(&counts, ends).into_bytes()
        }
    }
}

/// A node of the test trees: its filter, and the packets it has sent up.
struct Node {
    filter: Box<dyn Filter>,
    kept: Vec<Vec<Bytes>>,
    /// The `holds_from` that the node reported with its last packets.
    holds_from: Option<u64>,
}

impl Node {
    fn new(params: &MergeSorted) -> Self {
        Self { filter: laws::opened("merge-sorted", params), kept: Vec::new(), holds_from: None }
    }

    fn wave(&mut self, tag: u64, pieces: Vec<(Source, Bytes)>) -> Vec<Bytes> {
        let pieces: Vec<Piece> =
            pieces.into_iter().map(|(source, payload)| Piece { source, payload }).collect();
        let mut out = Vec::new();
        self.filter.up(Wave { tag, pieces: &pieces, now_ns: 0 }, &mut out).unwrap();
        self.holds_from = self.filter.holds_from();
        self.kept.push(out.clone());
        out
    }

    /// Returns the packets it sends again to a new parent: those the lost parent held and those not
    /// delivered.
    fn again(&self, holds_from: Option<u64>, undelivered: u64) -> Vec<Bytes> {
        let from = holds_from.unwrap_or(undelivered).min(undelivered) as usize;
        self.kept[from..].concat()
    }
}

/// A tree of two inner nodes below the root and two leaves below each.
///
/// Endpoints are assigned to the leaves in turn. Nodes are addressed by index.
struct Tree {
    root: Node,
    inner: Vec<Option<Node>>,
    leaves: Vec<Node>,
    /// Leaves that the root has adopted. The root numbers its children 0 and 1 (inner nodes) and 10 + leaf.
    adopted: Vec<usize>,
}

/// The death of an inner node: its last wave, and whether that wave still reaches the root.
type Death = Option<(u64, bool)>;

impl Tree {
    fn new(params: &MergeSorted) -> Self {
        let node = || Node::new(params);
        Self {
            root: node(),
            inner: vec![Some(node()), Some(node())],
            leaves: vec![node(), node(), node(), node()],
            adopted: Vec::new(),
        }
    }

    fn wave(&mut self, tag: u64, runs: &Runs, deaths: &[Death], combine: Combine) -> Vec<Bytes> {
        for (leaf, node) in self.leaves.iter_mut().enumerate() {
            let on_leaf = (0..runs.len() as u32).filter(|endpoint| *endpoint as usize % 4 == leaf);
            let pieces =
                on_leaf.map(|endpoint| (Source::Endpoint(endpoint), sent(runs, endpoint, tag, combine)));
            node.wave(tag, pieces.collect());
        }
        let mut pieces = Vec::new();
        for &leaf in &self.adopted {
            let child = Source::Child(10 + leaf as u32);
            pieces.extend(self.leaves[leaf].kept[tag as usize].iter().map(|packet| (child, packet.clone())));
        }
        let mut dead = Vec::new();
        for (inner, death) in deaths.iter().enumerate() {
            let Some(node) = &mut self.inner[inner] else { continue };
            let told = node.holds_from;
            let leaves = [2 * inner, 2 * inner + 1];
            let below = leaves.iter().flat_map(|&leaf| {
                let packets = &self.leaves[leaf].kept[tag as usize];
                packets.iter().map(move |packet| (Source::Child(leaf as u32), packet.clone()))
            });
            let packets = node.wave(tag, below.collect());
            match *death {
                Some((last, delivered)) if last == tag => {
                    let (holds_from, undelivered) =
                        if delivered { (node.holds_from, tag + 1) } else { (told, tag) };
                    dead.push((inner, holds_from, undelivered));
                    if !delivered {
                        continue;
                    }
                }
                _ => {}
            }
            pieces.extend(packets.into_iter().map(|packet| (Source::Child(inner as u32), packet)));
        }
        let mut out = Vec::new();
        for (inner, holds_from, undelivered) in dead {
            self.inner[inner] = None;
            let leaves = [2 * inner, 2 * inner + 1];
            let heirs = leaves.map(|leaf| Source::Child(10 + leaf as u32));
            let again: Vec<_> = leaves
                .into_iter()
                .zip(heirs)
                .flat_map(|(leaf, heir)| {
                    let packets = self.leaves[leaf].again(holds_from, undelivered);
                    packets.into_iter().map(move |packet| (heir, packet))
                })
                .collect();
            // Either the wave still waits for the lost node and continues with its heirs, or it is already
            // over.
            let is_over = undelivered > tag || tag % 2 == 1;
            if is_over {
                out.extend(self.root.wave(tag, std::mem::take(&mut pieces)));
            }
            heirs.iter().for_each(|&heir| self.root.filter.joined(heir)); // core calls both, in this order
            self.root.filter.replaced(Source::Child(inner as u32), &heirs);
            pieces.extend(again);
            self.adopted.extend(leaves);
        }
        if !pieces.is_empty() {
            out.extend(self.root.wave(tag, pieces));
        }
        out
    }

    /// Announces all sources to their filters, as core does.
    fn join(&mut self, endpoints: u32) {
        for endpoint in 0..endpoints {
            self.leaves[endpoint as usize % 4].filter.joined(Source::Endpoint(endpoint));
        }
        for (number, inner) in (0..).zip(self.inner.iter_mut().flatten()) {
            self.root.filter.joined(Source::Child(number));
            [2 * number, 2 * number + 1].iter().for_each(|&leaf| inner.filter.joined(Source::Child(leaf)));
        }
    }

    fn run(mut self, runs: &Runs, deaths: &[Death], combine: Combine) -> Vec<Packet> {
        self.join(runs.len() as u32);
        let last = runs.iter().map(Vec::len).max().unwrap_or(0) as u64;
        let waves = (0..=last).flat_map(|tag| self.wave(tag, runs, deaths, combine));
        let packets: Vec<Packet> = waves.map(|packet| Packet::read(&packet).unwrap()).collect();
        assert_eq!(self.root.filter.holds_from(), None, "the root must hold no entries at the end");
        packets
    }
}

fn entries(packets: &[Packet]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let of = |packet: &Packet| -> Vec<_> {
        let (keys, values) = (packet.blobs(0).unwrap(), packet.blobs(1).unwrap());
        keys.map(<[u8]>::to_vec).zip(values.map(<[u8]>::to_vec)).collect()
    };
    packets.iter().flat_map(of).collect()
}

fn deaths() -> impl Strategy<Value = Vec<Death>> {
    proptest::collection::vec(proptest::option::of((0u64..6, any::<bool>())), 2)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_entry_comes_once_and_in_order_despite_deaths(
        runs in runs(4..9),
        deaths in deaths(),
        chunk_bytes in 64u64..200,
    ) {
        let params = MergeSorted { chunk_bytes, ..MergeSorted::default() };
        let packets = Tree::new(&params).run(&runs, &deaths, Combine::Keep);
        let mut came = entries(&packets);
        prop_assert!(came.is_sorted_by_key(|(key, _)| key.clone()), "{came:?}");
        let mut all: Vec<_> = runs.iter().flatten().flatten().cloned().collect();
        all.sort();
        came.sort();
        prop_assert_eq!(came, all);
        prop_assert!(packets.iter().all(|packet| packet.u64(3) == Ok(0)), "no entry may be late");
        prop_assert_eq!(packets.last().unwrap().u64(2), Ok(1), "the run must end");
    }

    #[test]
    fn sums_have_each_key_once_despite_deaths(runs in runs(4..9), deaths in deaths()) {
        let params = MergeSorted { combine: Combine::Sum, ..MergeSorted::default() };
        let packets = Tree::new(&params).run(&runs, &deaths, Combine::Sum);
        let mut wanted = BTreeMap::<Vec<u8>, i64>::new();
        runs.iter().flatten().flatten().for_each(|(key, _)| *wanted.entry(key.clone()).or_default() += 1);
        let came = packets.iter().flat_map(|packet| {
            packet.blobs(0).unwrap().map(<[u8]>::to_vec).zip(packet.i64s(1).unwrap().to_vec()).collect::<Vec<_>>()
        });
        prop_assert_eq!(came.collect::<Vec<_>>(), wanted.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn chunks_are_no_larger_than_asked(runs in runs(4..6), chunk_bytes in 64u64..120) {
        let params = MergeSorted { chunk_bytes, ..MergeSorted::default() };
        for packet in Tree::new(&params).run(&runs, &[None, None], Combine::Keep) {
            let bytes = packet.blobs(0).unwrap().octets().len() + packet.blobs(1).unwrap().octets().len();
            prop_assert!(bytes as u64 <= chunk_bytes);
        }
    }
}

/// One node with two endpoints.
struct Pair(Box<dyn Filter>, u64);

impl Pair {
    fn new(params: MergeSorted) -> Self {
        Self(laws::opened("merge-sorted", &params), 0)
    }

    fn wave(&mut self, pieces: &[(u32, &[&str], bool)]) -> Result<Vec<Packet>> {
        let sent = |&(endpoint, keys, ends): &(u32, &[&str], bool)| {
            let entries: Vec<(&str, &str)> = keys.iter().map(|&key| (key, "")).collect();
            Piece { source: Source::Endpoint(endpoint), payload: chunk(&entries, ends).into_bytes() }
        };
        let pieces: Vec<Piece> = pieces.iter().map(sent).collect();
        let mut out = Vec::new();
        let tag = self.1;
        self.1 += 1;
        self.0.up(Wave { tag, pieces: &pieces, now_ns: 0 }, &mut out)?;
        Ok(out.iter().map(|packet| Packet::read(packet).unwrap()).collect())
    }

    /// Sends a wave and returns the keys that come up, joined, and the number of late entries.
    fn keys(&mut self, pieces: &[(u32, &[&str], bool)]) -> (String, u64) {
        let packets = self.wave(pieces).unwrap();
        let keys = entries(&packets).into_iter().map(|(key, _)| String::from_utf8(key).unwrap()).collect();
        (keys, packets.last().unwrap().u64(3).unwrap())
    }
}

#[test]
fn entries_wait_while_equal_keys_may_still_come() {
    let mut pair = Pair::new(MergeSorted::default());
    assert_eq!(pair.keys(&[(0, &["a", "c"], false), (1, &["b", "b"], false)]), ("a".into(), 0));
    assert_eq!(pair.0.holds_from(), Some(0));
    assert_eq!(pair.keys(&[(0, &["f"], false), (1, &["b", "d"], false)]), ("bbbc".into(), 0));
    assert_eq!(pair.0.holds_from(), Some(1));
    assert_eq!(pair.keys(&[(0, &[], true), (1, &["e"], true)]), ("def".into(), 0));
    assert_eq!(pair.0.holds_from(), None);
}

#[test]
fn a_source_that_is_gone_is_not_waited_for() {
    let mut pair = Pair::new(MergeSorted::default());
    assert_eq!(pair.keys(&[(0, &["a", "x"], false), (1, &["b", "c"], false)]), ("ab".into(), 0));
    pair.0.replaced(Source::Endpoint(1), &[]);
    // Entries that it had delivered still come up.
    assert_eq!(pair.keys(&[(0, &["y"], false)]), ("cx".into(), 0));
}

#[test]
fn late_entries_are_dropped_and_counted() {
    let mut pair = Pair::new(MergeSorted::default());
    assert_eq!(pair.keys(&[(0, &["c", "f"], false)]), ("c".into(), 0));
    assert_eq!(pair.keys(&[(0, &["g"], false), (1, &["a", "c", "d", "e"], false)]), ("d".into(), 2));
    assert_eq!(pair.keys(&[(0, &[], true), (1, &["h"], true)]), ("efgh".into(), 0));
    assert_eq!(pair.keys(&[(2, &["i"], true)]), (String::new(), 1), "the output run has ended");
}

#[test]
fn a_run_that_descends_or_continues_after_its_end_is_refused() {
    let mut pair = Pair::new(MergeSorted::default());
    let refused = pair.wave(&[(0, &["b", "a"], false)]).unwrap_err().to_string();
    assert_eq!(
        refused,
        "merge-sorted: the keys of endpoint 0 don't ascend: entry 1 is less than the one before it"
    );
    assert_eq!(pair.keys(&[(0, &["b"], false), (1, &["c"], true)]).0, "");
    assert!(pair.wave(&[(0, &["a"], false)]).is_err());
    let refused = pair.wave(&[(1, &["d"], true)]).unwrap_err().to_string();
    assert_eq!(refused, "merge-sorted: endpoint 1 sends entries after the end of its run");
    // The failed waves have left no entries behind.
    assert_eq!(pair.keys(&[(0, &[], true), (1, &[], true)]).0, "bc");
}

#[test]
fn waiting_bytes_are_bounded() {
    let mut pair = Pair::new(MergeSorted { held_bytes_max: 1500, ..MergeSorted::default() });
    let long = "y".repeat(400);
    assert_eq!(pair.keys(&[(0, &[&long], false), (1, &["a"], false)]).0, "");
    assert_eq!(pair.keys(&[(0, &[&long], false), (1, &["b"], false)]).0, "a");
    let refused = pair.wave(&[(0, &[&long], false), (1, &["c"], false)]).unwrap_err().to_string();
    assert!(refused.ends_with("bytes are above the limit `held_bytes_max` of 1500"), "{refused}");
    assert_eq!(pair.keys(&[(0, &[], true), (1, &[], true)]).0, format!("b{long}{long}"));
}

#[test]
fn a_wave_that_releases_waiting_entries_is_taken_at_the_limit() {
    let mut pair = Pair::new(MergeSorted { held_bytes_max: 1500, ..MergeSorted::default() });
    let (long, longer) = ("y".repeat(400), "z".repeat(500));
    assert_eq!(pair.keys(&[(0, &[&long], false), (1, &["a"], false)]).0, "");
    assert_eq!(pair.keys(&[(0, &[&long], false), (1, &["b"], false)]).0, "a");
    let released = pair.keys(&[(0, &[&longer], false), (1, &[&longer], false)]).0;
    assert_eq!(released, format!("b{long}{long}"));
}

#[test]
fn small_chunks_count_their_bookkeeping_bytes() {
    let mut pair = Pair::new(MergeSorted { held_bytes_max: 1024, ..MergeSorted::default() });
    pair.0.joined(Source::Endpoint(1));
    let refused = (0..20).find_map(|_| pair.wave(&[(0, &["k"], false)]).err()).expect("a wave is refused");
    assert!(refused.to_string().contains("`held_bytes_max`"), "{refused}");
}

#[test]
fn entries_after_the_end_are_late_for_every_new_source() {
    let mut pair = Pair::new(MergeSorted::default());
    assert_eq!(pair.keys(&[(0, &["a"], true)]), ("a".into(), 0));
    pair.0.joined(Source::Endpoint(1));
    for (keys, late) in [(&["b"][..], 1), (&[][..], 0), (&["c", "d"][..], 2)] {
        let packets = pair.wave(&[(0, &[], true), (1, keys, false)]).unwrap();
        assert!(entries(&packets).is_empty());
        let last = packets.last().unwrap();
        assert_eq!((last.u64(2), last.u64(3)), (Ok(1), Ok(late)), "the run must stay ended");
    }
}

#[test]
fn joined_sources_are_waited_for() {
    let mut pair = Pair::new(MergeSorted::default());
    (0..2).for_each(|endpoint| pair.0.joined(Source::Endpoint(endpoint)));
    assert_eq!(
        pair.keys(&[(0, &["b", "d"], false)]),
        (String::new(), 0),
        "the first packet of the other endpoint is lost"
    );
    assert_eq!(pair.keys(&[(0, &["e"], false), (1, &["a"], false)]), (String::new(), 0));
    assert_eq!(pair.keys(&[(0, &[], true), (1, &["c"], true)]), ("abcde".into(), 0));
}

#[test]
fn heirs_that_join_before_the_replacement_inherit_the_position() {
    let mut pair = Pair::new(MergeSorted::default());
    assert_eq!(pair.keys(&[(0, &["a", "c"], false), (1, &["b", "x"], false)]), ("ab".into(), 0));
    pair.0.joined(Source::Endpoint(2));
    pair.0.replaced(Source::Endpoint(0), &[Source::Endpoint(2)]);
    assert_eq!(pair.keys(&[(2, &["a", "c", "d"], true), (1, &[], true)]), ("cdx".into(), 0));
}

#[test]
fn a_returning_source_begins_anew_and_counts_once() {
    let mut pair = Pair::new(MergeSorted::default());
    assert_eq!(pair.keys(&[(0, &["a", "c"], false), (1, &["b"], false)]), ("a".into(), 0));
    pair.0.replaced(Source::Endpoint(0), &[]);
    pair.0.joined(Source::Endpoint(0));
    assert_eq!(pair.keys(&[(0, &["a", "c", "d"], true), (1, &["x"], true)]), ("bcdx".into(), 0));
}

#[test]
fn packets_that_are_no_chunks_and_sums_that_overflow_are_refused() {
    let params = MergeSorted { combine: Combine::Sum, ..MergeSorted::default() };
    let up = |packets: &[Packet]| {
        let pieces: Vec<_> =
            (0..).map(Source::Endpoint).zip(packets.iter().map(|packet| packet.bytes().clone())).collect();
        laws::up("merge-sorted", &params, &pieces).map(|_| ()).unwrap_err().to_string()
    };
    let keep = up(&[chunk(&[("a", "b")], true)]);
    assert!(
        keep.starts_with("merge-sorted: endpoint 0 sends `blobs blobs u64 u64`, but `blobs i64s u64 u64`"),
        "{keep}"
    );
    let most = chunk_of_counts(&[("k", i64::MAX)], true);
    let one = chunk_of_counts(&[("k", 1)], true);
    assert_eq!(up(&[most, one]), "merge-sorted: overflow: the sum of key \"k\" does not fit into 64 bits");
    let lopsided = Row::new().blobs(&[b"a"]).i64s(&[1, 2]).u64(0).u64(0).packet();
    assert_eq!(
        up(&[lopsided]),
        "merge-sorted: field 1 of endpoint 0 has 2 elements, where the others have 1"
    );
    let unclear = Row::new().blobs(&[b"a"]).i64s(&[1]).u64(2).u64(0).packet();
    assert!(up(&[unclear]).contains("1 if the run ends or else 0"));
}

#[test]
fn parameters_are_bounded() {
    let open = |params: MergeSorted| {
        let kind = crate::filter::builtin("merge-sorted").unwrap();
        kind.open(&params.encode().unwrap()).err().unwrap().to_string()
    };
    let refused = open(MergeSorted { chunk_bytes: 1, ..MergeSorted::default() });
    assert_eq!(refused, "merge-sorted: parameter `chunk_bytes`: 1 is not within 64 to 16777216");
    let refused = open(MergeSorted { held_bytes_max: 1, ..MergeSorted::default() });
    assert_eq!(refused, "merge-sorted: parameter `held_bytes_max`: 1 is not within 1024 to 1073741824");
}
