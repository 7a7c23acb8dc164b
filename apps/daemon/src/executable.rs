//! The program that the daemons watch: its functions and its call graph.
//!
//! The paper's program was smg2000, 434 functions in 290 KB. This one is drawn to resemble it: modules of a
//! solver, and functions that call three others on average, mostly near by. Hosts run slightly different
//! builds: in some, an optimiser inlined some functions and moved all functions after them. Equivalence
//! classes are made for this case.

use crate::draw::{Draw, Purpose};
use bytes::Bytes;
use treefold_operators::packet::Row;

/// Functions of the build that has all of them.
pub const FUNCTIONS: u64 = 434;

/// Mean number of other functions that a function calls.
const CALLS_PER_FUNCTION: u64 = 3;

/// One in this many calls goes to a function far away.
const FAR_CALLS_ONE_IN: u64 = 8;

/// Largest distance of a near call, in functions.
const NEAR: u64 = 24;

/// Mean bytes of a function's code.
const FUNCTION_BYTES: u64 = 680;

/// Address where the code begins.
const TEXT_BEGIN: u64 = 0x40_0000;

const MODULES: [&str; 12] = [
    "smg2000",
    "smg",
    "smg_relax",
    "smg_residual",
    "smg_setup",
    "smg_solve",
    "coarsen",
    "semi_interp",
    "semi_restrict",
    "cyclic_reduction",
    "communication",
    "box_algebra",
];

/// One build of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    /// Function names, by ascending address.
    pub names: Vec<String>,
    /// The module of each function, as an index into `modules`.
    pub module_of: Vec<u64>,
    /// The start address of each function.
    pub addresses: Vec<u64>,
    /// The size of each function in bytes.
    pub sizes: Vec<u64>,
    /// Calls as (caller, callee) function indices, by ascending caller.
    pub calls: Vec<(u64, u64)>,
}

impl Executable {
    /// Draws a build. Build 0 has all functions; other builds lack those that were inlined.
    pub fn of_build(seed: u64, build: u32) -> Self {
        let mut draw = Draw::new(seed, Purpose::Executable, 0);
        let mut inlined = Draw::new(seed, Purpose::Executable, u64::from(build));
        let mut program = Self {
            names: Vec::new(),
            module_of: Vec::new(),
            addresses: Vec::new(),
            sizes: Vec::new(),
            calls: Vec::new(),
        };
        let mut index_of = Vec::new();
        let mut address = TEXT_BEGIN;
        for function in 0..FUNCTIONS {
            let bytes = 16 + 16 * (draw.exponential(FUNCTION_BYTES as f64 / 16.0) as u64);
            let is_gone = build > 0 && inlined.below(40) == 0;
            index_of.push((!is_gone).then_some(program.names.len() as u64));
            if is_gone {
                continue;
            }
            let module = function * MODULES.len() as u64 / FUNCTIONS;
            program.names.push(format!("hypre_{}_{function:03}", MODULES[module as usize]));
            program.module_of.push(module);
            program.addresses.push(address);
            program.sizes.push(bytes);
            address += bytes;
        }
        program.calls = drawn_calls(&mut draw, &index_of);
        program
    }

    /// A daemon's report of the code: the modules, then each function's name, module, address and size.
    pub fn code_report(&self) -> Bytes {
        let row = Row::new().strs(&MODULES).strs(&self.names).u64s(&self.module_of);
        row.u64s(&self.addresses).u64s(&self.sizes).packet().into_bytes()
    }

    /// A daemon's report of the call graph: callers and callees, as two parallel arrays.
    pub fn call_graph_report(&self) -> Bytes {
        let (callers, callees): (Vec<u64>, Vec<u64>) = self.calls.iter().copied().unzip();
        Row::new().u64s(&callers).u64s(&callees).packet().into_bytes()
    }
}

/// The same calls in every build, without calls from or to functions that the build lacks.
fn drawn_calls(draw: &mut Draw, index_of: &[Option<u64>]) -> Vec<(u64, u64)> {
    let count = index_of.len() as u64;
    let mut calls = Vec::new();
    for caller in 0..count {
        for _ in 0..draw.below(2 * CALLS_PER_FUNCTION + 1) {
            let is_far = draw.below(FAR_CALLS_ONE_IN) == 0;
            let callee = if is_far { draw.below(count) } else { (caller + 1 + draw.below(NEAR)) % count };
            if let (Some(caller), Some(callee)) = (index_of[caller as usize], index_of[callee as usize]) {
                calls.push((caller, callee));
            }
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_has_the_size_of_the_papers_program() {
        let program = Executable::of_build(1, 0);
        assert_eq!(program.names.len() as u64, FUNCTIONS);
        let bytes: u64 = program.sizes.iter().sum();
        assert!((200_000..400_000).contains(&bytes), "{bytes} bytes of code");
        let calls = program.calls.len() as u64;
        assert!((2 * FUNCTIONS..4 * FUNCTIONS).contains(&calls), "{calls} calls");
        assert!(program.calls.iter().all(|&(caller, callee)| caller.max(callee) < FUNCTIONS));
    }

    #[test]
    fn builds_differ_and_each_is_drawn_repeatably() {
        assert_eq!(Executable::of_build(1, 2), Executable::of_build(1, 2));
        let (whole, inlined) = (Executable::of_build(1, 0), Executable::of_build(1, 2));
        assert!(inlined.names.len() < whole.names.len());
        assert!(inlined.names.iter().all(|name| whole.names.contains(name)));
        assert_ne!(whole.code_report(), inlined.code_report());
        assert_ne!(whole.call_graph_report(), inlined.call_graph_report());
    }
}
