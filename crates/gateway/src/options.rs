//! The settings of a gateway, and the reasons why it does not start.

use crate::limits::Limits;
use crate::tokens::TokensError;
use std::net::SocketAddr;
use std::path::PathBuf;
use treefold_core::bounds::OutOfBounds;

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
    /// The limits.
    pub limits: Limits,
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
        Self { addr, is_insecure: false, tokens: None, tls: None, cors: Vec::new(), limits }
    }

    /// Refuses limits outside their bounds, and an address beyond this machine without tokens and a certificate, unless that
    /// is allowed.
    ///
    /// # Errors
    /// [`StartError::Limit`], [`StartError::Exposed`] or [`StartError::Readable`].
    pub fn check(&self) -> Result<(), StartError> {
        self.limits.check()?;
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
    /// The system refuses the address.
    #[error("can't listen at {addr}: {error}")]
    Io {
        /// The address.
        addr: SocketAddr,
        /// The system's error.
        error: std::io::Error,
    },
}
