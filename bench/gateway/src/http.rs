//! A bare HTTP client: one connection, one request at a time, and no more of the protocol than the servers here use.

use crate::Problem;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Room for a response.
const RESPONSE_BYTES_MAX: usize = 64 << 10;

/// A connection that is kept.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(addr: SocketAddr) -> Result<Self, Problem> {
        let stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4 << 10) })
    }

    /// Sends a request and reads the whole response. Returns its status.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> Result<u16, Problem> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let mut response_bytes = None;
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("the server closed the connection".into());
            }
            if response_bytes.is_none() {
                response_bytes = response_length(&self.buffer)?;
            }
            if response_bytes.is_some_and(|length| self.buffer.len() >= length) {
                return status(&self.buffer);
            }
            if self.buffer.len() > RESPONSE_BYTES_MAX {
                return Err(format!("a response of more than {RESPONSE_BYTES_MAX} bytes").into());
            }
        }
    }
}

/// A request with a body in JSON.
pub(crate) fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn status(response: &[u8]) -> Result<u16, Problem> {
    let digits = response.get(9..12).ok_or("a response without a status")?;
    Ok(std::str::from_utf8(digits)?.parse()?)
}

/// The bytes of a response with its head. `None` if its head is not complete yet.
fn response_length(response: &[u8]) -> Result<Option<usize>, Problem> {
    const FIELD: &str = "content-length:";
    let Some(end) = memchr::memmem::find(response, b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&response[..end])?.to_ascii_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix(FIELD)).ok_or("a response without a length")?;
    Ok(Some(end + 4 + length.trim().parse::<usize>()?))
}
