//! The cluster's token, and how a greeting proves that its sender has it.
//!
//! The token itself never travels. A greeting bears HMAC-SHA-256 (RFC 2104) of its own fields under the token: whoever
//! lacks it cannot make one, for any name. It keeps strangers and strays out; it hides nothing, and somebody who reads
//! the wire can repeat a greeting under the same name. Where that matters, the wire must be encrypted.

use crate::wire::columns::put_node;
use crate::wire::hello::Hello;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fmt;

/// Sets these proofs apart from any other use of the same token.
const CONTEXT: &[u8] = b"treefold hello 1";
/// The longest token.
const TOKEN_BYTES_MAX: usize = 1_024;

/// A secret that the processes of a cluster share.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token; `None` when the text is empty, has a line end, or is longer than 1,024 bytes.
    pub fn new(text: impl Into<String>) -> Option<Self> {
        let text = text.into();
        let is_one = !text.is_empty() && text.len() <= TOKEN_BYTES_MAX && !text.contains(['\n', '\r', '\0']);
        is_one.then_some(Self(text))
    }

    /// The secret, to be handed to a process of the cluster.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(super) fn seal(&self, hello: &Hello) -> Vec<u8> {
        self.over(hello).finalize().into_bytes().to_vec()
    }

    /// In constant time.
    pub(super) fn verify(&self, hello: &Hello) -> bool {
        self.over(hello).verify_slice(&hello.seal).is_ok()
    }

    fn over(&self, hello: &Hello) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes())
            .expect("invariant: HMAC takes keys of any length");
        let mut node = Vec::new();
        put_node(&mut node, hello.node);
        mac.update(CONTEXT);
        mac.update(&hello.version.to_le_bytes());
        mac.update(&hello.version_least.to_le_bytes());
        mac.update(&(hello.cluster.len() as u32).to_le_bytes());
        mac.update(hello.cluster.as_bytes());
        mac.update(&node);
        mac
    }
}

/// Secrets stay out of logs.
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
    fn a_greeting_proves_the_token_for_its_own_name_alone() {
        let [ours, other] = ["one", "two"].map(|text| Token::new(text).unwrap());
        let node = |port: u16| NodeId::new(([127, 0, 0, 1], port).into(), 1);
        let sealed = Hello::new("c", node(1)).sealed(Some(&ours));
        assert_eq!(sealed.check_seal(Some(&ours)), Ok(()));
        assert_eq!(sealed.check_seal(None), Ok(()), "who has no token takes anybody");
        assert_eq!(sealed.check_seal(Some(&other)), Err(WireError::Token));
        assert_eq!(Hello::new("c", node(1)).check_seal(Some(&ours)), Err(WireError::Token));
        assert_eq!(Hello { node: node(2), ..sealed }.check_seal(Some(&ours)), Err(WireError::Token));
        assert!(!format!("{ours:?}").contains("one"));
        assert!(
            [String::new(), "a\nb".into(), "x".repeat(1_025)]
                .into_iter()
                .all(|bad| Token::new(bad).is_none())
        );
    }
}
