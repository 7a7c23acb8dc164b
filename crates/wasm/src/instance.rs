//! A guest that runs: the functions of the ABI, one method each.
//!
//! One invocation is a call of `treefold_alloc` for all that goes in, one copy into the room it gives, the call
//! itself, and one copy of what it gives. What goes in lies in one block:
//!
//! ```text
//!   reduce   │ a … │ b … │ params … │
//!   up       │ records of the pieces │ payload … │ payload … │ …       each part at a multiple of 8
//! ```
//!
//! An instance whose invocation failed otherwise than by its own word is not
//! invoked again; who holds it drops it.

use crate::abi;
use crate::budget::Budget;
use crate::error::WasmError;
use crate::sandbox::{Bounds, Sandbox, numbers};
use bytes::{Bytes, BytesMut};
use std::sync::Arc;
use treefold_operators::filter::{Descent, Source, Wave};
use wasmtime::{InstancePre, ModuleExport, TypedFunc};

/// Where a module's exports are, so that an instance need not look for them by name.
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

/// `(a, its bytes, b, its bytes, params, their bytes)`.
type Folding = TypedFunc<(u32, u32, u32, u32, u32, u32), u64>;
/// `(pieces or payload, how many, tag, now_ns)`.
type Passing = TypedFunc<(u32, u32, u64, u64), u64>;

/// One guest with a memory of its own.
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
    /// A guest with the memory that its module was sent with.
    pub(crate) fn new(
        pre: &InstancePre<Bounds>,
        exports: &Exports,
        budget: &Arc<Budget>,
    ) -> Result<Self, WasmError> {
        let (memory, alloc) =
            exports.memory.zip(exports.alloc).expect("invariant: the contract has seen both");
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

    /// Fuel for one more invocation.
    pub(crate) fn refuel(&mut self) -> Result<(), WasmError> {
        self.sandbox.refuel()
    }

    /// Two partials as one, with what fuel there is.
    pub(crate) fn reduce(&mut self, a: &[u8], b: &[u8], params: &[u8]) -> Result<Bytes, WasmError> {
        let reduce = self.reduce.as_ref().expect("invariant: only a reduce is asked to reduce");
        let [(a, a_bytes), (b, b_bytes), (params, params_bytes)] = self.sandbox.place([a, b, params])?;
        let packed =
            self.sandbox.call(abi::REDUCE, reduce, (a, a_bytes, b, b_bytes, params, params_bytes))?;
        let (address, number) = self.sandbox.accepted(abi::REDUCE, packed)?;
        self.sandbox.check_output(abi::REDUCE, u64::from(number))?;
        self.sandbox.bytes_at(abi::REDUCE, address, u64::from(number)).map(Bytes::copy_from_slice)
    }

    /// Begins a filter.
    pub(crate) fn open(&mut self, params: &[u8]) -> Result<(), WasmError> {
        let open = self.open.as_ref().expect("invariant: only a filter is opened");
        self.sandbox.refuel()?;
        let [(params, params_bytes)] = self.sandbox.place([params])?;
        let packed = self.sandbox.call(abi::OPEN, open, (params, params_bytes))?;
        self.sandbox.accepted(abi::OPEN, packed).map(|_| ())
    }

    /// What a filter makes of a wave, appended to `out` unless this fails.
    pub(crate) fn up(&mut self, wave: Wave<'_>, out: &mut Vec<Bytes>) -> Result<(), WasmError> {
        let up = self.up.as_ref().expect("invariant: only a filter is given waves");
        self.sandbox.refuel()?;
        let (pieces, count) = self.sandbox.place_pieces(wave.pieces)?;
        let packed = self.sandbox.call(abi::UP, up, (pieces, count, wave.tag, wave.now_ns))?;
        self.packets(abi::UP, packed, out)
    }

    /// What a filter makes of a packet on its way down, appended to `out` unless this fails.
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

    /// The oldest tag of which a filter still holds something.
    pub(crate) fn holds_from(&mut self) -> Result<Option<u64>, WasmError> {
        let Some(holds_from) = &self.holds_from else { return Ok(None) };
        self.sandbox.refuel()?;
        let tag = self.sandbox.call(abi::HOLDS_FROM, holds_from, ())?;
        Ok((tag != abi::HOLDS_NOTHING).then_some(tag))
    }

    /// Tells a filter who takes part from now on.
    pub(crate) fn joined(&mut self, source: Source) -> Result<(), WasmError> {
        let Some(joined) = &self.joined else { return Ok(()) };
        self.sandbox.refuel()?;
        self.sandbox.call(abi::JOINED, joined, numbers(source))
    }

    /// Tells a filter that one of its sources has gone, and who comes in its place.
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

    /// The packets that a filter's function gave.
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
        // One allocation, of which every packet is a part.
        let mut all = BytesMut::with_capacity(total as usize);
        for (at, bytes) in extents() {
            all.extend_from_slice(self.sandbox.bytes_at(name, at, u64::from(bytes))?);
        }
        let mut all = all.freeze();
        out.extend(extents().map(|(_, bytes)| all.split_to(bytes as usize)));
        Ok(())
    }
}
