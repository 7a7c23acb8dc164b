//! Reads a connection of Redis or NATS: lines, and parts of a known length, as slices of one buffer.

use std::io::{self, ErrorKind, Read};
use treefold_bench_down::clock::now_ns;

/// Bytes that are read at once, if there are as many.
const READ_BYTES: usize = 256 << 10;

/// A connection's incoming bytes.
#[derive(Debug)]
pub(crate) struct Wire<R> {
    stream: R,
    buffer: Vec<u8>,
    at: usize,
    filled: usize,
    /// The time of the last read.
    read_ns: u64,
}

impl<R: Read> Wire<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self { stream, buffer: vec![0; READ_BYTES], at: 0, filled: 0, read_ns: 0 }
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.at > 0 {
            self.buffer.copy_within(self.at..self.filled, 0);
            self.filled -= self.at;
            self.at = 0;
        }
        if self.filled == self.buffer.len() {
            self.buffer.resize(2 * self.filled, 0);
        }
        let read = self.stream.read(&mut self.buffer[self.filled..])?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.filled += read;
        self.read_ns = now_ns();
        Ok(())
    }

    /// The next line, without its end.
    pub(crate) fn line(&mut self) -> io::Result<&[u8]> {
        let mut looked = 0;
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer[self.at + looked..self.filled]) {
                let line = self.at..self.at + looked + end;
                self.at = line.end + 1;
                let line = &self.buffer[line];
                return Ok(line.strip_suffix(b"\r").unwrap_or(line));
            }
            looked = self.filled - self.at;
            self.fill()?;
        }
    }

    /// The next `bytes` bytes, and a line's end behind them.
    pub(crate) fn part(&mut self, bytes: usize) -> io::Result<&[u8]> {
        self.timed_part(bytes).map(|(part, _)| part)
    }

    /// As [`part`](Self::part), with the time at which its last byte was read.
    pub(crate) fn timed_part(&mut self, bytes: usize) -> io::Result<(&[u8], u64)> {
        while self.filled - self.at < bytes + 2 {
            self.fill()?;
        }
        let part = self.at..self.at + bytes;
        self.at = part.end + 2;
        Ok((&self.buffer[part], self.read_ns))
    }
}

/// A decimal number.
pub(crate) fn decimal(digits: &[u8]) -> io::Result<usize> {
    let text = std::str::from_utf8(digits).map_err(|_| invalid("a number"))?;
    text.trim().parse().map_err(|_| invalid("a number"))
}

/// The error of an answer that is not as expected.
pub(crate) fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("the server's answer is not {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a byte at a time.
    struct Slow(&'static [u8]);

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some((&first, rest)) = self.0.split_first() else { return Ok(0) };
            (buffer[0], self.0) = (first, rest);
            Ok(1)
        }
    }

    #[test]
    fn lines_and_parts_are_read_from_torn_reads() {
        let mut wire = Wire::new(Slow(b"$5\r\na\r\nbc\r\n:7\r\n"));
        assert_eq!(wire.line().unwrap(), b"$5");
        assert_eq!(wire.part(5).unwrap(), b"a\r\nbc");
        assert_eq!(decimal(&wire.line().unwrap()[1..]).unwrap(), 7);
        assert!(wire.line().is_err());
    }
}
