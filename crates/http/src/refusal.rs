//! The answer to a connection above the limit.

use std::io;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// The body of the answer 503 to a connection above the limit. The client is told to come again after a second.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The content type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl Refusal {
    pub(crate) async fn send(self, mut stream: TcpStream) -> io::Result<()> {
        let Self { content_type, body } = self;
        let head = format!(
            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\nretry-after: 1\r\n\
             connection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(&body).await?;
        stream.shutdown().await
    }
}
