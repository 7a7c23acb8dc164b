//! Tests guests as filters: their state, their isolation, and their restart after a failure.

use crate::guests::{count, counter, engine, filter, opened, piece, reduce, up};
use bytes::Bytes;
use treefold_operators::Placement;
use treefold_operators::filter::{Descent, Filter, Source};

#[test]
fn state_persists_across_waves_and_is_separate_per_stream() {
    let module = engine().compile(counter()).unwrap();
    let (mut one, mut other) = (opened(&module), opened(&module));
    assert_eq!((1..=3).map(|tag| count(one.as_mut(), tag).unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(count(other.as_mut(), 1), Ok(1));
    assert_eq!(count(one.as_mut(), 4), Ok(4));
    assert_eq!((one.holds_from(), other.holds_from()), (Some(4), Some(1)));
}

#[test]
fn a_guest_error_keeps_the_state() {
    let module = engine().compile(counter()).unwrap();
    let mut filter = opened(&module);
    assert_eq!(count(filter.as_mut(), 1), Ok(1));
    assert_eq!(count(filter.as_mut(), 14), Err("unlucky".to_owned()));
    assert_eq!(count(filter.as_mut(), 2), Ok(3), "the refused wave must be counted too");
}

#[test]
fn a_failed_filter_restarts_and_reports_it() {
    let module = engine().compile(counter()).unwrap();
    let (mut broken, mut other) = (opened(&module), opened(&module));
    for (tag, reason) in [(13, "trapped: wasm `unreachable`"), (15, "ran out of fuel; allowed: 1000000")] {
        assert_eq!(count(broken.as_mut(), 1), Ok(1));
        let error = count(broken.as_mut(), tag).unwrap_err();
        assert!(error.starts_with("the filter restarts without its state: treefold_filter_up"));
        assert!(error.contains(reason), "{error}");
        assert_eq!(broken.holds_from(), None);
        assert_eq!(count(broken.as_mut(), 2), Ok(1));
        broken = opened(&module);
    }
    assert_eq!(count(other.as_mut(), 1), Ok(1), "the other stream must keep its state");
}

/// Returns the whole input block as packets: the records of the pieces, and their payloads.
const ECHO: &str = r#"
    (func (export "treefold_filter_up") (param $pieces i32) (param $count i32) (param $tag i64) (param $now i64)
        (result i64)
        (i32.store (i32.const 512) (local.get $pieces))
        (i32.store (i32.const 516) (i32.const 64))
        (i64.store (i32.const 528) (local.get $tag))
        (i32.store (i32.const 520) (i32.const 528))
        (i32.store (i32.const 524) (i32.const 8))
        (i64.const 0x200_0000_0002))"#;

#[test]
fn pieces_are_passed_as_records_and_aligned_payloads() {
    let module = engine().compile(filter(ECHO)).unwrap();
    let pieces = [piece(Source::Child(7), b"abc"), piece(Source::Endpoint(9), b"0123456789")];
    let out = up(opened(&module).as_mut(), 0x55, &pieces).unwrap();
    let words: Vec<u32> =
        out[0][..32].chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    assert_eq!(words, [1, 7, 1024 + 32, 3, 0, 9, 1024 + 40, 10]);
    assert_eq!(&out[0][32..35], b"abc");
    assert_eq!(&out[0][40..50], b"0123456789");
    assert_eq!(out[1], 0x55u64.to_le_bytes().as_slice());
}

#[test]
fn packets_go_down_unchanged_without_a_down_function() {
    let payload = Bytes::from_static(b"to everyone");
    let down = |filter: &mut dyn Filter| {
        let mut out = Vec::new();
        filter.down(Descent { tag: 3, payload: &payload, now_ns: 0 }, &mut out).map(|()| out)
    };
    let engine = engine();
    let silent = engine.compile(counter()).unwrap();
    let passed = down(opened(&silent).as_mut()).unwrap();
    assert_eq!(passed[0].as_ptr(), payload.as_ptr(), "the payload must not be copied");

    let twice = r#"(func (export "treefold_filter_down") (param $at i32) (param $bytes i32) (param i64 i64) (result i64)
        (i32.store (i32.const 512) (local.get $at)) (i32.store (i32.const 516) (local.get $bytes))
        (i32.store (i32.const 520) (local.get $at)) (i32.store (i32.const 524) (i32.const 2))
        (i64.const 0x200_0000_0002))"#;
    let twice = engine.compile(filter(&format!("{ECHO} {twice}"))).unwrap();
    assert_eq!(down(opened(&twice).as_mut()).unwrap(), ["to everyone", "to"]);
}

#[test]
fn parameters_that_a_guest_refuses_open_no_stream() {
    let picky = crate::guests::guest(
        r#"(data (i32.const 16) "no such shard")
        (func (export "treefold_filter_open") (param $at i32) (param $bytes i32) (result i64)
            (if (result i64) (local.get $bytes) (then (i64.const 0x10_8000_000d)) (else (i64.const 0))))
        (func (export "treefold_filter_up") (param i32 i32 i64 i64) (result i64) i64.const 0)"#,
    );
    let kind = engine().compile(picky).unwrap().filter();
    assert_eq!(kind.open(&"shard 9".into()).map(|_| ()).unwrap_err().to_string(), "no such shard");
    assert!(kind.open(&Bytes::new()).is_ok());
    assert_eq!(kind.placement(), Placement::Pool);
}

#[test]
fn a_guest_learns_its_sources_again_after_a_restart() {
    // Adds up the announced numbers, returns the sum, and traps at tag 9.
    let module = engine()
        .compile(filter(
            r#"(func (export "treefold_filter_joined") (param $kind i32) (param $number i32)
                (i32.store (i32.const 512) (i32.add (i32.load (i32.const 512)) (local.get $number)))
                (i32.store (i32.const 600) (i32.const 512)) (i32.store (i32.const 604) (i32.const 4)))
            (func (export "treefold_filter_up") (param i32 i32 i64 i64) (result i64)
                (if (i64.eq (local.get 2) (i64.const 9)) (then unreachable))
                (i64.const 0x258_0000_0001))"#,
        ))
        .unwrap();
    let mut filter = opened(&module);
    let sum = |filter: &mut dyn Filter| up(filter, 1, &[]).unwrap()[0][0];
    for child in [4, 8] {
        filter.joined(Source::Child(child));
    }
    assert_eq!(sum(filter.as_mut()), 12);
    up(filter.as_mut(), 9, &[]).unwrap_err();
    filter.joined(Source::Child(16));
    assert_eq!(sum(filter.as_mut()), 28);
    filter.replaced(Source::Child(4), &[]);
    up(filter.as_mut(), 9, &[]).unwrap_err();
    assert_eq!(sum(filter.as_mut()), 24, "a lost source must not be announced again");
}

