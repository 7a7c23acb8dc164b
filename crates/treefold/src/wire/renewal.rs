//! A renewed certificate, on its way to the other side of a session.

use crate::credentials::Renewal;
use crate::wire::decode::{decoded, few_enough};
use crate::wire::error::{WireError, within};
use crate::wire::header::RenewalHeader;

/// The most certificates of a chain.
const CHAIN_MAX: usize = 4;
/// The longest certificate. One with 256 services of the longest names is shorter.
const CERTIFICATE_BYTES_MAX: usize = 128 << 10;
/// The longest signature.
const SIGNATURE_BYTES_MAX: usize = 1 << 10;

/// The header of a frame with this renewal.
///
/// # Errors
/// If a part is too long.
pub(super) fn header(renewal: &Renewal) -> Result<RenewalHeader, WireError> {
    check(renewal)?;
    let Renewal { chain, scheme, signature } = renewal.clone();
    Ok(RenewalHeader { chain, scheme, signature })
}

/// Reads the header of a frame with a renewal.
///
/// # Errors
/// If it is malformed, or a part is too long.
pub(super) fn read(header: &[u8]) -> Result<Renewal, WireError> {
    few_enough(header, 1, "chain", CHAIN_MAX)?;
    let RenewalHeader { chain, scheme, signature } = decoded(header)?;
    let renewal = Renewal { chain, scheme, signature };
    check(&renewal)?;
    Ok(renewal)
}

fn check(renewal: &Renewal) -> Result<(), WireError> {
    within("chain", CHAIN_MAX, renewal.chain.len())?;
    renewal.chain.iter().try_for_each(|der| within("chain", CERTIFICATE_BYTES_MAX, der.len()))?;
    within("signature", SIGNATURE_BYTES_MAX, renewal.signature.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    #[test]
    fn a_renewal_is_read_as_it_was_written_and_bounded() {
        let renewal = Renewal { chain: vec![vec![1; 900], vec![2]], scheme: 0x0403, signature: vec![3; 70] };
        assert_eq!(read(&header(&renewal).unwrap().encode_to_vec()), Ok(renewal.clone()));
        let too_many = Renewal { chain: vec![vec![1]; CHAIN_MAX + 1], ..renewal.clone() };
        let too_long = Renewal { chain: vec![vec![1; CERTIFICATE_BYTES_MAX + 1]], ..renewal.clone() };
        let too_signed = Renewal { signature: vec![1; SIGNATURE_BYTES_MAX + 1], ..renewal };
        for wrong in [too_many, too_long, too_signed] {
            assert!(header(&wrong).is_err());
            let Renewal { chain, scheme, signature } = wrong;
            assert!(read(&RenewalHeader { chain, scheme, signature }.encode_to_vec()).is_err());
        }
    }
}
