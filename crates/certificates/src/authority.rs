//! The authority of a cluster: it issues certificates.
//!
//! A rotation replaces the authority. The new one's certificate is signed twice: by itself, and by the old one (the *cross
//! certificate*). A process with a certificate of the new authority sends the cross certificate too, so a process that
//! knows only the old authority accepts it. Therefore the new files can be copied to the machines in any order. When all
//! have them, the old authority is forgotten.
//!
//! ```text
//!   old ──signs──► cross certificate of new          files before: trust old
//!   new ──signs──► certificates of processes         files after:  trust new and old, then new alone
//! ```

use crate::certificate::{Certificate, authority_of};
use crate::grant::{Grant, GrantError, Role};
use crate::key_file::KeyFile;
use crate::verify::Refusal;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustls_pki_types::PrivatePkcs8KeyDer;
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long an authority is valid.
const AUTHORITY_VALID: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);
/// Certificates are valid from this time before their issue on, for machines whose clocks are behind.
const BACKDATED: Duration = Duration::from_secs(60 * 60);
/// The organisation in an authority's name.
const ORGANISATION: &str = "Treefold authority";

/// Why an authority could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The grant is not valid.
    #[error(transparent)]
    Grant(#[from] GrantError),
    /// The grant is for another cluster.
    #[error("the authority is for the cluster {own:?}, not for {given:?}")]
    Cluster {
        /// The authority's cluster.
        own: String,
        /// That of the grant.
        given: String,
    },
    /// The certificate would be valid longer than the authority.
    #[error(
        "the authority is valid for {days} more days; rotate it, or issue the certificate for fewer days"
    )]
    Validity {
        /// Days that the authority has left.
        days: u64,
    },
    /// A rotation has begun before.
    #[error("a rotation has begun already; finish it first")]
    Rotating,
    /// No rotation has begun.
    #[error("no rotation has begun")]
    NotRotating,
    /// The file is not that of an authority.
    #[error("this is not the file of an authority: {0}")]
    File(String),
    /// The certificate to issue again is malformed.
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// A key or a certificate could not be made.
    #[error("can't make a certificate: {0}")]
    Make(#[from] rcgen::Error),
}

/// The key of a cluster's authority, and its certificates.
pub struct Authority {
    cluster: String,
    file: KeyFile,
    issuer: Issuer<'static, KeyPair>,
    not_after: SystemTime,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Authority({})", self.cluster)
    }
}

