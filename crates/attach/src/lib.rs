//! Treefold's C interface, over [`treefold_network::attach`](mod@treefold_network::attach). `include/treefold.h` is made
//! from this crate.
//!
//! A C program owns only opaque handles: its place in the network, streams, packets, rows. Pointers cross
//! the boundary in one of three ways: a handle is lent for a call, a place for a result is filled, or a
//! handle is given back for good. `boundary` implements all three. The other files contain no unsafe code
//! except the statement which of the three applies.
//!
//! Invariants:
//!
//! - No panic unwinds into C: `guard` is the outermost call of every function that can panic.
//! - Every argument is checked before anything else is done, and the error names the bad one.
//! - A place for a result is filled if the function returns `TREEFOLD_OK`. Otherwise it holds null or its
//!   old value.
//! - Threads that this library starts have all signals blocked (`signals`). Signal handlers therefore run
//!   on the program's own threads, and writing to a dead peer gives an error code instead of a `SIGPIPE`.
//!
//! One C mistake cannot be detected: a pointer that is neither null nor valid.
#![allow(non_camel_case_types, reason = "the names are C's")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the callers' obligations are stated in the header's own words, which these are"
)]

mod bell;
mod boundary;
mod code;
mod connection;
mod front;
mod hub;
mod network;
mod number;
mod packet;
mod raising;
mod row;
mod signals;
mod stream;
mod wave;

pub use code::{
    TREEFOLD_MESSAGE_BYTES, treefold_code, treefold_error, treefold_error_message, treefold_version,
};
pub use connection::{
    treefold_connect, treefold_connecting, treefold_connection, treefold_connection_clear,
    treefold_connection_fd, treefold_disconnect, treefold_endpoint_addr, treefold_recv_any,
};
pub use front::{
    treefold_front, treefold_front_close, treefold_front_endpoints, treefold_front_recv, treefold_front_send,
    treefold_front_send_row, treefold_front_send_to, treefold_open, treefold_opening,
    treefold_synchronisation,
};
pub use network::{
    treefold_accept, treefold_attach, treefold_attached, treefold_attachment, treefold_detach,
    treefold_event_clear, treefold_event_fd,
};
pub use number::{treefold_packet_numbers, treefold_packet_type, treefold_row_numbers, treefold_type};
pub use packet::{
    treefold_packet, treefold_packet_blob, treefold_packet_f64, treefold_packet_f64s, treefold_packet_fields,
    treefold_packet_free, treefold_packet_i64, treefold_packet_i64s, treefold_packet_str,
    treefold_packet_u64,
};
pub use raising::{treefold_raising, treefold_up};
pub use row::{
    treefold_row, treefold_row_blob, treefold_row_clear, treefold_row_f64, treefold_row_f64s,
    treefold_row_free, treefold_row_i64, treefold_row_i64s, treefold_row_new, treefold_row_str,
    treefold_row_u64, treefold_send_row, treefold_send_row_tagged,
};
pub use stream::{
    treefold_recv, treefold_send, treefold_send_tagged, treefold_stream, treefold_stream_close,
    treefold_stream_endpoint, treefold_stream_params,
};
pub use wave::{
    treefold_wave, treefold_wave_contributors, treefold_wave_free, treefold_wave_missing,
    treefold_wave_packet, treefold_wave_reason,
};
