//! A process's certificate, in a cluster whose processes have certificates.
//!
//! They come from a file ([`KeyFile`]), which is read again when it has changed. A node then proves its new certificate on
//! the connections that it has, so none of them breaks ([`Renewal`]).
//!
//! ```text
//!   file ──load──► Credentials ──current──► Held ──► TLS sessions, own chain, anchors
//!                       ▲ refresh                       │
//!                       └── the file has changed        └──► verify(peer's chain) ──► Proven ──► rights of the peer
//! ```

use crate::session::Sessions;
use crate::transport::Session;
use crate::wire::Side;
use rustls::SignatureScheme;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::sign::SigningKey;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::time::{Interval, interval};
use treefold_certificates::{
    Anchors, Certificate, KeyFile, KeyFileError, Refusal, Usage, verify, verify_signature,
};
use treefold_core::id::NodeId;
use treefold_core::right::{Right, Rights};

/// Shortest time between two looks at the file.
const REFRESH_EVERY: Duration = Duration::from_millis(900);
/// Time between two looks of a client.
const RENEW_EVERY: Duration = Duration::from_secs(1);
/// Time before a certificate's expiry at which its process begins to warn.
const WARN_BEFORE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Time between two warnings.
const WARN_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// Separates a renewal's signature from any other use of a certificate's key.
const RENEWAL_CONTEXT: &[u8] = b"treefold renewal 1\0";

/// A process's certificate and the authorities that it trusts. Clones share them.
#[derive(Clone)]
pub struct Credentials(Arc<Shared>);

struct Shared {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    held: Arc<Held>,
    stamp: Stamp,
    looked: Instant,
    warned: Option<Instant>,
}

/// By which a changed file is recognised.
type Stamp = Option<(SystemTime, u64)>;

/// Why a process's credentials are not usable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// The file cannot be read, or is not one of keys.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// The certificate would not be accepted by others.
    #[error("{path}: {refusal}", path = path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The reason.
        refusal: Refusal,
    },
    /// The private key does not fit, or TLS refuses the file for another reason.
    #[error("{path}: {problem}", path = path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The reason.
        problem: String,
    },
}

/// The content of the file as it was read last.
pub(crate) struct Held {
    pub(crate) sessions: Sessions,
    chain: Vec<CertificateDer<'static>>,
    signer: Arc<dyn SigningKey>,
    anchors: Arc<Anchors>,
    certificate: Certificate,
}

impl Credentials {
    /// The environment variable that names the file with a process's keys.
    pub const VARIABLE: &str = "TREEFOLD_KEYS";

    /// Reads a file that `treefold keys issue` has written.
    ///
    /// # Errors
    /// If the file cannot be read, or its certificate would not be accepted by a process that trusts the same authorities.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, CredentialsError> {
        let path = path.as_ref().to_owned();
        let stamp = stamp_of(&path);
        let held = Arc::new(Held::load(&path)?);
        let state = Mutex::new(State { held, stamp, looked: Instant::now(), warned: None });
        Ok(Self(Arc::new(Shared { path, state })))
    }

    /// Credentials of a file's content, which others may refuse.
    #[cfg(test)]
    pub(crate) fn unchecked(file: KeyFile) -> Self {
        let path = PathBuf::from("nowhere");
        let held = Arc::new(Held::of(file, &path).expect("the file has all parts"));
        let state = State { held, stamp: None, looked: Instant::now(), warned: None };
        Self(Arc::new(Shared { path, state: Mutex::new(state) }))
    }

    /// The cluster that the certificate is for.
    pub fn cluster(&self) -> String {
        self.current().certificate.grant.cluster.clone()
    }

    /// The certificate.
    pub fn certificate(&self) -> Certificate {
        self.current().certificate.clone()
    }

    pub(crate) fn current(&self) -> Arc<Held> {
        Arc::clone(&self.lock().held)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // The fields are independent, so a panic between two of them leaves a usable state.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file again if it has changed, and warns of an expiry. If the new file is not usable, or for another cluster, the
    /// old one stays, and the log says why.
    pub(crate) fn refresh(&self) {
        let mut state = self.lock();
        if state.looked.elapsed() < REFRESH_EVERY {
            return;
        }
        state.looked = Instant::now();
        let path = &self.0.path;
        let stamp = stamp_of(path);
        if stamp != state.stamp && stamp.is_some() {
            state.stamp = stamp;
            match state.held.next(path) {
                Ok(held) => {
                    let Certificate { serial, not_after, .. } = &held.certificate;
                    tracing::info!(path = %path.display(), %serial, ?not_after, "a new certificate");
                    (state.held, state.warned) = (Arc::new(held), None);
                }
                Err(error) => {
                    tracing::warn!(%error, "the changed file of keys can't be used; keeping the old ones");
                }
            }
        }
        warn_of_expiry(&mut state, path);
    }
}

