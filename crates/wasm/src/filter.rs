//! A guest as a stream's filter.
//!
//! Each stream has a separate instance at each node, whose memory is the filter's state. So streams can't see
//! each other's data, even if they use the same guest. If the guest returns an error for a wave, the instance
//! is kept. If it ends in any other way (a panic, no fuel left), its state is unknown. The instance is then
//! dropped and opened anew for the next wave, and the error of the failed wave says that the state is lost.

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

    /// On a worker, even if it has been quick so far: only `fuel_max` bounds its next run.
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
    /// `None` after a failure, until the next wave.
    instance: Option<Instance>,
    /// The sources that take part. A guest that begins anew learns them again.
    sources: BTreeSet<Source>,
    /// The guest's last `holds_from`. A reader has no mutable access to run the guest, and the value stays
    /// valid until the next run.
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
                Err(OperatorError::caused_by("the filter restarts without its state", error))
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
        // Checked first: if the guest begins anew here, that also announces the source, which is in `sources`
        // by then.
        let is_new = self.instance.is_some();
        self.sources.insert(source);
        let _ = self.run(|instance| if is_new { instance.joined(source) } else { Ok(()) });
    }

    fn replaced(&mut self, lost: Source, heirs: &[Source]) {
        self.sources.remove(&lost);
        self.sources.extend(heirs);
        // There is no wave to attach an error to. A guest that fails here begins anew with the next wave.
        let _ = self.run(|instance| instance.replaced(lost, heirs));
    }
}

impl fmt::Debug for GuestFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GuestFilter({:?})", self.module)
    }
}