#[test]
fn a_guest_learns_lost_sources_and_their_heirs() {
    // Stores the announcement, and returns it with the next wave.
    let module = engine()
        .compile(filter(
            r#"(func (export "treefold_filter_replaced") (param $kind i32) (param $number i32) (param $at i32) (param $count i32)
                (i32.store (i32.const 512) (local.get $kind)) (i32.store (i32.const 516) (local.get $number))
                (memory.copy (i32.const 520) (local.get $at) (i32.mul (local.get $count) (i32.const 8)))
                (i32.store (i32.const 600) (i32.const 512)) (i32.store (i32.const 604) (i32.const 24)))
            (func (export "treefold_filter_up") (param i32 i32 i64 i64) (result i64) (i64.const 0x258_0000_0001))"#,
        ))
        .unwrap();
    let mut filter = opened(&module);
    filter.replaced(Source::Child(4), &[Source::Child(5), Source::Endpoint(6)]);
    let out = up(filter.as_mut(), 1, &[piece(Source::Child(5), b"")]).unwrap();
    assert!(out[0].chunks(4).map(|word| word[0]).eq([1, 4, 1, 5, 0, 6]));
    filter.replaced(Source::Child(5), &[]);
}

#[test]
fn a_reduce_is_a_filter_that_folds_each_wave() {
    // Returns the second of two partials.
    let module = engine()
        .compile(reduce("(i64.or (i64.shl (i64.extend_i32_u (local.get $b)) (i64.const 32)) (i64.extend_i32_u (local.get $b_bytes)))"))
        .unwrap();
    let mut filter = opened(&module);
    let pieces: Vec<_> =
        [b"one".as_slice(), b"two", b"three"].map(|text| piece(Source::Child(1), text)).into();
    for many in 1..=3 {
        assert_eq!(up(filter.as_mut(), 1, &pieces[..many]).unwrap(), [pieces[many - 1].payload.clone()]);
    }
    assert_eq!(filter.holds_from(), None);
}
