//! The settings of a gateway, and the reasons why it does not start.

use crate::limits::Limits;
use crate::site::origin;
use crate::tokens::TokensError;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use treefold_core::bounds::OutOfBounds;
use treefold_traces::TraceSettings;

/// The settings of a gateway.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// The address; port 0 takes any free port.
    pub addr: SocketAddr,
    /// Allows an address that other machines can reach without tokens or without TLS.
    pub is_insecure: bool,
    /// The file with the tokens. Without it, every program that reaches the gateway may make every call.
    pub tokens: Option<PathBuf>,
    /// The files with the certificate.
    pub tls: Option<TlsFiles>,
    /// Origins of pages whose requests are taken, as in `https://example.org`.
    pub cors: Vec<String>,
    /// Which calls are traced, and where the traces go.
    pub traces: TraceSettings,
    /// Which calls are slow, and where that is written. While this is set, nodes report their times for every call.
    pub slow_calls: Option<SlowCallOptions>,
    /// The limits.
    pub limits: Limits,
}

/// The log of slow calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowCallOptions {
    /// Calls that take as long as this are slow.
    pub over: Duration,
    /// The file that gets the lines; without it, the process's log gets them (target `treefold::slow_call`).
    pub file: Option<PathBuf>,
}

/// A certificate with its key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those of the authorities between it and the root.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl GatewayOptions {
    /// Listens at an address, with default limits.
    pub fn new(addr: SocketAddr) -> Self {
        let limits = Limits::default();
        Self {
            addr,
            is_insecure: false,
            tokens: None,
            tls: None,
            cors: Vec::new(),
            traces: TraceSettings::default(),
            slow_calls: None,
            limits,
        }
    }

    /// Refuses limits outside their bounds, origins that are none, and an address beyond this machine without tokens and a
    /// certificate, unless that is allowed.
    ///
    /// # Errors
    /// [`StartError::Limit`], [`StartError::Origin`], [`StartError::Exposed`] or [`StartError::Readable`].
    pub fn check(&self) -> Result<(), StartError> {
        self.limits.check()?;
        self.cors.iter().try_for_each(|given| check_origin(given))?;
        let is_reached = !self.addr.ip().to_canonical().is_loopback();
        if !is_reached || self.is_insecure {
            return Ok(());
        }
        match (&self.tokens, &self.tls) {
            (Some(_), Some(_)) => Ok(()),
            (None, _) => Err(StartError::Exposed { addr: self.addr }),
            (Some(_), None) => Err(StartError::Readable { addr: self.addr }),
        }
    }
}

/// Refuses a text that is not the origin of a page, as `https://example.org` is.
///
/// # Errors
/// [`StartError::Origin`].
pub fn check_origin(given: &str) -> Result<(), StartError> {
    origin(given).map(drop)
}

/// The reason why a gateway does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address is reachable from other machines, and nothing tells callers apart.
    #[error(
        "a gateway at {addr} can be reached from other machines, and any program there could make every call: \
         give it tokens and a certificate, listen on 127.0.0.1, or allow it as insecure"
    )]
    Exposed {
        /// The address.
        addr: SocketAddr,
    },
    /// The address is reachable from other machines, and tokens would be sent unencrypted.
    #[error(
        "a gateway at {addr} can be reached from other machines, and tokens would be readable on the way: \
         give it a certificate, listen on 127.0.0.1, or allow it as insecure"
    )]
    Readable {
        /// The address.
        addr: SocketAddr,
    },
    /// A limit is outside its bounds.
    #[error(transparent)]
    Limit(#[from] OutOfBounds),
    /// The file with the tokens cannot be used.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// The certificate or its key cannot be used.
    #[error("{path}: {problem}", path = path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// Its problem.
        problem: String,
    },
    /// A page's origin is not one.
    #[error("cors is {given}; allowed: an origin, as in https://example.org")]
    Origin {
        /// The given text.
        given: String,
    },
    /// Traces cannot be exported.
    #[error(transparent)]
    Traces(#[from] treefold_traces::StartError),
    /// The file of slow calls cannot be written.
    #[error("{path}: can't write slow calls to it: {error}", path = path.display())]
    SlowCalls {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// The system refuses the address.
    #[error("can't listen at {addr}: {error}")]
    Io {
        /// The address.
        addr: SocketAddr,
        /// The system's error.
        error: std::io::Error,
    },
}
