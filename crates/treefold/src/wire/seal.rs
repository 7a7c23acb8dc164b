//! The cluster's token, and how a greeting proves that its sender knows it.
//!
//! The token itself is never sent. A greeting contains the HMAC-SHA-256 (RFC 2104) of its other fields and of the
//! TLS session's secret ([`session`](crate::session)) under the token. Without the token, no process can produce a valid
//! greeting for any name, and a greeting from another session, or from another side of the same one, is invalid.
//!
//! A process that dials a false node gives it such a proof. From that, a token of few bits can be found by trying them all,
//! so a token should be random: 128 bits or more. Datagrams have keys of their own ([`group_keys`](crate::group_keys)).

use crate::wire::columns::put_node;
use crate::wire::hello::Hello;
use ring::hmac::{self, HMAC_SHA256};
use ring::rand::{SecureRandom, SystemRandom};
use std::{fmt, io};

/// Separates this proof from any other use of the same token.
const HELLO_CONTEXT: &[u8] = b"treefold hello 2";
/// Sealed in addition by a process of a network that a launcher started.
const BY_LAUNCHER_WORD: &[u8] = b"by launcher";

/// The side of a connection that sends a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side that connects. It greets first.
    Dials,
    /// The side that accepts the connection.
    Listens,
}

impl Side {
    /// The side of the other process.
    pub fn other(self) -> Self {
        match self {
            Self::Dials => Self::Listens,
            Self::Listens => Self::Dials,
        }
    }

    pub(crate) fn word(self) -> &'static [u8] {
        match self {
            Self::Dials => b"dials",
            Self::Listens => b"listens",
        }
    }
}

/// The longest token.
const TOKEN_BYTES_MAX: usize = 1_024;
/// Random bytes of a token that is drawn.
const DRAWN_BYTES: usize = 16;

/// A secret that the processes of a cluster share.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The environment variable in which programs hand a token on.
    pub const VARIABLE: &str = "TREEFOLD_TOKEN";

    /// Creates a token. Returns `None` if the text is empty, contains a line end or a zero byte, or is longer
    /// than 1,024 bytes.
    pub fn new(text: impl Into<String>) -> Option<Self> {
        let text = text.into();
        let is_one = !text.is_empty() && text.len() <= TOKEN_BYTES_MAX && !text.contains(['\n', '\r', '\0']);
        is_one.then_some(Self(text))
    }

    /// Draws a token at random.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub fn drawn() -> io::Result<Self> {
        let mut bytes = [0_u8; DRAWN_BYTES];
        let drawn = SystemRandom::new().fill(&mut bytes);
        drawn.map_err(|_| io::Error::other("the system gives no random bytes"))?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The secret, for a process of the cluster.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(super) fn seal(&self, hello: &Hello, side: Side, session: &[u8]) -> Vec<u8> {
        hmac::sign(&self.key(), &sealed(hello, side, session)).as_ref().to_vec()
    }

    /// Verifies a greeting's seal in constant time.
    pub(super) fn verify(&self, hello: &Hello, side: Side, session: &[u8]) -> bool {
        hmac::verify(&self.key(), &sealed(hello, side, session), &hello.seal).is_ok()
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(HMAC_SHA256, self.0.as_bytes())
    }
}

/// The bytes of a greeting that its seal covers.
fn sealed(hello: &Hello, side: Side, session: &[u8]) -> Vec<u8> {
    let mut bytes = HELLO_CONTEXT.to_vec();
    bytes.extend((session.len() as u32).to_le_bytes());
    bytes.extend(session);
    bytes.extend(hello.version.to_le_bytes());
    bytes.extend(hello.version_least.to_le_bytes());
    bytes.extend((hello.cluster.len() as u32).to_le_bytes());
    bytes.extend(hello.cluster.as_bytes());
    put_node(&mut bytes, hello.node);
    bytes.extend(side.word());
    if hello.by_launcher {
        bytes.extend(BY_LAUNCHER_WORD);
    }
    bytes
}

/// Hides the secret, so that it does not appear in logs.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::WireError;
    use treefold_core::id::NodeId;

    #[test]
    fn a_seal_is_valid_only_for_the_greeting_it_was_made_for() {
        let [ours, other] = ["one", "two"].map(|text| Token::new(text).unwrap());
        let node = |port: u16| NodeId::new(([127, 0, 0, 1], port).into(), 1);
        let sealed = Hello::new("c", node(1)).sealed(Some(&ours), Side::Dials, b"session");
        let check = |hello: &Hello, token| hello.check_seal(token, Side::Dials, b"session");
        assert_eq!(check(&sealed, Some(&ours)), Ok(()));
        assert_eq!(check(&sealed, None), Ok(()), "a side without a token accepts any greeting");
        assert_eq!(check(&sealed, Some(&other)), Err(WireError::Token));
        assert_eq!(check(&Hello::new("c", node(1)), Some(&ours)), Err(WireError::Token));
        let elsewhere = |side, session: &[u8]| sealed.check_seal(Some(&ours), side, session);
        assert_eq!(elsewhere(Side::Listens, b"session"), Err(WireError::Token), "an echo");
        assert_eq!(elsewhere(Side::Dials, b"another"), Err(WireError::Token), "learnt in another session");
        let changed = Hello { by_launcher: true, ..sealed.clone() };
        assert_eq!(check(&changed, Some(&ours)), Err(WireError::Token));
        assert_eq!(check(&Hello { node: node(2), ..sealed }, Some(&ours)), Err(WireError::Token));
        assert!(!format!("{ours:?}").contains("one"));
        assert!(
            [String::new(), "a\nb".into(), "x".repeat(1_025)]
                .into_iter()
                .all(|bad| Token::new(bad).is_none())
        );
    }
}
