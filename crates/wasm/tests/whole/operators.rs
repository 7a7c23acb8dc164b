//! Tests that operators in a guest give their native results, for those marked in the guide's table.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use treefold_operators::fold::examples::{Example, examples};
use treefold_operators::fold::{Count, Max, Merge, MergeError, Min, Piece, Source};
use treefold_operators::{Body, FilterKind, Operator, Partition, Raw, filter::Wave, folding, ready};
use treefold_wasm::{Engine, Limits};

const OPERATORS: &[u8] = include_bytes!("../../fixtures/operators.wasm");
const SPREAD: &[u8] = include_bytes!("../../fixtures/spread.wasm");

/// Folds partials with an operator's reduce, as in calls and pushes.
fn reduced(operator: &dyn Operator, partials: &[Bytes], params: &Bytes) -> Bytes {
    let reduce = |a, b| operator.reduce(a, b, params).now().unwrap().unwrap();
    partials.iter().cloned().reduce(reduce).unwrap()
}

/// Folds partials with a filter, as in a stream.
fn filtered(kind: &dyn FilterKind, partials: &[Bytes], params: &Bytes) -> Bytes {
    let piece =
        |(child, payload): (u32, &Bytes)| Piece { source: Source::Child(child), payload: payload.clone() };
    let pieces: Vec<Piece> = (0..).zip(partials).map(piece).collect();
    let mut out = Vec::new();
    kind.open(params).unwrap().up(Wave { tag: 1, pieces: &pieces, now_ns: 0 }, &mut out).unwrap();
    out.remove(0)
}

#[test]
fn operators_in_a_guest_give_their_native_results() {
    let guest = Engine::new(Limits::DEFAULT).unwrap().compile(OPERATORS.to_vec()).unwrap();
    let guide = include_str!("../../../../docs/guide.md");
    let (_, table) = guide.split_once("\n| operator | call |").unwrap();
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .filter(|line| line.ends_with("| yes |"));
    let said = rows.filter_map(|row| row.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name);
    let said: BTreeSet<&str> = said.collect();
    let mut run = BTreeSet::new();
    for Example { name, params, samples, .. } in examples() {
        let native = ready::sampled(name, &Raw(params.clone()), |partition: &Partition, (): &()| {
            Ok(Raw(partition.data_as::<Bytes>()?.clone()))
        })
        .unwrap();
        let partial = |(id, sample): (u32, Bytes)| {
            let partition = Partition::new("samples".into(), id, 4, std::sync::Arc::new(sample));
            native.local(&partition, &Bytes::new()).now().unwrap().unwrap()
        };
        let partials: Vec<Bytes> = (0..).zip(samples).map(partial).collect();
        let expected = reduced(&*native, &partials, &Bytes::new());
        let chosen: Bytes = [name.as_bytes(), b"\n".as_slice(), params.as_ref()].concat().into();
        let operator = guest.operator().unwrap();
        if !said.contains(name) {
            let both = operator.reduce(partials[0].clone(), partials[1].clone(), &chosen).now().unwrap();
            let refused = both.unwrap_err().to_string();
            assert!(refused.ends_with(&format!("no operator `{name}`")), "{refused}");
            continue;
        }
        let called = reduced(&*operator, &partials, &chosen);
        assert_eq!(called, expected, "{name} in calls and pushes");
        assert_eq!(filtered(&*guest.filter(), &partials, &chosen), expected, "{name} in streams");
        run.insert(name);
    }
    assert_eq!(run, said, "the guide's table must list the operators of the guest");
}

/// The partial of the example `spread` of `treefold-guest-operators`.
#[derive(Serialize, Deserialize)]
struct Spread {
    least: Min<f64>,
    greatest: Max<f64>,
    count: Count,
}

impl Merge for Spread {
    fn merge(&mut self, other: Self) -> Result<(), MergeError> {
        self.least.merge(other.least)?;
        self.greatest.merge(other.greatest)?;
        self.count.merge(other.count)
    }
}

#[test]
fn a_custom_merge_in_a_guest_gives_its_native_result() {
    let guest = Engine::new(Limits::DEFAULT).unwrap().compile(SPREAD.to_vec()).unwrap();
    let spread = |figure| Spread { least: Min::of(figure), greatest: Max::of(figure), count: Count(1) };
    let partials: Vec<Bytes> =
        [2.0, -0.0, 7.5, 0.0].into_iter().map(|figure| spread(figure).encode().unwrap()).collect();
    let (native, none) = (folding::<Spread>("spread"), Bytes::new());
    let expected = reduced(&native, &partials, &none);
    let all = Spread::decode(&expected).unwrap();
    assert_eq!(
        (all.least.0.map(f64::to_bits), all.greatest.0, all.count),
        (Some((-0.0f64).to_bits()), Some(7.5), Count(4))
    );
    assert_eq!(filtered(&native, &partials, &none), expected, "natively in streams");
    assert_eq!(reduced(&*guest.operator().unwrap(), &partials, &none), expected, "in calls and pushes");
    assert_eq!(filtered(&*guest.filter(), &partials, &none), expected, "in streams");
}
