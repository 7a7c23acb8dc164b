//! One certificate as this project reads it.

use crate::grant::{Grant, GrantError};
use crate::verify::Refusal;
use rustls_pki_types::CertificateDer;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use x509_parser::asn1_rs::FromDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::time::ASN1Time;

/// The content of a process's certificate. It is worth nothing before [`verify`](crate::verify()) has accepted the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The process's name, kind and rights.
    pub grant: Grant,
    /// The serial number, in hexadecimal digits.
    pub serial: String,
    /// The certificate is not valid before this time.
    pub not_before: SystemTime,
    /// The certificate is not valid after this time.
    pub not_after: SystemTime,
}

impl Certificate {
    /// Reads a certificate.
    ///
    /// # Errors
    /// If it is malformed, or has no valid grant.
    pub fn read(der: &CertificateDer<'_>) -> Result<Self, Refusal> {
        let certificate = parsed(der)?;
        let names = certificate.subject_alternative_name().map_err(|_| Refusal::Malformed)?;
        let mut uris =
            names.iter().flat_map(|names| &names.value.general_names).filter_map(|name| match name {
                GeneralName::URI(uri) => Some(*uri),
                _ => None,
            });
        let (Some(uri), None) = (uris.next(), uris.next()) else {
            return Err(Refusal::Grant(GrantError::Form { field: "URI" }));
        };
        let validity = certificate.validity();
        Ok(Self {
            grant: uri.parse().map_err(Refusal::Grant)?,
            serial: certificate.raw_serial().iter().map(|byte| format!("{byte:02x}")).collect(),
            not_before: system_time(validity.not_before),
            not_after: system_time(validity.not_after),
        })
    }
}

/// The subject's common name, and the end of the validity, of an authority's certificate.
#[cfg(feature = "authority")]
pub(crate) fn authority_of(der: &CertificateDer<'_>) -> Option<(String, SystemTime)> {
    let certificate = parsed(der).ok()?;
    let name = certificate.subject().iter_common_name().next()?.as_str().ok()?.to_owned();
    Some((name, system_time(certificate.validity().not_after)))
}

/// True if the certificate says that it has signed itself, as that of an authority does.
pub(crate) fn is_self_issued(der: &CertificateDer<'_>) -> Result<bool, Refusal> {
    let certificate = parsed(der)?;
    Ok(certificate.is_ca() && certificate.issuer().as_raw() == certificate.subject().as_raw())
}

fn parsed<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Refusal> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        _ => Err(Refusal::Malformed),
    }
}

fn system_time(time: ASN1Time) -> SystemTime {
    // Certificates of this project are not older than the system's time.
    UNIX_EPOCH + Duration::from_secs(u64::try_from(time.timestamp()).unwrap_or(0))
}
