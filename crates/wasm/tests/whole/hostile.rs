//! Tests guests that misbehave. Each failure has its own error and costs only that invocation; the host and
//! other guests are not affected.

use crate::guests::{engine, filter, guest, limits, opened, piece, reduce, reduced, up, wasm};
use proptest::prelude::*;
use treefold_operators::OperatorError;
use treefold_operators::filter::Source;
use treefold_wasm::{Engine, Limits, WasmError};

fn failure(body: &str) -> WasmError {
    reduced(&reduce(body), b"one", b"two").unwrap_err()
}

fn trap(body: &str) -> String {
    match failure(body) {
        WasmError::Trap { function: "treefold_reduce", reason } => reason,
        other => panic!("expected a trap: {other}"),
    }
}

#[test]
fn endless_loop_runs_out_of_fuel() {
    let expected = WasmError::OutOfFuel { function: "treefold_reduce", fuel_max: 1_000_000 };
    assert_eq!(failure("(loop $ever (br $ever)) unreachable"), expected);
    // A single long instruction is charged for the bytes that it writes.
    let fill =
        "(loop $ever (memory.fill (i32.const 0) (i32.const 1) (i32.const 65536)) (br $ever)) unreachable";
    assert_eq!(failure(fill), expected);
    let grow = "(loop $ever (drop (memory.grow (i32.const 0))) (br $ever)) unreachable";
    assert_eq!(failure(grow), expected);
}

#[test]
fn endless_start_function_runs_out_of_fuel() {
    let start = reduce("i64.const 0) (func $ever (loop $l (br $l))) (start $ever) (func");
    assert!(matches!(
        reduced(&start, b"", b""),
        Err(WasmError::OutOfFuel { function: "its start function", .. })
    ));
    let initialize = reduce(r#"i64.const 0) (func (export "_initialize") (loop $l (br $l))"#);
    assert!(matches!(
        reduced(&initialize, b"", b""),
        Err(WasmError::OutOfFuel { function: "_initialize", .. })
    ));
}

#[test]
fn endless_allocation_ends_at_the_memory_limit() {
    let error = failure("(loop $more (drop (memory.grow (i32.const 16))) (br $more)) unreachable");
    let (bytes, bytes_max) = ((1 << 16) + (64 << 20), 64 << 20);
    assert_eq!(error, WasmError::OutOfMemory { function: "treefold_reduce", bytes, bytes_max });
}

#[test]
fn trap_reports_its_cause_and_function() {
    assert_eq!(trap("unreachable"), "wasm `unreachable` instruction executed, in reduce");
    assert_eq!(trap("(i64.div_s (i64.const 1) (i64.const 0))"), "integer divide by zero, in reduce");
    assert_eq!(trap("(i64.load (i32.const -8))"), "out of bounds memory access, in reduce");
    assert_eq!(
        trap(
            "(call $reduce (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))"
        ),
        "call stack exhausted, in reduce"
    );
}

#[test]
fn trap_text_is_reported_if_it_is_valid() {
    let words = |body: &str| {
        reduce(&format!(
            r#"unreachable) (data (i32.const 64) "shard 3\nis\00odd") (func (export "treefold_trap_text") (result i64) {body}"#
        ))
    };
    let said = |module: Vec<u8>| reduced(&module, b"", b"").unwrap_err().to_string();
    assert_eq!(said(words("(i64.const 0x40_0000_000e)")), "treefold_reduce trapped: shard 3 is odd");
    let plain = "treefold_reduce trapped: wasm `unreachable` instruction executed, in reduce";
    for body in ["unreachable", "(i64.const -1)", "(loop $ever (br $ever)) unreachable", "(i64.const 0)"] {
        assert_eq!(said(words(body)), plain, "{body}");
    }
}

#[test]
fn a_result_outside_of_its_memory_is_not_read() {
    let bad = |address, bytes| WasmError::BadResult {
        function: "treefold_reduce",
        address,
        bytes,
        memory_bytes: 1 << 16,
    };
    assert_eq!(failure("(i64.const 0xffff_fff0_0000_0020)"), bad(0xffff_fff0, 32));
    assert_eq!(failure("(i64.const 0x0000_fff9_0000_0008)"), bad(0xfff9, 8));
    // The position of an error's text is checked in the same way.
    assert_eq!(failure("(i64.const 0x0001_0000_8000_0001)"), bad(0x1_0000, 1));
    // The last bytes of the memory can be returned, and no bytes at any address.
    assert_eq!(reduced(&reduce("(i64.const 0x0000_fff8_0000_0008)"), b"", b"").unwrap().len(), 8);
    assert_eq!(reduced(&reduce("(i64.const 0xffff_ffff_0000_0000)"), b"", b"").unwrap().len(), 0);
}

#[test]
fn packets_outside_of_its_memory_are_not_read() {
    let giving = |packed: &str| {
        filter(&format!(
            r#"(data (i32.const 0) "\00\01\00\00\03\00\00\00\f0\ff\00\00\20\00\00\00")
            (func (export "treefold_filter_up") (param i32 i32 i64 i64) (result i64) (i64.const {packed}))"#
        ))
    };
    let engine = engine();
    let given = |packed| {
        let module = engine.compile(giving(packed)).unwrap();
        up(opened(&module).as_mut(), 1, &[piece(Source::Child(1), b"")])
    };
    assert_eq!(given("0x0000_0000_0000_0001").unwrap(), [b"\0\0\0".as_slice()]);
    assert_eq!(given("0xffff_ffff_0000_0000").unwrap().len(), 0);
    // Either the second record points beyond the end, or the records themselves do. Then there are too many
    // packets.
    for packed in ["0x0000_0000_0000_0002", "0x0000_fff8_0000_0002"] {
        assert!(given(packed).unwrap_err().contains("beyond its memory of 65536 bytes"), "{packed}");
    }
    assert!(given("0x0000_0000_7fff_ffff").unwrap_err().contains("2147483647 packets; allowed: 65536"));
}

#[test]
fn input_is_not_written_outside_of_memory() {
    for (given, memory_bytes) in [("0", 1 << 16), ("1028", 1 << 16), ("65536", 1 << 16), ("-8", 1 << 16)] {
        let module = wasm(&format!(
            r#"(module (memory (export "memory") 1) (func (export "treefold_abi_v1"))
                (func (export "treefold_alloc") (param i32) (result i32) i32.const {given})
                (func (export "treefold_reduce") (param i32 i32 i32 i32 i32 i32) (result i64) unreachable))"#
        ));
        let address = given.parse::<i32>().unwrap() as u32;
        assert_eq!(
            reduced(&module, b"one", b"two").unwrap_err(),
            WasmError::NoRoom { address, bytes: 16, memory_bytes }
        );
    }
    // Without input, the guest is not asked for a buffer.
    assert!(matches!(failure("unreachable"), WasmError::Trap { .. }));
}

