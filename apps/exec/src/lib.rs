//! Makes an aggregation of a command-line tool, without code.
//!
//! A local is a command in a process of its own, for each call and partition. Its standard output is the
//! partial. A reduce is ready-made ([`Ready`]), or a command too. This is the process-attached operator of the
//! papers.
//!
//! ```text
//!  parameters ──▶ Template ──arguments, standard input──▶ process, in a group of its own
//!                                                            │ standard output, bounded
//!                  partial ◀──merge── partial ◀──lift────────┘
//! ```
//!
//! - **A caller chooses a value, not a command.** The command line is split into words once, when the service
//!   is opened. Placeholders are substituted in single words afterwards, so a query is never more than one
//!   argument, and no shell reads it.
//! - **A process ends with its call.** The operator is a future. If it is dropped (the deadline, a cancelled
//!   call), the whole group of the process is killed at once.
//! - **Everything is bounded**: parameters, output, kept standard error, address space. The node's queue bounds
//!   the number of processes, because a process holds one of its processors.
//! - **The same output gives the same answer in every tree.** Each ready reduce first brings an output into its
//!   normal form (lift), so that a single partition answers in the same form as many.
//!
//! A map of the code: [`template`] splits command lines and substitutes. [`params`] reads the parameters.
//! [`partial`] is the body that travels. `process` runs one process, on the thread of `runner`. [`reduce`] has
//! the ready reduces. [`exec`] joins them into the aggregation.

pub mod error;
pub mod exec;
pub mod params;
pub mod partial;
mod process;
pub mod reduce;
mod runner;
pub mod template;

pub use error::{RunError, SpecError};
pub use exec::{Exec, Limits, Reduce, Spec, declared};
pub use reduce::{Order, Ready};

/// The name of the aggregation of every exec service.
pub const AGGREGATION: &str = "run";