fn warn_of_expiry(state: &mut State, path: &Path) {
    let left = state.held.certificate.not_after.duration_since(SystemTime::now()).unwrap_or_default();
    let is_due = state.warned.is_none_or(|warned| warned.elapsed() >= WARN_EVERY);
    if left < WARN_BEFORE && is_due {
        state.warned = Some(Instant::now());
        let days = left.as_secs() / (24 * 60 * 60);
        tracing::warn!(path = %path.display(), days, "the certificate expires soon: issue it again with `treefold keys renew`");
    }
}

/// Hides everything but the path.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.0.path.display())
    }
}

fn stamp_of(path: &Path) -> Stamp {
    let data = std::fs::metadata(path).ok()?;
    Some((data.modified().ok()?, data.len()))
}

impl Held {
    fn load(path: &Path) -> Result<Self, CredentialsError> {
        warn_of_readers(path);
        let held = Self::of(KeyFile::load(path)?, path)?;
        match held.prove(&held.chain, Usage::Connect) {
            Ok(_) => Ok(held),
            Err(refusal) => Err(CredentialsError::Refused { path: path.to_owned(), refusal }),
        }
    }

    /// Reads the file that replaces this one's.
    fn next(&self, path: &Path) -> Result<Self, CredentialsError> {
        let held = Self::load(path)?;
        if held.certificate.grant.cluster != self.certificate.grant.cluster {
            return Err(CredentialsError::Refused { path: path.to_owned(), refusal: Refusal::Cluster });
        }
        Ok(held)
    }

    fn of(file: KeyFile, path: &Path) -> Result<Self, CredentialsError> {
        let refused = |refusal| CredentialsError::Refused { path: path.to_owned(), refusal };
        let own = file.chain.first().ok_or_else(|| refused(Refusal::Absent))?;
        let certificate = Certificate::read(own).map_err(refused)?;
        let anchors = Arc::new(file.anchors().map_err(refused)?);
        let made = Sessions::of_certificates(&file).and_then(|sessions| {
            let signer = ring::default_provider().key_provider.load_private_key(file.key.clone_key())?;
            Ok((sessions, signer))
        });
        let (sessions, signer) = made
            .map_err(|error| CredentialsError::Key { path: path.to_owned(), problem: error.to_string() })?;
        Ok(Self { sessions, chain: file.chain, signer, anchors, certificate })
    }

    /// Verifies the chain of another process, or this one's own.
    pub(crate) fn prove(&self, chain: &[CertificateDer<'static>], usage: Usage) -> Result<Proven, Refusal> {
        let certificate = verify(chain, &self.anchors, usage, SystemTime::now())?;
        if certificate.grant.cluster != self.certificate.grant.cluster {
            return Err(Refusal::Cluster);
        }
        Ok(Proven { certificate, chain: chain.to_vec(), anchors: Arc::clone(&self.anchors) })
    }

    /// True if both trust the same authorities.
    pub(crate) fn trusts_as(&self, other: &Self) -> bool {
        self.anchors == other.anchors
    }

    /// The proof that this process has its certificate, for the other side of an existing session.
    ///
    /// # Errors
    /// If the key cannot sign.
    pub(crate) fn renewal(&self, side: Side, secret: &[u8]) -> io::Result<Renewal> {
        let schemes = [SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::ED25519];
        let signer = self.signer.choose_scheme(&schemes).ok_or(io::ErrorKind::Unsupported)?;
        let signature = signer.sign(&renewal_text(side, secret)).map_err(io::Error::other)?;
        let chain = self.chain.iter().map(|der| der.to_vec()).collect();
        Ok(Renewal { chain, scheme: u16::from(signer.scheme()).into(), signature })
    }

    /// Verifies the renewal of the peer on a side of a session.
    pub(crate) fn prove_again(
        &self,
        renewal: &Renewal,
        side: Side,
        secret: &[u8],
    ) -> Result<Proven, Refusal> {
        let chain: Vec<CertificateDer<'static>> =
            renewal.chain.iter().map(|der| CertificateDer::from(der.clone())).collect();
        let proven = self.prove(&chain, usage_of(side))?;
        let own = chain.first().ok_or(Refusal::Absent)?;
        verify_signature(own, renewal.scheme, &renewal_text(side, secret), &renewal.signature)?;
        Ok(proven)
    }
}

/// The text that the owner of a renewed certificate signs.
fn renewal_text(side: Side, secret: &[u8]) -> Vec<u8> {
    [RENEWAL_CONTEXT, side.word(), b"\0", secret].concat()
}

/// The use that the process on this side of a connection makes of its certificate.
pub(crate) fn usage_of(side: Side) -> Usage {
    match side {
        Side::Dials => Usage::Connect,
        Side::Listens => Usage::Listen,
    }
}

#[cfg(unix)]
fn warn_of_readers(path: &Path) {
    use std::os::unix::fs::MetadataExt;
    if let Ok(data) = std::fs::metadata(path)
        && data.mode() & 0o077 != 0
    {
        tracing::warn!(path = %path.display(), "other users may read this file, which has a private key; run chmod 600");
    }
}

#[cfg(not(unix))]
fn warn_of_readers(_: &Path) {}

/// The proof that a process has a certificate, on a session that it began with another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// The chain of certificates as DER, the process's own first.
    pub chain: Vec<Vec<u8>>,
    /// The signature's scheme, by its number in TLS 1.3.
    pub scheme: u32,
    /// The signature of the session's secret.
    pub signature: Vec<u8>,
}

