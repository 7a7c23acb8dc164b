//! Who is there.

pub mod card;

/// Interim.
#[derive(Clone, Debug, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MembershipConfig {}
#[allow(missing_docs)]
impl MembershipConfig { pub const LAN: Self = Self {}; pub const WAN: Self = Self {}; }
