//! Guests as functions of rules: the events that they return are mirrored, and their failures harm nobody.

use crate::guests::{filter, wasm};
use std::collections::BTreeMap;
use std::sync::Arc;
use treefold_core::time::Instant;
use treefold_mirror::rules::{Function, RuleFile};
use treefold_mirror::select::{Functions, Selector};
use treefold_mirror::{Event, MirrorLimits, Name};
use treefold_wasm::{Engine, Limits, Module, WasmError};

const MIRROR: MirrorLimits = MirrorLimits::DEFAULT;

fn compile(module: Vec<u8>) -> Result<Module, WasmError> {
    Engine::new(Limits { instances_max: 4, ..Limits::FUNCTIONS }).unwrap().compile(module)
}

/// A guest that mirrors events with even numbers, and misbehaves at some others.
fn even() -> Vec<u8> {
    filter(
        r#"(data (i32.const 16) "unlucky")
        (global $events (mut i32) (i32.const 0))
        (func (export "treefold_filter_up") (param $pieces i32) (param i32) (param $tag i64) (param $now i64) (result i64)
            (global.set $events (i32.add (global.get $events) (i32.const 1)))
            (if (i64.ne (local.get $now) (i64.const 0)) (then unreachable))
            (if (i64.eq (local.get $tag) (i64.const 13)) (then unreachable))
            (if (i64.eq (local.get $tag) (i64.const 15)) (then (loop $ever (br $ever))))
            (if (i64.eq (local.get $tag) (i64.const 17)) (then (return (i64.const 0x10_8000_0007))))
            (if (i64.eq (local.get $tag) (i64.const 19)) (then (loop $more (drop (memory.grow (i32.const 64))) (br $more))))
            ;; not an event: the seven bytes at 16
            (if (i64.eq (local.get $tag) (i64.const 21)) (then
                (i32.store (i32.const 520) (i32.const 16))
                (i32.store (i32.const 524) (i32.const 7))
                (return (i64.const 0x208_0000_0001))))
            (if (i64.eq (i64.and (local.get $tag) (i64.const 1)) (i64.const 1)) (then (return (i64.const 0))))
            ;; the piece's address and bytes are the packet's
            (i64.store (i32.const 520) (i64.load offset=8 (local.get $pieces)))
            (i64.const 0x208_0000_0001))"#,
    )
}

fn event(number: u64) -> Event {
    let json = format!(
        r#"{{"stream":"s","number":{number},"key":"k{number}","type":"t","fields":{{"n":{number}}},"body":"opaque"}}"#
    );
    Event::from_json(&json, None, &MIRROR).unwrap()
}

fn selector(module: &Module) -> Selector {
    let rules = "[[rule]]\nname='own'\nfunction={name='even',type='t'}";
    let function: Box<dyn Function> = Box::new(module.function(MIRROR).unwrap());
    let functions: Functions = BTreeMap::from([(Name::new("even").unwrap(), function)]);
    Selector::new(Arc::new(RuleFile::read(rules).unwrap()), functions, &MIRROR, 1).unwrap()
}

fn selected(selector: &mut Selector, number: u64) -> Vec<Event> {
    let mut out = Vec::new();
    selector.offer(Instant::START, event(number), &mut out);
    out
}

#[test]
fn events_that_a_guest_returns_are_mirrored() {
    let mut selector = selector(&compile(even()).unwrap());
    assert_eq!(selected(&mut selector, 1), []);
    assert_eq!(selected(&mut selector, 2), [event(2)]);
    assert_eq!((selector.counts()[0].suppressed, selector.counts()[0].errors), (1, 0));
}

#[test]
fn event_at_which_a_guest_fails_is_mirrored_as_it_is() {
    let mut selector = selector(&compile(even()).unwrap());
    for (errors, (number, told)) in
        (1..).zip([(13, "unreachable"), (15, "fuel"), (17, "unlucky"), (19, "memory"), (21, "not an event")])
    {
        assert_eq!(selected(&mut selector, number), [event(number)]);
        let error = selector.function_error().unwrap();
        assert!(error.starts_with("function `even`: ") && error.contains(told), "{number}: {error}");
        assert_eq!(selector.counts()[0].errors, errors);
        assert_eq!(selected(&mut selector, 100 + number), [], "the guest goes on after {number}");
    }
}

#[test]
fn same_events_give_the_same_events_from_every_instance() {
    let module = compile(even()).unwrap();
    let all = |mut selector: Selector| {
        (1..=40).flat_map(|number| selected(&mut selector, number)).collect::<Vec<_>>()
    };
    assert_eq!(all(selector(&module)), all(selector(&module)));
}

#[test]
fn made_event_has_other_fields_and_keeps_its_place() {
    // A map of key, number, type and fields, written here and returned for every event.
    let made = Event::from_json(
        r#"{"stream":"other","number":9,"key":"other","type":"made","fields":{"by":"guest"}}"#,
        None,
        &MIRROR,
    );
    let bytes = made.unwrap().to_message_pack();
    let data: String = bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
    let guest = filter(&format!(
        r#"(data (i32.const 512) "{data}")
        (func (export "treefold_filter_up") (param i32 i32 i64 i64) (result i64)
            (i32.store (i32.const 16) (i32.const 512))
            (i32.store (i32.const 20) (i32.const {}))
            (i64.const 0x10_0000_0001))"#,
        bytes.len()
    ));
    let mut selector = selector(&compile(guest).unwrap());
    let made = selected(&mut selector, 5);
    assert_eq!((made.len(), made[0].kind.as_str(), made[0].fields.iter().count()), (1, "made", 1));
    assert_eq!((made[0].stream.as_str(), made[0].number, &*made[0].key), ("s", 5, "k5"));
}

#[test]
fn reduce_and_invalid_modules_are_no_functions() {
    let reduce = compile(crate::guests::reduce("i64.const 0")).unwrap();
    assert!(matches!(reduce.function(MIRROR), Err(WasmError::WrongKind { .. })));
    assert!(compile(wasm("(module)")).is_err());
    // A guest that refuses to open is refused when it is given, not at the first event.
    let closed = crate::guests::guest(
        r#"(data (i32.const 16) "unlucky")
        (func (export "treefold_filter_open") (param i32 i32) (result i64) (i64.const 0x10_8000_0007))
        (func (export "treefold_filter_up") (param i32 i32 i64 i64) (result i64) (i64.const 0))"#,
    );
    let refused = compile(closed).unwrap().function(MIRROR).unwrap_err().to_string();
    assert!(refused.contains("unlucky"), "{refused}");
}
