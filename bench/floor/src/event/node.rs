//! The loop of every process except the launcher.

use super::below::Below;
use super::frame::{ORDER_FRAME_BYTES, read_order, write_sum};
use super::link::{Link, READ_BYTES};
use super::poll::Poll;
use crate::branches::join;
use crate::options::Seat;
use crate::tree::Place;
use std::io;
use std::net::TcpStream;

/// Token of the parent's link.
const PARENT: u64 = u64::MAX;

/// Takes its seat and serves until the parent closes the connection.
///
/// # Errors
/// An error of the system, a lost parent or child, or invalid bytes. The parent then sees this node's connection
/// close, and the whole tree ends.
pub(crate) fn serve(seat: &Seat) -> io::Result<()> {
    let (parent, mut branches) = join(seat)?;
    // Declared after `branches`, so that its sockets close first.
    let mut node = Node::new(seat.place, parent, branches.take_sockets())?;
    loop {
        node.turn()?;
    }
}

struct Node {
    place: Place,
    poll: Poll,
    parent: Link,
    below: Below,
    buffer: Box<[u8; READ_BYTES]>,
    /// Frames of the sums that are complete in this turn.
    answers: Vec<u8>,
}

impl Node {
    fn new(place: Place, parent: TcpStream, children: Vec<TcpStream>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let parent = Link::new(parent, PARENT, &poll)?;
        let below = Below::new(children, place.tree_number(), &poll)?;
        Ok(Self { place, poll, parent, below, buffer: Box::new([0; READ_BYTES]), answers: Vec::new() })
    }

    /// Waits, does the work of all ready sockets, and answers the parent.
    fn turn(&mut self) -> io::Result<()> {
        let Self { place, poll, parent, below, buffer, answers } = self;
        let tree = place.tree_number();
        answers.clear();
        for at in 0..poll.wait()? {
            let ready = poll.ready(at);
            if ready.token != PARENT {
                below.turn(ready, poll, buffer, |wave, sum| write_sum(answers, wave, tree, sum))?;
                continue;
            }
            parent.turn::<ORDER_FRAME_BYTES>(ready, poll, buffer, |frames| {
                below.send(frames.as_flattened(), poll)?;
                for frame in frames {
                    let (wave, order) = read_order(frame, tree)?;
                    let share = order.share(place.number);
                    if below.is_empty() {
                        write_sum(answers, wave, tree, share);
                    } else {
                        below.open(wave, share)?;
                    }
                }
                Ok(())
            })?;
        }
        if answers.is_empty() {
            return Ok(());
        }
        parent.send(answers, poll)
    }
}
