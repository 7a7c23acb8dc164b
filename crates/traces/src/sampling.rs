//! The choice of the calls that are traced, and bounds on what happens too often.
//!
//! A caller that traces its call (the flag `sampled` of its `traceparent`) gets spans, and a caller that names its place without
//! that flag gets none: so a trace is whole or absent. Of the other calls a ratio is traced, chosen by their trace id as
//! OpenTelemetry's `TraceIdRatioBased` does. A rate bounds both, because the report of a traced call costs bytes, and a stranger
//! could set the flag.

use crate::context::{Context, Parent, TraceId};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The time in which a rate allows its number of events, which may all come at once.
const SECOND_NS: u64 = 1_000_000_000;

/// Which calls are traced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Share of the calls without a place that are traced, from 0 to 1.
    pub ratio: f64,
    /// Most traced calls in a second.
    pub per_s: u32,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { ratio: 0.01, per_s: 100 }
    }
}

#[derive(Debug)]
pub(crate) struct Sampler {
    /// Ids below it are chosen.
    threshold: u64,
    rate: Rate,
}

/// The sampler's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Traced,
    Untraced,
    /// It was chosen, but the rate's calls of this second are used up.
    Limited,
}

impl Sampler {
    pub(crate) fn new(sampling: Sampling) -> Self {
        // The ratio's share of the ids of 63 bits. A float's rounding moves it by less than a billionth.
        let threshold = (sampling.ratio.clamp(0.0, 1.0) * (1_u64 << 63) as f64) as u64;
        Self { threshold, rate: Rate::new(sampling.per_s) }
    }

    pub(crate) fn choose(&self, parent: Option<&Parent>, context: &Context) -> Choice {
        let is_chosen = parent.map_or_else(|| self.has(context.trace), |parent| parent.is_sampled);
        match is_chosen {
            false => Choice::Untraced,
            true if self.rate.passes() => Choice::Traced,
            true => Choice::Limited,
        }
    }

    fn has(&self, TraceId(id): TraceId) -> bool {
        let [.., a, b, c, d, e, f, g, h] = id;
        u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1 < self.threshold
    }
}

/// Lets a number of events pass in a second, and refuses the others.
#[derive(Debug)]
pub struct Rate {
    started: Instant,
    /// Time that one event uses up; `None` if none passes.
    each_ns: Option<u64>,
    /// The time up to which events have used the rate.
    used_ns: AtomicU64,
}

impl Rate {
    /// A rate of `per_s` events in a second.
    pub fn new(per_s: u32) -> Self {
        let each_ns = (per_s > 0).then(|| SECOND_NS / u64::from(per_s));
        Self { started: Instant::now(), each_ns, used_ns: AtomicU64::new(0) }
    }

    /// True if an event may pass now.
    pub fn passes(&self) -> bool {
        self.passes_at(self.started.elapsed())
    }

    fn passes_at(&self, since_start: Duration) -> bool {
        let Some(each_ns) = self.each_ns else { return false };
        // The first second's events may all come at the start.
        let now_ns = SECOND_NS.saturating_add(u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX));
        let use_one = |used_ns: u64| {
            let used_ns = used_ns.max(now_ns - SECOND_NS) + each_ns;
            (used_ns <= now_ns).then_some(used_ns)
        };
        self.used_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, use_one).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(sampler: &Sampler, parent: Option<&str>) -> Choice {
        let parent = parent.map(|text| Parent::of([text.as_bytes()], []).unwrap());
        sampler.choose(parent.as_ref(), &Context::below(parent.as_ref()).unwrap())
    }

    #[test]
    fn callers_decide_and_others_are_chosen_by_ratio() {
        let sampler = |ratio| Sampler::new(Sampling { ratio, per_s: 1_000_000 });
        let sampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        assert_eq!(choice(&sampler(0.0), Some(sampled)), Choice::Traced);
        assert_eq!(choice(&sampler(1.0), Some(unsampled)), Choice::Untraced);
        let chosen =
            |ratio: f64| (0..4_000).filter(|_| choice(&sampler(ratio), None) == Choice::Traced).count();
        assert_eq!((chosen(0.0), chosen(1.0)), (0, 4_000));
        let quarter = chosen(0.25);
        assert!((800..1_200).contains(&quarter), "{quarter} of 4,000");
    }

    #[test]
    fn choice_of_an_id_is_the_same_everywhere() {
        let sampler = Sampler::new(Sampling { ratio: 0.5, per_s: 10 });
        let id = |last: u64| {
            let mut bytes = [7; 16];
            bytes[8..].copy_from_slice(&last.to_be_bytes());
            sampler.has(TraceId(bytes))
        };
        assert!(id(0) && id((1 << 63) - 1));
        assert!(!id(1 << 63) && !id(u64::MAX));
    }

    #[test]
    fn callers_cannot_pass_the_rate() {
        let sampler = Sampler::new(Sampling { ratio: 0.0, per_s: 2 });
        let sampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let choices = [(); 3].map(|()| choice(&sampler, Some(sampled)));
        assert_eq!(choices, [Choice::Traced, Choice::Traced, Choice::Limited]);
    }

    #[test]
    fn rate_allows_a_second_at_once_and_then_its_pace() {
        let rate = Rate::new(4);
        let passed = |from_ms: u64, to_ms: u64| {
            (from_ms..to_ms).filter(|&ms| rate.passes_at(Duration::from_millis(ms))).count()
        };
        assert_eq!(passed(0, 100), 4);
        assert_eq!(passed(100, 2_100), 8);
        assert_eq!((0..9).filter(|_| rate.passes_at(Duration::from_secs(60))).count(), 4);
        assert!(!Rate::new(0).passes());
    }
}
