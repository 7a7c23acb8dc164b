//! The bytes of orders and sums: a fixed header, then the order or the sum.
//!
//! | bytes | content, little-endian |
//! |---|---|
//! | 0–7 | number of the wave; the launcher counts from 0 |
//! | 8–15 | number of the tree ([`Place::tree_number`](crate::tree::Place::tree_number)) |
//! | 16–47 | going down: the order |
//! | 16–23 | going up: the sum |
//!
//! A node knows its place in the tree since its start, so the number of the tree suffices.

use crate::tree::{ORDER_BYTES, Order, SUM_BYTES};
use std::io;

/// Bytes of the header.
const HEADER_BYTES: usize = 16;
/// Bytes of a frame that goes down.
pub(crate) const ORDER_FRAME_BYTES: usize = HEADER_BYTES + ORDER_BYTES;
/// Bytes of a frame that goes up.
pub(crate) const SUM_FRAME_BYTES: usize = HEADER_BYTES + SUM_BYTES;

/// Appends the frame of an order.
pub(crate) fn write_order(frames: &mut Vec<u8>, wave: u64, tree: u64, order: Order) {
    write_header(frames, wave, tree);
    frames.extend_from_slice(&order.to_bytes());
}

/// Appends the frame of a sum.
pub(crate) fn write_sum(frames: &mut Vec<u8>, wave: u64, tree: u64, sum: u64) {
    write_header(frames, wave, tree);
    frames.extend_from_slice(&sum.to_le_bytes());
}

fn write_header(frames: &mut Vec<u8>, wave: u64, tree: u64) {
    frames.extend_from_slice(&wave.to_le_bytes());
    frames.extend_from_slice(&tree.to_le_bytes());
}

/// Returns an order and the number of its wave.
///
/// # Errors
/// If the frame is of another tree or has no order: the stream is then out of step.
pub(crate) fn read_order(frame: &[u8; ORDER_FRAME_BYTES], tree: u64) -> io::Result<(u64, Order)> {
    let wave = read_header(frame, tree)?;
    let (_, order) = frame.split_last_chunk().expect("a frame ends with an order");
    let order = Order::from_bytes(order).ok_or_else(|| invalid("received bytes that are not an order"))?;
    Ok((wave, order))
}

/// Returns the number of a wave and a sum.
///
/// # Errors
/// If the frame is of another tree.
pub(crate) fn read_sum(frame: &[u8; SUM_FRAME_BYTES], tree: u64) -> io::Result<(u64, u64)> {
    Ok((read_header(frame, tree)?, number_at(frame, HEADER_BYTES)))
}

fn read_header(frame: &[u8], tree: u64) -> io::Result<u64> {
    let of_tree = number_at(frame, 8);
    if of_tree == tree {
        Ok(number_at(frame, 0))
    } else {
        Err(invalid(&format!("expected a frame of tree {tree:#x}, found one of {of_tree:#x}")))
    }
}

fn number_at(frame: &[u8], at: usize) -> u64 {
    let bytes = frame[at..].first_chunk().expect("a frame has the numbers of its table");
    u64::from_le_bytes(*bytes)
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_their_bytes() {
        let mut bytes = Vec::new();
        write_order(&mut bytes, 7, 9, Order::Sum(5));
        let frame: [u8; ORDER_FRAME_BYTES] = bytes[..].try_into().unwrap();
        assert_eq!(read_order(&frame, 9).unwrap(), (7, Order::Sum(5)));
        bytes.clear();
        write_sum(&mut bytes, 7, 9, u64::MAX);
        let frame: [u8; SUM_FRAME_BYTES] = bytes[..].try_into().unwrap();
        assert_eq!(read_sum(&frame, 9).unwrap(), (7, u64::MAX));
    }

    #[test]
    fn a_frame_of_another_tree_and_garbage_are_refused() {
        let mut bytes = Vec::new();
        write_sum(&mut bytes, 7, 9, 1);
        let frame: [u8; SUM_FRAME_BYTES] = bytes[..].try_into().unwrap();
        let refused = read_sum(&frame, 10).unwrap_err().to_string();
        assert_eq!(refused, "expected a frame of tree 0xa, found one of 0x9");
        assert!(read_order(&[0; ORDER_FRAME_BYTES], 0).is_err(), "0 is no order");
    }
}
