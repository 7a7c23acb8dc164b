//! A non-blocking socket to a parent or a child.
//!
//! A write that the kernel takes only in part leaves its rest in the link, which is sent when the socket is
//! writable. A read that ends within a frame leaves the beginning of the frame in the link.

use super::frame::ORDER_FRAME_BYTES;
use super::poll::{Poll, Ready};
use crate::options::DEPTH_MAX;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

/// Most bytes that wait to be sent: a frame for each wave in flight.
const UNSENT_BYTES_MAX: usize = DEPTH_MAX as usize * ORDER_FRAME_BYTES;
/// Bytes of a buffer for reads, which all links of a process share.
pub(crate) const READ_BYTES: usize = 16 << 10;

/// A socket with its unfinished writes and reads.
pub(crate) struct Link {
    socket: TcpStream,
    /// Reported with the socket's readiness.
    token: u64,
    /// Beginning of a frame whose end has not arrived.
    begun: Vec<u8>,
    /// Bytes that the kernel has not taken.
    unsent: Vec<u8>,
}

impl Link {
    /// Makes a socket non-blocking and adds it to `poll`.
    pub(crate) fn new(socket: TcpStream, token: u64, poll: &Poll) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        poll.add(&socket, token)?;
        Ok(Self { socket, token, begun: Vec::new(), unsent: Vec::new() })
    }

    /// Sends bytes with one write, or keeps those that the kernel does not take.
    ///
    /// # Errors
    /// An error of the system, or a peer that does not read.
    pub(crate) fn send(&mut self, bytes: &[u8], poll: &Poll) -> io::Result<()> {
        let sent = if self.unsent.is_empty() { write(&mut self.socket, bytes)? } else { 0 };
        let rest = &bytes[sent..];
        if rest.is_empty() {
            return Ok(());
        }
        if self.unsent.len() + rest.len() > UNSENT_BYTES_MAX {
            let reason = format!("a peer has not read {UNSENT_BYTES_MAX} bytes");
            return Err(io::Error::new(ErrorKind::OutOfMemory, reason));
        }
        if self.unsent.is_empty() {
            poll.watch_writes(&self.socket, self.token, true)?;
        }
        self.unsent.extend_from_slice(rest);
        Ok(())
    }

    /// Does the work of a socket that is ready: sends kept bytes, and hands all whole frames that have arrived
    /// to `take`. Reads until a read is short.
    ///
    /// # Errors
    /// [`ErrorKind::UnexpectedEof`] at the end of the stream, an error of the system, or one of `take`.
    pub(crate) fn turn<const FRAME_BYTES: usize>(
        &mut self,
        ready: Ready,
        poll: &Poll,
        buffer: &mut [u8; READ_BYTES],
        mut take: impl FnMut(&[[u8; FRAME_BYTES]]) -> io::Result<()>,
    ) -> io::Result<()> {
        if ready.can_write && !self.unsent.is_empty() {
            let sent = write(&mut self.socket, &self.unsent)?;
            self.unsent.drain(..sent);
            if self.unsent.is_empty() {
                poll.watch_writes(&self.socket, self.token, false)?;
            }
        }
        if !ready.can_read {
            return Ok(());
        }
        loop {
            let begun = self.begun.len();
            buffer[..begun].copy_from_slice(&self.begun);
            let read = match self.socket.read(&mut buffer[begun..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let (frames, rest) = buffer[..begun + read].as_chunks();
            self.begun.clear();
            self.begun.extend_from_slice(rest);
            if !frames.is_empty() {
                take(frames)?;
            }
            if begun + read < READ_BYTES {
                return Ok(());
            }
        }
    }
}

/// Writes once. Returns the number of bytes that the kernel has taken, which may be 0.
fn write(socket: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match socket.write(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_nodelay(true).unwrap();
        (near, listener.accept().unwrap().0)
    }

    /// Waits once, and returns the frames of four bytes that arrived.
    fn frames_of_a_turn(link: &mut Link, poll: &mut Poll) -> io::Result<Vec<[u8; 4]>> {
        let mut frames = Vec::new();
        for at in 0..poll.wait()? {
            link.turn::<4>(poll.ready(at), poll, &mut [0; READ_BYTES], |some| {
                frames.extend_from_slice(some);
                Ok(())
            })?;
        }
        Ok(frames)
    }

    #[test]
    fn a_frame_is_taken_when_its_last_byte_has_arrived() {
        let (mut far, near) = pair();
        let mut poll = Poll::new().unwrap();
        let mut link = Link::new(near, 3, &poll).unwrap();
        far.write_all(b"abcdef").unwrap();
        assert_eq!(frames_of_a_turn(&mut link, &mut poll).unwrap(), [*b"abcd"]);
        far.write_all(b"g").unwrap();
        assert!(frames_of_a_turn(&mut link, &mut poll).unwrap().is_empty());
        far.write_all(b"hijkl").unwrap();
        assert_eq!(frames_of_a_turn(&mut link, &mut poll).unwrap(), [*b"efgh", *b"ijkl"]);
        drop(far);
        let ended = frames_of_a_turn(&mut link, &mut poll).unwrap_err();
        assert_eq!(ended.kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn bytes_that_the_kernel_does_not_take_are_sent_later_and_are_bounded() {
        let (far, near) = pair();
        let mut poll = Poll::new().unwrap();
        let mut link = Link::new(near, 3, &poll).unwrap();
        let (numbers, mut sent) = (u32::MAX.to_le_bytes().repeat(256), 0);
        while link.unsent.is_empty() {
            link.send(&numbers, &poll).unwrap();
            sent += numbers.len();
        }
        let refused = loop {
            match link.send(&numbers, &poll) {
                Ok(()) => sent += numbers.len(),
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused.to_string(), "a peer has not read 49152 bytes");

        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            (&far).take(sent as u64).read_to_end(&mut all).unwrap();
            (all, far)
        });
        while !link.unsent.is_empty() {
            assert!(frames_of_a_turn(&mut link, &mut poll).unwrap().is_empty());
        }
        let (all, _far) = reader.join().unwrap();
        assert!(all.len() == sent && all.iter().all(|&byte| byte == u8::MAX));
    }
}
