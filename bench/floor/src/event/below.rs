//! The children of a process, and the waves that wait for their sums.

use super::frame::{SUM_FRAME_BYTES, read_sum};
use super::link::{Link, READ_BYTES};
use super::poll::{Poll, Ready};
use super::waves::Waves;
use std::io;
use std::net::TcpStream;

/// Links to children, whose tokens are 0, 1, 2, …
pub(crate) struct Below {
    links: Vec<Link>,
    waves: Waves,
    /// Number of the tree.
    tree: u64,
}

impl Below {
    pub(crate) fn new(sockets: Vec<TcpStream>, tree: u64, poll: &Poll) -> io::Result<Self> {
        let links = (0..).zip(sockets).map(|(token, socket)| Link::new(socket, token, poll));
        Ok(Self { links: links.collect::<io::Result<_>>()?, waves: Waves::default(), tree })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Sends the same frames to every child, with one write each.
    pub(crate) fn send(&mut self, frames: &[u8], poll: &Poll) -> io::Result<()> {
        self.links.iter_mut().try_for_each(|link| link.send(frames, poll))
    }

    /// Opens a wave that waits for all children, with the process's own share.
    ///
    /// # Errors
    /// As [`Waves::open`].
    pub(crate) fn open(&mut self, wave: u64, share: u64) -> io::Result<()> {
        self.waves.open(wave, share, self.links.len())
    }

    /// Does the work of a child's socket. Passes the number and the sum of each wave that ends to `ended`.
    ///
    /// # Errors
    /// A lost or invalid child, or an error of the system.
    pub(crate) fn turn(
        &mut self,
        ready: Ready,
        poll: &Poll,
        buffer: &mut [u8; READ_BYTES],
        mut ended: impl FnMut(u64, u64),
    ) -> io::Result<()> {
        let Self { links, waves, tree } = self;
        let at = usize::try_from(ready.token).expect("tokens of children are their places in `links`");
        links[at].turn::<SUM_FRAME_BYTES>(ready, poll, buffer, |frames| {
            for frame in frames {
                let (wave, sum) = read_sum(frame, *tree)?;
                if let Some(sum) = waves.add(wave, sum)? {
                    ended(wave, sum);
                }
            }
            Ok(())
        })
    }
}
