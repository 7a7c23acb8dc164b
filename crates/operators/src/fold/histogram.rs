//! Counts the values in each bin.
//!
//! ```text
//!  endpoints send    any numbers and arrays of numbers: each number is a value
//!  nodes send up     u64s u64 u64 u64:  each bin's count, below the first bound, at or above the last, NaN
//! ```
//!
//! Bin i holds the values from bound i (inclusive) to bound i + 1 (exclusive). A value at or above the last
//! bound is *over*; so with `lo` and `hi`, the value `hi` is over. No value is left out: the counts always
//! add up to the number of values sent. Values are converted to `f64` first, which rounds whole numbers above
//! 2⁵³.

use super::elementwise::{Elementwise, checked, numbers_alone};
use super::sum::Adding;
use super::{FilterError, Fold, MergeError, Piece, Source, params};
use crate::builtin::{Builtin, Made, Param, stateless};
use crate::error::Result;
use crate::packet::{Packet, PacketError, Row};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub(crate) const ENTRY: Builtin = Builtin {
    name: "histogram",
    summary: "counts the values in each bin, below all bins and above",
    params: &[
        Param {
            name: "bounds",
            meaning: "bounds of the bins, strictly ascending: 2 to 65537 finite numbers; alternatively lo, hi and bins",
        },
        Param { name: "lo", meaning: "start of the first of `bins` bins of equal width: a finite number" },
        Param { name: "hi", meaning: "end of the last of them: a finite number above lo" },
        Param { name: "bins", meaning: "number of bins of equal width: 1 to 65536" },
    ],
    made: Made::Fold(|name| stateless(name, Binned::open)),
};

/// Largest allowed `bins`.
pub const BINS_MAX: u32 = 1 << 16;

/// The parameters of `histogram`: `bounds`, or `lo`, `hi` and `bins`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Histogram {
    /// The bounds of the bins, strictly ascending.
    pub bounds: Option<Vec<f64>>,
    /// Start of the first bin.
    pub lo: Option<f64>,
    /// End of the last bin.
    pub hi: Option<f64>,
    /// Number of bins of equal width.
    pub bins: Option<u32>,
}

impl Histogram {
    /// Creates bins between these bounds.
    pub fn between(bounds: impl Into<Vec<f64>>) -> Self {
        Self { bounds: Some(bounds.into()), ..Self::default() }
    }

    /// Creates `bins` bins of equal width from `lo` to `hi`.
    pub fn even(lo: f64, hi: f64, bins: u32) -> Self {
        Self { lo: Some(lo), hi: Some(hi), bins: Some(bins), ..Self::default() }
    }

    /// Computes the bounds from these parameters.
    ///
    /// # Errors
    /// [`FilterError::Parameter`], with the allowed values.
    pub fn bounds(&self) -> Result<Vec<f64>, FilterError> {
        let bounds = match (&self.bounds, self.lo, self.hi, self.bins) {
            (Some(bounds), None, None, None) => bounds.clone(),
            (None, Some(lo), Some(hi), Some(bins)) => {
                let bins = params::within("bins", bins, 1..=BINS_MAX)?;
                let bound =
                    |i: u32| if i == bins { hi } else { lo + (hi - lo) * (f64::from(i) / f64::from(bins)) };
                (0..=bins).map(bound).collect()
            }
            _ => {
                return Err(FilterError::parameter(
                    "",
                    "either `bounds`, or `lo`, `hi` and `bins` must be given",
                ));
            }
        };
        let within = (2..=BINS_MAX as usize + 1).contains(&bounds.len());
        if within && bounds.iter().all(|bound| bound.is_finite()) && bounds.is_sorted_by(|a, b| a < b) {
            return Ok(bounds);
        }
        let ends = |first: Option<&f64>| first.map_or("nothing".into(), f64::to_string);
        let given =
            format!("{} numbers from {} to {}", bounds.len(), ends(bounds.first()), ends(bounds.last()));
        let (field, allowed) = match self.bounds {
            Some(_) => ("bounds", format!("2 to {} finite numbers, strictly ascending", BINS_MAX + 1)),
            None => ("lo, hi", "a finite lo below a finite hi, with room for the bins between them".into()),
        };
        Err(FilterError::parameter(field, format!("{given} are not {allowed}")))
    }
}

