//! A guest that is checked and compiled, and can be run any number of times.

use crate::abi::Kind;
use crate::budget::Budget;
use crate::error::WasmError;
use crate::filter::GuestFilterKind;
use crate::function::GuestFunction;
use crate::id::ModuleId;
use crate::instance::{Exports, Instance};
use crate::limits::Limits;
use crate::reduce::GuestReduce;
use crate::sandbox::Bounds;
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use treefold_mirror::MirrorLimits;
use treefold_operators::{FilterKind, Operator};
use wasmtime::InstancePre;

/// A compiled guest; a clone shares it. The owner of a clone keeps it, even if a cache has evicted it.
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

    /// Returns the module's name.
    pub fn id(&self) -> ModuleId {
        self.0.id
    }

    /// Returns the kind of guest.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Returns the module's bytes as they were sent, to send them on.
    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    /// Returns the bytes that the module takes here: as sent, and as compiled.
    pub fn held_bytes(&self) -> usize {
        let image = self.0.pre.module().image_range();
        self.0.bytes.len() + (image.end.addr() - image.start.addr())
    }

    /// Returns the limits with which it runs.
    pub fn limits(&self) -> &Limits {
        &self.0.budget.limits
    }

    /// Returns the module as a reduce. It has no locals: see [`GuestReduce::over`].
    ///
    /// # Errors
    /// [`WasmError::WrongKind`].
    pub fn reduce(&self) -> Result<GuestReduce, WasmError> {
        self.expect(Kind::Reduce)?;
        Ok(GuestReduce::new(self.clone()))
    }

    /// Returns [`reduce`](Self::reduce) as an operator, the form that nodes hold.
    ///
    /// # Errors
    /// [`WasmError::WrongKind`].
    pub fn operator(&self) -> Result<Arc<dyn Operator>, WasmError> {
        Ok(Arc::new(self.reduce()?.folding()))
    }

    /// Returns the module as a kind of filter, for streams. A reduce is one too: it folds each wave into one
    /// packet.
    pub fn filter(&self) -> Arc<dyn FilterKind> {
        match self.0.kind {
            Kind::Filter => Arc::new(GuestFilterKind::new(self.clone())),
            Kind::Reduce => Arc::new(GuestReduce::new(self.clone()).folding()),
        }
    }

    /// Returns a filter as the function of a rule. Events that it makes must be within these limits.
    ///
    /// # Errors
    /// [`WasmError::WrongKind`], or the guest's error when it is opened.
    pub fn function(&self, limits: MirrorLimits) -> Result<GuestFunction, WasmError> {
        self.expect(Kind::Filter)?;
        GuestFunction::open(self, limits)
    }

    fn expect(&self, wanted: Kind) -> Result<(), WasmError> {
        if self.0.kind == wanted {
            Ok(())
        } else {
            Err(WasmError::WrongKind { id: self.0.id, found: self.0.kind, wanted })
        }
    }

    /// Creates a separate instance with the module's initial memory.
    pub(crate) fn instantiate(&self) -> Result<Instance, WasmError> {
        Instance::new(&self.0.pre, &self.0.exports, &self.0.budget)
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({:?}, {}, {} bytes)", self.0.id, self.0.kind, self.0.bytes.len())
    }
}
