//! Who was measured.
//!
//! Names come from outside (a process may call itself anything) and end on terminals and in partials that are to stay
//! small. So a [`Name`] is short and free of control characters, where it is made and where it is read alike.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The most bytes of a name: what Linux allows for a host's.
pub const NAME_BYTES_MAX: usize = 64;

/// A host: its endpoint's or partition's number tells it from all others, its name is for people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Host {
    /// Its number.
    pub id: u32,
    /// Its name; two hosts may have the same.
    pub name: Name,
}

impl Host {
    /// Host `id`, called `name`.
    pub fn new(id: u32, name: &str) -> Self {
        Self { id, name: Name::clipped(name) }
    }
}

/// A name of at most [`NAME_BYTES_MAX`] bytes, without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Name(String);

impl Name {
    /// As much of `name` as there is room for, with `?` for what can't be shown.
    pub fn clipped(name: &str) -> Self {
        let end = name.floor_char_boundary(NAME_BYTES_MAX);
        Self(name[..end].chars().map(|c| if c.is_control() { '?' } else { c }).collect())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if name.len() > NAME_BYTES_MAX {
            return Err(format!("a name of {} bytes; allowed: at most {NAME_BYTES_MAX}", name.len()));
        }
        if name.contains(char::is_control) {
            return Err("a name with control characters".to_owned());
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
    fn a_name_is_short_and_can_be_shown() {
        assert_eq!(Name::clipped("web-1").as_str(), "web-1");
        assert_eq!(Name::clipped("a\u{1b}[2Jb").as_str(), "a?[2Jb", "nobody's process clears our screen");
        let long = Name::clipped(&"ä".repeat(40));
        assert_eq!(long.as_str().len(), NAME_BYTES_MAX, "cut between characters");
    }

    #[test]
    fn what_is_no_name_is_refused_when_read() {
        let refused = |name: &str| Name::decode(&name.to_string().encode().unwrap()).unwrap_err().to_string();
        assert!(refused(&"x".repeat(65)).contains("at most 64"));
        assert!(refused("\u{7}").contains("control characters"));
    }
}
