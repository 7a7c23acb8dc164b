//! A running guest, with one method for each function of the ABI.
//!
//! An invocation calls `treefold_alloc` for all input, copies the input into the returned buffer, calls the
//! function, and copies the result. The input lies in one block:
//!
//! ```text
//!   reduce   │ a … │ b … │ params … │
//!   up       │ records of the pieces │ payload … │ payload … │ …       each part at a multiple of 8
//! ```
//!
//! If an invocation failed other than by the guest's own error, the instance must not be invoked again; its
//! owner drops it.

use crate::abi;
use crate::budget::Budget;
use crate::error::WasmError;
use crate::sandbox::{Bounds, Sandbox, numbers};
use bytes::{Bytes, BytesMut};
use std::sync::Arc;
use treefold_operators::filter::{Descent, Source, Wave};
use wasmtime::{InstancePre, ModuleExport, TypedFunc};

/// The places of a module's exports, so that an instance need not look them up by name.
pub(crate) struct Exports {
    memory: Option<ModuleExport>,
    initialize: Option<ModuleExport>,
    alloc: Option<ModuleExport>,
    reduce: Option<ModuleExport>,
    open: Option<ModuleExport>,
    up: Option<ModuleExport>,
    down: Option<ModuleExport>,
    holds_from: Option<ModuleExport>,
    joined: Option<ModuleExport>,
    replaced: Option<ModuleExport>,
}

impl Exports {
    pub(crate) fn of(module: &wasmtime::Module) -> Self {
        let place = |name| module.get_export_index(name);
        Self {
            memory: place(abi::MEMORY),
            initialize: place(abi::INITIALIZE),
            alloc: place(abi::ALLOC),
            reduce: place(abi::REDUCE),
            open: place(abi::OPEN),
            up: place(abi::UP),
            down: place(abi::DOWN),
            holds_from: place(abi::HOLDS_FROM),
            joined: place(abi::JOINED),
            replaced: place(abi::REPLACED),
        }
    }
}

/// `(a, bytes of a, b, bytes of b, params, bytes of params)`.
type Folding = TypedFunc<(u32, u32, u32, u32, u32, u32), u64>;
/// `(pieces or payload, their number, tag, now_ns)`.
type Passing = TypedFunc<(u32, u32, u64, u64), u64>;

/// One guest with separate memory.
pub(crate) struct Instance {
    sandbox: Sandbox,
    reduce: Option<Folding>,
    open: Option<TypedFunc<(u32, u32), u64>>,
    up: Option<Passing>,
    down: Option<Passing>,
    holds_from: Option<TypedFunc<(), u64>>,
    joined: Option<TypedFunc<(u32, u32), ()>>,
    replaced: Option<TypedFunc<(u32, u32, u32, u32), ()>>,
}

impl Instance {
    /// Creates a guest with the module's initial memory.
    pub(crate) fn new(
        pre: &InstancePre<Bounds>,
        exports: &Exports,
        budget: &Arc<Budget>,
    ) -> Result<Self, WasmError> {
        let (memory, alloc) =
            exports.memory.zip(exports.alloc).expect("invariant: the contract requires both");
        let mut sandbox = Sandbox::new(pre, memory, alloc, budget)?;
        if let Some(initialize) = sandbox.function::<(), ()>(exports.initialize.as_ref()) {
            sandbox.call(abi::INITIALIZE, &initialize, ())?;
        }
        Ok(Self {
            reduce: sandbox.function(exports.reduce.as_ref()),
            open: sandbox.function(exports.open.as_ref()),
            up: sandbox.function(exports.up.as_ref()),
            down: sandbox.function(exports.down.as_ref()),
            holds_from: sandbox.function(exports.holds_from.as_ref()),
            joined: sandbox.function(exports.joined.as_ref()),
            replaced: sandbox.function(exports.replaced.as_ref()),
            sandbox,
        })
    }

    /// Sets the fuel for one more invocation.
    pub(crate) fn refuel(&mut self) -> Result<(), WasmError> {
        self.sandbox.refuel()
    }

    /// Merges two partials into one, with the remaining fuel.
    pub(crate) fn reduce(&mut self, a: &[u8], b: &[u8], params: &[u8]) -> Result<Bytes, WasmError> {
        let reduce = self.reduce.as_ref().expect("invariant: only a reduce is asked to reduce");
        let [(a, a_bytes), (b, b_bytes), (params, params_bytes)] = self.sandbox.place([a, b, params])?;
        let packed =
            self.sandbox.call(abi::REDUCE, reduce, (a, a_bytes, b, b_bytes, params, params_bytes))?;
        let (address, number) = self.sandbox.accepted(abi::REDUCE, packed)?;
        self.sandbox.check_output(abi::REDUCE, u64::from(number))?;
        self.sandbox.bytes_at(abi::REDUCE, address, u64::from(number)).map(Bytes::copy_from_slice)
    }

