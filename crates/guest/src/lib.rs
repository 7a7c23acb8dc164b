//! What a reduce or a filter is written with when it is to be sent to a running cluster, as WebAssembly.
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
//! In a crate of type `cdylib`, built by `cargo build --release --target wasm32-unknown-unknown`, that is a whole
//! guest. The bytes that a node and a guest exchange are specified in `docs/wasm.md`; this crate is one way to write
//! them, and depends on nothing. `crates/guest/examples` has a reduce and a filter; a guest's logic is ordinary Rust
//! and is tested natively, where the macros expand to nothing.
//!
//! A map of the code:
//!
//! - [`Reduce`] and [`Filter`], the two things that a guest can be, and what they are given.
//! - [`export_reduce!`] and [`export_filter!`], which make a type the guest's one export.
//! - `packed`: what a guest's functions return, as numbers.
//! - `raw`: the host's pointers as slices, and `heap`: where a guest's memory comes from. They have all the unsafe code
//!   there is, and that on wasm32 only.
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
#[cfg_attr(not(any(test, target_arch = "wasm32")), expect(dead_code, reason = "nobody packs natively"))]
mod packed;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod raw;
mod reduce;

pub use error::{Error, Result};
pub use filter::{Descent, Filter, Packets, Piece, Source, Wave};
pub use reduce::Reduce;