#[test]
fn output_and_input_are_bounded() {
    let engine = Engine::new(Limits { output_bytes_max: 100, packets_max: 2, ..limits() }).unwrap();
    let large = engine.compile(reduce("(i64.const 101)")).unwrap().reduce().unwrap();
    let function = "treefold_reduce";
    assert_eq!(
        large.reduced(b"", b"", b"").unwrap_err(),
        WasmError::OutputTooLarge { function, bytes: 101, bytes_max: 100 }
    );
    // Two packets of 51 bytes are one byte too many, and three empty packets are one packet too many.
    let given = |count| {
        let module = engine.compile(filter(&format!(
            r#"(data (i32.const 0) "\00\01\00\00\33\00\00\00\00\01\00\00\33\00\00\00")
            (func (export "treefold_filter_up") (param i32 i32 i64 i64) (result i64) (i64.const {count}))"#
        )));
        up(opened(&module.unwrap()).as_mut(), 1, &[piece(Source::Endpoint(0), b"")]).unwrap_err()
    };
    assert_eq!(given(2), "treefold_filter_up returned 102 bytes; allowed: 100 (output_bytes_max)");
    assert_eq!(given(3), "treefold_filter_up returned 3 packets; allowed: 2 (packets_max)");

    let page = Engine::new(Limits { memory_bytes_max: 1 << 16, ..limits() }).unwrap();
    let reduce = page.compile(reduce("i64.const 0")).unwrap().reduce().unwrap();
    assert!(matches!(
        reduce.reduced(&[0; 40_000], &[0; 40_000], b""),
        Err(WasmError::InputTooLarge { bytes: 80_000, bytes_max: 65_536 })
    ));
}

#[test]
fn guest_error_text_is_one_line_and_bounded() {
    let text = r#"i64.const 0x40_8000_0009) (data (i32.const 64) "no\nshard\e2\82") (func"#;
    assert_eq!(failure(text), WasmError::Refused { text: "no shard".to_owned() });
    let none = "i64.const 0x40_8000_0000";
    assert_eq!(failure(none), WasmError::Refused { text: "no reason given".to_owned() });
    let WasmError::Refused { text } =
        failure("(memory.fill (i32.const 64) (i32.const 0x61) (i32.const 60000)) i64.const 0x40_8000_ea60")
    else {
        panic!("expected an error of the guest");
    };
    assert_eq!(text, "a".repeat(512));
}

