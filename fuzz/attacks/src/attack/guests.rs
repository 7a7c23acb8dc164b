//! Guests in WebAssembly that are dear to compile.

use super::Attack;
use crate::cluster::Cluster;
use crate::finding::{Finding, Setback};
use crate::lab::Lab;
use crate::meter::Meter;
use std::thread;
use std::time::{Duration, Instant};
use treefold_core::limits::Limits;

pub(super) const ATTACKS: &[Attack] = &[Attack {
    name: "costly-guest",
    about: "a WebAssembly module just below the limit of bytes, of very many small functions",
    play: push_costly,
}];

const NODES: usize = 3;
/// Bytes of a module: a little below the limit.
const MODULE_BYTES: usize = Limits::DEFAULT.operator_bytes_max - (96 << 10);
/// The processor time and memory that a node may spend on it.
const PROCESSOR_MAX_S: f64 = 10.0;
const GROWTH_MAX_MIB: f64 = 256.0;
/// After the answer, the node has ended its work when it has used less than a tenth of this time.
const QUIET: Duration = Duration::from_secs(1);
/// Longest time until then.
const QUIET_MAX: Duration = Duration::from_secs(120);

fn push_costly(lab: &Lab) -> Result<Finding, Setback> {
    let cluster = Cluster::start(lab, NODES)?;
    let meter = Meter::start(cluster.nodes[0].process)?;
    let client = cluster.client(0).map_err(Setback::doing("connect a client"))?;
    let module = module(MODULE_BYTES);
    let bytes = module.len();
    let (pushed, tally, took) = thread::scope(|scope| {
        let began_at = Instant::now();
        let pushing = scope.spawn(|| cluster.wait(client.operator_push(module)));
        thread::sleep(Duration::from_millis(100));
        let mut tally = cluster.calls(1, &cluster.places());
        while !pushing.is_finished() {
            tally.add(cluster.calls(1, &[0]));
            thread::sleep(Duration::from_millis(20));
        }
        (pushing.join(), tally, began_at.elapsed())
    });
    let pushed = pushed.map_err(|_| Setback::new("the pusher's thread has panicked"))?;
    let began_at = Instant::now();
    loop {
        let before = meter.read()?.victim_processor_s;
        thread::sleep(QUIET);
        if meter.read()?.victim_processor_s - before < QUIET.as_secs_f64() / 10.0
            || began_at.elapsed() > QUIET_MAX
        {
            break;
        }
    }
    let cost = meter.read()?;
    let seen = format!(
        "a module of {bytes} bytes with {} functions: {} after {:.1} s; allowed: {PROCESSOR_MAX_S} s of processor \
        time and {GROWTH_MAX_MIB} \
         MiB; meanwhile {}",
        functions(MODULE_BYTES),
        match pushed {
            Ok(_) => "it was accepted".to_owned(),
            Err(error) => error.to_string(),
        },
        took.as_secs_f64(),
        tally.text()
    );
    let is_cheap = cost.victim_processor_s <= PROCESSOR_MAX_S && cost.victim_growth_mib <= GROWTH_MAX_MIB;
    Ok(Finding::new(is_cheap && tally.is_full(), seen).at_cost(cost))
}

/// Bytes of the body of a small function, with its length and its type.
const SMALL: [u8; 21] = [
    20, 1, 1, 0x7e, // a local of type i64
    0x20, 0, 0x20, 0, 0x7e, 0x20, 0, 0x7c, 0x21, 0, // x·x + x
    0x20, 0, 0x20, 0, 0x7e, 0x1a, 0x0b,
];

fn functions(bytes: usize) -> usize {
    bytes / (SMALL.len() + 1)
}

/// A reduce that follows the contract of guests, with small functions up to this many bytes.
fn module(bytes: usize) -> Vec<u8> {
    let small = functions(bytes);
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    // Types: () → (), (i32) → i32, six i32 → i64.
    section(
        &mut module,
        1,
        &[3, 0x60, 0, 0, 0x60, 1, 0x7f, 1, 0x7f, 0x60, 6, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7e],
    );
    let mut types = Vec::new();
    put_leb(&mut types, 3 + small);
    types.extend_from_slice(&[0, 1, 2]);
    types.resize(types.len() + small, 0);
    section(&mut module, 3, &types);
    // A memory of one page.
    section(&mut module, 5, &[1, 0, 1]);
    let mut exports = vec![4];
    for (name, kind, index) in
        [("memory", 2, 0), ("treefold_abi_v1", 0, 0), ("treefold_alloc", 0, 1), ("treefold_reduce", 0, 2)]
    {
        put_leb(&mut exports, name.len());
        exports.extend_from_slice(name.as_bytes());
        exports.extend_from_slice(&[kind, index]);
    }
    section(&mut module, 7, &exports);
    let mut code = Vec::new();
    put_leb(&mut code, 3 + small);
    code.extend_from_slice(&[2, 0, 0x0b]);
    code.extend_from_slice(&[4, 0, 0x41, 0, 0x0b]);
    code.extend_from_slice(&[4, 0, 0x42, 0, 0x0b]);
    (0..small).for_each(|_| code.extend_from_slice(&SMALL));
    section(&mut module, 10, &code);
    module
}

fn section(module: &mut Vec<u8>, id: u8, content: &[u8]) {
    module.push(id);
    put_leb(module, content.len());
    module.extend_from_slice(content);
}

/// Appends a number as LEB128.
fn put_leb(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_is_just_below_the_limit() {
        let bytes = module(MODULE_BYTES).len();
        assert!((MODULE_BYTES - (64 << 10)..Limits::DEFAULT.operator_bytes_max).contains(&bytes), "{bytes}");
    }
}
