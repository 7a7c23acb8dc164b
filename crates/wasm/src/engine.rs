//! Compiles guests and gives them memory. There is one engine per process, shared by its nodes.
//!
//! The settings here are one half of the isolation; `instance` is the other. They make a guest's results the
//! same on every machine: proposals whose results may differ between processors are off, all NaNs are
//! canonical, and an invocation is bounded by counted instructions.

use crate::budget::Budget;
use crate::contract;
use crate::error::{REASON_CHARS_MAX, WasmError, clipped};
use crate::id::ModuleId;
use crate::instance::Exports;
use crate::limits::Limits;
use crate::module::Module;
use crate::sandbox::Bounds;
use crate::survey::{Objection, survey};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use wasmtime::{
    Config, Enabled, InstanceAllocationStrategy, Linker, OperatorCost, OptLevel, PoolingAllocationConfig,
    WasmFeatures,
};

/// Bytes of an ended instance's memory that are reset in place instead of being returned to the system.
///
/// Returned pages must be faulted in again, and a page fault costs several times as much. Used where the
/// system can report the touched pages (Linux 6.7).
const TOUCHED_KEPT_BYTES: usize = 256 << 10;
/// As [`TOUCHED_KEPT_BYTES`], on systems that can't report touched pages: all of these first bytes are reset.
const FIRST_KEPT_BYTES: usize = 8 << 10;
/// Fuel for growing a memory or a table, which is a system call.
const GROW_FUEL: u8 = 250;

/// Compiles modules and runs them; a clone shares everything.
///
/// It reserves 4 GiB of address space for each of `instances_max` guests, so a process should have only one
/// or a few. The first engine installs handlers for signals such as SIGSEGV and SIGFPE, which catch accesses
/// outside of a guest's memory. Signals that do not come from a guest are passed to the previous handlers.
#[derive(Clone)]
pub struct Engine {
    wasmtime: wasmtime::Engine,
    budget: Arc<Budget>,
}

impl Engine {
    /// Creates an engine with these limits.
    ///
    /// # Errors
    /// [`WasmError::BadLimit`], or [`WasmError::Host`] if the address space is too small for so many
    /// instances.
    pub fn new(limits: Limits) -> Result<Self, WasmError> {
        limits.check()?;
        let mut config = config(&limits);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(&limits)));
        let wasmtime = wasmtime::Engine::new(&config).map_err(|error| WasmError::host(&error))?;
        Ok(Self { wasmtime, budget: Arc::new(Budget::new(limits)) })
    }

    /// Creates an engine that only compiles, for inspecting a module; it reserves nothing.
    pub(crate) fn for_inspection(limits: &Limits) -> Result<wasmtime::Engine, WasmError> {
        limits.check()?;
        wasmtime::Engine::new(&config(limits)).map_err(|error| WasmError::host(&error))
    }

    /// Returns the limits of the engine.
    pub fn limits(&self) -> &Limits {
        &self.budget.limits
    }

    /// Compiles a module from these bytes.
    ///
    /// It takes milliseconds for a guest of some 10 KiB, so don't call it on a node's loop.
    /// [`Modules`](crate::Modules) compiles each module once.
    ///
    /// # Errors
    /// The reason why the bytes are not a valid guest; none of its code has run.
    pub fn compile(&self, bytes: impl Into<Bytes>) -> Result<Module, WasmError> {
        let bytes = bytes.into();
        let compiled =
            validated(&self.wasmtime, &bytes, self.limits()).map_err(|error| self.named(error, &bytes))?;
        let kind = contract::kind(&compiled, self.limits())?;
        let pre = Linker::<Bounds>::new(&self.wasmtime)
            .instantiate_pre(&compiled)
            .map_err(|error| WasmError::host(&error))?;
        let exports = Exports::of(&compiled);
        Ok(Module::new(ModuleId::of(&bytes), bytes, kind, pre, exports, Arc::clone(&self.budget)))
    }

    /// Replaces an error of the instance pool by a more exact one.
    ///
    /// The pool refuses a memory or a table that is too large before the contract can name it. Without a
    /// pool, the contract can.
    fn named(&self, error: WasmError, bytes: &[u8]) -> WasmError {
        let look = || {
            let module = validated(&Self::for_inspection(self.limits())?, bytes, self.limits())?;
            contract::kind(&module, self.limits())
        };
        match error {
            WasmError::Unrunnable { .. } => look().err().unwrap_or(error),
            other => other,
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("limits", self.limits()).finish_non_exhaustive()
    }
}

/// Compiles the bytes if they are valid WebAssembly.
pub(crate) fn validated(
    engine: &wasmtime::Engine,
    bytes: &[u8],
    limits: &Limits,
) -> Result<wasmtime::Module, WasmError> {
    if bytes.len() > limits.module_bytes_max {
        return Err(WasmError::ModuleTooLarge { bytes: bytes.len(), bytes_max: limits.module_bytes_max });
    }
    let reason = |error: wasmtime::Error| clipped(&format!("{error:#}"), REASON_CHARS_MAX);
    match survey(bytes, limits) {
        Ok(_) => {}
        Err(Objection::TooComplex(error)) => return Err(error),
        // The validator describes it better.
        Err(Objection::Malformed(error)) => {
            wasmtime::Module::validate(engine, bytes)
                .map_err(|error| WasmError::Invalid { reason: reason(error) })?;
            return Err(WasmError::Invalid { reason: clipped(&error.to_string(), REASON_CHARS_MAX) });
        }
    }
    wasmtime::Module::from_binary(engine, bytes).map_err(|error| {
        let reason = reason(error);
        match wasmtime::Module::validate(engine, bytes) {
            Ok(()) => WasmError::Unrunnable { reason },
            Err(_) => WasmError::Invalid { reason },
        }
    })
}

fn config(limits: &Limits) -> Config {
    let mut cost = OperatorCost::new();
    (cost.MemoryGrow, cost.TableGrow) = (GROW_FUEL, GROW_FUEL);
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .operator_cost(cost)
        .cranelift_opt_level(OptLevel::Speed)
        .max_wasm_stack(limits.stack_bytes_max)
        .cranelift_nan_canonicalization(true)
        .wasm_features(WasmFeatures::RELAXED_SIMD, false)
        .wasm_features(WasmFeatures::MEMORY64, false)
        .wasm_features(WasmFeatures::MULTI_MEMORY, false);
    config
}

fn pool(limits: &Limits) -> PoolingAllocationConfig {
    let touched_is_known = PoolingAllocationConfig::is_pagemap_scan_available();
    let kept_bytes = if touched_is_known { TOUCHED_KEPT_BYTES } else { FIRST_KEPT_BYTES };
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(limits.instances_max)
        .total_memories(limits.instances_max)
        .total_tables(limits.instances_max)
        .max_memory_size(limits.memory_bytes_max)
        .table_elements(limits.table_elements_max)
        .pagemap_scan(if touched_is_known { Enabled::Yes } else { Enabled::No })
        .linear_memory_keep_resident(kept_bytes)
        .table_keep_resident(kept_bytes);
    pool
}
