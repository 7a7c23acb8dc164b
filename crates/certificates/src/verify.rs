//! Decides whether a chain of certificates is valid.

use crate::certificate::Certificate;
use crate::grant::GrantError;
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use std::time::SystemTime;
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, KeyUsage, anchor_from_trusted_cert};

/// The most certificates of a chain: a process's own, and during a rotation one of the authority.
const CHAIN_MAX: usize = 4;

/// The authorities that a process trusts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Anchors(Vec<TrustAnchor<'static>>);

impl Anchors {
    /// The anchors of authorities' own certificates.
    ///
    /// # Errors
    /// If a certificate is malformed.
    pub fn of<'a>(authorities: impl IntoIterator<Item = &'a CertificateDer<'a>>) -> Result<Self, Refusal> {
        let anchor = |der| anchor_from_trusted_cert(der).map(|anchor| anchor.to_owned());
        let anchors: Result<_, _> = authorities.into_iter().map(anchor).collect();
        anchors.map(Self).map_err(|_| Refusal::Malformed)
    }
}

/// The use of a certificate in a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Its process connects.
    Connect,
    /// Its process listens.
    Listen,
}

/// Why a certificate is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is none.
    #[error("there is no certificate")]
    Absent,
    /// It, or its chain, cannot be read.
    #[error("the certificate is malformed")]
    Malformed,
    /// No trusted authority has signed it.
    #[error("no trusted authority has signed the certificate")]
    Authority,
    /// It is no longer valid.
    #[error("the certificate has expired")]
    Expired,
    /// It is not valid yet.
    #[error("the certificate is not valid yet")]
    NotYetValid,
    /// A client's certificate is used where a node's is needed.
    #[error("the certificate is not one of a node")]
    Usage,
    /// Its grant is not valid.
    #[error(transparent)]
    Grant(GrantError),
    /// It is for another cluster.
    #[error("the certificate is for another cluster")]
    Cluster,
    /// Its owner's signature is not valid.
    #[error("the signature by the certificate's key is not valid")]
    Signature,
    /// It does not allow its process to be a member at its address.
    #[error("the certificate does not allow its process to join at its address")]
    Place,
}

impl Refusal {
    /// The refusal in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Malformed => "malformed",
            Self::Authority => "authority",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Usage => "usage",
            Self::Grant(_) => "grant",
            Self::Cluster => "cluster",
            Self::Signature => "signature",
            Self::Place => "at",
        }
    }

    /// The sentence of a word, as the other side of a connection reads it about its own certificate.
    pub fn sentence(word: &str) -> Option<&'static str> {
        Some(match word {
            "absent" => "this side gives no certificate",
            "malformed" => "this side's certificate is malformed",
            "authority" => "no authority that the other side trusts has signed this side's certificate",
            "expired" => "this side's certificate has expired",
            "not_yet_valid" => "this side's certificate is not valid yet",
            "usage" => "this side's certificate is not one of a node",
            "grant" => "this side's certificate has no valid grant",
            "cluster" => "this side's certificate is for another cluster",
            "signature" => "the signature by this side's key is not valid",
            "at" => "this side's certificate does not allow it to join at its address",
            _ => return None,
        })
    }
}

/// Verifies a chain, which begins with the process's own certificate, at a time.
///
/// # Errors
/// The first reason not to accept it.
pub fn verify(
    chain: &[CertificateDer<'_>],
    anchors: &Anchors,
    usage: Usage,
    now: SystemTime,
) -> Result<Certificate, Refusal> {
    let (own, others) = chain.split_first().ok_or(Refusal::Absent)?;
    if chain.len() > CHAIN_MAX {
        return Err(Refusal::Malformed);
    }
    let usage = match usage {
        Usage::Connect => KeyUsage::client_auth(),
        Usage::Listen => KeyUsage::server_auth(),
    };
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = UnixTime::since_unix_epoch(since);
    let end = EndEntityCert::try_from(own).map_err(|error| refusal_of(&error))?;
    end.verify_for_usage(ALL_VERIFICATION_ALGS, &anchors.0, others, now, usage, None, None)
        .map_err(|error| refusal_of(&error))?;
    Certificate::read(own)
}

/// Verifies the signature of a text by the owner of a certificate. `scheme` is the number of its scheme in TLS 1.3.
///
/// # Errors
/// If the signature is not valid, or of a scheme that is not supported.
pub fn verify_signature(
    own: &CertificateDer<'_>,
    scheme: u32,
    text: &[u8],
    signature: &[u8],
) -> Result<(), Refusal> {
    let algorithm = match scheme {
        0x0403 => webpki::ring::ECDSA_P256_SHA256,
        0x0807 => webpki::ring::ED25519,
        _ => return Err(Refusal::Signature),
    };
    let end = EndEntityCert::try_from(own).map_err(|error| refusal_of(&error))?;
    end.verify_signature(algorithm, text, signature).map_err(|_| Refusal::Signature)
}

fn refusal_of(error: &webpki::Error) -> Refusal {
    use webpki::Error;
    match error {
        Error::CertExpired { .. } => Refusal::Expired,
        Error::CertNotValidYet { .. } => Refusal::NotYetValid,
        Error::RequiredEkuNotFoundContext(_) => Refusal::Usage,
        Error::UnknownIssuer | Error::InvalidSignatureForPublicKey => Refusal::Authority,
        _ => Refusal::Malformed,
    }
}
