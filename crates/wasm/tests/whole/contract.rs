//! Tests which modules are refused before any of their code runs, and the messages.

use crate::guests::{engine, filter, guest, limits, reduce, wasm};
use treefold_wasm::{Engine, Kind, Limits, WasmError, inspect};

fn refusal(module: &[u8]) -> String {
    engine().compile(module.to_vec()).unwrap_err().to_string()
}

#[test]
fn bytes_that_are_no_webassembly_are_refused() {
    for bytes in [b"".as_slice(), b"not wasm", b"\0asm", b"\0asm\x01\0\0\0garbage", b"\0asm\x0d\0\x01\0"] {
        assert!(matches!(engine().compile(bytes.to_vec()), Err(WasmError::Invalid { .. })), "{bytes:?}");
    }
    // The text form is refused: a node accepts only the binary form.
    assert!(matches!(engine().compile("(module)"), Err(WasmError::Invalid { .. })));
}

#[test]
fn a_module_may_import_nothing() {
    let module = wasm(r#"(module (import "env" "abort" (func (param i32 i32 i32 i32))))"#);
    assert_eq!(refusal(&module), "the module imports env.abort; a guest may import nothing");
    let long = wasm(&format!(r#"(module (import "env" "{}" (global i32)))"#, "é".repeat(50_000)));
    assert_eq!(
        refusal(&long),
        format!("the module imports env.{}…; a guest may import nothing", "é".repeat(80))
    );
    let memory = wasm(r#"(module (import "env" "memory" (memory 1)))"#);
    assert_eq!(refusal(&memory), "the module imports env.memory; a guest may import nothing");
}

#[test]
fn missing_or_other_abi_version_is_refused() {
    assert_eq!(
        refusal(&wasm("(module)")),
        "the module exports no function treefold_abi_v1, so it is not a guest"
    );
    let newer = wasm(r#"(module (func (export "treefold_abi_v2")))"#);
    assert_eq!(refusal(&newer), "the module uses version 2 of the ABI; this node uses 1");
}

#[test]
fn a_guest_is_a_reduce_or_a_filter() {
    assert!(matches!(engine().compile(guest("")), Err(WasmError::KindUnclear { found: 0 })));
    let both = filter(
        r#"(func (export "treefold_filter_up") (param i32 i32 i64 i64) (result i64) i64.const 0)
           (func (export "treefold_reduce") (param i32 i32 i32 i32 i32 i32) (result i64) i64.const 0)"#,
    );
    assert!(matches!(engine().compile(both), Err(WasmError::KindUnclear { found: 2 })));
}

#[test]
fn exports_have_the_types_of_the_abi() {
    let wrong = guest(r#"(func (export "treefold_reduce") (param i32 f64) (result i32) i32.const 0)"#);
    assert_eq!(
        refusal(&wrong),
        "the export treefold_reduce is func (i32, f64) -> i32; \
         expected: func (i32, i32, i32, i32, i32, i32) -> i64"
    );
    let no_function = guest(r#"(global (export "treefold_filter_up") i32 (i32.const 1))"#);
    assert!(refusal(&no_function).starts_with("the module does not export treefold_filter_open: func"));
    let no_room = wasm(
        r#"(module (memory (export "memory") 1) (func (export "treefold_abi_v1"))
            (func (export "treefold_reduce") (param i32 i32 i32 i32 i32 i32) (result i64) i64.const 0))"#,
    );
    assert_eq!(refusal(&no_room), "the module does not export treefold_alloc: func (i32) -> i32");
    let no_memory = wasm(
        r#"(module (func (export "treefold_abi_v1"))
            (func (export "treefold_reduce") (param i32 i32 i32 i32 i32 i32) (result i64) i64.const 0))"#,
    );
    assert!(refusal(&no_memory).starts_with("the module does not export memory: a memory of 32-bit"));
}

#[test]
fn misspelt_exports_are_refused() {
    let up = r#"(func (export "treefold_filter_up") (param i32 i32 i64 i64) (result i64) i64.const 0)"#;
    let stray = filter(&format!(r#"{up} (func (export "treefold_filter_dwon"))"#));
    assert_eq!(
        refusal(&stray),
        "the export treefold_filter_dwon is unknown; names that begin with treefold_ are reserved for the ABI"
    );
    // An export for filters is unknown in a reduce.
    let mixed =
        reduce(r#"i64.const 0) (func (export "treefold_filter_holds_from") (result i64) i64.const 0"#);
    assert!(matches!(engine().compile(mixed), Err(WasmError::UnknownExport { .. })));
    engine().compile(filter(&format!(r#"{up} (func (export "my_own"))"#))).unwrap();
}

#[test]
fn size_and_memory_are_bounded() {
    let module = reduce("i64.const 0");
    let small = Engine::new(Limits { module_bytes_max: module.len() - 1, ..limits() }).unwrap();
    assert_eq!(
        small.compile(module.clone()).unwrap_err(),
        WasmError::ModuleTooLarge { bytes: module.len(), bytes_max: module.len() - 1 }
    );
    let large = wasm(
        r#"(module (memory (export "memory") 1025) (func (export "treefold_abi_v1"))
            (func (export "treefold_alloc") (param i32) (result i32) i32.const 0)
            (func (export "treefold_reduce") (param i32 i32 i32 i32 i32 i32) (result i64) i64.const 0))"#,
    );
    assert_eq!(
        engine().compile(large).unwrap_err(),
        WasmError::MemoryTooLarge { bytes: 1025 << 16, bytes_max: 64 << 20 }
    );
    let table = reduce("i64.const 0) (table 10001 funcref) (func");
    assert!(matches!(engine().compile(table.clone()), Err(WasmError::Unrunnable { .. })));
    let refused = inspect(&table, &limits()).unwrap().refused.unwrap();
    assert!(refused.ends_with("the largest of 10001 elements; allowed: one of 10000 (table_elements_max)"));
}

#[test]
fn proposals_whose_results_differ_between_machines_are_off() {
    let relaxed = reduce(
        "(drop (f32x4.relaxed_madd (v128.const i32x4 0 0 0 0) (v128.const i32x4 0 0 0 0) \
         (v128.const i32x4 0 0 0 0))) i64.const 0",
    );
    assert!(refusal(&relaxed).starts_with("not a valid WebAssembly module: "));
    let threads = wasm(r#"(module (memory (export "memory") 1 1 shared))"#);
    assert!(matches!(engine().compile(threads), Err(WasmError::Invalid { .. })));
    engine().compile(reduce("(drop (v128.const i32x4 0 0 0 0)) i64.const 0")).unwrap();
}

#[test]
fn limits_that_cannot_be_kept_are_refused() {
    for (bad, named) in [
        (Limits { memory_bytes_max: 100_000, ..limits() }, "memory_bytes_max"),
        (Limits { stack_bytes_max: 8 << 20, ..limits() }, "stack_bytes_max"),
        (Limits { instances_max: 0, ..limits() }, "instances_max"),
        (Limits { reduces_per_instance_max: 0, ..limits() }, "reduces_per_instance_max"),
    ] {
        assert!(matches!(Engine::new(bad), Err(WasmError::BadLimit { limit, .. }) if limit == named));
    }
}

#[test]
fn inspection_describes_a_module_without_running_it() {
    let module = reduce("unreachable");
    let inspection = inspect(&module, &limits()).unwrap();
    assert_eq!((inspection.kind, inspection.abi), (Some(Kind::Reduce), Some(1)));
    assert_eq!(inspection.refused, None);
    assert_eq!(inspection.memory.map(|memory| (memory.min, memory.max)), Some((1, None)));
    let json = serde_json::to_value(&inspection).unwrap();
    assert_eq!(json["id"], inspection.id.to_string());
    assert_eq!(json["kind"], "reduce");
    assert_eq!(json["exports"][0], serde_json::json!({ "name": "memory", "type": "memory of 1 pages" }));
    assert_eq!(json["exports"][3]["type"], "func (i32, i32, i32, i32, i32, i32) -> i64");
    assert_eq!(serde_json::from_value::<treefold_wasm::Inspection>(json).unwrap(), inspection);
}

#[test]
fn inspection_of_a_refused_module_gives_the_reason() {
    let module = wasm(r#"(module (import "wasi_snapshot_preview1" "fd_write" (func (param i32))))"#);
    let inspection = inspect(&module, &limits()).unwrap();
    assert_eq!((inspection.kind, inspection.abi, inspection.memory), (None, None, None));
    assert_eq!(inspection.imports[0].name, "wasi_snapshot_preview1.fd_write");
    assert_eq!(inspection.imports[0].r#type, "func (i32)");
    assert_eq!(
        inspection.refused.as_deref(),
        Some("the module imports wasi_snapshot_preview1.fd_write; a guest may import nothing")
    );
    assert!(matches!(inspect(b"\x7fELF", &limits()), Err(WasmError::Invalid { .. })));
}
