//! A guest, checked and compiled, ready to be run any number of times.

use crate::abi::Kind;
use crate::budget::Budget;
use crate::error::WasmError;
use crate::filter::GuestFilterKind;
use crate::id::ModuleId;
use crate::instance::{Exports, Instance};
use crate::limits::Limits;
use crate::reduce::GuestReduce;
use crate::sandbox::Bounds;
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use treefold_operators::{FilterKind, Operator};
use wasmtime::InstancePre;

/// A guest, compiled; a clone shares it. Whoever holds one keeps it, also when a cache has let it go.
#[derive(Clone)]
pub struct Module(Arc<Compiled>);

struct Compiled {
    id: ModuleId,
    bytes: Bytes,
    kind: Kind,
    pre: InstancePre<Bounds>,
    exports: Exports,
    budget: Arc<Budget>,
}

impl Module {
    pub(crate) fn new(
        id: ModuleId,
        bytes: Bytes,
        kind: Kind,
        pre: InstancePre<Bounds>,
        exports: Exports,
        budget: Arc<Budget>,
    ) -> Self {
        Self(Arc::new(Compiled { id, bytes, kind, pre, exports, budget }))
    }

    /// What it is called.
    pub fn id(&self) -> ModuleId {
        self.0.id
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Its bytes as they were sent, to send them on.
    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    /// Bytes that it takes here: as sent, and as compiled.
    pub fn held_bytes(&self) -> usize {
        let image = self.0.pre.module().image_range();
        self.0.bytes.len() + (image.end.addr() - image.start.addr())
    }

    /// The limits it is run with.
    pub fn limits(&self) -> &Limits {
        &self.0.budget.limits
    }

    /// The reduce that it is. Locals it has none: see [`GuestReduce::over`].
    ///
    /// # Errors
    /// [`WasmError::WrongKind`].
    pub fn reduce(&self) -> Result<GuestReduce, WasmError> {
        self.expect(Kind::Reduce)?;
        Ok(GuestReduce::new(self.clone()))
    }

    /// [`reduce`](Self::reduce), as nodes hold it.
    ///
    /// # Errors
    /// [`WasmError::WrongKind`].
    pub fn operator(&self) -> Result<Arc<dyn Operator>, WasmError> {
        Ok(Arc::new(self.reduce()?.folding()))
    }

    /// The kind of filter that it is, for streams. A reduce is one too: it folds each wave into one packet.
    pub fn filter(&self) -> Arc<dyn FilterKind> {
        match self.0.kind {
            Kind::Filter => Arc::new(GuestFilterKind::new(self.clone())),
            Kind::Reduce => Arc::new(GuestReduce::new(self.clone()).folding()),
        }
    }

    fn expect(&self, wanted: Kind) -> Result<(), WasmError> {
        if self.0.kind == wanted {
            Ok(())
        } else {
            Err(WasmError::WrongKind { id: self.0.id, found: self.0.kind, wanted })
        }
    }

    /// A guest of its own, with the memory that the module was sent with.
    pub(crate) fn instantiate(&self) -> Result<Instance, WasmError> {
        Instance::new(&self.0.pre, &self.0.exports, &self.0.budget)
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({:?}, {}, {} bytes)", self.0.id, self.0.kind, self.0.bytes.len())
    }
}
