//! A connection to a NATS server, which is made again whenever it is lost.

use async_nats::{Client, ConnectOptions, Event};
use std::path::PathBuf;
use std::time::Duration;

/// Messages that the client has received and nobody has looked at. The client drops messages above it, and says so. It
/// only fills while this process does something else.
const MESSAGES_MAX: usize = 4096;
/// Longest time between two attempts to connect.
const RECONNECT_MAX: Duration = Duration::from_secs(4);

/// A server, and the way to log in.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// Addresses, separated by commas, as in `nats://127.0.0.1:4222`.
    pub url: String,
    /// File with a user's credentials.
    pub credentials: Option<PathBuf>,
}

/// The server's address is invalid, or it refuses this client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("can't connect to {url}: {problem}")]
pub struct ConnectError {
    /// The address.
    pub url: String,
    /// The problem.
    pub problem: String,
}

impl Server {
    /// Connects, and connects again whenever the connection is lost.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect(&self) -> Result<Client, ConnectError> {
        let fail = |problem: String| ConnectError { url: self.url.clone(), problem };
        let url = self.url.clone();
        let options = ConnectOptions::new()
            .name("treefold")
            .subscription_capacity(MESSAGES_MAX)
            .reconnect_delay_callback(back_off)
            .event_callback(move |event| {
                let url = url.clone();
                async move { log(&url, &event) }
            });
        let options = match &self.credentials {
            None => options,
            Some(file) => {
                let read = options.credentials_file(file).await;
                read.map_err(|error| fail(format!("{}: {error}", file.display())))?
            }
        };
        let servers: Vec<&str> = self.url.split(',').collect();
        options.connect(servers).await.map_err(|error| fail(error.to_string()))
    }
}

/// The wait before an attempt to connect, which doubles up to a limit.
pub fn back_off(attempts: usize) -> Duration {
    let doublings = attempts.saturating_sub(1).min(10) as u32;
    (Duration::from_millis(50) * 2_u32.pow(doublings)).min(RECONNECT_MAX)
}

fn log(url: &str, event: &Event) {
    match event {
        Event::Connected => tracing::info!(url, "connected"),
        Event::SlowConsumer(_) => tracing::warn!(url, "messages were lost, because the origin is busy"),
        event => tracing::warn!(url, %event, "NATS"),
    }
}