/// A histogram, for the front-end to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Number of values in each bin.
    pub bins: Vec<u64>,
    /// Number of values below the first bound.
    pub under: u64,
    /// Number of values at or above the last bound.
    pub over: u64,
    /// Number of NaN values.
    pub nan: u64,
}

impl Counts {
    /// Reads the histogram from a packet of this filter.
    ///
    /// # Errors
    /// If the packet is not a histogram.
    pub fn of(packet: &Packet) -> Result<Self, PacketError> {
        let (bins, under) = (packet.u64s(0)?.to_vec(), packet.u64(1)?);
        Ok(Self { bins, under, over: packet.u64(2)?, nan: packet.u64(3)? })
    }

    fn none(bins: usize) -> Self {
        Self { bins: vec![0; bins], under: 0, over: 0, nan: 0 }
    }

    fn packet(&self) -> Packet {
        Row::new().u64s(&self.bins).u64(self.under).u64(self.over).u64(self.nan).packet()
    }

    fn all(&mut self) -> impl Iterator<Item = &mut u64> {
        self.bins.iter_mut().chain([&mut self.under, &mut self.over, &mut self.nan])
    }

    fn add(&mut self, other: &mut Self) -> Result<(), MergeError> {
        for (ours, theirs) in self.all().zip(other.all()) {
            *ours = checked(Adding::u64(*ours, *theirs), "count of a bin")?;
        }
        Ok(())
    }
}

struct Binned {
    bounds: Vec<f64>,
}

impl Binned {
    fn open(params: &Bytes) -> Result<Self> {
        Ok(Self { bounds: params::read::<Histogram>(params)?.bounds()? })
    }

    /// Counts the values of an endpoint's packet.
    fn count(&self, packet: &Packet, counts: &mut Counts) {
        let mut one = |value: f64| {
            let bounds_up_to = self.bounds.partition_point(|&bound| bound <= value);
            match bounds_up_to {
                _ if value.is_nan() => counts.nan += 1,
                0 => counts.under += 1,
                all if all == self.bounds.len() => counts.over += 1,
                above => counts.bins[above - 1] += 1,
            }
        };
        packet.values().for_each(|value| value.each_f64(&mut one));
    }

    /// Reads the counts of a child.
    fn counts_of(&self, piece: &Piece) -> Result<Counts, FilterError> {
        let counts = Packet::read(&piece.payload)
            .and_then(|packet| Counts::of(&packet))
            .map_err(FilterError::packet(piece.source))?;
        let (given, wanted) = (counts.bins.len(), self.bounds.len() - 1);
        if given != wanted {
            return Err(FilterError::Length { from: piece.source, field: 0, given, wanted });
        }
        Ok(counts)
    }
}

