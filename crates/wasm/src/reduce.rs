//! A guest as a [`Fold`]: the reduce of calls and pushes, and a filter that makes one packet of each wave.
//!
//! A reduce has no state, and here that is a fact and not a promise: every invocation gets an instance of its own, with
//! the memory that the module was sent with. The runtime keeps memories ready and undoes what a guest wrote instead of
//! making new ones, so that this costs some microseconds (`cargo bench -p treefold-wasm` says how many). Who trusts a
//! guest may let an instance serve several times, by [`reduces_per_instance_max`](crate::Limits).

use crate::error::WasmError;
use crate::instance::Instance;
use crate::module::Module;
use bytes::Bytes;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use treefold_operators::fold::{Fold, Piece};
use treefold_operators::{Codec, Folding, Operator, OperatorError, Placement, Result, over};

/// A guest that reduces.
pub struct GuestReduce {
    module: Module,
    /// Instances that may serve again, the one used last on top; never more than threads that reduce.
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

    /// It as an operator: for streams, and for calls and pushes. Its bodies are raw.
    ///
    /// It runs on a worker, also when it was quick so far: what it will take the next time is bounded by `fuel_max` only,
    /// and a node's loop should not wait for that.
    pub fn folding(self) -> Folding<GuestFold> {
        let reduce = Arc::new(self);
        let open =
            move |params: &Bytes| Ok(GuestFold { reduce: Arc::clone(&reduce), params: params.clone() });
        Folding::new("", open).placed(Placement::Pool)
    }

    /// The same, with the locals and the finish of `native`, and its codecs: a service's own, under a reduce that was
    /// sent to it.
    #[must_use]
    pub fn over(self, native: Arc<dyn Operator>) -> Arc<dyn Operator> {
        over(Arc::new(self.folding()), native)
    }

    /// The module that it runs.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Two partials as one.
    ///
    /// # Errors
    /// Whatever the guest does that it should not; it matters to nothing but this invocation.
    pub fn reduced(&self, a: &[u8], b: &[u8], params: &[u8]) -> Result<Bytes, WasmError> {
        self.run(|instance| {
            instance.refuel()?;
            instance.reduce(a, b, params)
        })
    }

    /// All of them as one, by one instance and with the fuel of one invocation.
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
        // a list is whole between any two of its operations
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A guest that reduces, and its parameters.
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
