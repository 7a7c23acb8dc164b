//! A guest's store and memory: its input, its output, and all checks of them.
//!
//! Invariant: every number from a guest is checked before it is used, against the current size of its memory
//! (which may have grown during the call).

use crate::abi::{self, Returned};
use crate::budget::Budget;
use crate::error::{NAME_CHARS_MAX, WasmError, clipped};
use crate::limits::Limits;
use std::sync::Arc;
use treefold_operators::filter::{Piece, Source};
use wasmtime::{
    InstancePre, Memory, ModuleExport, PoolConcurrencyLimitError, ResourceLimiter, Store, Trap, TypedFunc,
    WasmBacktrace, WasmParams, WasmResults,
};

/// Fuel for reading the guest's text after a trap.
const LAST_WORDS_FUEL: u64 = 1_000_000;

/// An address and a number of bytes or records.
pub(crate) type Extent = (u32, u32);

/// The limits of one store, and its current memory.
pub(crate) struct Bounds {
    budget: Arc<Budget>,
    memory_bytes: usize,
}

impl Drop for Bounds {
    fn drop(&mut self) {
        self.budget.give_memory(self.memory_bytes);
    }
}

/// A guest requested more memory than allowed.
#[derive(Debug, thiserror::Error)]
#[error("a memory of {bytes} bytes")]
struct Outgrown {
    bytes: usize,
}

/// All guests together have reached the limit of their memory.
#[derive(Debug, thiserror::Error)]
#[error("{bytes} bytes more for all guests")]
struct Exhausted {
    bytes: usize,
}

impl ResourceLimiter for Bounds {
    // If a growth only failed, some guests would notice it and others not. Ending the guest here gives a
    // named error.
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        if desired > self.budget.limits.memory_bytes_max {
            return Err(Outgrown { bytes: desired }.into());
        }
        let more = desired.saturating_sub(self.memory_bytes);
        if !self.budget.take_memory(more) {
            return Err(Exhausted { bytes: more }.into());
        }
        self.memory_bytes += more;
        Ok(true)
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= self.budget.limits.table_elements_max)
    }
}

/// A guest's store, its memory, and its function that allocates input buffers.
pub(crate) struct Sandbox {
    store: Store<Bounds>,
    inner: wasmtime::Instance,
    budget: Arc<Budget>,
    memory: Memory,
    alloc: TypedFunc<u32, u32>,
}

impl Sandbox {
    /// Creates a sandbox with the module's initial memory, and runs its start function.
    pub(crate) fn new(
        pre: &InstancePre<Bounds>,
        memory: ModuleExport,
        alloc: ModuleExport,
        budget: &Arc<Budget>,
    ) -> Result<Self, WasmError> {
        let (limits, bounds) = (&budget.limits, Bounds { budget: Arc::clone(budget), memory_bytes: 0 });
        let mut store = Store::new(pre.module().engine(), bounds);
        store.limiter(|bounds| bounds);
        store.set_fuel(limits.fuel_max).map_err(|error| WasmError::host(&error))?;
        let begun = pre.instantiate(&mut store);
        let inner = begun.map_err(|error| fault(limits, "its start function", &error, String::new))?;
        let memory = inner.get_module_export(&mut store, &memory).and_then(wasmtime::Extern::into_memory);
        let memory = memory.expect("invariant: the contract requires the memory");
        let alloc = function(&inner, &mut store, &alloc);
        Ok(Self { store, inner, budget: Arc::clone(budget), memory, alloc })
    }

    /// Looks up one of its functions.
    pub(crate) fn function<P: WasmParams, R: WasmResults>(
        &mut self,
        place: Option<&ModuleExport>,
    ) -> Option<TypedFunc<P, R>> {
        place.map(|place| function(&self.inner, &mut self.store, place))
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.budget.limits
    }

    /// Sets the fuel for one more invocation.
    pub(crate) fn refuel(&mut self) -> Result<(), WasmError> {
        self.store.set_fuel(self.budget.limits.fuel_max).map_err(|error| WasmError::host(&error))
    }

