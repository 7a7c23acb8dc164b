//! The state that all requests of a gateway share.

use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::observers::Observers;
use crate::options::{GatewayOptions, StartError};
use crate::seconds::Seconds;
use crate::tenants::Tenant;
use crate::tokens::Tokens;
use crate::trees::Trees;
use crate::watch::Watchers;
use crate::watched::Watched;
use axum::http::HeaderValue;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Semaphore, watch};
use treefold::Client;

/// Bytes of one permit for bodies.
pub(crate) const BODY_PERMIT_BYTES: usize = 1 << 10;

/// The state that all requests share.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) client: Client,
    pub(crate) limits: Limits,
    pub(crate) tokens: Option<Arc<Watched<Tokens>>>,
    /// The tenant of all requests, if there are no tokens.
    pub(crate) anybody: Arc<Tenant>,
    pub(crate) cors: Vec<HeaderValue>,
    /// True if the gateway has a certificate, so that its own page's origin begins with `https`.
    pub(crate) is_encrypted: bool,
    /// Permits for the bytes of bodies.
    pub(crate) bodies: Arc<Semaphore>,
    pub(crate) metrics: Metrics,
    pub(crate) seconds: Seconds,
    pub(crate) trees: Trees,
    pub(crate) observers: Observers,
    pub(crate) watchers: Watchers,
    /// False from the moment at which the gateway is told to end.
    ready: watch::Sender<bool>,
    /// True once the node has had all partitions that are assigned to it.
    loaded: AtomicBool,
    /// True when answers that would not end by themselves are to end.
    pub(crate) ending: watch::Receiver<bool>,
}

impl Site {
    pub(crate) fn new(
        client: Client,
        tokens: Option<Arc<Watched<Tokens>>>,
        options: &GatewayOptions,
        ending: watch::Receiver<bool>,
    ) -> Result<Self, StartError> {
        let limits = options.limits.clone();
        let permits = (limits.bodies_bytes_max / BODY_PERMIT_BYTES).min(Semaphore::MAX_PERMITS);
        Ok(Self {
            observers: Observers::start(&client, options)?,
            client,
            anybody: Arc::new(Tenant::anybody(&limits)),
            cors: options.cors.iter().map(|given| origin(given)).collect::<Result<_, _>>()?,
            is_encrypted: options.tls.is_some(),
            bodies: Arc::new(Semaphore::new(permits)),
            metrics: Metrics::default(),
            seconds: Seconds::new(limits.history),
            trees: Trees::new(&limits),
            watchers: Watchers::new(limits.watchers_max),
            ready: watch::channel(true).0,
            loaded: AtomicBool::new(false),
            ending,
            tokens,
            limits,
        })
    }

    /// True until the gateway is told to end.
    pub(crate) fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// True once the node has had all partitions that placement assigns to it. Loads after that do not count: while
    /// partitions move, other nodes have them.
    ///
    /// # Errors
    /// If the node gives no answer.
    pub(crate) async fn has_loaded(&self) -> Result<bool, treefold::Error> {
        if self.loaded.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let report = self.client.placement().await?;
        let has_loaded = report.is_calm || report.services.iter().all(|service| service.replicas == 0);
        self.loaded.fetch_or(has_loaded, Ordering::Relaxed);
        Ok(has_loaded)
    }

    /// Tells when the gateway is told to end.
    #[cfg(feature = "grpc")]
    pub(crate) fn readiness(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    pub(crate) fn stop_being_ready(&self) {
        self.ready.send_replace(false);
    }
}

/// Reads an origin: a scheme and a host, and no path.
pub(crate) fn origin(given: &str) -> Result<HeaderValue, StartError> {
    let host = given.strip_prefix("https://").or_else(|| given.strip_prefix("http://"));
    let is_origin = host.is_some_and(|host| {
        !host.is_empty()
            && host.bytes().all(|byte| {
                matches!(byte, b'.' | b'-' | b':' | b'[' | b']')
                    || byte.is_ascii_digit()
                    || byte.is_ascii_lowercase()
            })
    });
    match HeaderValue::from_str(given) {
        Ok(value) if is_origin => Ok(value),
        _ => Err(StartError::Origin { given: given.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_have_a_scheme_and_no_path() {
        for sound in ["https://example.org", "http://localhost:5173", "http://[::1]:80"] {
            assert!(origin(sound).is_ok(), "{sound}");
        }
        for unsound in ["*", "null", "example.org", "https://", "https://example.org/", "https://Example.org"]
        {
            assert!(origin(unsound).is_err(), "{unsound}");
        }
    }
}
