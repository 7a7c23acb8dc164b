//! Operators sent while the cluster runs: reduces and filters compiled to WebAssembly.
//!
//! A node receives an operator that it was not built with as bytes: a *guest*. The guest is named by the
//! SHA-256 of its bytes, so it is pushed once, and every node that lacks it can fetch it. This crate checks
//! and runs such bytes. It has no network and no clock; the driver decides where guests are sent.
//!
//! ```text
//!  bytes ─▶ Modules::compile ─▶ Module ─┬─▶ operator() ─▶ dyn Operator     a reduce
//!           one cache per node          ├─▶ filter()   ─▶ dyn FilterKind   a filter, or a reduce over each wave
//!                                       └─▶ function() ─▶ dyn Function     a filter over the events of a feed
//! ```
//!
//! A guest is untrusted code, so every file here follows one rule: **a faulty guest costs only the wave that
//! it fails on**. A guest can import nothing, so it can reach nothing outside. Its memory, its stack, its
//! instructions, its packets and their bytes are bounded by [`Limits`]. Every number that it returns is
//! checked before it is used, and each kind of failure is a separate [`WasmError`]. Instructions are bounded
//! by counting them, not by the clock. So a guest that fails on one node fails on all, and fails again when a
//! recording is replayed.
//!
//! ```
//! use treefold_operators::Operator;
//! use treefold_wasm::{Engine, Limits};
//!
//! let engine = Engine::new(Limits::default())?;
//! // the shortest guest: it returns the first of two partials
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
//! - [`limits`]: all bounds, by name.
//! - `abi`: the names and types that a guest and a node agree on; `docs/wasm.md` is the specification.
//! - `contract`: checks that a module follows them, before any of its code runs.
//! - [`engine`], [`module`]: turn bytes into a [`Module`].
//! - [`modules`]: the modules that a process holds, each compiled once.
//! - `sandbox`: a guest's memory and fuel: its input, its output, and all checks of them.
//! - `instance`: a running guest, with one method for each function of the ABI.
//! - [`reduce`], [`filter`], [`function`]: guests as operators, filters and functions of rules.
//! - [`inspect`](mod@inspect): describes a file, and says why a node would refuse it.
#![forbid(unsafe_code)]

mod abi;
mod budget;
mod contract;
pub mod engine;
pub mod error;
pub mod filter;
pub mod function;
mod id;
pub mod inspect;
mod instance;
pub mod limits;
pub mod module;
pub mod modules;
pub mod reduce;
mod sandbox;
mod survey;

pub use abi::{ABI_VERSION, Kind};
pub use engine::Engine;
pub use error::WasmError;
pub use id::{BadModuleId, ModuleId};
pub use inspect::{Inspection, inspect};
pub use limits::Limits;
pub use module::Module;
pub use modules::Modules;
