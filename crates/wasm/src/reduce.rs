//! A guest as the reduce of an aggregation.
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
use treefold_operators::{Codec, Operator, OperatorError, Outcome, Partition, Placement, Result};

/// A guest as an [`Operator`]; its bodies are raw unless it is put [over](Self::over) something.
pub struct GuestReduce {
    module: Module,
    native: Option<Arc<dyn Operator>>,
    placement: Placement,
    /// Instances that may serve again, the one used last on top; never more than threads that reduce.
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    instance: Instance,
    reduces_left: u32,
}

impl GuestReduce {
    pub(crate) fn new(module: Module) -> Self {
        Self { module, native: None, placement: Placement::Pool, idle: Mutex::default() }
    }

    /// The same, with the locals and the finish of `native`, and its codecs: a service's own, under a reduce that was
    /// sent to it.
    #[must_use]
    pub fn over(mut self, native: Arc<dyn Operator>) -> Self {
        self.native = Some(native);
        self
    }

    /// The same, run elsewhere. By default a guest runs on a worker, also when it was quick so far: what it will take
    /// the next time is bounded by `fuel_max` only, and a node's loop should not wait for that.
    #[must_use]
    pub fn placed(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
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

    /// All of them as one, by one instance and with the fuel of one invocation; `None` of none.
    pub(crate) fn folded<'a>(
        &self,
        mut partials: impl Iterator<Item = &'a Bytes>,
        params: &[u8],
    ) -> Result<Option<Bytes>, WasmError> {
        let Some(first) = partials.next() else { return Ok(None) };
        let Some(second) = partials.next() else { return Ok(Some(first.clone())) };
        self.run(|instance| {
            instance.refuel()?;
            let both = instance.reduce(first, second, params)?;
            partials.try_fold(both, |sum, next| instance.reduce(&sum, next, params)).map(Some)
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

impl Operator for GuestReduce {
    fn local(&self, partition: &Partition, params: &Bytes) -> Outcome {
        match &self.native {
            Some(native) => native.local(partition, params),
            None => Outcome::Now(Err(OperatorError::new(format!(
                "module {:?} is a reduce; the locals of {partition:?} are its service's",
                self.module.id()
            )))),
        }
    }

    fn reduce(&self, a: Bytes, b: Bytes, params: &Bytes) -> Outcome {
        Outcome::Now(self.reduced(&a, &b, params).map_err(OperatorError::from))
    }

    fn finish(&self, partial: Bytes, params: &Bytes) -> Result<Bytes> {
        match &self.native {
            Some(native) => native.finish(partial, params),
            None => Ok(partial),
        }
    }

    fn placement(&self) -> Placement {
        self.placement
    }

    fn holds_processor(&self) -> bool {
        self.native.as_ref().is_none_or(|native| native.holds_processor())
    }

    fn codecs(&self) -> (Codec, Codec) {
        self.native.as_ref().map_or((Codec::Raw, Codec::Raw), |native| native.codecs())
    }
}

impl fmt::Debug for GuestReduce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuestReduce")
            .field("module", &self.module)
            .field("over_native", &self.native.is_some())
            .field("placement", &self.placement)
            .finish_non_exhaustive()
    }
}
