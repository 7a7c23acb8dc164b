//! Operators that stand in for WebAssembly: their bytes are the name of a built-in filter or of a ready reduce.

use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use treefold::OperatorError;
use treefold::foreign::{Foreign, Loaded};
use treefold::operators::filter::builtin;
use treefold::push::ready;

/// Makes operators of names, and counts them.
#[derive(Default)]
pub(crate) struct Names {
    loaded: AtomicU64,
    takes: Duration,
}

impl Names {
    /// Takes as long as a compiler for each operator.
    pub(crate) fn taking(takes: Duration) -> Self {
        Self { takes, ..Self::default() }
    }

    /// The number of operators made so far.
    pub(crate) fn loaded(&self) -> u64 {
        self.loaded.load(Ordering::Relaxed)
    }
}

impl Foreign for Names {
    fn load(&self, bytes: &Bytes) -> Result<Loaded, OperatorError> {
        self.loaded.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(self.takes);
        let name = std::str::from_utf8(bytes).map_err(|_| OperatorError::new("it is no text"))?;
        assert_ne!(name, "panic", "as told");
        let name = name.trim_end();
        let reduce = ready::reduces().find(|(ready, _)| *ready == name).map(|(_, reduce)| reduce);
        let kind = if reduce.is_some() { "reduce" } else { "filter" };
        // A reduce is a filter too, which no test opens.
        let filter = builtin(if reduce.is_some() { "sum" } else { name })
            .ok_or_else(|| OperatorError::new(format!("{name:?} is no filter")))?;
        Ok(Loaded { kind, made_bytes: 0, filter, reduce })
    }
}
