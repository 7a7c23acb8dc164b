//! Operators of `treefold-operators` in a guest give what they give natively, as the last column of the guide's table says.

use bytes::Bytes;
use treefold_operators::filter::builtin;
use treefold_operators::fold::examples::{Example, examples};
use treefold_operators::fold::{Piece, Source};
use treefold_operators::{FilterKind, Operator, Partition, Raw, filter::Wave, ready};
use treefold_wasm::{Engine, Limits};

const OPERATORS: &[u8] = include_bytes!("../../fixtures/operators.wasm");

/// What an operator makes of partials in a call, or as they are pushed.
fn reduced(operator: &dyn Operator, partials: &[Bytes], params: &Bytes) -> Bytes {
    let reduce = |a, b| operator.reduce(a, b, params).now().unwrap().unwrap();
    partials.iter().cloned().reduce(reduce).unwrap()
}

/// What it makes of them in a stream.
fn filtered(kind: &dyn FilterKind, partials: &[Bytes], params: &Bytes) -> Bytes {
    let piece = |(child, payload): (u32, &Bytes)| Piece { source: Source::Child(child), payload: payload.clone() };
    let pieces: Vec<Piece> = (0..).zip(partials).map(piece).collect();
    let mut out = Vec::new();
    kind.open(params).unwrap().up(Wave { tag: 1, pieces: &pieces, now_ns: 0 }, &mut out).unwrap();
    out.remove(0)
}

#[test]
fn every_operator_in_a_guest_gives_what_it_gives_natively() {
    let guest = Engine::new(Limits::DEFAULT).unwrap().compile(OPERATORS.to_vec()).unwrap();
    let mut run = Vec::new();
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
        let called = reduced(&*guest.operator().unwrap(), &partials, &chosen);
        assert_eq!(called, expected, "{name} in calls and pushes");
        assert_eq!(filtered(&*guest.filter(), &partials, &chosen), expected, "{name} in streams");
        run.push(name);
    }
    let guide = include_str!("../../../../docs/guide.md");
    let (_, table) = guide.split_once("\n| operator | call |").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|')).filter(|line| line.ends_with("| yes |"));
    let said = rows.filter_map(|row| row.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name);
    assert_eq!(said.collect::<Vec<_>>(), run);
    assert!(run.iter().all(|name| builtin(name).is_some()), "streams know them all");
}
