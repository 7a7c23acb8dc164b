//! Every bound on guests, by name.

use crate::error::WasmError;
use serde::{Deserialize, Serialize};

/// Bytes of one page of a guest's memory.
pub const PAGE_BYTES: usize = 64 << 10;

/// Bounds on guests: on what they are, and on what each invocation may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of a module as it is sent. Compiling takes time in proportion.
    pub module_bytes_max: usize,
    /// Bytes of memory of one instance, in whole pages of 64 KiB.
    pub memory_bytes_max: usize,
    /// Bytes of memory of all guests together. A guest that would have more is ended, as one that outgrows its own
    /// memory is; one that would begin with more does not begin.
    pub guests_memory_bytes_max: usize,
    /// Entries of one instance's table of functions.
    pub table_elements_max: usize,
    /// Bytes of stack that a guest's calls may take. They are the calling thread's, which must have that much left.
    pub stack_bytes_max: usize,
    /// What one invocation may execute: about an instruction per unit, bytes of bulk copies counted each. A modern
    /// processor does some 10⁹ in a second. For a reduce that folds a stream's wave, the wave is the invocation.
    pub fuel_max: u64,
    /// Bytes of what one invocation gives, over all its packets.
    pub output_bytes_max: usize,
    /// Packets that a filter gives for one wave, or for one packet on its way down.
    pub packets_max: usize,
    /// Bytes of a guest's own words, in an error or a panic; the rest is cut off.
    pub text_bytes_max: usize,
    /// Guests that exist at a time: one per open stream and one per reduce in progress. Each reserves 4 GiB of
    /// addresses (of addresses, not of memory), which is what makes access to it need no bounds check.
    pub instances_max: u32,
    /// Invocations of a reduce after which its instance is replaced. At one, each begins with the memory that the
    /// module was sent with, whatever an earlier one left there; above, a guest that keeps something back may find it
    /// again, and in return an invocation costs a fraction.
    pub reduces_per_instance_max: u32,
    /// Bytes of modules that a node holds, as sent and as compiled; the least recently used go first.
    pub modules_bytes_max: usize,
}

impl Limits {
    /// The limits that a node has unless it is told otherwise.
    pub const DEFAULT: Self = Self {
        module_bytes_max: 4 << 20,
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

    /// Refuses what can't be kept.
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
