//! The certificate of a gateway.

use crate::options::{StartError, TlsFiles};
use crate::watched::{Watched, marks_of};
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// The protocols that a client may choose in its handshake, best first.
const PROTOCOLS: &[&str] = if cfg!(feature = "grpc") { &["h2", "http/1.1"] } else { &["http/1.1"] };

/// Reads the files, and reads them again when they have changed.
pub(crate) fn watch(files: &TlsFiles) -> Result<Arc<Watched<TlsAcceptor>>, StartError> {
    let paths = vec![files.certificate.clone(), files.key.clone()];
    let marks = marks_of(&paths);
    let acceptor = load(files)?;
    let files = files.clone();
    let again = move |_: Option<&TlsAcceptor>| load(&files).map_err(|error| error.to_string());
    Ok(Watched::new(paths, acceptor, marks, Box::new(again)))
}

fn load(files: &TlsFiles) -> Result<TlsAcceptor, StartError> {
    let refuse = |path: &Path, problem: String| StartError::Tls { path: path.to_owned(), problem };
    let refuse_certificate = |error: rustls_pki_types::pem::Error| {
        refuse(&files.certificate, format!("no certificate can be read: {error}"))
    };
    let chain = CertificateDer::pem_file_iter(&files.certificate).map_err(refuse_certificate)?;
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(refuse_certificate)?;
    if chain.is_empty() {
        return Err(refuse(&files.certificate, "it has no certificate (PEM)".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| refuse(&files.key, format!("no private key can be read: {error}")))?;
    let unfit = |error: rustls::Error| refuse(&files.certificate, error.to_string());
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(unfit)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(unfit)?;
    config.alpn_protocols = PROTOCOLS.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}
