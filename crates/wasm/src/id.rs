//! The name of a module: the SHA-256 of its bytes.
//!
//! Such a name needs no central authority and can never stand for another module. A node that fetches a
//! module from an untrusted peer can verify that it is the requested one.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

/// The SHA-256 of a module's bytes, written and read as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleId([u8; 32]);

/// A text that is not a module's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a module name; a name is 64 hexadecimal digits, the SHA-256 of the module's bytes")]
pub struct BadModuleId(pub String);

impl ModuleId {
    /// Computes the name of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Creates a name from its 32 bytes, as on the wire.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the name's 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for ModuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ModuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "{a:02x}{b:02x}{c:02x}{d:02x}…")
    }
}

impl FromStr for ModuleId {
    type Err = BadModuleId;

    fn from_str(text: &str) -> Result<Self, BadModuleId> {
        let bad = || BadModuleId(text.chars().take(80).collect());
        let digit = |byte: u8| (byte as char).to_digit(16).ok_or_else(bad);
        if text.len() != 64 {
            return Err(bad());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for ModuleId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ModuleId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_the_hash_and_round_trips_as_text() {
        let empty = ModuleId::of(b"");
        let text = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(empty.to_string(), text);
        assert_eq!(text.parse(), Ok(empty));
        assert_eq!(text.to_uppercase().parse(), Ok(empty));
        assert_eq!(format!("{empty:?}"), "e3b0c442…");
        assert_eq!(serde_json::from_str::<ModuleId>(&serde_json::to_string(&empty).unwrap()).unwrap(), empty);
    }

    #[test]
    fn invalid_names_are_errors() {
        for bad in ["", "e3b0", &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(bad.parse::<ModuleId>(), Err(BadModuleId(bad.to_owned())));
        }
    }
}
