//! Distances between vectors.
//!
//! Every metric is a *distance*: less is nearer. Cosine vectors are scaled to length 1 when they are read, so
//! that their distance needs one product.
//!
//! Invariant: a distance depends only on the two vectors. Sums run in sixteen lanes, in a fixed order and
//! without fused multiplication, so every machine and every split of a file gives the same bits. The compiler
//! turns the lanes into vector instructions; on x86-64 a second copy of the loops uses AVX2 if the processor
//! has it.

use serde::{Deserialize, Serialize};

/// Sums that a loop keeps side by side.
const LANES: usize = 16;

/// How near two vectors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// 1 − the cosine of the angle: 0 for the same direction, 2 for opposite ones.
    Cosine,
    /// The negated inner product.
    Ip,
    /// The Euclidean distance.
    L2,
}

impl Metric {
    /// The names of all metrics.
    pub const NAMES: [&str; 3] = ["cosine", "ip", "l2"];

    /// The metric of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "cosine" => Some(Self::Cosine),
            "ip" => Some(Self::Ip),
            "l2" => Some(Self::L2),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cosine => "cosine",
            Self::Ip => "ip",
            Self::L2 => "l2",
        }
    }

    /// Makes a vector ready for comparison. Returns false if the metric gives it no distance: a cosine needs
    /// a direction.
    #[must_use]
    pub fn prepare(self, vector: &mut [f32]) -> bool {
        if self != Self::Cosine {
            return true;
        }
        // In double precision, so that no square overflows or vanishes.
        let length = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
        if length == 0.0 {
            return false;
        }
        vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
        true
    }

    /// The distance of two vectors that are ready.
    ///
    /// # Panics
    /// If they have different lengths.
    pub fn distance(self, a: &[f32], b: &[f32]) -> f32 {
        let rank = self.rank(a, b);
        match self {
            Self::L2 => rank.sqrt(),
            Self::Cosine | Self::Ip => rank,
        }
    }

    /// A number that orders as the distance does, and is cheaper: the square of L2.
    ///
    /// # Panics
    /// If they have different lengths.
    pub fn rank(self, a: &[f32], b: &[f32]) -> f32 {
        assert_eq!(a.len(), b.len(), "only vectors of one length have a distance");
        match self {
            Self::L2 => squares(a, b),
            Self::Ip => -dot(a, b),
            // Rounding must not give less than the distance to itself.
            Self::Cosine => (1.0 - dot(a, b)).max(0.0),
        }
    }
}

/// Adds `term` of every pair, in lanes.
#[inline(always)]
fn lanes(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let mut sums = [0f32; LANES];
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            sums[lane] += term(a[lane], b[lane]);
        }
    }
    for (sum, (a, b)) in sums.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *sum += term(*a, *b);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

#[inline(always)]
fn dot_lanes(a: &[f32], b: &[f32]) -> f32 {
    lanes(a, b, |a, b| a * b)
}

#[inline(always)]
fn squares_lanes(a: &[f32], b: &[f32]) -> f32 {
    lanes(a, b, |a, b| (a - b) * (a - b))
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    //! The same loops for processors with AVX2.

    #[target_feature(enable = "avx2")]
    pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
        super::dot_lanes(a, b)
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn squares(a: &[f32], b: &[f32]) -> f32 {
        super::squares_lanes(a, b)
    }
}

/// The inner product.
#[allow(unsafe_code, reason = "a call across target features")]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, which is all that the function needs beyond a safe one.
        return unsafe { avx2::dot(a, b) };
    }
    dot_lanes(a, b)
}

/// The square of the Euclidean distance.
#[allow(unsafe_code, reason = "a call across target features")]
fn squares(a: &[f32], b: &[f32]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, which is all that the function needs beyond a safe one.
        return unsafe { avx2::squares(a, b) };
    }
    squares_lanes(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn loops_of_every_processor_give_the_same_bits(
            pairs in proptest::collection::vec((-9f32..9.0, -9f32..9.0), 0..200),
        ) {
            let (a, b): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
            prop_assert_eq!(dot(&a, &b).to_bits(), dot_lanes(&a, &b).to_bits());
            prop_assert_eq!(squares(&a, &b).to_bits(), squares_lanes(&a, &b).to_bits());
            let plain: f64 = pairs.iter().map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            prop_assert!((f64::from(dot(&a, &b)) - plain).abs() < 1e-2);
        }
    }

    #[test]
    fn distances_of_known_vectors() {
        let (mut a, mut b) = (vec![3.0, 4.0], vec![-4.0, 3.0]);
        assert_eq!(Metric::L2.distance(&a, &b), 50f32.sqrt());
        assert_eq!(Metric::Ip.distance(&a, &a), -25.0);
        assert!(Metric::Cosine.prepare(&mut a) && Metric::Cosine.prepare(&mut b));
        assert_eq!(Metric::Cosine.distance(&a, &b), 1.0);
        assert!(Metric::Cosine.distance(&a, &a) < 1e-6);
        assert!(!Metric::Cosine.prepare(&mut [0.0, 0.0]), "no direction");
        let mut tiny = [1e-38f32, 0.0];
        assert!(Metric::Cosine.prepare(&mut tiny) && tiny == [1.0, 0.0]);
        for name in Metric::NAMES {
            assert_eq!(Metric::named(name).map(Metric::name), Some(name));
        }
    }
}
