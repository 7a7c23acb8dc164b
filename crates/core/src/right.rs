//! Rights: what a process may do in a cluster whose processes have certificates.
//!
//! Drivers check them, because only they know who has sent a message. Core passes the rights of a stream's opener on with
//! the stream, so that each endpoint can see them.

use core::fmt;
use core::str::FromStr;

macro_rules! rights {
    ($($(#[$doc:meta])* $name:ident = $bit:literal, $text:literal;)*) => {
        /// Something that a process may be allowed to do.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Right { $($(#[$doc])* $name,)* }

        impl Right {
            /// Every right.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The right's name, as the command line and certificates have it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            const fn bit(self) -> u8 {
                match self { $(Self::$name => 1 << $bit,)* }
            }
        }
    };
}

rights! {
    /// Make calls.
    Call = 0, "call";
    /// Open streams.
    Stream = 1, "stream";
    /// Attach as a worker and push results.
    Push = 2, "push";
    /// Feed mirrors.
    Feed = 3, "feed";
    /// Read from mirrors.
    Read = 4, "read";
    /// Change a running cluster: push operators, set shares.
    Operate = 5, "operate";
    /// Be a member.
    Join = 6, "join";
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text is not the name of a right. The message has those that are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownRight;

impl fmt::Display for UnknownRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Rights::ALL, f)
    }
}

impl core::error::Error for UnknownRight {}

impl FromStr for Right {
    type Err = UnknownRight;

    fn from_str(text: &str) -> Result<Self, UnknownRight> {
        Self::ALL.iter().copied().find(|right| right.name() == text).ok_or(UnknownRight)
    }
}

/// A set of rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rights(u8);

impl Rights {
    /// Every right: that of a process in a cluster without certificates.
    pub const ALL: Self = Self(u8::MAX);
    /// No right.
    pub const NONE: Self = Self(0);

    /// True if the right is in the set.
    pub const fn has(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }

    /// The rights in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The set as a number, for the wire.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set of a number. Bits of unknown rights have no meaning.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// The known rights in the set.
    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::ALL.iter().copied().filter(move |&right| self.has(right))
    }
}

impl Default for Rights {
    fn default() -> Self {
        Self::ALL
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Self {
        Self(rights.into_iter().fold(0, |bits, right| bits | right.bit()))
    }
}

/// The names, with commas.
impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for right in self.iter() {
            write!(f, "{comma}{right}")?;
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn rights_are_named_and_counted_in_sets() {
        let set: Rights = [Right::Call, Right::Join].into_iter().collect();
        assert_eq!(set.to_string(), "call,join");
        assert!(set.has(Right::Join) && !set.has(Right::Operate));
        assert_eq!(set.and(Rights::from_bits(1)).to_string(), "call");
        assert_eq!("push".parse(), Ok(Right::Push));
        assert_eq!("pull".parse::<Right>(), Err(UnknownRight));
        assert_eq!(UnknownRight.to_string(), "call,stream,push,feed,read,operate,join");
        assert_eq!(Rights::NONE.to_string(), "");
    }
}
