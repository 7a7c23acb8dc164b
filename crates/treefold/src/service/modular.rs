//! An operator whose reduce is a module: it is sent to the nodes that are to fold, and has no locals there.

use crate::foreign::{Foreign, Loading, Sent, filter_name};
use bytes::Bytes;
use std::any::TypeId;
use std::sync::Arc;
use treefold_operators::{
    Codec, Declared, Operator, OperatorError, Outcome, Partition, Placement, ReduceParams, Result, Slice,
};

/// Makes an operator of a module's bytes.
pub(super) fn load(bytes: Bytes, foreign: Option<&Arc<dyn Foreign>>) -> Result<Arc<Sent>, String> {
    let foreign = foreign.ok_or("this node was built without support for modules")?;
    let loading = Loading { ticket: 0, foreign: Arc::clone(foreign), expected: None, bytes };
    loading.load().map_err(|problem| problem.to_string())
}

/// An operator with these locals, which `waits` if they do: the folds then run on a thread, and not on the loop.
pub(super) fn with_locals(
    sent: Arc<Sent>,
    locals: Arc<dyn Operator>,
    waits: bool,
) -> Result<Arc<dyn Operator>, String> {
    let reduce = reduce_of(&sent)?;
    Ok(Arc::new(Modular { sent, reduce, locals, waits }))
}

/// An operator that folds, and has no locals.
pub(super) fn fold_only(sent: Arc<Sent>) -> Result<Arc<dyn Operator>, String> {
    let reduce = reduce_of(&sent)?;
    let locals = ReduceParams::OfReduce.given_to(Arc::clone(&reduce));
    Ok(Arc::new(Modular { sent, reduce, locals, waits: false }))
}

fn reduce_of(sent: &Sent) -> Result<Arc<dyn Operator>, String> {
    let reduce = sent.loaded.reduce.clone();
    reduce.ok_or_else(|| format!("{} is a {}; a reduce is needed", filter_name(sent.id), sent.loaded.kind))
}

struct Modular {
    /// Keeps the module on the node's shelf, from which other nodes fetch it.
    sent: Arc<Sent>,
    reduce: Arc<dyn Operator>,
    locals: Arc<dyn Operator>,
    waits: bool,
}

impl Modular {
    fn fold(&self, fold: impl FnOnce(&dyn Operator) -> Outcome + Send + 'static) -> Outcome {
        if !self.waits {
            return fold(&*self.reduce);
        }
        let reduce = Arc::clone(&self.reduce);
        let folded =
            move || fold(&*reduce).now().unwrap_or_else(|| Err(OperatorError::new("the module waits")));
        Outcome::Later(Box::pin(async move {
            match tokio::task::spawn_blocking(folded).await {
                Ok(folded) => folded,
                Err(ended) => match ended.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => Err(OperatorError::cancelled()),
                },
            }
        }))
    }
}

impl Operator for Modular {
    fn local(&self, partition: &Partition, params: &Bytes) -> Outcome {
        self.locals.local(partition, params)
    }

    fn gives_slices(&self) -> bool {
        self.locals.gives_slices()
    }

    fn local_slice(&self, partition: &Partition, slice: Slice, params: &Bytes, reduce: &Bytes) -> Outcome {
        self.locals.local_slice(partition, slice, params, reduce)
    }

    fn local_sliced(&self, partition: &Partition, slices: u32, params: &Bytes) -> Result<Vec<Bytes>> {
        self.locals.local_sliced(partition, slices, params)
    }

    fn reduce(&self, a: Bytes, b: Bytes, params: &Bytes) -> Outcome {
        let params = params.clone();
        self.fold(move |reduce| reduce.reduce(a, b, &params))
    }

    fn reduce_all(&self, parts: Vec<Bytes>, params: &Bytes) -> Outcome {
        let params = params.clone();
        self.fold(move |reduce| reduce.reduce_all(parts, &params))
    }

    fn reduces_in_pairs(&self) -> bool {
        self.reduce.reduces_in_pairs()
    }

    fn finish(&self, partial: Bytes, params: &Bytes) -> Result<Bytes> {
        self.locals.finish(partial, params)
    }

    fn placement(&self) -> Placement {
        match self.locals.placement() {
            Placement::Inline => Placement::Measured,
            other => other,
        }
    }

    fn holds_processor(&self) -> bool {
        self.locals.holds_processor()
    }

    fn is_sliceable(&self) -> bool {
        self.locals.is_sliceable()
    }

    fn join(&self, parts: Vec<Bytes>, params: &Bytes) -> Result<Bytes> {
        self.locals.join(parts, params)
    }

    fn declared(&self) -> Option<Declared> {
        Some(Declared { reduce: filter_name(self.sent.id), params: ReduceParams::OfReduce })
    }

    fn codecs(&self) -> (Codec, Codec) {
        self.locals.codecs()
    }

    fn types(&self) -> Option<[(TypeId, &'static str); 2]> {
        self.locals.types()
    }
}
