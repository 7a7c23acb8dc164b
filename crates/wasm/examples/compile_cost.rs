//! The cost of compiling modules that are made to be expensive, each just within the limits on modules.
//!
//! `cargo run --profile lean -p treefold-wasm --example compile_cost` runs itself once for each shape, so that each has its own
//! peak of memory. A shape that is refused is made smaller until it is accepted. With a number as its argument, only bytes are
//! limited, by so many times the default.
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};
use treefold_wasm::{Engine, Limits, WasmError};

/// A guest around these functions.
fn guest(functions: &str) -> String {
    format!(
        r#"(module (memory (export "memory") 1)
        (func (export "treefold_abi_v1"))
        (func (export "treefold_alloc") (param i32) (result i32) i32.const 0)
        (func (export "treefold_reduce") (param i32 i32 i32 i32 i32 i32) (result i64) i64.const 0)
        {functions})"#
    )
}

/// `count` functions with this head and body.
fn functions(count: usize, head: &str, body: &str) -> String {
    format!("(func {head} {body})\n").repeat(count)
}

/// The text of a module of a shape. `size` is about the bytes of its code.
fn text(shape: &str, size: usize, factor: usize) -> Option<String> {
    let body_max = if factor > 1 { size } else { 64_000.min(size) };
    let count = (size / body_max).max(1);
    let functions = match shape {
        // Many functions that do nothing.
        "empty" => functions(if factor > 1 { size / 4 } else { (size / 4).min(8_180) }, "", ""),
        // Values that all live to the end.
        "live" => {
            let values = body_max / 4;
            let body = "local.get 0 f64.sqrt ".repeat(values) + &"f64.add ".repeat(values - 1) + "drop";
            functions(count, "(param f64)", &body)
        }
        // Floating point, whose results must be made canonical.
        "float" => functions(count, "(param f64)", &("local.get 0 local.get 0 f64.div local.set 0 ".repeat(body_max / 7))),
        // Memory accesses at every other instruction.
        "memory" => functions(
            count,
            "(param i32)",
            &("local.get 0 local.get 0 i32.load local.get 0 i32.add i32.store ".repeat(body_max / 13)),
        ),
        // Calls with many parameters and results.
        "calls" => {
            let kinds = "i64 ".repeat(8);
            let callee = format!("(func $f (result {kinds}) unreachable)");
            let body = format!("call $f {}", "drop ".repeat(8)).repeat(body_max / 10);
            callee + &functions(count, "", &body)
        }
        // Branches of a table, each to another block.
        "table" => {
            let blocks = body_max / 6;
            let targets = (0..blocks).fold(String::new(), |mut all, at| {
                let _ = write!(all, "{at} ");
                all
            });
            let body = "block ".repeat(blocks) + "local.get 0 br_table " + &targets + &"end ".repeat(blocks);
            functions(count, "(param i32)", &body)
        }
        // Loops nested as deeply as allowed, in which all variables live.
        "nests" => {
            let (variables, depth) = (16, 32);
            let uses: String =
                (0..variables).map(|at| format!("local.get {at} i32.const 1 i32.add local.set {at} ")).collect();
            let nest = "loop ".repeat(depth) + &uses + &"local.get 0 br_if 0 end ".repeat(depth);
            let body = nest.repeat((body_max / (7 * (depth + variables))).max(1));
            functions(count, &format!("(local {})", "i32 ".repeat(variables)), &body)
        }
        // Conditions within conditions.
        "conditions" => {
            let depth = body_max / 7;
            functions(count, "(param i32)", &("local.get 0 if ".repeat(depth) + &"end ".repeat(depth)))
        }
        // Loops in sequence, over which many variables live.
        "loops" => {
            let variables = 100;
            let sets: String =
                (0..variables).map(|at| format!("local.get {at} i32.const 1 i32.add local.set {at} ")).collect();
            let body = format!("{sets} {} {sets}", "loop local.get 0 br_if 0 end ".repeat(body_max / 8));
            functions(count, &format!("(local {})", "i32 ".repeat(variables)), &body)
        }
        // A block that many branches leave, each with other values of the variables.
        "breaks" => {
            let variables = 50;
            let branches: String = (0..body_max / 10)
                .map(|at| {
                    let [from, to, condition] = [at, 7 * at + 1, 3 * at].map(|number| number % variables);
                    format!("local.get {from} local.set {to} local.get {condition} br_if 0 ")
                })
                .collect();
            let gets: String = (0..variables).map(|at| format!("local.get {at} local.set 0 ")).collect();
            functions(count, &format!("(local {})", "i32 ".repeat(variables)), &format!("block {branches} end {gets}"))
        }
        // Few functions with as many variables as allowed, and branches.
        "variables" => {
            let variables = 1_000;
            let sets: String = (0..variables).map(|at| format!("local.get 0 local.set {at} ")).collect();
            let gets: String = (0..variables).map(|at| format!("local.get {at} local.set 0 ")).collect();
            let body = sets + &"loop local.get 0 br_if 0 end ".repeat(100) + &gets;
            functions((size / 20_000).max(1), &format!("(local {})", "i32 ".repeat(variables)), &body)
        }
        // Conditions in sequence, each of which sets all variables.
        "merges" => {
            let variables = 30;
            let sets: String = (0..variables).map(|at| format!("local.get {} local.set {at} ", (at + 7) % variables)).collect();
            let body = format!("local.get 0 if {sets} end ").repeat(body_max / (6 + 4 * variables));
            functions(count, &format!("(local {})", "i32 ".repeat(variables)), &body)
        }
        // Selects and rotations, which the optimiser rewrites.
        "rewrites" => functions(
            count,
            "(param i64)",
            &("local.get 0 i64.const 3 i64.mul local.get 0 i64.const 5 i64.rotl i64.xor i64.const 7 i64.and local.set 0 "
                .repeat(body_max / 18)),
        ),
        // Vectors.
        "vectors" => functions(
            count,
            "(param v128)",
            &("local.get 0 local.get 0 f64x2.div i8x16.popcnt local.get 0 i64x2.mul local.set 0 ".repeat(body_max / 16)),
        ),
        _ => return None,
    };
    Some(guest(&functions))
}