    /// Calls one of its functions; `name` is used in errors.
    pub(crate) fn call<P: WasmParams, R: WasmResults>(
        &mut self,
        name: &'static str,
        function: &TypedFunc<P, R>,
        params: P,
    ) -> Result<R, WasmError> {
        match function.call(&mut self.store, params) {
            Ok(results) => Ok(results),
            Err(error) => Err(fault(&Arc::clone(&self.budget).limits, name, &error, || self.last_words())),
        }
    }

    /// Returns the guest's text about its trap, or an empty text if there is none or if another trap occurs
    /// here.
    fn last_words(&mut self) -> String {
        let ask = |instance: &mut Self| {
            let function =
                instance.inner.get_typed_func::<(), u64>(&mut instance.store, abi::TRAP_TEXT).ok()?;
            instance.store.set_fuel(LAST_WORDS_FUEL).ok()?;
            let returned = Returned::from(function.call(&mut instance.store, ()).ok()?);
            instance.text_at(abi::TRAP_TEXT, returned).ok()
        };
        ask(self).unwrap_or_default()
    }

    /// Allocates `bytes` in the guest's memory. The guest is not called if there are no bytes to pass.
    fn room(&mut self, bytes: u64) -> Result<usize, WasmError> {
        let bytes_max = self.budget.limits.memory_bytes_max;
        let asked = u32::try_from(bytes).ok().filter(|&bytes| bytes as usize <= bytes_max);
        let asked = asked.ok_or(WasmError::InputTooLarge { bytes, bytes_max })?;
        if asked == 0 {
            return Ok(0);
        }
        let address = self.call(abi::ALLOC, &self.alloc.clone(), asked)?;
        let memory_bytes = self.memory.data_size(&self.store);
        let (start, bytes) = (address as usize, asked as usize);
        if start == 0 || !start.is_multiple_of(abi::ALIGNMENT) || start + bytes > memory_bytes {
            return Err(WasmError::NoRoom { address, bytes, memory_bytes });
        }
        Ok(start)
    }

    /// Copies the parts into the guest's memory. Returns the position of each.
    pub(crate) fn place<const N: usize>(&mut self, parts: [&[u8]; N]) -> Result<[Extent; N], WasmError> {
        let mut layout = Layout(0);
        let offsets = parts.map(|part| layout.add(part.len()));
        let start = self.room(layout.0)?;
        let memory = self.memory.data_mut(&mut self.store);
        let mut extents = [(0, 0); N];
        for ((extent, part), offset) in extents.iter_mut().zip(parts).zip(offsets) {
            let at = start + offset as usize;
            memory[at..at + part.len()].copy_from_slice(part);
            *extent = (at as u32, part.len() as u32);
        }
        Ok(extents)
    }

    /// Copies a wave's pieces into the guest's memory. Returns the position of their records.
    pub(crate) fn place_pieces(&mut self, pieces: &[Piece]) -> Result<Extent, WasmError> {
        let mut layout = Layout(0);
        layout.add(pieces.len() * abi::PIECE_BYTES);
        let offsets: Vec<u64> = pieces.iter().map(|piece| layout.add(piece.payload.len())).collect();
        let start = self.room(layout.0)?;
        let memory = self.memory.data_mut(&mut self.store);
        for (index, (piece, offset)) in pieces.iter().zip(offsets).enumerate() {
            let (at, bytes) = (start + offset as usize, piece.payload.len());
            memory[at..at + bytes].copy_from_slice(&piece.payload);
            let (kind, number) = numbers(piece.source);
            let record = &mut memory[start + index * abi::PIECE_BYTES..][..abi::PIECE_BYTES];
            for (four, value) in record.chunks_exact_mut(4).zip([kind, number, at as u32, bytes as u32]) {
                four.copy_from_slice(&value.to_le_bytes());
            }
        }
        Ok((start as u32, pieces.len() as u32))
    }

    /// Unpacks the result of a function, or returns the guest's error.
    pub(crate) fn accepted(&self, name: &'static str, packed: u64) -> Result<Extent, WasmError> {
        let returned = Returned::from(packed);
        if !returned.is_error {
            return Ok((returned.address, returned.number));
        }
        let text = self.text_at(name, returned)?;
        Err(WasmError::Refused { text: if text.is_empty() { "no reason given".to_owned() } else { text } })
    }

