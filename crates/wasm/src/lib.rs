//! Operators sent while the cluster runs: reduces and filters compiled to WebAssembly.
//!
//! An operator that a node was not built with comes to it as bytes: a *guest*, named by the SHA-256 of what it is, so
//! that it is pushed once and fetched by whoever lacks it. Here is what a node does with such bytes. It has no network
//! and no clock; who sends them where is the driver's business.
//!
//! ```text
//!  bytes ─▶ Modules::compile ─▶ Module ─┬─▶ operator() ─▶ dyn Operator     a reduce
//!           one cache per node          └─▶ filter()   ─▶ dyn FilterKind   a filter, or a reduce over each wave
//! ```
//!
//! A guest is somebody else's program, so this is the rule that every file here serves: **whatever a guest does costs
//! the wave it does it to, and nothing else**. It can import nothing, so it can reach nothing; its memory, its stack,
//! its instructions, its packets and their bytes are bounded by [`Limits`]; every number that it returns is checked
//! before it is used; and each of its misdeeds is a [`WasmError`] of its own. Instructions are bounded by counting
//! them and not by the clock, so that what fails on one node fails on all, and fails again when a recording is
//! replayed.
//!
//! ```
//! use treefold_operators::Operator;
//! use treefold_wasm::{Engine, Limits};
//!
//! let engine = Engine::new(Limits::default())?;
//! // the shortest guest there is: of two partials, the first
//! let first = engine.compile(wat::parse_str(r#"(module (memory (export "memory") 1)
//!     (func (export "treefold_abi_v1"))
//!     (func (export "treefold_alloc") (param i32) (result i32) i32.const 8)
//!     (func (export "treefold_reduce") (param i32 i32 i32 i32 i32 i32) (result i64)
//!         (i64.or (i64.shl (i64.extend_i32_u (local.get 0)) (i64.const 32)) (i64.extend_i32_u (local.get 1)))))"#)?)?;
//! let partial = first.operator()?.reduce("a".into(), "b".into(), &"".into()).now().unwrap().unwrap();
//! assert_eq!(partial, "a");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A map of the code:
//!
//! - [`limits`]: every bound there is, by name.
//! - `abi`: the names and types that a guest and a node agree on; `docs/wasm.md` is the specification.
//! - `contract`: whether a module keeps to them, before anything of it runs.
//! - [`engine`], [`module`]: bytes into a [`Module`].
//! - [`modules`]: the modules that a process holds, each compiled once.
//! - `sandbox`: a guest's memory and fuel: what goes in, what comes out, and every check between.
//! - `instance`: a guest that runs: the functions of the ABI, one method each.
//! - [`reduce`], [`filter`]: guests as operators and filters.
//! - [`inspect`](mod@inspect): what a file is, and why a node would refuse it.
#![forbid(unsafe_code)]

mod abi;
mod budget;
mod contract;
pub mod engine;
pub mod error;
pub mod filter;
mod id;
pub mod inspect;
mod instance;
pub mod limits;
pub mod module;
pub mod modules;
pub mod reduce;
mod sandbox;

pub use abi::{ABI_VERSION, Kind};
pub use engine::Engine;
pub use error::WasmError;
pub use id::{BadModuleId, ModuleId};
pub use inspect::{Inspection, inspect};
pub use limits::Limits;
pub use module::Module;
pub use modules::Modules;
