//! The partials that are folded: what they are, and how two become one.

use bytes::Bytes;
use std::sync::Arc;
use treefold::operators::erased::{Operator, erase};
use treefold::operators::merge::{TopK, TotalF64, VectorSum};
use treefold::operators::{Body, Raw, merging};
use treefold::{Aggregation, OperatorError, Partition, Placement, Service};

/// What is folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Vectors of 32-bit floating-point numbers, summed entry by entry.
    Vectors,
    /// As many best of scores with what they belong to, merged.
    TopK,
    /// Nothing: of two partials one is thrown away. What is left is the way there.
    Nothing,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Vectors, Self::TopK, Self::Nothing];

    /// The aggregation's name within [`service`].
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Vectors => "vectors",
            Self::TopK => "top-k",
            Self::Nothing => "nothing",
        }
    }

    /// A partial of about so many bytes, another for every `seed`.
    pub(crate) fn partial(self, bytes: usize, seed: u32) -> Bytes {
        match self {
            Self::Vectors | Self::Nothing => {
                let entries = (0..bytes as u32 / 4).map(|at| (at.wrapping_mul(seed + 1) % 1_000) as f32);
                VectorSum::new(entries).encode()
            }
            Self::TopK => {
                // A score and a number take some 18 bytes.
                let k = bytes as u32 / 18;
                let score = |at: u32| TotalF64(f64::from(at.wrapping_mul(0x9e37_79b1) ^ seed));
                TopK::of(k, (0..k).map(|at| (score(at), u64::from(at) << 20 | u64::from(seed)))).encode()
            }
        }
        .expect("invariant: what is made here can be written")
    }

    /// How two become one.
    pub(crate) fn operator(self) -> Arc<dyn Operator> {
        match self {
            Self::Vectors => erase(merging("vectors", ready::<VectorSum>)),
            Self::TopK => erase(merging("top-k", ready::<TopK<(TotalF64, u64)>>)),
            Self::Nothing => erase(Nothing),
        }
    }
}

/// The data of a partition: its partial of each kind.
pub(crate) struct Ready(pub(crate) Vec<Bytes>);

fn ready_bytes(partition: &Partition, kind: Kind) -> Result<Bytes, OperatorError> {
    Ok(partition.data_as::<Ready>()?.0[kind as usize].clone())
}

fn ready<M: Body>(partition: &Partition, kind: &u32) -> Result<M, OperatorError> {
    let bytes = ready_bytes(partition, Kind::ALL[*kind as usize % Kind::ALL.len()])?;
    M::decode(&bytes).map_err(|error| OperatorError::new(error.to_string()))
}

struct Nothing;

impl Aggregation for Nothing {
    type Params = u32;
    type Partial = Raw;

    fn local(&self, partition: &Partition, _: &u32) -> Result<Raw, OperatorError> {
        Ok(Raw(ready_bytes(partition, Kind::Nothing)?))
    }

    fn reduce(&self, a: Raw, b: Raw, _: &u32) -> Result<Raw, OperatorError> {
        drop(b);
        Ok(a)
    }

    fn placement(&self) -> Placement {
        Placement::Measured
    }
}

/// The service of all kinds, without partitions.
pub(crate) fn service(leaves: u32) -> Service {
    let known = |service: Service, kind: Kind| service.operator(kind.name(), kind.operator());
    Kind::ALL.into_iter().fold(Service::new("bulk").total(leaves), known)
}
