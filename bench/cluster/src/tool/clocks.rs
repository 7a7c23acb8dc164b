//! Measurements of the daemons' clocks: hop by hop with the filter, or each daemon directly.
//!
//! The paper compares the filter with the direct method. There the front-end sends a daemon a few bytes, the
//! daemon answers with its clock, and half the round trip is taken as the time of the way back. The daemons
//! are asked one after another, since replies that wait for each other at the front-end would spoil the
//! measurement. Of 100 rounds the paper takes the least skew ([`nearest_zero`]). The round with the least
//! delay is better, and the filter uses it too ([`least_delayed`]).

use super::backends::{Backends, encoded, in_time};
use bytes::Bytes;
use treefold::operators::filter::clock_skew::{ClockSkews, Probe, WINDOW_MAX};
use treefold::{Body, PartitionSet, Shape, Stream, Synchronisation};
use treefold_cli::exit::Failure;
use treefold_cli::serve::daemon::now_ns;
use treefold_daemon::skew::{FILTER, Params, measured};
use treefold_daemon::{Injected, Part, SERVICE};

/// Number of rounds from which a hop's best is taken.
///
/// It covers all rounds that a user can request.
const WINDOW: u32 = WINDOW_MAX;

/// An estimate of how far a clock is ahead of the front-end's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Estimate {
    pub(super) skew_ns: i64,
    /// Largest error of the estimate.
    pub(super) bound_ns: u64,
    /// Time of the estimate, by the front-end's clock.
    pub(super) at_ns: u64,
}

/// Opens a stream for [`by_filter`].
pub(super) async fn open_filtered(
    backends: &Backends,
    shape: Shape,
    injected: &Injected,
) -> Result<Stream, Failure> {
    let name = format!("{SERVICE}/{FILTER}");
    let params = Params { window: WINDOW, injected: *injected };
    let stream = backends.stream(shape).up_filter(name.as_str()).down_filter(name).filter_params(&params);
    let stream = stream.synchronisation(Synchronisation::DoNotWait);
    backends.open(stream, &Part::Clock(*injected)).await
}

/// Opens a stream for [`directly`].
pub(super) async fn open_plain(backends: &Backends, injected: &Injected) -> Result<Stream, Failure> {
    let stream = backends.stream(Shape::Flat).synchronisation(Synchronisation::DoNotWait);
    backends.open(stream, &Part::Clock(*injected)).await
}

/// Measures all clocks at once, in `rounds` rounds.
pub(super) async fn by_filter(
    stream: &mut Stream,
    count: u32,
    rounds: u32,
) -> Result<Vec<Estimate>, Failure> {
    let mut best: Vec<Option<Estimate>> = vec![None; count as usize];
    for _ in 0..rounds {
        let tag = in_time(stream.send(Bytes::new())).await?;
        let mut waiting = count as usize;
        while waiting > 0 {
            let wave = in_time(stream.wave()).await?;
            if wave.tag != tag {
                return Err(Failure::failed(format!(
                    "a probe of round {} came in round {tag}; expected none",
                    wave.tag
                )));
            }
            waiting = waiting.saturating_sub(wave.contributors.len());
            for packet in &wave.packets {
                take_best(&mut best, &decoded(packet)?);
            }
        }
    }
    let all: Option<Vec<Estimate>> = best.into_iter().collect();
    all.ok_or_else(|| Failure::failed("the clock of at least one daemon was not measured"))
}

fn take_best(best: &mut [Option<Estimate>], told: &ClockSkews) {
    let at_ns = now_ns();
    for skew in &told.skews {
        let estimate = Estimate { skew_ns: skew.skew_ns, bound_ns: skew.error_ns, at_ns };
        if let Some(known) = best.get_mut(skew.endpoint as usize)
            && known.is_none_or(|known| estimate.bound_ns <= known.bound_ns)
        {
            *known = Some(estimate);
        }
    }
}

/// Measures one clock after the other, in `rounds` rounds each, and returns all estimates.
pub(super) async fn directly(
    stream: &mut Stream,
    count: u32,
    rounds: u32,
    mut measured_one: impl FnMut(),
) -> Result<Vec<Vec<Estimate>>, Failure> {
    let mut all = Vec::with_capacity(count as usize);
    let mut tag = 0;
    for endpoint in 0..count {
        let mut of_one = Vec::with_capacity(rounds as usize);
        for _ in 0..rounds {
            tag += 1;
            let to = PartitionSet::from_range(endpoint..endpoint + 1);
            let probe = encoded(&Probe { round: tag, sent_ns: now_ns() })?;
            in_time(stream.send_to(to, tag, probe)).await?;
            let wave = in_time(stream.wave()).await?;
            let at_ns = now_ns();
            let told = wave.packets.first().map(decoded).transpose()?;
            let answer = told.and_then(|told| told.answers).filter(|answer| answer.probe.round == tag);
            let answer =
                answer.ok_or_else(|| Failure::failed("a daemon's reply does not answer the last probe"))?;
            if let Some((skew_ns, bound_ns)) = measured(&answer, at_ns) {
                of_one.push(Estimate { skew_ns, bound_ns, at_ns });
            }
        }
        if of_one.is_empty() {
            return Err(Failure::failed("no round could be used: the machine's clock jumped in every one"));
        }
        measured_one();
        all.push(of_one);
    }
    Ok(all)
}

fn decoded(packet: &Bytes) -> Result<ClockSkews, Failure> {
    ClockSkews::decode(packet).map_err(|error| Failure::failed(error.to_string()))
}

/// Returns the round with the least delay.
///
/// There is at least one.
pub(super) fn least_delayed(rounds: &[Estimate]) -> Estimate {
    let least = rounds.iter().min_by_key(|estimate| estimate.bound_ns);
    *least.expect("invariant: every daemon was measured at least once")
}

/// Returns the round with the least skew.
///
/// There is at least one.
pub(super) fn nearest_zero(rounds: &[Estimate]) -> Estimate {
    let least = rounds.iter().min_by_key(|estimate| estimate.skew_ns.unsigned_abs());
    *least.expect("invariant: every daemon was measured at least once")
}
