//! Tests the compiled example guests: the Rust ones, the C one, and the one in the specification.

use crate::guests::{engine, opened, piece, up};
use bytes::Bytes;
use proptest::prelude::*;
use std::sync::LazyLock;
use treefold_operators::filter::Source;
use treefold_wasm::reduce::GuestReduce;
use treefold_wasm::{Engine, Kind, Limits, ModuleId, WasmError, inspect};

const TOP_K: &[u8] = include_bytes!("../../fixtures/top_k.wasm");
const CHANGES: &[u8] = include_bytes!("../../fixtures/changes.wasm");
const FAULTY: &[u8] = include_bytes!("../../fixtures/faulty.wasm");
const SUM: &[u8] = include_bytes!("../../fixtures/sum.wasm");

static ENGINE: LazyLock<Engine> = LazyLock::new(engine);
static TOP: LazyLock<GuestReduce> = LazyLock::new(|| ENGINE.compile(TOP_K).unwrap().reduce().unwrap());
static SUMS: LazyLock<GuestReduce> = LazyLock::new(|| ENGINE.compile(SUM).unwrap().reduce().unwrap());

fn rows(rows: &[(f64, u64)]) -> Vec<u8> {
    rows.iter()
        .flat_map(|(score, document)| [score.to_le_bytes(), document.to_le_bytes()])
        .flatten()
        .collect()
}

fn best_first(mut all: Vec<(f64, u64)>) -> Vec<(f64, u64)> {
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    all
}

