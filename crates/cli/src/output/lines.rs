//! Many lines to standard output, written by a thread of their own.
//!
//! While a program does not read, a write to its pipe blocks. Here it blocks only this thread: the command waits for room
//! with [`Lines::send`], and meanwhile obeys signals.

use super::{Format, safe};
use std::io::{self, Write};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Bytes that are handed over together, unless the command sends earlier.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks that wait for the thread.
const CHUNKS_MAX: usize = 4;
/// Time that the last lines may take when a signal ends the command.
const END_WITHIN: Duration = Duration::from_secs(1);

/// Lines for standard output.
pub struct Lines {
    filled: Vec<u8>,
    chunks: mpsc::Sender<Vec<u8>>,
    written: oneshot::Receiver<io::Result<()>>,
}

impl Lines {
    /// Starts the thread that writes lines of this format.
    pub fn start(format: Format) -> io::Result<Self> {
        let (chunks, mut taken) = mpsc::channel::<Vec<u8>>(CHUNKS_MAX);
        let (ended, written) = oneshot::channel();
        std::thread::Builder::new().name("stdout".to_owned()).spawn(move || {
            let write = |chunk: Vec<u8>| {
                let chunk = String::from_utf8_lossy(&chunk);
                let chunk = match format {
                    Format::Text => safe::text(&chunk),
                    Format::Json => safe::json(&chunk),
                };
                let mut out = io::stdout().lock();
                out.write_all(chunk.as_bytes()).and_then(|()| out.flush())
            };
            let result = std::iter::from_fn(|| taken.blocking_recv()).try_for_each(write);
            // Nobody listens if the command has ended meanwhile.
            let _ = ended.send(result);
        })?;
        Ok(Self { filled: Vec::with_capacity(CHUNK_BYTES), chunks, written })
    }

    /// The bytes that are not sent yet, to which the command appends lines.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.filled
    }

    /// True if so much is appended that it should be sent.
    pub fn is_full(&self) -> bool {
        self.filled.len() >= CHUNK_BYTES
    }

    /// Sends what is appended, when the thread has room for it. If this future is dropped, nothing is lost.
    ///
    /// # Errors
    /// That of an earlier write. Nothing can be sent after it.
    pub async fn send(&mut self) -> io::Result<()> {
        if self.filled.is_empty() {
            return Ok(());
        }
        match self.chunks.reserve().await {
            Ok(room) => {
                room.send(std::mem::replace(&mut self.filled, Vec::with_capacity(CHUNK_BYTES)));
                Ok(())
            }
            Err(_) => Err(failure((&mut self.written).await)),
        }
    }

    /// Writes what is left. Returns false if standard output has not taken it in a second.
    ///
    /// # Errors
    /// That of a write.
    pub async fn finish(mut self) -> io::Result<bool> {
        let finished = async {
            self.send().await?;
            drop(self.chunks);
            self.written.await.unwrap_or(Ok(()))
        };
        match tokio::time::timeout(END_WITHIN, finished).await {
            Ok(result) => result.map(|()| true),
            Err(_) => Ok(false),
        }
    }
}

/// The error of a thread that ended while chunks might still come.
fn failure(ended: Result<io::Result<()>, oneshot::error::RecvError>) -> io::Error {
    match ended {
        Ok(Err(error)) => error,
        Ok(Ok(())) | Err(_) => io::Error::other("the thread that writes has ended"),
    }
}
