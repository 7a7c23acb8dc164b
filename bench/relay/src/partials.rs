//! The kinds of partials, and their folds.

use bytes::Bytes;
use std::sync::Arc;
use treefold::operators::erased::{Operator, erase};
use treefold::operators::merge::{TopK, TotalF64, VectorSum};
use treefold::operators::{Body, Raw, merging, ready as ready_reduces};
use treefold::{Aggregation, OperatorError, Partition, Placement, Service};

/// The kind of partial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Vectors of 32-bit floating-point numbers, summed entry by entry.
    Vectors,
    /// The best scores with their documents' numbers; two lists are merged into one of the same length.
    TopK,
    /// Sorted runs of words and counts, as lines. They are merged, and the counts of equal words are added.
    Runs,
    /// No fold: one of two partials is dropped. This measures the cost of the transport alone.
    Nothing,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Vectors, Self::TopK, Self::Runs, Self::Nothing];

    /// Returns the aggregation's name within [`service`].
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Vectors => "vectors",
            Self::TopK => "top-k",
            Self::Runs => "runs",
            Self::Nothing => "nothing",
        }
    }

    /// Returns a partial of about `bytes` bytes that differs for every `seed`.
    pub(crate) fn partial(self, bytes: usize, seed: u32) -> Bytes {
        match self {
            Self::Vectors | Self::Nothing => {
                let entries = (0..bytes as u32 / 4).map(|at| (at.wrapping_mul(seed + 1) % 1_000) as f32);
                VectorSum::new(entries).encode()
            }
            Self::Runs => {
                // A partial has four of every five words; partials with other seeds have other words.
                let words = (0..).filter(|word| !(word + seed as usize).is_multiple_of(5));
                let mut lines = String::with_capacity(bytes);
                for word in words {
                    if lines.len() + 16 > bytes {
                        break;
                    }
                    lines.push_str(&format!("word{word:07}\t{}\n", word % 100));
                }
                Ok(lines.into())
            }
            Self::TopK => {
                // A score and a number take about 18 bytes.
                let k = bytes as u32 / 18;
                let score = |at: u32| TotalF64(f64::from(at.wrapping_mul(0x9e37_79b1) ^ seed));
                TopK::of(k, (0..k).map(|at| (score(at), u64::from(at) << 20 | u64::from(seed)))).encode()
            }
        }
        .expect("invariant: these partials can be encoded")
    }

    /// Returns the operator that folds two partials.
    pub(crate) fn operator(self) -> Arc<dyn Operator> {
        match self {
            Self::Vectors => erase(merging("vectors", ready::<VectorSum>)),
            Self::TopK => erase(merging("top-k", ready::<TopK<(TotalF64, u64)>>)),
            Self::Runs => erase(Raws::runs()),
            Self::Nothing => erase(Raws { kind: Self::Nothing, reduce: None }),
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

/// Partials that are folded as raw bytes, or not at all.
struct Raws {
    kind: Kind,
    reduce: Option<Arc<dyn Operator>>,
}

impl Raws {
    fn runs() -> Self {
        let reduce =
            ready_reduces::reduces().find(|(name, _)| *name == "sum-lines").map(|(_, reduce)| reduce);
        Self { kind: Kind::Runs, reduce }
    }
}

impl Aggregation for Raws {
    type Params = u32;
    type Partial = Raw;

    fn local(&self, partition: &Partition, _: &u32) -> Result<Raw, OperatorError> {
        Ok(Raw(ready_bytes(partition, self.kind)?))
    }

    fn reduce(&self, a: Raw, b: Raw, _: &u32) -> Result<Raw, OperatorError> {
        let Some(reduce) = &self.reduce else { return Ok(a) };
        let folded = reduce.reduce(a.0, b.0, &Bytes::new()).now();
        Ok(Raw(folded.ok_or_else(|| OperatorError::new("the reduce must not wait"))??))
    }

    fn reduce_all(&self, parts: Vec<Raw>, _: &u32) -> Result<Raw, OperatorError> {
        let parts: Vec<Bytes> = parts.into_iter().map(|part| part.0).collect();
        let Some(reduce) = &self.reduce else { return Ok(Raw(parts.into_iter().next().unwrap_or_default())) };
        let folded = reduce.reduce_all(parts, &Bytes::new()).now();
        Ok(Raw(folded.ok_or_else(|| OperatorError::new("the reduce must not wait"))??))
    }

    fn placement(&self) -> Placement {
        Placement::Measured
    }
}

/// Returns the service of all kinds, without partitions.
pub(crate) fn service(leaves: u32) -> Service {
    let known = |service: Service, kind: Kind| service.operator(kind.name(), kind.operator());
    Kind::ALL.into_iter().fold(Service::new("bulk").total(leaves), known)
}
