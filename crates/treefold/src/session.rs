//! TLS sessions of a cluster with a token.
//!
//! The session encrypts, and the token proves. Both sides make a session with a key of this process alone, which proves
//! nothing. Then each greeting contains the HMAC of the session's secret under the token
//! ([`Token`](crate::wire::Token)). Somebody in the middle has two sessions with two secrets, so what one side proves to him
//! is worth nothing to the other. A greeting learnt from one session is worth nothing in the next.
//!
//! TLS 1.3 by rustls, with X25519 and a raw Ed25519 key (RFC 7250) in place of a certificate. Sessions are not resumed,
//! so each has a secret of its own.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConnection, Resumption};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage, ServerConnection};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, Connection, DigitallySignedStruct, Error, PeerIncompatible, ServerConfig, SignatureScheme,
};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Both sides offer this protocol, so a session with another program ends in the handshake.
const PROTOCOL: &[u8] = b"treefold";

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
        SESSIONS.get_or_init(Self::anonymous).as_ref().map_err(Clone::clone)
    }

    fn anonymous() -> Result<Self, Error> {
        let provider = Arc::new(ring::default_provider());
        let key = own_key(&provider)?;
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyKey(Arc::clone(&provider))))
            .with_no_client_auth();
        client.resumption = Resumption::disabled();
        client.enable_sni = false;
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key)));
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
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

/// A new key of this process.
fn own_key(provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, Error> {
    let random = ::ring::rand::SystemRandom::new();
    let pair = ::ring::signature::Ed25519KeyPair::generate_pkcs8(&random)
        .map_err(|_| Error::FailedToGetRandomBytes)?;
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.as_ref().to_vec()));
    let signing = provider.key_provider.load_private_key(private)?;
    let public = signing.public_key().ok_or(Error::General("a key without a public part".into()))?;
    Ok(Arc::new(CertifiedKey::new(vec![CertificateDer::from(public.to_vec())], signing)))
}

/// Accepts any key of the side that listens, because the greeting proves who it is. Its signature is checked all the same.
struct AnyKey(Arc<CryptoProvider>);

impl fmt::Debug for AnyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyKey")
    }
}

impl ServerCertVerifier for AnyKey {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOfferedOrEnabled.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