impl Authority {
    /// A new authority for a cluster.
    ///
    /// # Errors
    /// If the cluster's name has a wrong length, or the system gives no random bytes.
    pub fn new(cluster: &str) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate()?;
        let params = authority_params(cluster, &key)?;
        let own = params.self_signed(&key)?.der().clone();
        Self::of(KeyFile { chain: Vec::new(), key: key_der(&key), authorities: vec![own] })
    }

    /// Reads an authority's file.
    ///
    /// # Errors
    /// If the text is not that of an authority.
    pub fn parse(text: &[u8]) -> Result<Self, AuthorityError> {
        Self::of(KeyFile::parse(text).map_err(AuthorityError::File)?)
    }

    fn of(file: KeyFile) -> Result<Self, AuthorityError> {
        let wrong = |problem: &str| AuthorityError::File(problem.to_owned());
        let own = file.authorities.first().ok_or_else(|| wrong("it lacks the authority's certificate"))?;
        let (cluster, not_after) = authority_of(own).ok_or_else(|| wrong("its certificate has no name"))?;
        if file.chain.iter().any(|der| Certificate::read(der).is_ok()) {
            return Err(wrong("it is the file of a process"));
        }
        let key = KeyPair::try_from(file.key.secret_der())?;
        let issuer = Issuer::from_ca_cert_der(own, key)?;
        Ok(Self { cluster, file, issuer, not_after })
    }

    /// The text of its file.
    pub fn to_pem(&self) -> String {
        self.file.to_pem()
    }

    /// The cluster's name.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// The time at which its certificate expires.
    pub fn not_after(&self) -> SystemTime {
        self.not_after
    }

    /// True while an older authority is trusted as well.
    pub fn is_rotating(&self) -> bool {
        self.file.authorities.len() > 1
    }

    /// Issues a certificate with a new key.
    ///
    /// # Errors
    /// If the grant is not valid, or the certificate would outlive the authority.
    pub fn issue(&self, grant: &Grant, valid: Duration) -> Result<KeyFile, AuthorityError> {
        let now = SystemTime::now();
        self.issue_from(grant, now - BACKDATED, now + valid)
    }

    /// As [`issue`](Self::issue), valid between two times.
    ///
    /// # Errors
    /// As `issue`.
    pub fn issue_from(
        &self,
        grant: &Grant,
        not_before: SystemTime,
        not_after: SystemTime,
    ) -> Result<KeyFile, AuthorityError> {
        grant.check()?;
        if grant.cluster != self.cluster {
            return Err(AuthorityError::Cluster { own: self.cluster.clone(), given: grant.cluster.clone() });
        }
        if not_after > self.not_after {
            let left = self.not_after.duration_since(SystemTime::now()).unwrap_or_default();
            return Err(AuthorityError::Validity { days: left.as_secs() / DAY.as_secs() });
        }
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named(&grant.name);
        params.subject_alt_names = vec![SanType::URI(grant.to_string().try_into()?)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match grant.role {
            Role::Node => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
            Role::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        (params.not_before, params.not_after) = (date(not_before), date(not_after));
        params.use_authority_key_identifier_extension = true;
        let own = params.signed_by(&key, &self.issuer)?.der().clone();
        let chain = std::iter::once(own).chain(self.file.chain.iter().cloned()).collect();
        Ok(KeyFile { chain, key: key_der(&key), authorities: self.file.authorities.clone() })
    }

    /// Issues the certificate of a file again: for the same process, with a new key and a new validity.
    ///
    /// # Errors
    /// If the file has no certificate, or as [`issue`](Self::issue).
    pub fn issue_again(&self, file: &KeyFile, valid: Duration) -> Result<KeyFile, AuthorityError> {
        let own = file.chain.first().ok_or(Refusal::Absent)?;
        self.issue(&Certificate::read(own)?.grant, valid)
    }

    /// Begins a rotation: returns a new authority, whose files trust both.
    ///
    /// # Errors
    /// If one has begun already.
    pub fn rotate(&self) -> Result<Self, AuthorityError> {
        if self.is_rotating() {
            return Err(AuthorityError::Rotating);
        }
        let key = KeyPair::generate()?;
        let mut params = authority_params(&self.cluster, &key)?;
        let own = params.self_signed(&key)?.der().clone();
        params.use_authority_key_identifier_extension = true;
        params.not_after = date(self.not_after);
        let cross = params.signed_by(&key, &self.issuer)?.der().clone();
        let authorities = std::iter::once(own).chain(self.file.authorities.iter().cloned()).collect();
        Self::of(KeyFile { chain: vec![cross], key: key_der(&key), authorities })
    }

    /// Ends a rotation: forgets the old authority.
    ///
    /// # Errors
    /// If none has begun.
    pub fn finish(&self) -> Result<Self, AuthorityError> {
        if !self.is_rotating() {
            return Err(AuthorityError::NotRotating);
        }
        let mut file = self.file.clone();
        file.chain.clear();
        file.authorities.truncate(1);
        Self::of(file)
    }
}

fn authority_params(cluster: &str, key: &KeyPair) -> Result<CertificateParams, AuthorityError> {
    if cluster.is_empty() || cluster.len() > crate::grant::NAME_BYTES_MAX {
        return Err(GrantError::Name { field: "cluster", bytes: cluster.len() }.into());
    }
    let (now, mut params) = (SystemTime::now(), CertificateParams::default());
    params.distinguished_name = named(cluster);
    params.distinguished_name.push(DnType::OrganizationName, ORGANISATION);
    // Two authorities of a cluster have different names, so the cross certificate does not look as if it had signed itself.
    let point = key.public_key_raw();
    let tail: String =
        point[point.len().saturating_sub(4)..].iter().map(|byte| format!("{byte:02x}")).collect();
    params.distinguished_name.push(DnType::OrganizationalUnitName, tail);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (params.not_before, params.not_after) = (date(now - BACKDATED), date(now + AUTHORITY_VALID));
    Ok(params)
}

fn named(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

fn date(time: SystemTime) -> OffsetDateTime {
    time.into()
}

fn key_der(key: &KeyPair) -> rustls_pki_types::PrivateKeyDer<'static> {
    PrivatePkcs8KeyDer::from(key.serialize_der()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grant::Services;
    use crate::verify::{Anchors, Usage, verify};
    use treefold_core::right::{Right, Rights};

    fn grant(role: Role, may: Right) -> Grant {
        let at = if role == Role::Node { vec!["10.0.0.7".parse().unwrap()] } else { Vec::new() };
        let may: Rights = [may].into_iter().collect();
        Grant { cluster: "prod".into(), role, name: "n 1".into(), may, services: Services::All, at }
    }

    fn accepts(by: &KeyFile, other: &KeyFile, usage: Usage) -> Result<Grant, Refusal> {
        let anchors: Anchors = by.anchors().unwrap();
        verify(&other.chain, &anchors, usage, SystemTime::now()).map(|certificate| certificate.grant)
    }

    #[test]
    fn a_file_is_read_again_and_its_certificate_verified() {
        let authority = Authority::parse(Authority::new("prod").unwrap().to_pem().as_bytes()).unwrap();
        assert_eq!((authority.cluster(), authority.is_rotating()), ("prod", false));
        let node = authority.issue(&grant(Role::Node, Right::Join), DAY).unwrap();
        let again = KeyFile::parse(node.to_pem().as_bytes()).unwrap();
        assert_eq!((again.chain.len(), again.to_pem()), (1, node.to_pem()));
        for usage in [Usage::Connect, Usage::Listen] {
            assert_eq!(accepts(&again, &node, usage), Ok(grant(Role::Node, Right::Join)));
        }
        let client = authority.issue(&grant(Role::Client, Right::Call), DAY).unwrap();
        assert_eq!(accepts(&node, &client, Usage::Connect), Ok(grant(Role::Client, Right::Call)));
        assert_eq!(accepts(&node, &client, Usage::Listen), Err(Refusal::Usage));
        assert!(matches!(Authority::parse(node.to_pem().as_bytes()), Err(AuthorityError::File(_))));
        assert!(!format!("{node:?} {authority:?}").contains("PRIVATE"));
    }

    #[test]
    fn wrong_authorities_and_times_are_told_apart() {
        let [ours, theirs] = [(); 2].map(|()| Authority::new("prod").unwrap());
        let client = grant(Role::Client, Right::Call);
        let (now, node) = (SystemTime::now(), ours.issue(&grant(Role::Node, Right::Join), DAY).unwrap());
        let stranger = theirs.issue(&client, DAY).unwrap();
        let old = ours.issue_from(&client, now - 3 * DAY, now - 2 * DAY).unwrap();
        let early = ours.issue_from(&client, now + DAY, now + 2 * DAY).unwrap();
        let refused = |file: &KeyFile| accepts(&node, file, Usage::Connect).unwrap_err();
        assert_eq!(
            [refused(&stranger), refused(&old), refused(&early)],
            [Refusal::Authority, Refusal::Expired, Refusal::NotYetValid]
        );
        let empty = KeyFile { chain: Vec::new(), ..node.clone() };
        assert_eq!(refused(&empty), Refusal::Absent);
        assert!(matches!(ours.issue(&client, 5_000 * DAY), Err(AuthorityError::Validity { .. })));
        let elsewhere = Grant { cluster: "test".into(), ..client };
        assert!(matches!(ours.issue(&elsewhere, DAY), Err(AuthorityError::Cluster { .. })));
    }

    #[test]
    fn files_of_a_rotation_can_be_copied_in_any_order() {
        let old = Authority::new("prod").unwrap();
        let before = old.issue(&grant(Role::Node, Right::Join), DAY).unwrap();
        let both = Authority::parse(old.rotate().unwrap().to_pem().as_bytes()).unwrap();
        assert!(both.is_rotating() && matches!(both.rotate(), Err(AuthorityError::Rotating)));
        let during = both.issue_again(&before, DAY).unwrap();
        assert!(
            accepts(&before, &during, Usage::Listen).is_ok(),
            "the cross certificate leads to the old one"
        );
        assert!(accepts(&during, &before, Usage::Listen).is_ok());
        let new = both.finish().unwrap();
        let after = new.issue_again(&during, DAY).unwrap();
        assert!(
            accepts(&during, &after, Usage::Listen).is_ok()
                && accepts(&after, &during, Usage::Listen).is_ok()
        );
        assert_eq!(accepts(&after, &before, Usage::Listen), Err(Refusal::Authority));
        assert!(matches!(new.finish(), Err(AuthorityError::NotRotating)));
    }
}
