//! An event-driven tree: what a wave costs a server that must wait for many peers at once.
//!
//! Every process has one thread, which waits in epoll, and non-blocking sockets. When a socket is readable,
//! the process reads until a read is short. It forwards the orders it has read to all children, with one write
//! for each child, and adds the sums of children to their waves as they come. At the end of a turn it answers
//! its parent with one write. Waves carry numbers, so children need not answer in step.
//!
//! Normally, the launcher is a client of the root, and the root is another process, as in Treefold. It can also
//! be the root itself, as the front-end of a stream is.
//!
//! - [`frame`]: the bytes of orders and sums.
//! - [`poll`]: the three system calls of epoll.
//! - [`link`]: a non-blocking socket, with bytes that are not yet sent or not yet a frame.
//! - [`waves`]: the open waves, by number.
//! - [`below`]: the children of a process, and the waves that wait for them.
//! - [`node`]: the loop of every process except the launcher.
//! - [`client`]: the launcher.

mod below;
mod client;
mod frame;
mod link;
mod node;
mod poll;
mod waves;

pub(crate) use client::Client;
pub(crate) use node::serve;
