//! Guests in text form, composed of the parts that every guest has and the part that a test needs.

use bytes::Bytes;
use treefold_operators::filter::{Filter, Piece, Source, Wave};
use treefold_wasm::{Engine, Limits, Module, WasmError};

/// Few guests and little fuel, so that endless loops end soon and many engines fit into one process.
pub(crate) fn limits() -> Limits {
    Limits { instances_max: 16, fuel_max: 1_000_000, ..Limits::DEFAULT }
}

pub(crate) fn engine() -> Engine {
    Engine::new(limits()).unwrap()
}

pub(crate) fn wasm(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

/// Builds a module with the parts of every guest: a memory of one page, the version, and an input buffer at
/// 1024.
pub(crate) fn guest(rest: &str) -> Vec<u8> {
    wasm(&format!(
        r#"(module
            (memory (export "memory") 1)
            (func (export "treefold_abi_v1"))
            (func (export "treefold_alloc") (param i32) (result i32) i32.const 1024)
            {rest})"#
    ))
}

/// Builds a reduce with this body. Its parameters are $a, $a_bytes, $b, $b_bytes, $p, $p_bytes.
pub(crate) fn reduce(body: &str) -> Vec<u8> {
    guest(&format!(
        r#"(func $reduce (export "treefold_reduce")
            (param $a i32) (param $a_bytes i32) (param $b i32) (param $b_bytes i32) (param $p i32) (param $p_bytes i32)
            (result i64) {body})"#
    ))
}

/// Builds a filter that opens with any parameters, with `rest` appended.
pub(crate) fn filter(rest: &str) -> Vec<u8> {
    guest(&format!(
        r#"(func (export "treefold_filter_open") (param i32 i32) (result i64) i64.const 0)
            {rest}"#
    ))
}

/// Builds a filter that sends one packet of 8 bytes per wave: the number of waves so far.
///
/// It traps with `unreachable` at tag 13, returns an error at tag 14, and loops forever at tag 15.
pub(crate) fn counter() -> Vec<u8> {
    filter(
        r#"(data (i32.const 16) "unlucky")
        (global $waves (mut i64) (i64.const 0))
        (func (export "treefold_filter_up") (param i32 i32) (param $tag i64) (param i64) (result i64)
            (global.set $waves (i64.add (global.get $waves) (i64.const 1)))
            (if (i64.eq (local.get $tag) (i64.const 13)) (then unreachable))
            (if (i64.eq (local.get $tag) (i64.const 14)) (then (return (i64.const 0x10_8000_0007))))
            (if (i64.eq (local.get $tag) (i64.const 15)) (then (loop $ever (br $ever))))
            (i64.store (i32.const 512) (global.get $waves))
            (i32.store (i32.const 520) (i32.const 512))
            (i32.store (i32.const 524) (i32.const 8))
            (i64.const 0x208_0000_0001)) ;; one packet, its record at 520
        (func (export "treefold_filter_holds_from") (result i64) (global.get $waves))"#,
    )
}

/// Merges two partials with a reduce, without parameters.
pub(crate) fn reduced(module: &[u8], a: &[u8], b: &[u8]) -> Result<Bytes, WasmError> {
    engine().compile(module.to_vec())?.reduce()?.reduced(a, b, b"")
}

pub(crate) fn opened(module: &Module) -> Box<dyn Filter> {
    module.filter().open(&Bytes::new()).unwrap()
}

pub(crate) fn piece(source: Source, payload: &'static [u8]) -> Piece {
    Piece { source, payload: Bytes::from_static(payload) }
}

/// Runs a wave through a filter; the error is its text.
pub(crate) fn up(filter: &mut dyn Filter, tag: u64, pieces: &[Piece]) -> Result<Vec<Bytes>, String> {
    let mut out = Vec::new();
    filter.up(Wave { tag, pieces, now_ns: 0 }, &mut out).map_err(|error| error.to_string())?;
    Ok(out)
}

/// Sends a wave of one empty piece through [`counter`] and returns its count.
pub(crate) fn count(filter: &mut dyn Filter, tag: u64) -> Result<u64, String> {
    let out = up(filter, tag, &[piece(Source::Endpoint(1), b"")])?;
    assert_eq!(out.len(), 1);
    Ok(u64::from_le_bytes(out[0].as_ref().try_into().unwrap()))
}