    /// Opens a filter.
    pub(crate) fn open(&mut self, params: &[u8]) -> Result<(), WasmError> {
        let open = self.open.as_ref().expect("invariant: only a filter is opened");
        self.sandbox.refuel()?;
        let [(params, params_bytes)] = self.sandbox.place([params])?;
        let packed = self.sandbox.call(abi::OPEN, open, (params, params_bytes))?;
        self.sandbox.accepted(abi::OPEN, packed).map(|_| ())
    }

    /// Runs a wave through the filter and appends the resulting packets to `out`.
    pub(crate) fn up(&mut self, wave: Wave<'_>, out: &mut Vec<Bytes>) -> Result<(), WasmError> {
        let up = self.up.as_ref().expect("invariant: only a filter is given waves");
        self.sandbox.refuel()?;
        let (pieces, count) = self.sandbox.place_pieces(wave.pieces)?;
        let packed = self.sandbox.call(abi::UP, up, (pieces, count, wave.tag, wave.now_ns))?;
        self.packets(abi::UP, packed, out)
    }

    /// Runs a packet on its way down through the filter and appends the resulting packets to `out`.
    pub(crate) fn down(&mut self, descent: Descent<'_>, out: &mut Vec<Bytes>) -> Result<(), WasmError> {
        let Some(down) = &self.down else {
            out.push(descent.payload.clone());
            return Ok(());
        };
        self.sandbox.refuel()?;
        let [(payload, bytes)] = self.sandbox.place([descent.payload])?;
        let packed = self.sandbox.call(abi::DOWN, down, (payload, bytes, descent.tag, descent.now_ns))?;
        self.packets(abi::DOWN, packed, out)
    }

    /// Returns the oldest tag of the data that the filter holds.
    pub(crate) fn holds_from(&mut self) -> Result<Option<u64>, WasmError> {
        let Some(holds_from) = &self.holds_from else { return Ok(None) };
        self.sandbox.refuel()?;
        let tag = self.sandbox.call(abi::HOLDS_FROM, holds_from, ())?;
        Ok((tag != abi::HOLDS_NOTHING).then_some(tag))
    }

    /// Announces to the filter that a source takes part from now on.
    pub(crate) fn joined(&mut self, source: Source) -> Result<(), WasmError> {
        let Some(joined) = &self.joined else { return Ok(()) };
        self.sandbox.refuel()?;
        self.sandbox.call(abi::JOINED, joined, numbers(source))
    }

    /// Announces to the filter that a source is lost, and its heirs.
    pub(crate) fn replaced(&mut self, lost: Source, heirs: &[Source]) -> Result<(), WasmError> {
        let Some(replaced) = &self.replaced else { return Ok(()) };
        self.sandbox.refuel()?;
        let pairs = heirs.iter().map(|&heir| numbers(heir));
        let records: Vec<u8> =
            pairs.flat_map(|(kind, number)| [kind, number]).flat_map(u32::to_le_bytes).collect();
        debug_assert_eq!(records.len(), heirs.len() * abi::SOURCE_BYTES);
        let [(heirs_at, _)] = self.sandbox.place([records.as_slice()])?;
        let (kind, number) = numbers(lost);
        self.sandbox.call(abi::REPLACED, replaced, (kind, number, heirs_at, heirs.len() as u32))
    }

    /// Appends the packets that a filter's function returned to `out`.
    fn packets(&self, name: &'static str, packed: u64, out: &mut Vec<Bytes>) -> Result<(), WasmError> {
        let (address, count) = self.sandbox.accepted(name, packed)?;
        let (packets, packets_max) = (count as usize, self.sandbox.limits().packets_max);
        if packets > packets_max {
            return Err(WasmError::TooManyPackets { function: name, packets, packets_max });
        }
        let records = self.sandbox.bytes_at(name, address, u64::from(count) * abi::PACKET_BYTES as u64)?;
        let extents = || {
            let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("invariant: half a record"));
            records
                .chunks_exact(abi::PACKET_BYTES)
                .map(move |record| (word(&record[..4]), word(&record[4..])))
        };
        let total = extents().map(|(_, bytes)| u64::from(bytes)).sum();
        self.sandbox.check_output(name, total)?;
        // One allocation, which all packets share.
        let mut all = BytesMut::with_capacity(total as usize);
        for (at, bytes) in extents() {
            all.extend_from_slice(self.sandbox.bytes_at(name, at, u64::from(bytes))?);
        }
        let mut all = all.freeze();
        out.extend(extents().map(|(_, bytes)| all.split_to(bytes as usize)));
        Ok(())
    }
}