    /// Refuses more bytes than a guest may return.
    pub(crate) fn check_output(&self, function: &'static str, bytes: u64) -> Result<(), WasmError> {
        let bytes_max = self.budget.limits.output_bytes_max;
        if bytes > bytes_max as u64 {
            return Err(WasmError::OutputTooLarge { function, bytes, bytes_max });
        }
        Ok(())
    }

    /// Reads a guest's text as one line, cut at the limit.
    fn text_at(&self, name: &'static str, returned: Returned) -> Result<String, WasmError> {
        let bytes = (returned.number as usize).min(self.budget.limits.text_bytes_max) as u64;
        let text = String::from_utf8_lossy(self.bytes_at(name, returned.address, bytes)?);
        let line = text.trim_end_matches(char::REPLACEMENT_CHARACTER).trim();
        Ok(line.replace(char::is_control, " "))
    }

    /// Reads bytes of the guest's memory, after checking that they lie within it.
    pub(crate) fn bytes_at(
        &self,
        function: &'static str,
        address: u32,
        bytes: u64,
    ) -> Result<&[u8], WasmError> {
        let memory = self.memory.data(&self.store);
        let end = u64::from(address) + bytes;
        if bytes == 0 {
            return Ok(&[]); // the address does not matter then
        }
        let slice = usize::try_from(end).ok().and_then(|end| memory.get(address as usize..end));
        slice.ok_or(WasmError::BadResult { function, address, bytes, memory_bytes: memory.len() })
    }
}

/// Assigns offsets to adjacent parts.
struct Layout(u64);

impl Layout {
    /// Returns the offset of the next part.
    fn add(&mut self, bytes: usize) -> u64 {
        let at = self.0;
        self.0 = (at + bytes as u64).next_multiple_of(abi::ALIGNMENT as u64);
        at
    }
}

/// Encodes a source as two numbers.
pub(crate) fn numbers(source: Source) -> (u32, u32) {
    match source {
        Source::Endpoint(number) => (0, number),
        Source::Child(number) => (1, number),
    }
}

fn function<P: WasmParams, R: WasmResults>(
    instance: &wasmtime::Instance,
    store: &mut Store<Bounds>,
    place: &ModuleExport,
) -> TypedFunc<P, R> {
    let function = instance.get_module_export(&mut *store, place).and_then(wasmtime::Extern::into_func);
    let typed = function.and_then(|function| function.typed(&*store).ok());
    typed.expect("invariant: the contract checks each function and its type")
}

/// Converts an error of the runtime.
#[cold]
fn fault(
    limits: &Limits,
    function: &'static str,
    error: &wasmtime::Error,
    last_words: impl FnOnce() -> String,
) -> WasmError {
    if let Some(outgrown) = error.downcast_ref::<Outgrown>() {
        return WasmError::OutOfMemory {
            function,
            bytes: outgrown.bytes,
            bytes_max: limits.memory_bytes_max,
        };
    }
    if let Some(exhausted) = error.downcast_ref::<Exhausted>() {
        let (bytes, bytes_max) = (exhausted.bytes, limits.guests_memory_bytes_max);
        return WasmError::GuestsOutOfMemory { function, bytes, bytes_max };
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return WasmError::TooManyInstances { instances_max: limits.instances_max };
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => WasmError::OutOfFuel { function, fuel_max: limits.fuel_max },
        Some(trap) => {
            let (words, trap) = (last_words(), trap.to_string());
            let trap = trap.trim_start_matches("wasm trap: ");
            let place = error.downcast_ref::<WasmBacktrace>().and_then(|trace| trace.frames().first());
            let reason = match place.and_then(|frame| frame.func_name()) {
                _ if !words.is_empty() => words,
                Some(name) => format!("{trap}, in {}", clipped(name, NAME_CHARS_MAX)),
                None => trap.to_owned(),
            };
            WasmError::Trap { function, reason }
        }
        None => WasmError::host(error),
    }
}
