//! Tests modules that threads share by name, and reduces that leave no state behind.

use crate::guests::{count, counter, engine, limits, opened, reduce};
use std::sync::Barrier;
use std::thread;
use treefold_wasm::{Engine, Limits, ModuleId, Modules, WasmError};

/// Increments a number in the guest's memory and returns it: 1, unless an earlier invocation left a value.
const TRACES: &str =
    "(i64.store (i32.const 8) (i64.add (i64.load (i32.const 8)) (i64.const 1))) (i64.const 0x8_0000_0008)";

fn traces(engine: &Engine, invocations: usize) -> Vec<u64> {
    let reduce = engine.compile(reduce(TRACES)).unwrap().reduce().unwrap();
    let invoke = |_| u64::from_le_bytes(reduce.reduced(b"", b"", b"").unwrap().as_ref().try_into().unwrap());
    (0..invocations).map(invoke).collect()
}

#[test]
fn each_reduce_starts_with_fresh_memory() {
    assert_eq!(traces(&engine(), 3), [1, 1, 1]);
}

#[test]
fn instance_is_replaced_after_reduces_per_instance_max() {
    let trusting = Engine::new(Limits { reduces_per_instance_max: 3, ..limits() }).unwrap();
    assert_eq!(traces(&trusting, 7), [1, 2, 3, 1, 2, 3, 1]);
}

#[test]
fn a_failed_instance_is_not_used_again() {
    let trusting = Engine::new(Limits { reduces_per_instance_max: 100, ..limits() }).unwrap();
    let every_third =
        format!("(if (i64.eq (i64.load (i32.const 8)) (i64.const 2)) (then unreachable)) {TRACES}");
    let reduce = trusting.compile(reduce(&every_third)).unwrap().reduce().unwrap();
    let outcomes: Vec<_> = (0..6).map(|_| reduce.reduced(b"", b"", b"").ok().map(|bytes| bytes[0])).collect();
    assert_eq!(outcomes, [Some(1), Some(2), None, Some(1), Some(2), None]);
}

#[test]
fn four_threads_reduce_and_filter_side_by_side() {
    let engine = engine();
    let sum = engine.compile(include_bytes!("../../fixtures/sum.wasm").as_slice()).unwrap().reduce().unwrap();
    let counting = engine.compile(counter()).unwrap();
    thread::scope(|scope| {
        for thread in 0..4i64 {
            let (sum, counting) = (&sum, &counting);
            scope.spawn(move || {
                let mut filter = opened(counting);
                for round in 1..=200i64 {
                    let (a, b) = ((thread << 32).to_le_bytes(), round.to_le_bytes());
                    assert_eq!(
                        sum.reduced(&a, &b, b"").unwrap(),
                        ((thread << 32) + round).to_le_bytes().as_slice()
                    );
                    assert_eq!(count(filter.as_mut(), 100), Ok(round as u64));
                }
            });
        }
    });
}

#[test]
fn concurrent_requests_compile_a_module_once() {
    let modules = Modules::new(engine());
    let bytes = reduce("i64.const 0");
    let barrier = Barrier::new(4);
    let held: Vec<_> = thread::scope(|scope| {
        let ask = || {
            barrier.wait();
            modules.compile(bytes.clone()).unwrap()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // Later requests hold the bytes of the first one.
    assert!(held.iter().all(|module| module.bytes().as_ptr() == held[0].bytes().as_ptr()));
    assert_eq!(modules.list().len(), 1);
    assert_eq!(modules.held_bytes(), held[0].held_bytes());
    let id = ModuleId::of(&bytes);
    assert_eq!(modules.find(&id).map(|module| module.id()), Some(id));
    assert!(modules.forget(&id) && !modules.forget(&id));
    assert_eq!(modules.held_bytes(), 0);
}

#[test]
fn a_refused_module_does_not_block_later_requests() {
    let modules = Modules::new(engine());
    for _ in 0..2 {
        assert!(matches!(modules.compile("no module"), Err(WasmError::Invalid { .. })));
    }
    assert!(modules.list().is_empty());
}

#[test]
fn the_least_recently_used_module_is_evicted_first() {
    let [a, b, c] = [1, 2, 3].map(|number| reduce(&format!("i64.const {number}")));
    let held_bytes = engine().compile(a.clone()).unwrap().held_bytes();
    let for_two = Limits { modules_bytes_max: 2 * held_bytes, ..limits() };
    let modules = Modules::new(Engine::new(for_two).unwrap());
    let first = modules.compile(a.clone()).unwrap();
    modules.compile(b.clone()).unwrap();
    assert!(modules.find(&ModuleId::of(&a)).is_some());
    modules.compile(c.clone()).unwrap();
    let held = [&a, &b, &c].map(|bytes| modules.find(&ModuleId::of(bytes)).is_some());
    assert_eq!(held, [true, false, true]);
    modules.compile(b).unwrap();
    assert!(modules.find(&first.id()).is_none());
    assert_eq!(
        first.reduce().unwrap().reduced(b"", b"", b"").unwrap().len(),
        1,
        "an evicted module must still run for its holder"
    );
}

#[test]
fn a_module_larger_than_the_cache_is_refused() {
    let modules = Modules::new(Engine::new(Limits { modules_bytes_max: 1_000, ..limits() }).unwrap());
    let refused = modules.compile(reduce("i64.const 0")).unwrap_err();
    assert!(matches!(refused, WasmError::CacheTooSmall { bytes_max: 1_000, .. }));
}
