//! Treefold's C interface, over [`treefold_network::attach`](mod@treefold_network::attach): `include/treefold.h` is made from this crate.
//!
//! A C program owns opaque handles and nothing else of ours: a place in the network, streams, packets, rows. Everything
//! that crosses does so in one of three ways, and `boundary` has them: a handle is lent for a call, a place is filled,
//! a handle is given back for good. All other files are safe but for saying which of the three it is.
//!
//! Invariants: no panic unwinds into C (`guard` is the outermost call of every function that can panic); every
//! argument is looked at before anything is done, and a bad one is named; a place that a result goes to is filled when
//! the function returns `TREEFOLD_OK`, and otherwise holds null or what it held. Threads that are started here have all
//! signals blocked, so that handlers run on the program's own, and so that a peer's death is an error code on a write
//! and not a `SIGPIPE` (`signals`).
//!
//! What C can break all the same: a pointer that is neither null nor what it is said to be.
#![allow(non_camel_case_types, reason = "the names are C's")]
#![allow(
    clippy::missing_safety_doc,
    reason = "what callers owe is in the header's own words, which these are"
)]

mod bell;
mod boundary;
mod code;
mod network;
mod packet;
mod row;
mod signals;
mod stream;

pub use code::{
    TREEFOLD_MESSAGE_BYTES, treefold_code, treefold_error, treefold_error_message, treefold_version,
};
pub use network::{
    treefold_accept, treefold_attach, treefold_attached, treefold_attachment, treefold_detach,
    treefold_event_clear, treefold_event_fd,
};
pub use packet::{
    treefold_packet, treefold_packet_blob, treefold_packet_f64, treefold_packet_f64s, treefold_packet_fields,
    treefold_packet_free, treefold_packet_i64, treefold_packet_i64s, treefold_packet_str,
    treefold_packet_u64,
};
pub use row::{
    treefold_row, treefold_row_blob, treefold_row_clear, treefold_row_f64, treefold_row_f64s,
    treefold_row_free, treefold_row_i64, treefold_row_i64s, treefold_row_new, treefold_row_str,
    treefold_row_u64, treefold_send_row, treefold_send_row_tagged,
};
pub use stream::{
    treefold_recv, treefold_send, treefold_send_tagged, treefold_stream, treefold_stream_close,
    treefold_stream_endpoint, treefold_stream_params,
};
