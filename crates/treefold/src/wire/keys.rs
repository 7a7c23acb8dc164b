//! The keys of datagrams, on their way from one process to another.

use crate::group_keys::{GroupKey, KEYS_MAX};
use crate::wire::decode::decoded;
use crate::wire::error::{WireError, malformed, within};
use crate::wire::header::{KeyHeader, KeysHeader};

/// The header of a frame with these keys.
pub(super) fn header(keys: &[GroupKey]) -> KeysHeader {
    let of = |key: &GroupKey| {
        let GroupKey { epoch, id, polls_only, secret } = *key;
        KeyHeader { epoch, id, polls_only, secret: secret.to_vec() }
    };
    KeysHeader { keys: keys.iter().map(of).collect() }
}

/// Reads the header of a frame with keys.
///
/// # Errors
/// If there are more than a process keeps, or a secret has another length.
pub(super) fn read(header: &[u8]) -> Result<Vec<GroupKey>, WireError> {
    let KeysHeader { keys } = decoded(header)?;
    within("keys", KEYS_MAX, keys.len())?;
    let of = |key: KeyHeader| {
        let KeyHeader { epoch, id, polls_only, secret } = key;
        let secret = secret.try_into().map_err(|_| malformed("secret"))?;
        Ok(GroupKey { epoch, id, polls_only, secret })
    };
    keys.into_iter().map(of).collect()
}
