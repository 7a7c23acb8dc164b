//! A library for writing reduces and filters in WebAssembly that are sent to a running cluster.
//!
//! ```
//! use treefold_guest::{Error, Reduce, Result, export_reduce};
//!
//! /// The greater of two numbers.
//! struct Greatest;
//!
//! impl Reduce for Greatest {
//!     fn reduce(a: &[u8], b: &[u8], _params: &[u8], out: &mut Vec<u8>) -> Result {
//!         let number = |bytes: &[u8]| {
//!             bytes.try_into().map(i64::from_le_bytes).map_err(|_| Error::new("a partial is 8 bytes"))
//!         };
//!         out.extend(number(a)?.max(number(b)?).to_le_bytes());
//!         Ok(())
//!     }
//! }
//!
//! export_reduce!(Greatest);
//! ```
//!
//! In a crate of type `cdylib`, built with `cargo build --release --target wasm32-unknown-unknown`, this is a
//! complete guest. `docs/wasm.md` specifies the bytes that a node and a guest exchange. This crate is one way
//! to write them, and it has no dependencies. `crates/guest/examples` contains a reduce and a filter. A
//! guest's logic is ordinary Rust and is tested natively, where the macros expand to nothing.
//!
//! A map of the code:
//!
//! - [`Reduce`] and [`Filter`]: the two kinds of guests, and their arguments.
//! - [`export_reduce!`] and [`export_filter!`]: make a type the guest's only export.
//! - `packed`: the return values of a guest's functions, as numbers.
//! - `raw`: the host's pointers as slices. `heap`: the guest's memory allocator. Only these two contain
//!   unsafe code, and only on wasm32.
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod error;
mod export;
mod filter;
#[cfg(any(test, all(target_arch = "wasm32", feature = "heap")))]
mod heap;
#[cfg_attr(
    not(any(test, target_arch = "wasm32")),
    expect(dead_code, reason = "only wasm32 code packs results")
)]
mod packed;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod raw;
mod reduce;

pub use error::{Error, Result};
pub use filter::{Descent, Filter, Packets, Piece, Source, Wave};
pub use reduce::Reduce;

/// The programs in this crate's page of the documentation, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/wasm.md")]
struct Page;