const SHAPES: [&str; 14] = [
    "empty",
    "live",
    "float",
    "memory",
    "calls",
    "table",
    "nests",
    "conditions",
    "loops",
    "breaks",
    "variables",
    "merges",
    "rewrites",
    "vectors",
];

/// Processor time of this process, and its largest memory in KiB.
fn usage() -> (Duration, u64) {
    // SAFETY: a zeroed rusage is valid, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let part = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1_000);
    // The peak that getrusage knows includes that of the parent, before this program began.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
    (part(usage.ru_utime) + part(usage.ru_stime), peak.unwrap_or_default())
}

/// Exit code of a child whose module is above a limit.
const TOO_COMPLEX: i32 = 3;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [shape, path, factor] = &args[..] {
        return compile(shape, path, factor.parse().expect("a factor"));
    }
    // With a factor above 1, only the bytes of a module are limited, by so many times the default.
    let factor: usize = args.first().map_or(1, |factor| factor.parse().expect("a factor"));
    let this = std::env::current_exe().expect("the system knows this program");
    let path = std::env::temp_dir().join(format!("compile-cost-{}.wasm", std::process::id()));
    for shape in SHAPES {
        let mut size = factor * Limits::DEFAULT.code_bytes_max;
        loop {
            let text = text(shape, size, factor).expect("a shape of the list");
            let module = wat::parse_str(&text).unwrap_or_else(|error| panic!("{shape}: {error}"));
            std::fs::write(&path, module).expect("there is room for a file");
            let ended = Command::new(&this).arg(shape).arg(&path).arg(factor.to_string()).status();
            match ended.expect("this program can run").code() {
                Some(TOO_COMPLEX) if size > 64 => size = size * 7 / 8,
                _ => break,
            }
        }
    }
    // Nothing is lost if the file stays.
    let _ = std::fs::remove_file(&path);
}

/// Compiles a file and prints the cost.
fn compile(shape: &str, path: &str, factor: usize) {
    let mut limits = Limits { modules_bytes_max: usize::MAX, ..Limits::default() };
    if factor > 1 {
        limits.module_bytes_max = 64 << 20;
        limits.code_bytes_max = 64 << 20;
        (limits.functions_max, limits.function_bytes_max, limits.variables_max) =
            (u32::MAX, 8 << 20, u32::MAX);
        limits.flow_max = u64::MAX;
    }
    let module = std::fs::read(path).expect("the parent has written it");
    let bytes = module.len();
    let engine = Engine::new(limits).expect("the limits are valid");
    let ((cpu_before, peak_before), from) = (usage(), Instant::now());
    match engine.compile(module) {
        Ok(compiled) => {
            let (cpu, peak_kib) = usage();
            println!(
                "{shape}: {} KiB, {:.2} s of processor, {:.2} s, {} MiB more at the peak, compiled {} KiB",
                bytes >> 10,
                (cpu - cpu_before).as_secs_f64(),
                from.elapsed().as_secs_f64(),
                (peak_kib - peak_before) >> 10,
                compiled.held_bytes() >> 10,
            );
        }
        Err(WasmError::TooComplex { .. } | WasmError::ModuleTooLarge { .. }) => {
            std::process::exit(TOO_COMPLEX)
        }
        Err(error) => println!("{shape}: {} KiB, refused: {error}", bytes >> 10),
    }
}
