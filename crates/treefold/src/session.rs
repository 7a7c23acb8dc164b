//! TLS sessions.
//!
//! The session encrypts. Who the other side is, the sides prove in one of two ways:
//!
//! - In a cluster with a token ([`anonymous`]), both sides make a session with a key of this process alone, which proves
//!   nothing. Then each greeting contains the HMAC of the session's secret under the token
//!   ([`Token`](crate::wire::Token)). Somebody in the middle has two sessions with two secrets, so what one side proves to
//!   him is worth nothing to the other. A greeting learnt from one session is worth nothing in the next.
//! - In a cluster with certificates ([`certified`]), both sides prove in the handshake that they have the key of their
//!   certificate. Directly after it, before anything else is read, each side verifies the other's chain of certificates
//!   ([`Credentials`](crate::credentials::Credentials)). It is not verified inside the handshake, because TLS would tell the
//!   other side too little: expired and not yet valid are the same alert.
//!
//! TLS 1.3 by rustls. Sessions are not resumed, so each has a secret of its own.

mod anonymous;
mod certified;

use rustls::client::{ClientConnection, Resumption};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::ServerName;
use rustls::server::{NoServerSessionStorage, ServerConnection};
use rustls::{ClientConfig, Connection, Error, ServerConfig};
use std::sync::{Arc, OnceLock};
use treefold_certificates::KeyFile;

/// Both sides offer the protocol of their kind of session, so a session with another program, or with the other kind, ends in
/// the handshake.
const PROTOCOL_OF_TOKENS: &[u8] = b"treefold";
const PROTOCOL_OF_CERTIFICATES: &[u8] = b"treefold-certificates";

/// The settings of the sessions of one kind.
pub(crate) struct Sessions {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Sessions {
    /// The settings for clusters with a token. The process makes them once.
    ///
    /// # Errors
    /// If the system gives no random bytes for a key.
    pub(crate) fn of_tokens() -> Result<&'static Self, Error> {
        static SESSIONS: OnceLock<Result<Sessions, Error>> = OnceLock::new();
        let make = || Ok(Self::of(anonymous::configurations()?, PROTOCOL_OF_TOKENS));
        SESSIONS.get_or_init(make).as_ref().map_err(Clone::clone)
    }

    /// The settings for a process with a certificate.
    ///
    /// # Errors
    /// If the private key does not fit the certificate.
    pub(crate) fn of_certificates(file: &KeyFile) -> Result<Self, Error> {
        Ok(Self::of(certified::configurations(file)?, PROTOCOL_OF_CERTIFICATES))
    }

    fn of((mut client, mut server): (ClientConfig, ServerConfig), protocol: &[u8]) -> Self {
        client.resumption = Resumption::disabled();
        client.enable_sni = false;
        client.alpn_protocols = vec![protocol.to_vec()];
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        server.alpn_protocols = vec![protocol.to_vec()];
        Self { client: Arc::new(client), server: Arc::new(server) }
    }

    /// The session of a side that dials.
    pub(crate) fn dial(&self) -> Result<Connection, Error> {
        // rustls wants a name. It is neither sent nor compared.
        let name = ServerName::try_from("treefold").expect("invariant: a plain word is a DNS name");
        Ok(ClientConnection::new(Arc::clone(&self.client), name)?.into())
    }

    /// The session of a side that listens.
    pub(crate) fn listen(&self) -> Result<Connection, Error> {
        Ok(ServerConnection::new(Arc::clone(&self.server))?.into())
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
