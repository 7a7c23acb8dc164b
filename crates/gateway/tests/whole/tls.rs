//! HTTPS: the gateway's certificate, and peers that never finish their handshake.

use crate::world::{Answer, World, options, request, rest, send};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use treefold_gateway::{Gateway, StartError, TlsFiles};

/// Writes a certificate for `localhost` and its key.
pub fn write_certificate(dir: &Path) -> (TlsFiles, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = TlsFiles { certificate: dir.join("cert.pem"), key: dir.join("key.pem") };
    std::fs::write(&files.certificate, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    (files, made.cert.der().clone())
}

/// Connects with these protocols on offer.
pub async fn connect(
    world: &World,
    certificate: &CertificateDer<'static>,
    protocols: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(world.addr()).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

async fn ask(world: &World, certificate: &CertificateDer<'static>) -> std::io::Result<Answer> {
    let mut stream = connect(world, certificate, &[]).await?;
    stream.write_all(&request("POST", "/v1/call/sums/sum", &[], b"")).await?;
    Ok(Answer::read(&mut stream).await)
}

#[tokio::test]
async fn calls_are_made_over_https_and_a_new_certificate_is_taken_up() {
    let dir = TempDir::new().unwrap();
    let (files, first) = write_certificate(dir.path());
    let mut options = options();
    options.tls = Some(files);
    options.limits.head_within = Duration::from_millis(500);
    let world = World::start(options).await;
    assert!(world.gateway.url().starts_with("https://127.0.0.1:"));
    assert_eq!(ask(&world, &first).await.unwrap().json()["value"], 6);
    let (_, second) = write_certificate(dir.path());
    let renewed = async {
        while ask(&world, &second).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(crate::world::WITHIN, renewed).await.expect("the new certificate is shown");
    let mut silent = send(world.addr(), b"").await;
    assert!(rest(&mut silent).await.is_empty(), "a silent peer is cut off");
    let mut plain = send(world.addr(), &request("GET", "/healthz", &[], b"")).await;
    assert!(!rest(&mut plain).await.starts_with(b"HTTP"), "plain HTTP gets no answer");
}

#[tokio::test]
async fn unusable_certificates_are_refused_by_file() {
    let world = World::usual().await;
    let dir = TempDir::new().unwrap();
    let (files, _) = write_certificate(dir.path());
    let refused = async |files: &TlsFiles| {
        let mut options = options();
        options.tls = Some(files.clone());
        match Gateway::start(world.node.client(), options).await {
            Err(StartError::Tls { path, .. }) => path,
            other => panic!("{other:?}"),
        }
    };
    let absent = TlsFiles { key: dir.path().join("absent"), ..files.clone() };
    assert_eq!(refused(&absent).await, absent.key);
    let swapped = TlsFiles { certificate: files.key.clone(), key: files.certificate.clone() };
    assert_eq!(refused(&swapped).await, swapped.certificate);
}
