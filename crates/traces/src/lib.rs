//! Traces of calls: one trace for a call, one span for each node of its tree.
//!
//! ```text
//!  traceparent ─▶ context ─▶ sampler ─▶ the call, with explain ─▶ EndedCall
//!                                                                     │ never waits
//!                            collector, file ◀─ spans ◀─ worker ◀─ queue
//! ```
//!
//! - [`context`] reads and writes the W3C headers `traceparent` and `tracestate`.
//! - [`sampling`] decides which calls are traced: as the caller says, else a ratio; and never more than a rate.
//! - [`Traces`] is what a front uses: it begins and ends the traces of calls.
//! - [`settings`] has the targets, from options and from the variables of the OpenTelemetry specification.
//! - [`lines`] is a file of lines that cannot grow without bound.
//! - With the feature `otel`: `spans` makes spans of a call's report, `exporter` hands them over on a thread of its own,
//!   `collector` sends them by OTLP over HTTP, `file` writes them as the collector's file exporter does. Without it, a front
//!   can read contexts, but export nothing.
//!
//! Nodes know nothing of traces. A front asks for the report (`explain`), which is the same message on the wire.

mod call;
#[cfg(feature = "otel")]
mod collector;
pub mod context;
#[cfg_attr(not(feature = "otel"), path = "absent.rs")]
mod exporter;
#[cfg(feature = "otel")]
mod file;
pub mod lines;
pub mod sampling;
pub mod settings;
#[cfg(feature = "otel")]
mod spans;
mod traces;

pub use call::{Answered, EndedCall, Ending, Side};
pub use context::{Context, Parent};
pub use settings::{SettingsError, TraceSettings};
pub use traces::{Figures, StartError, Traces};
