//! All bounds on guests, by name.

use crate::error::WasmError;
use serde::{Deserialize, Serialize};

/// Bytes of one page of a guest's memory.
pub const PAGE_BYTES: usize = 64 << 10;

/// Bounds on guests and on each invocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of a module as sent, with its data and names.
    pub module_bytes_max: usize,
    /// Bytes of all functions' bodies. The time to compile a module grows in proportion.
    pub code_bytes_max: usize,
    /// Number of functions with a body.
    pub functions_max: u32,
    /// Bytes of one function's body. The memory to compile a module grows in proportion.
    pub function_bytes_max: usize,
    /// Parameters and locals of one function.
    pub variables_max: u32,
    /// The sum over functions of *b* · (*b* + 4*v*), with *b* blocks and branches and *v* parameters and locals. The compiler
    /// looks at each variable where two paths meet.
    pub flow_max: u64,
    /// Bytes of memory of one instance, in whole pages of 64 KiB.
    pub memory_bytes_max: usize,
    /// Bytes of memory of all guests together.
    ///
    /// A guest whose growth would exceed it is ended, as when it exceeds `memory_bytes_max`. A guest whose
    /// initial memory would exceed it is not started.
    pub guests_memory_bytes_max: usize,
    /// Entries of one instance's function table.
    pub table_elements_max: usize,
    /// Bytes of stack that a guest's calls may use. It is the calling thread's stack, which must have that
    /// much left.
    pub stack_bytes_max: usize,
    /// Instructions of one invocation: about one per unit; bytes of bulk copies count one each.
    ///
    /// A modern processor executes about 10⁹ per second. If a reduce folds a stream's wave, the whole wave is
    /// one invocation. So are several partials of a call that a node folds at once; if they take too much, the
    /// node folds them in pairs.
    pub fuel_max: u64,
    /// Bytes that one invocation may return, over all its packets.
    pub output_bytes_max: usize,
    /// Packets that a filter may return for one wave, or for one packet on its way down.
    pub packets_max: usize,
    /// Bytes of a guest's error or panic text; the rest is cut off.
    pub text_bytes_max: usize,
    /// Guests that exist at the same time: one per open stream and one per reduce in progress.
    ///
    /// Each reserves 4 GiB of address space, not of memory, so that its memory accesses need no bounds
    /// checks.
    pub instances_max: u32,
    /// Invocations of a reduce after which its instance is replaced.
    ///
    /// With 1, each invocation begins with the module's initial memory, independent of earlier invocations.
    /// With more, a guest may find data that it left in memory, but an invocation costs only a fraction.
    pub reduces_per_instance_max: u32,
    /// Bytes of modules that a node holds, as sent and as compiled. The least recently used are evicted
    /// first.
    pub modules_bytes_max: usize,
}

impl Limits {
    /// The default limits of a node.
    pub const DEFAULT: Self = Self {
        module_bytes_max: 2 << 20,
        code_bytes_max: 3 << 19,
        functions_max: 8_192,
        function_bytes_max: 64 << 10,
        variables_max: 1_024,
        flow_max: 48_000_000,
        memory_bytes_max: 64 << 20,
        guests_memory_bytes_max: 1 << 30,
        table_elements_max: 10_000,
        stack_bytes_max: 256 << 10,
        fuel_max: 200_000_000,
        output_bytes_max: 16 << 20,
        packets_max: 65_536,
        text_bytes_max: 512,
        instances_max: 1_024,
        reduces_per_instance_max: 1,
        modules_bytes_max: 64 << 20,
    };

    /// The default limits of functions of rules. A function runs for each event while the origin waits, so it has two
    /// million instructions, about two milliseconds.
    pub const FUNCTIONS: Self = Self {
        memory_bytes_max: 32 << 20,
        guests_memory_bytes_max: 256 << 20,
        fuel_max: 2_000_000,
        packets_max: 64,
        instances_max: 64,
        ..Self::DEFAULT
    };

    /// Checks that the limits have valid values.
    pub(crate) fn check(&self) -> Result<(), WasmError> {
        let refuse = |limit, given, allowed| Err(WasmError::BadLimit { limit, given, allowed });
        let memory = self.memory_bytes_max;
        if memory == 0 || !memory.is_multiple_of(PAGE_BYTES) || memory as u64 > 1 << 32 {
            return refuse("memory_bytes_max", memory as u64, "whole pages of 64 KiB, up to 4 GiB");
        }
        if self.guests_memory_bytes_max < memory {
            let given = self.guests_memory_bytes_max as u64;
            return refuse("guests_memory_bytes_max", given, "at least memory_bytes_max");
        }
        if !(16 << 10..=1 << 20).contains(&self.stack_bytes_max) {
            return refuse("stack_bytes_max", self.stack_bytes_max as u64, "from 16 KiB to 1 MiB");
        }
        if self.table_elements_max as u64 > u64::from(u32::MAX) {
            return refuse("table_elements_max", self.table_elements_max as u64, "up to 4,294,967,295");
        }
        if self.instances_max == 0 {
            return refuse("instances_max", 0, "at least 1");
        }
        if self.reduces_per_instance_max == 0 {
            return refuse("reduces_per_instance_max", 0, "at least 1");
        }
        Ok(())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