fn some_rows() -> impl Strategy<Value = Vec<(f64, u64)>> {
    prop::collection::vec((any::<f64>(), any::<u64>()), 0..40).prop_map(best_first)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn top_k_in_rust_gives_the_best_rows_of_both(a in some_rows(), b in some_rows(), k in 0u32..50) {
        let given = TOP.reduced(&rows(&a), &rows(&b), &k.to_le_bytes()).unwrap();
        let mut expected = best_first([a, b].concat());
        expected.truncate(k as usize);
        prop_assert_eq!(given, rows(&expected));
    }

    #[test]
    fn sum_in_c_adds_element_by_element(
        a in prop::collection::vec(i64::from(i32::MIN)..i64::from(i32::MAX), 0..300),
        b in prop::collection::vec(i64::from(i32::MIN)..i64::from(i32::MAX), 0..300),
    ) {
        let bytes = |numbers: &[i64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>();
        let at = |numbers: &[i64], index: usize| numbers.get(index).copied().unwrap_or(0);
        let expected: Vec<i64> = (0..a.len().max(b.len())).map(|index| at(&a, index) + at(&b, index)).collect();
        prop_assert_eq!(SUMS.reduced(&bytes(&a), &bytes(&b), b"").unwrap(), bytes(&expected));
    }
}

#[test]
fn example_guests_refuse_bad_input_with_their_own_text() {
    let refused = |result: Result<Bytes, WasmError>| match result {
        Err(WasmError::Refused { text }) => text,
        other => panic!("expected an error of the guest: {other:?}"),
    };
    assert_eq!(refused(TOP.reduced(b"", b"", b"ten")), "the parameter is k, a u32");
    assert_eq!(refused(TOP.reduced(b"short", b"", &[1, 0, 0, 0])), "a partial is whole rows of 16 bytes");
    let (most, one) = (i64::MAX.to_le_bytes(), 1i64.to_le_bytes());
    assert_eq!(refused(SUMS.reduced(&most, &one, b"")), "overflow: a sum is outside of what 64 bits hold");
}

#[test]
fn large_partials_grow_the_memory_up_to_its_limit() {
    let million: Vec<u8> = (0..1_000_000i64).flat_map(i64::to_le_bytes).collect();
    let engine = Engine::new(Limits { fuel_max: 100_000_000, ..crate::guests::limits() }).unwrap();
    let sum = engine.compile(SUM).unwrap().reduce().unwrap();
    let doubled = sum.reduced(&million, &million, b"").unwrap();
    assert_eq!(doubled[8 * 999_999..], 1_999_998i64.to_le_bytes());
    let more = vec![0; 40 << 20];
    let refused = sum.reduced(&more, &more, b"").unwrap_err();
    assert!(matches!(refused, WasmError::InputTooLarge { .. }), "{refused}");
    let more = &more[..32 << 20];
    let refused = sum.reduced(more, more, b"").unwrap_err();
    assert!(matches!(refused, WasmError::OutOfMemory { function: "treefold_alloc", .. }), "{refused}");
}

#[test]
fn changes_in_rust_passes_on_changed_payloads_per_stream() {
    let module = ENGINE.compile(CHANGES).unwrap();
    let (mut one, mut other) = (opened(&module), opened(&module));
    let wave = |first, second| [piece(Source::Endpoint(1), first), piece(Source::Endpoint(2), second)];
    assert_eq!(up(one.as_mut(), 1, &wave(b"1 up", b"2 up")).unwrap(), ["1 up", "2 up"]);
    assert_eq!(up(one.as_mut(), 2, &wave(b"1 up", b"2 up")).unwrap().len(), 0);
    assert_eq!(up(one.as_mut(), 3, &wave(b"1 up", b"2 down")).unwrap(), ["2 down"]);
    assert_eq!(up(other.as_mut(), 1, &wave(b"1 up", b"2 up")).unwrap(), ["1 up", "2 up"]);
    let from_below = [piece(Source::Child(9), b"3 up"), piece(Source::Child(9), b"3 up")];
    assert_eq!(up(one.as_mut(), 4, &from_below).unwrap(), ["3 up", "3 up"]);
    one.replaced(Source::Endpoint(1), &[]);
    assert_eq!(up(one.as_mut(), 5, &wave(b"1 up", b"2 down")).unwrap(), ["1 up"]);
    let refused = module.filter().open(&"x".into()).map(|_| ()).unwrap_err();
    assert_eq!(refused.to_string(), "changes takes no parameters");
}

#[test]
fn panic_message_of_a_rust_guest_reaches_the_caller() {
    let faulty = ENGINE.compile(FAULTY).unwrap().reduce().unwrap();
    let panic = faulty.reduced(b"one", b"two", b"").unwrap_err().to_string();
    assert!(
        panic.starts_with("treefold_reduce trapped: panicked at crates/guest/examples/faulty.rs:"),
        "{panic}"
    );
    assert!(panic.ends_with("index out of bounds: the len is 0 but the index is 0"), "{panic}");
    assert_eq!(faulty.reduced(b"one", b"two", &[1]).unwrap(), "two");
}

#[test]
fn guest_reduce_works_over_a_services_locals() {
    use std::sync::Arc;
    use treefold_operators::{Aggregation, Partition, Raw, Result, erase};

    struct Rows;
    impl Aggregation for Rows {
        type Params = Raw;
        type Partial = Raw;

        fn local(&self, partition: &Partition, _: &Raw) -> Result<Raw> {
            Ok(Raw(rows(&[(f64::from(partition.id), 1)]).into()))
        }

        fn reduce(&self, _: Raw, _: Raw, _: &Raw) -> Result<Raw> {
            unreachable!("the guest must reduce instead")
        }
    }

    let module = ENGINE.compile(TOP_K).unwrap();
    let operator = module.reduce().unwrap().over(erase(Rows));
    let k = Bytes::from_static(&[1, 0, 0, 0]);
    let partition = |id| Partition::new("scores".into(), id, 2, Arc::new(()));
    let local = |id| operator.local(&partition(id), &k).now().unwrap().unwrap();
    let best = operator.reduce(local(0), local(1), &k).now().unwrap().unwrap();
    assert_eq!(operator.finish(best, &k).unwrap(), rows(&[(1.0, 1)]));
    let alone = module.operator().unwrap().local(&partition(0), &k).now().unwrap().unwrap_err().to_string();
    assert!(alone.ends_with("has no local for scores[0 of 2]; register the service's local"));
}

#[test]
fn guest_in_the_specification_works() {
    let specification = include_str!("../../../../docs/wasm.md");
    // A function of rules comes first, then a reduce.
    let mut texts = specification.split("```wat\n").skip(1).map(|from| from.split_once("```").unwrap().0);
    let (function, text) =
        (texts.next().unwrap(), texts.next().expect("the specification has two guests in text"));
    assert_eq!(ENGINE.compile(wat::parse_str(function).unwrap()).unwrap().kind(), Kind::Filter);
    let greatest = ENGINE.compile(wat::parse_str(text).unwrap()).unwrap().reduce().unwrap();
    let [a, b] = [-5i64, 3].map(i64::to_le_bytes);
    assert_eq!(greatest.reduced(&a, &b, b"").unwrap(), b.as_slice());
    assert_eq!(greatest.reduced(&b, &a, b"").unwrap(), b.as_slice());
    assert!(matches!(greatest.reduced(b"odd", &a, b""), Err(WasmError::Refused { .. })));
}

#[test]
fn inspection_reports_the_kinds_of_the_examples() {
    for (bytes, kind) in
        [(TOP_K, Kind::Reduce), (CHANGES, Kind::Filter), (FAULTY, Kind::Reduce), (SUM, Kind::Reduce)]
    {
        let inspection = inspect(bytes, &Limits::DEFAULT).unwrap();
        assert_eq!((inspection.kind, inspection.abi, inspection.refused), (Some(kind), Some(1), None));
        assert_eq!(inspection.id, ModuleId::of(bytes));
        assert!(inspection.imports.is_empty());
    }
}
