//! A guest as a stream's filter.
//!
//! Each stream has at each node an instance of its own, whose memory is the filter's state, so streams can't see each
//! other however alike they are. When the guest itself says that a wave is in error, it stays as it is. When it ends
//! otherwise (a panic, no fuel left) nobody knows what state it is in: it is dropped, and opened anew for the next
//! wave, and the error of the wave that it broke at says that what it remembered is lost.

use crate::error::WasmError;
use crate::instance::Instance;
use crate::module::Module;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::fmt;
use treefold_operators::filter::{Descent, Filter, FilterKind, Source, Wave};
use treefold_operators::{OperatorError, Placement, Result};

/// A guest as a [`FilterKind`].
#[derive(Clone, Debug)]
pub struct GuestFilterKind {
    module: Module,
}

impl GuestFilterKind {
    pub(crate) fn new(module: Module) -> Self {
        Self { module }
    }
}

impl FilterKind for GuestFilterKind {
    fn open(&self, params: &Bytes) -> Result<Box<dyn Filter>> {
        let instance = opened(&self.module, params)?;
        let (module, params) = (self.module.clone(), params.clone());
        let (sources, holds_from) = (BTreeSet::new(), None);
        Ok(Box::new(GuestFilter { module, params, instance: Some(instance), sources, holds_from }))
    }

    /// On a worker, also when it was quick so far: what it will take the next time is bounded by `fuel_max` only.
    fn placement(&self) -> Placement {
        Placement::Pool
    }
}

fn opened(module: &Module, params: &[u8]) -> Result<Instance, WasmError> {
    let mut instance = module.instantiate()?;
    instance.open(params)?;
    Ok(instance)
}

/// One stream's filter at one node.
struct GuestFilter {
    module: Module,
    params: Bytes,
    /// `None` after it broke, until the next wave.
    instance: Option<Instance>,
    /// Who takes part: a guest that begins anew is told of them again.
    sources: BTreeSet<Source>,
    /// What the guest said last; asking it again changes nothing, and a reader has no right to run it.
    holds_from: Option<u64>,
}

impl GuestFilter {
    fn anew(&self) -> Result<Instance, WasmError> {
        let mut instance = opened(&self.module, &self.params)?;
        self.sources.iter().try_for_each(|&source| instance.joined(source))?;
        Ok(instance)
    }

    fn run<T>(&mut self, work: impl FnOnce(&mut Instance) -> Result<T, WasmError>) -> Result<T> {
        let mut instance = match self.instance.take() {
            Some(instance) => instance,
            None => self.anew()?,
        };
        let asked = work(&mut instance).and_then(|done| Ok((done, instance.holds_from()?)));
        match asked {
            Ok((done, holds_from)) => {
                (self.instance, self.holds_from) = (Some(instance), holds_from);
                Ok(done)
            }
            Err(error) if error.leaves_state_sound() => {
                self.instance = Some(instance);
                Err(error.into())
            }
            Err(error) => {
                self.holds_from = None;
                Err(OperatorError::caused_by("the filter begins anew, without what it remembered", error))
            }
        }
    }
}

impl Filter for GuestFilter {
    fn up(&mut self, wave: Wave<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        self.run(|instance| instance.up(wave, out)).inspect_err(|_| out.clear())
    }

    fn down(&mut self, descent: Descent<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        self.run(|instance| instance.down(descent, out)).inspect_err(|_| out.clear())
    }

    fn holds_from(&self) -> Option<u64> {
        self.holds_from
    }

    fn joined(&mut self, source: Source) {
        // First, since one that begins anew here is told by that.
        let is_new = self.instance.is_some();
        self.sources.insert(source);
        let _ = self.run(|instance| if is_new { instance.joined(source) } else { Ok(()) });
    }

    fn replaced(&mut self, lost: Source, heirs: &[Source]) {
        self.sources.remove(&lost);
        self.sources.extend(heirs);
        // There is no wave to put an error on: a guest that breaks here begins anew with the next one.
        let _ = self.run(|instance| instance.replaced(lost, heirs));
    }
}

impl fmt::Debug for GuestFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GuestFilter({:?})", self.module)
    }
}
