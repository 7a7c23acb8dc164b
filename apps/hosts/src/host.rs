//! The identity of a measured host.
//!
//! Names come from outside (a process may choose any name), are shown on terminals, and are part of
//! partials that must stay small. So a [`Name`] is short and free of control characters. This is enforced
//! both when a name is created and when it is decoded.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Most bytes of a name: Linux's limit for host names.
pub const NAME_BYTES_MAX: usize = 64;

/// A host. The number of its endpoint or partition is unique; its name is for people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Host {
    /// The number of its endpoint or partition.
    pub id: u32,
    /// Its name. Two hosts may have the same one.
    pub name: Name,
}

impl Host {
    /// Host `id` with the name `name`.
    pub fn new(id: u32, name: &str) -> Self {
        Self { id, name: Name::clipped(name) }
    }
}

/// A name of at most [`NAME_BYTES_MAX`] bytes, without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Name(String);

impl Name {
    /// Cuts `name` to the limit, and replaces control characters with `?`.
    pub fn clipped(name: &str) -> Self {
        let end = name.floor_char_boundary(NAME_BYTES_MAX);
        Self(name[..end].chars().map(|c| if c.is_control() { '?' } else { c }).collect())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if name.len() > NAME_BYTES_MAX {
            return Err(format!("a name has {} bytes; allowed: at most {NAME_BYTES_MAX}", name.len()));
        }
        if name.contains(char::is_control) {
            return Err("a name has control characters; allowed: none".to_owned());
        }
        Ok(Self(name))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold_operators::Body;

    #[test]
    fn names_are_clipped_and_cleaned() {
        assert_eq!(Name::clipped("web-1").as_str(), "web-1");
        assert_eq!(
            Name::clipped("a\u{1b}[2Jb").as_str(),
            "a?[2Jb",
            "a process's name cannot clear the screen"
        );
        let long = Name::clipped(&"ä".repeat(40));
        assert_eq!(long.as_str().len(), NAME_BYTES_MAX, "cut between characters");
    }

    #[test]
    fn invalid_name_is_refused_when_decoded() {
        let refused = |name: &str| Name::decode(&name.to_string().encode().unwrap()).unwrap_err().to_string();
        assert!(refused(&"x".repeat(65)).contains("at most 64"));
        assert!(refused("\u{7}").contains("control characters"));
    }
}