impl Fold for Binned {
    fn fold(&self, pieces: &[Piece]) -> Result<Bytes> {
        let mut counts = Counts::none(self.bounds.len() - 1);
        // Endpoints' values are counted separately: values that fit into memory can't overflow a count.
        let mut sent = Counts::none(counts.bins.len());
        for piece in pieces {
            match piece.source {
                Source::Endpoint(_) => self.count(&numbers_alone(piece)?, &mut sent),
                Source::Child(_) => counts.add(&mut self.counts_of(piece)?)?,
            }
        }
        counts.add(&mut sent)?;
        Ok(counts.packet().into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Body;
    use crate::fold::laws;
    use proptest::prelude::*;

    fn histogram() -> Histogram {
        Histogram::between([-1.0, 0.0, 0.5, 100.0])
    }

    proptest! {
        #[test]
        fn every_value_is_counted_in_any_tree(
            samples in proptest::collection::vec(proptest::collection::vec(-3.0f64..130.0, 0..9), 1..12),
            whole in -200i64..200,
            tree in laws::tree(),
        ) {
            let sample = |values: &Vec<f64>| Row::new().f64s(values).i64(whole).packet().into_bytes();
            let packets: Vec<Bytes> = samples.iter().map(sample).collect();
            let counts = laws::climbed("histogram", &histogram(), &packets, &tree);
            let Counts { bins, under, over, nan } = Counts::of(&Packet::read(&counts[0]).unwrap()).unwrap();
            let values = samples.iter().map(|values| values.len() as u64 + 1).sum::<u64>();
            prop_assert_eq!(bins.iter().sum::<u64>() + under + over + nan, values);
        }

        #[test]
        fn even_bins_ascend_from_lo_to_hi(lo in -1e12f64..1e12, width in 1e-3f64..1e12, bins in 1u32..200) {
            let bounds = Histogram::even(lo, lo + width, bins).bounds().unwrap();
            prop_assert_eq!((bounds[0], bounds[bins as usize], bounds.len()), (lo, lo + width, bins as usize + 1));
        }
    }

    #[test]
    fn a_bin_holds_its_lower_bound_and_not_its_upper() {
        let values = [-1.0, -1.5, 0.0, 0.49, 0.5, 100.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        let sample = Row::new().f64s(&values).u64(7).f32(0.25).packet().into_bytes();
        let out = laws::up("histogram", &histogram(), &[(Source::Endpoint(0), sample)]).unwrap();
        let counts = Counts::of(&Packet::read(&out[0]).unwrap()).unwrap();
        assert_eq!(counts, Counts { bins: vec![1, 3, 2], under: 2, over: 2, nan: 1 });
    }

    fn refused(params: &Histogram) -> String {
        let kind = crate::filter::builtin("histogram").unwrap();
        kind.open(&params.encode().unwrap()).err().unwrap().to_string()
    }

    #[test]
    fn invalid_bins_are_refused_with_the_allowed_values() {
        let allowed = "2 to 65537 finite numbers, strictly ascending";
        for (bounds, given) in
            [(vec![1.0], "1 numbers from 1 to 1"), (vec![2.0, 2.0], "2 numbers from 2 to 2")]
        {
            let wanted = format!("histogram: parameter `bounds`: {given} are not {allowed}");
            assert_eq!(refused(&Histogram::between(bounds)), wanted);
        }
        assert!(refused(&Histogram::even(1.0, 0.0, 4)).contains("a finite lo below a finite hi"));
        assert!(refused(&Histogram::even(0.0, f64::INFINITY, 4)).contains("a finite lo below a finite hi"));
        assert!(refused(&Histogram::even(0.0, 1.0, 0)).contains("`bins`: 0 is not within 1 to 65536"));
        let both = Histogram { lo: Some(0.0), ..histogram() };
        assert_eq!(
            refused(&both),
            "histogram: parameters: either `bounds`, or `lo`, `hi` and `bins` must be given"
        );
    }

    #[test]
    fn a_childs_histogram_must_have_the_same_bins() {
        let other = Counts::none(2).packet().into_bytes();
        let refused =
            laws::up("histogram", &histogram(), &[(Source::Child(3), other)]).unwrap_err().to_string();
        assert_eq!(refused, "histogram: field 0 of child 3 has 2 elements, where the others have 3");
        let most = Counts { under: u64::MAX, ..Counts::none(3) }.packet().into_bytes();
        let one = Row::new().f64(-5.0).packet().into_bytes();
        let refused =
            laws::up("histogram", &histogram(), &[(Source::Child(0), most), (Source::Endpoint(1), one)]);
        assert!(refused.unwrap_err().to_string().starts_with("histogram: overflow: the count of a bin"));
    }
}
