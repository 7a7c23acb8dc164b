//! Operators in WebAssembly: compiles the modules that nodes receive.
//!
//! The library carries operators without knowing their format, and [`treefold_wasm`] does not know how
//! modules travel; this module connects the two. A process has one engine for all its nodes, created when the
//! first module comes, because an engine reserves addresses for a thousand guests.

use bytes::Bytes;
use std::sync::{Arc, LazyLock};
use treefold::OperatorError;
use treefold::foreign::{Foreign, Loaded};
use treefold_wasm::{Engine, Kind, Limits, Modules, WasmError};

static MODULES: LazyLock<Result<Modules, WasmError>> =
    LazyLock::new(|| Engine::new(Limits::default()).map(Modules::new));

/// Returns the loader with which this process's nodes and direct clients make operators of modules.
pub fn guests() -> Arc<dyn Foreign> {
    Arc::new(Guests)
}

struct Guests;

impl Foreign for Guests {
    fn load(&self, bytes: &Bytes) -> Result<Loaded, OperatorError> {
        let modules = MODULES.as_ref().map_err(WasmError::clone)?;
        let module = modules.compile(bytes.clone())?;
        let (kind, reduce) = match module.kind() {
            Kind::Reduce => ("reduce", Some(module.operator()?)),
            Kind::Filter => ("filter", None),
        };
        let made_bytes = module.held_bytes() - bytes.len();
        Ok(Loaded { kind, made_bytes, filter: module.filter(), reduce })
    }
}
