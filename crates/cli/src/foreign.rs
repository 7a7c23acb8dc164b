//! Operators in WebAssembly: compiles the modules that nodes receive.
//!
//! The library carries operators without knowing their format, and [`treefold_wasm`] does not know how
//! modules travel; this module connects the two. A process has one engine for all its nodes, created when the
//! first module comes, because an engine reserves addresses for a thousand guests.

use bytes::Bytes;
use std::sync::{Arc, LazyLock};
use treefold::OperatorError;
use treefold::foreign::{Foreign, Loaded};
use treefold_feed::operating::FunctionLoader;
use treefold_mirror::MirrorLimits;
use treefold_mirror::rules::Function;
use treefold_wasm::{Engine, Kind, Limits, Modules, WasmError};

static MODULES: LazyLock<Result<Modules, WasmError>> =
    LazyLock::new(|| Engine::new(Limits::default()).map(Modules::new));

/// Returns the loader with which this process's nodes and direct clients make operators of modules.
pub fn guests() -> Arc<dyn Foreign> {
    Arc::new(Guests)
}

/// Modules of functions have an engine of their own, because their limits are narrower.
static FUNCTIONS: LazyLock<Result<Modules, WasmError>> =
    LazyLock::new(|| Engine::new(Limits::FUNCTIONS).map(Modules::new));

/// Returns the loader with which an origin makes functions of rules.
pub fn functions() -> FunctionLoader {
    Arc::new(|bytes| {
        let modules = FUNCTIONS.as_ref().map_err(ToString::to_string)?;
        let module = modules.compile(bytes.clone()).map_err(|error| error.to_string())?;
        let function = module.function(MirrorLimits::DEFAULT).map_err(|error| error.to_string())?;
        Ok(Box::new(function) as Box<dyn Function>)
    })
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