#[test]
fn guests_share_a_memory_limit_and_release_their_memory() {
    // The first guest has one page, so another guest that would grow to 64 MiB exceeds the limit of both.
    let bounds = Limits { guests_memory_bytes_max: 64 << 20, ..limits() };
    let engine = Engine::new(bounds).unwrap();
    let counter = engine.compile(crate::guests::counter()).unwrap();
    let grows = reduce("(drop (memory.grow (i32.const 1023))) (i64.const 0)");
    let greedy = engine.compile(grows).unwrap().reduce().unwrap();
    let (bytes, bytes_max) = (1_023 << 16, 64 << 20);
    let other = opened(&counter);
    let refused = greedy.reduced(b"", b"", b"").unwrap_err();
    assert_eq!(refused, WasmError::GuestsOutOfMemory { function: "treefold_reduce", bytes, bytes_max });
    drop(other);
    greedy.reduced(b"", b"", b"").unwrap();
}

#[test]
fn nan_results_are_canonical() {
    // 0/0, and a negated NaN: most processors give them two signs, but here they are equal.
    let bits = |numerator: &str| {
        let body = format!(
            "(f64.store (i32.const 1024) (f64.div ({numerator}) (f64.const 0))) (i64.const {})",
            (1_024_u64 << 32) | 8
        );
        reduced(&reduce(&body), b"", b"").unwrap()
    };
    let canonical = 0x7ff8_0000_0000_0000_u64.to_le_bytes();
    assert_eq!(bits("f64.const 0")[..], canonical);
    assert_eq!(bits("f64.neg (f64.const nan)")[..], canonical);
}

#[test]
fn guests_beyond_instances_max_are_refused() {
    let engine = Engine::new(Limits { instances_max: 2, ..limits() }).unwrap();
    let module = engine.compile(crate::guests::counter()).unwrap();
    let two = [opened(&module), opened(&module)];
    let refused = module.filter().open(&bytes::Bytes::new()).map(|_| ()).unwrap_err();
    assert_eq!(cause(&refused), Some(&WasmError::TooManyInstances { instances_max: 2 }));
    drop(two);
    opened(&module);
}

fn cause(error: &OperatorError) -> Option<&WasmError> {
    error.cause()?.downcast_ref()
}

#[test]
fn operator_error_has_the_wasm_error_as_its_cause() {
    let module = engine().compile(reduce("unreachable")).unwrap();
    let error =
        module.operator().unwrap().reduce("a".into(), "b".into(), &"".into()).now().unwrap().unwrap_err();
    assert!(matches!(cause(&error), Some(WasmError::Trap { .. })));
    let no_reduce = engine().compile(crate::guests::counter()).unwrap().operator().map(|_| ()).unwrap_err();
    assert!(no_reduce.to_string().ends_with("is a filter; expected: a reduce"));
}

#[test]
fn a_failed_guest_does_not_affect_the_next_one() {
    let engine = engine();
    for body in
        ["unreachable", "(loop $ever (br $ever)) unreachable", "(i64.const -1)", "(i64.load (i32.const -8))"]
    {
        let bad = engine.compile(reduce(body)).unwrap().reduce().unwrap();
        assert!(bad.reduced(b"one", b"two", b"").is_err());
        let good = engine.compile(reduce("(i64.const 0x400_0000_0003)")).unwrap().reduce().unwrap();
        assert_eq!(good.reduced(b"one", b"two", b"").unwrap(), "one");
    }
}

#[test]
fn growth_beyond_the_modules_own_maximum_does_not_trap() {
    // The module's own maximum limits it: the growth fails, but does not trap.
    let module = guest(
        r#"(func (export "treefold_reduce") (param i32 i32 i32 i32 i32 i32) (result i64)
            (i64.store (i32.const 0) (i64.extend_i32_s (memory.grow (i32.const 1)))) (i64.const 8))"#,
    );
    assert_eq!(reduced(&module, b"", b"").unwrap(), 1u64.to_le_bytes().as_slice());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// A guest with some bytes overwritten is refused, fails or works, and nothing else happens.
    #[test]
    fn a_corrupted_module_does_not_break_the_host(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        a in prop::collection::vec(any::<u8>(), 0..64),
        b in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut module = include_bytes!("../../fixtures/sum.wasm").to_vec();
        for (place, byte) in changes {
            let at = place.index(module.len());
            module[at] = byte;
        }
        if let Ok(module) = SHARED.compile(module) {
            let _ = module.reduce().map(|reduce| reduce.reduced(&a, &b, b""));
        }
    }
}

static SHARED: std::sync::LazyLock<Engine> = std::sync::LazyLock::new(engine);
