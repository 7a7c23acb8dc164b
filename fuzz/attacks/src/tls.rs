//! TLS sessions as an attacker makes them: with a key of his own, and without a look at the other side's.

use crate::wire::connect;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConnection, Resumption, WantsClientCert};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, ServerConnection};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, ServerConfig, SignatureScheme, StreamOwned,
};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use treefold_certificates::KeyFile;

const PROTOCOL: &[u8] = b"treefold";
const PROTOCOL_OF_CERTIFICATES: &[u8] = b"treefold-certificates";
const SECRET_LABEL: &[u8] = b"EXPORTER-treefold-greeting";

/// A session's secret, to which a greeting is bound.
pub(crate) type Secret = [u8; 32];
pub(crate) type Dialled = StreamOwned<ClientConnection, TcpStream>;
pub(crate) type Accepted = StreamOwned<ServerConnection, TcpStream>;

/// Makes a session with the process at an address, in a cluster with a token.
pub(crate) fn dial(addr: SocketAddr, patience: Duration) -> io::Result<(Dialled, Secret)> {
    let config = client_builder(Anybody { has_raw_key: true })?.with_no_client_auth();
    dial_with(addr, patience, config, PROTOCOL)
}

/// Makes a session with the process at an address, in a cluster with certificates. Shows those of the keys, or none.
pub(crate) fn dial_certified(
    addr: SocketAddr,
    patience: Duration,
    keys: Option<&KeyFile>,
) -> io::Result<(Dialled, Secret)> {
    let builder = client_builder(Anybody { has_raw_key: false })?;
    let config = match keys {
        Some(keys) => builder.with_client_auth_cert(keys.chain.clone(), keys.key.clone_key()),
        None => Ok(builder.with_no_client_auth()),
    };
    dial_with(addr, patience, config.map_err(io::Error::other)?, PROTOCOL_OF_CERTIFICATES)
}

fn client_builder(anybody: Anybody) -> io::Result<ConfigBuilder<ClientConfig, WantsClientCert>> {
    Ok(ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(anybody)))
}

fn dial_with(
    addr: SocketAddr,
    patience: Duration,
    mut config: ClientConfig,
    protocol: &[u8],
) -> io::Result<(Dialled, Secret)> {
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    config.alpn_protocols = vec![protocol.to_vec()];
    let name = ServerName::try_from("treefold").expect("invariant: a plain word is a DNS name");
    let session = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(session, connect(addr, patience)?);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    let secret = stream.conn.export_keying_material([0; 32], SECRET_LABEL, None).map_err(io::Error::other)?;
    Ok((stream, secret))
}

/// Makes a session with a process that has connected.
pub(crate) fn accept(stream: TcpStream, patience: Duration) -> io::Result<Accepted> {
    stream.set_read_timeout(Some(patience))?;
    let provider = Arc::new(default_provider());
    let pair = ring::signature::Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new())
        .map_err(|_| io::Error::other("the system gives no random bytes"))?;
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.as_ref().to_vec()));
    let signing = provider.key_provider.load_private_key(private).map_err(io::Error::other)?;
    let public = signing.public_key().ok_or_else(|| io::Error::other("a key without a public part"))?;
    let key = Arc::new(CertifiedKey::new(vec![CertificateDer::from(public.to_vec())], signing));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key)));
    config.send_tls13_tickets = 0;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    let session = ServerConnection::new(Arc::new(config)).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(session, stream);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(stream)
}

/// Accepts any key, or any certificate, of the other side.
#[derive(Debug)]
struct Anybody {
    has_raw_key: bool,
}

impl ServerCertVerifier for Anybody {
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
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.has_raw_key
    }
}
