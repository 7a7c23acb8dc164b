//! The loop of every process of a blocking tree except the root.
//!
//! It receives orders, forwards them unless the root has sent them to every node, receives sums, and sends the sum.
//!
//! All calls block; a node sleeps in the kernel and is woken by it, which is the least that a wave can cost.
//! Orders that have already arrived are taken together, so waves in flight share their system calls.

use crate::branches::join;
use crate::options::{DEPTH_MAX, Seat};
use crate::tree::{ORDER_BYTES, Order, SUM_BYTES};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

/// Takes its seat and serves until the parent closes the connection.
///
/// # Errors
/// An error of the system, a lost child, or invalid bytes. The parent then sees this node's connection close,
/// and the whole tree ends.
pub(crate) fn serve(seat: &Seat) -> io::Result<()> {
    let mut root = match seat.root_port {
        0 => None,
        port => Some(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?),
    };
    let (mut parent, mut branches) = join(seat)?;

    let mut orders = vec![0; DEPTH_MAX as usize * ORDER_BYTES];
    let mut filled_bytes = 0;
    let mut sums = Vec::new();
    let mut answer = Vec::new();
    loop {
        let read = root.as_mut().unwrap_or(&mut parent).read(&mut orders[filled_bytes..])?;
        if read == 0 {
            return Ok(());
        }
        filled_bytes += read;
        let whole_bytes = filled_bytes - filled_bytes % ORDER_BYTES;
        if whole_bytes == 0 {
            continue;
        }
        let batch = &orders[..whole_bytes];
        if root.is_none() {
            branches.send(batch)?;
        }
        own_shares(batch, seat.place.number, &mut sums)?;
        branches.fold(&mut sums)?;
        answer.clear();
        for sum in &sums {
            answer.extend_from_slice(&sum.to_le_bytes());
        }
        debug_assert_eq!(
            answer.len() / SUM_BYTES,
            batch.len() / ORDER_BYTES,
            "there must be one sum per order"
        );
        parent.write_all(&answer)?;
        orders.copy_within(whole_bytes..filled_bytes, 0);
        filled_bytes -= whole_bytes;
    }
}

/// Fills `sums` with this node's share of each order in the batch.
fn own_shares(batch: &[u8], number: u32, sums: &mut Vec<u64>) -> io::Result<()> {
    sums.clear();
    for bytes in batch.as_chunks::<ORDER_BYTES>().0 {
        let order = Order::from_bytes(bytes).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "received bytes that are not an order")
        })?;
        sums.push(order.share(number));
    }
    Ok(())
}
