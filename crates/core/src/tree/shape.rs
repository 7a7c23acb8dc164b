//! Shapes (interim).
/// The shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[allow(missing_docs)]
pub enum Shape { Base, Flat, Chain, KAry(u32), Binomial, #[default] Adaptive, EarliestReady }
