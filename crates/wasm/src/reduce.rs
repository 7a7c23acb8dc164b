//! A guest as a [`Fold`]: the reduce of calls and pushes, and a filter that makes one packet of each wave.
//!
//! A reduce has no state, and this is enforced: every invocation gets a new instance with the module's
//! initial memory. The runtime keeps memories ready and undoes a guest's writes instead of creating new
//! memories, so this costs some microseconds (measured by `cargo bench -p treefold-wasm`). For a trusted
//! guest, an instance may serve several invocations: see [`reduces_per_instance_max`](crate::Limits).

use crate::error::WasmError;
use crate::instance::Instance;
use crate::module::Module;
use bytes::Bytes;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use treefold_operators::fold::{Fold, Piece};
use treefold_operators::{Codec, Folding, Operator, OperatorError, Placement, Result, over};

/// A guest that is a reduce.
pub struct GuestReduce {
    module: Module,
    /// Instances that may serve again, with the last used one on top. There are never more than there are
    /// reducing threads.
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    instance: Instance,
    reduces_left: u32,
}

impl GuestReduce {
    pub(crate) fn new(module: Module) -> Self {
        Self { module, idle: Mutex::default() }
    }

    /// Converts it to an operator: for streams, calls and pushes. Its bodies are raw.
    ///
    /// It runs on a worker, even if it has been quick so far. Only `fuel_max` bounds its next run, and a
    /// node's loop should not wait for that.
    pub fn folding(self) -> Folding<GuestFold> {
        let reduce = Arc::new(self);
        let open =
            move |params: &Bytes| Ok(GuestFold { reduce: Arc::clone(&reduce), params: params.clone() });
        Folding::new("", open).placed(Placement::Pool)
    }

    /// Combines this reduce with the locals, the finish and the codecs of `native`, a service's own operator.
    #[must_use]
    pub fn over(self, native: Arc<dyn Operator>) -> Arc<dyn Operator> {
        over(Arc::new(self.folding()), native)
    }

    /// Returns the module that it runs.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Merges two partials into one.
    ///
    /// # Errors
    /// Any failure of the guest. It affects only this invocation.
    pub fn reduced(&self, a: &[u8], b: &[u8], params: &[u8]) -> Result<Bytes, WasmError> {
        self.run(|instance| {
            instance.refuel()?;
            instance.reduce(a, b, params)
        })
    }

    /// Folds all pieces into one, with one instance and the fuel of one invocation.
    fn folded(&self, pieces: &[Piece], params: &[u8]) -> Result<Bytes, WasmError> {
        let [first, others @ ..] = pieces else { return Ok(Bytes::new()) };
        if others.is_empty() {
            return Ok(first.payload.clone());
        }
        self.run(|instance| {
            instance.refuel()?;
            let reduce = |sum: Bytes, next: &Piece| instance.reduce(&sum, &next.payload, params);
            others.iter().try_fold(first.payload.clone(), reduce)
        })
    }

    fn run<T>(&self, work: impl FnOnce(&mut Instance) -> Result<T, WasmError>) -> Result<T, WasmError> {
        let reduces_max = self.module.limits().reduces_per_instance_max;
        let kept = if reduces_max > 1 { self.idle().pop() } else { None };
        let mut idle = match kept {
            Some(idle) => idle,
            None => Idle { instance: self.module.instantiate()?, reduces_left: reduces_max },
        };
        let result = work(&mut idle.instance);
        idle.reduces_left -= 1;
        if idle.reduces_left > 0 && result.as_ref().err().is_none_or(WasmError::leaves_state_sound) {
            self.idle().push(idle);
        }
        result
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Idle>> {
        // No operation on the list can leave it half changed, so a poisoned lock is harmless.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A guest that is a reduce, with its parameters.
#[derive(Debug)]
pub struct GuestFold {
    reduce: Arc<GuestReduce>,
    params: Bytes,
}

impl Fold for GuestFold {
    const CODECS: (Codec, Codec) = (Codec::Raw, Codec::Raw);

    fn fold(&self, pieces: &[Piece]) -> Result<Bytes> {
        self.reduce.folded(pieces, &self.params).map_err(OperatorError::from)
    }
}

impl fmt::Debug for GuestReduce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuestReduce").field("module", &self.module).finish_non_exhaustive()
    }
}
