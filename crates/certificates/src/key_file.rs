//! The file that a process needs: its certificate, its private key, and the authorities that it trusts.
//!
//! The file is PEM, so other programs can read it. An authority's certificate is recognised because it has signed itself;
//! the other certificates are the process's chain, its own first.

use crate::certificate::is_self_issued;
use crate::verify::{Anchors, Refusal};
use rustls_pki_types::pem::{PemObject, SectionKind};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The access rights of a file with a private key: its owner may read and write it.
pub const PRIVATE_FILE_MODE: u32 = 0o600;

/// The content of a file.
pub struct KeyFile {
    /// The process's certificate, and those between it and an authority.
    pub chain: Vec<CertificateDer<'static>>,
    /// The certificate's private key.
    pub key: PrivateKeyDer<'static>,
    /// The authorities that the process trusts, the newest first.
    pub authorities: Vec<CertificateDer<'static>>,
}

/// Why a file is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// It cannot be read.
    #[error("can't read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It contains something else.
    #[error("{path} is no file of keys: {problem}", path = path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The first problem.
        problem: String,
    },
}

impl KeyFile {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or a part is missing or malformed.
    pub fn load(path: &Path) -> Result<Self, KeyFileError> {
        let mut text = Vec::new();
        let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut text));
        match read {
            Ok(_) => {
                Self::parse(&text).map_err(|problem| KeyFileError::Content { path: path.to_owned(), problem })
            }
            Err(source) => Err(KeyFileError::Read { path: path.to_owned(), source }),
        }
    }

    /// Reads the text of a file. An error is one line without a secret.
    ///
    /// # Errors
    /// If a part is missing or malformed.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let (mut chain, mut authorities, mut key) = (Vec::new(), Vec::new(), None);
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
            let (kind, bytes) = section.map_err(|_| "it is not valid PEM".to_owned())?;
            match kind {
                SectionKind::Certificate => {
                    let der = CertificateDer::from(bytes);
                    match is_self_issued(&der) {
                        Ok(true) => authorities.push(der),
                        Ok(false) => chain.push(der),
                        Err(refusal) => return Err(refusal.to_string()),
                    }
                }
                SectionKind::PrivateKey if key.is_some() => return Err("it has two private keys".to_owned()),
                SectionKind::PrivateKey => key = Some(PrivatePkcs8KeyDer::from(bytes).into()),
                _ => {}
            }
        }
        let lacks = |what: &str| format!("it lacks {what}");
        if authorities.is_empty() {
            return Err(lacks("the certificate of an authority"));
        }
        Ok(Self { chain, key: key.ok_or_else(|| lacks("a private key (PKCS #8)"))?, authorities })
    }

    /// The file's text.
    #[cfg(feature = "authority")]
    pub fn to_pem(&self) -> String {
        use base64::Engine;
        let mut text = String::new();
        let mut section = |label: &str, bytes: &[u8]| {
            let encoded = base64::engine::general_purpose::STANDARD.encode(bytes);
            let lines: Vec<&str> =
                encoded.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
            text.push_str(&format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n")));
        };
        self.chain.iter().for_each(|der| section("CERTIFICATE", der));
        section("PRIVATE KEY", self.key.secret_der());
        self.authorities.iter().for_each(|der| section("CERTIFICATE", der));
        text
    }

    /// The authorities, as anchors.
    ///
    /// # Errors
    /// If one of them is malformed.
    pub fn anchors(&self) -> Result<Anchors, Refusal> {
        Anchors::of(&self.authorities)
    }
}

impl Clone for KeyFile {
    fn clone(&self) -> Self {
        let (chain, authorities) = (self.chain.clone(), self.authorities.clone());
        Self { chain, key: self.key.clone_key(), authorities }
    }
}

/// Hides the private key.
impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (chain, authorities) = (self.chain.len(), self.authorities.len());
        write!(f, "KeyFile({chain} certificates, {authorities} authorities)")
    }
}
