//! Operators in WebAssembly: what makes filters of the modules that nodes are sent.
//!
//! The library does not know what the operators are that it carries about, and [`treefold_wasm`] does not know how
//! modules travel; here the two meet. There is one engine in a process, however many nodes it has, and none until the
//! first module comes: an engine reserves addresses for a thousand guests.

use bytes::Bytes;
use std::sync::{Arc, LazyLock};
use treefold::OperatorError;
use treefold::foreign::{Foreign, Loaded};
use treefold_wasm::{Engine, Kind, Limits, Modules, WasmError};

static MODULES: LazyLock<Result<Modules, WasmError>> =
    LazyLock::new(|| Engine::new(Limits::default()).map(Modules::new));

/// What nodes and direct clients of this process are given to make operators of bytes.
pub fn guests() -> Arc<dyn Foreign> {
    Arc::new(Guests)
}

struct Guests;

impl Foreign for Guests {
    fn load(&self, bytes: &Bytes) -> Result<Loaded, OperatorError> {
        let modules = MODULES.as_ref().map_err(WasmError::clone)?;
        let module = modules.compile(bytes.clone())?;
        let kind = match module.kind() {
            Kind::Reduce => "reduce",
            Kind::Filter => "filter",
        };
        let made_bytes = module.held_bytes() - bytes.len();
        Ok(Loaded { kind, made_bytes, filter: module.filter() })
    }
}