/// A client's session, on which it proves each new certificate.
pub(crate) struct Renewing {
    credentials: Option<Credentials>,
    session: Session,
    ticks: Interval,
}

impl Renewing {
    pub(crate) fn new(credentials: Option<Credentials>, session: Session) -> Self {
        Self { credentials, session, ticks: interval(RENEW_EVERY) }
    }

    /// Waits until there is something to prove. Cancel safe.
    pub(crate) async fn next(&mut self) -> Renewal {
        let Some(credentials) = &self.credentials else { return std::future::pending().await };
        loop {
            self.ticks.tick().await;
            credentials.refresh();
            let held = credentials.current();
            if self.session.shown.as_ref().is_none_or(|shown| Arc::ptr_eq(shown, &held)) {
                continue;
            }
            self.session.shown = Some(Arc::clone(&held));
            match held.renewal(Side::Dials, &self.session.secret) {
                Ok(renewal) => return renewal,
                Err(error) => tracing::warn!(%error, "can't prove the new certificate"),
            }
        }
    }
}

/// A certificate that a peer has proven to have.
#[derive(Clone)]
pub(crate) struct Proven {
    certificate: Certificate,
    chain: Vec<CertificateDer<'static>>,
    /// The anchors with which the chain was verified.
    anchors: Arc<Anchors>,
}

impl Proven {
    /// Checks that the peer may have this name: that of a client, or that of a member at an address of its certificate.
    pub(crate) fn check_name(&self, name: NodeId) -> Result<(), Refusal> {
        let may = name.is_client() || self.certificate.grant.covers(name.addr);
        if may { Ok(()) } else { Err(Refusal::Place) }
    }

    /// Checks that the certificate would still be accepted. The chain is verified again only if the anchors have changed.
    pub(crate) fn check_again(&mut self, held: &Held, side: Side) -> Result<(), Refusal> {
        if Arc::ptr_eq(&self.anchors, &held.anchors) {
            let has_expired = self.certificate.not_after < SystemTime::now();
            return if has_expired { Err(Refusal::Expired) } else { Ok(()) };
        }
        *self = held.prove(&self.chain, usage_of(side))?;
        Ok(())
    }

    /// True if the peer is a member, or may be one.
    pub(crate) fn may_join(&self) -> bool {
        self.certificate.grant.may.has(Right::Join)
    }

    /// True if the peer may do this with a service; `None` for what is about no service.
    pub(crate) fn allows(&self, right: Right, service: Option<&str>) -> bool {
        let grant = &self.certificate.grant;
        service.map_or_else(|| grant.may.has(right), |service| grant.allows(right, service))
    }

    /// Everything that the peer may do.
    pub(crate) fn rights(&self) -> Rights {
        self.certificate.grant.may
    }

    /// The process's name in its certificate, for logs.
    pub(crate) fn name(&self) -> &str {
        &self.certificate.grant.name
    }
}
