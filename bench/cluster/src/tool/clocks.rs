//! Daemons' clocks, measured: hop by hop by the filter, or each daemon by itself.
//!
//! The direct method is the one the paper compares with: the front-end sends a daemon a few bytes, the daemon answers
//! with its clock, and half the round trip is taken for the way back. It is done one daemon after another, since
//! replies that wait for each other at the front-end would spoil it. The paper takes, of 100 rounds, the skew that is
//! least ([`nearest_zero`]); better is the round of the least delay, as the filter does ([`least_delayed`]).

use super::backends::{Backends, encoded, in_time};
use bytes::Bytes;
use treefold::operators::filter::clock_skew::{ClockSkews, Probe, WINDOW_MAX};
use treefold::{Body, PartitionSet, Shape, Stream, Synchronisation};
use treefold_cli::exit::Failure;
use treefold_cli::serve::daemon::now_ns;
use treefold_daemon::skew::{FILTER, Params, measured};
use treefold_daemon::{Injected, Part, SERVICE};

/// Of how many rounds a hop's best is taken: of all that anybody asks for.
const WINDOW: u32 = WINDOW_MAX;

/// How far a clock is said to be ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Estimate {
    pub(super) skew_ns: i64,
    /// By how much that may be wrong.
    pub(super) bound_ns: u64,
    /// When that was, by the front-end's clock.
    pub(super) at_ns: u64,
}

/// A stream for [`by_filter`].
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

/// A stream for [`directly`].
pub(super) async fn open_plain(backends: &Backends, injected: &Injected) -> Result<Stream, Failure> {
    let stream = backends.stream(Shape::Flat).synchronisation(Synchronisation::DoNotWait);
    backends.open(stream, &Part::Clock(*injected)).await
}

/// All clocks at once, in so many rounds.
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
                return Err(Failure::failed(format!("a probe of round {} came in round {tag}", wave.tag)));
            }
            waiting = waiting.saturating_sub(wave.contributors.len());
            for packet in &wave.packets {
                take_best(&mut best, &decoded(packet)?);
            }
        }
    }
    let all: Option<Vec<Estimate>> = best.into_iter().collect();
    all.ok_or_else(|| Failure::failed("some daemon's clock was not measured"))
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

/// One clock after the other, in so many rounds each; all that was measured.
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
            let answer = answer.ok_or_else(|| Failure::failed("a daemon's reply answers another probe"))?;
            if let Some((skew_ns, bound_ns)) = measured(&answer, at_ns) {
                of_one.push(Estimate { skew_ns, bound_ns, at_ns });
            }
        }
        if of_one.is_empty() {
            return Err(Failure::failed("the machine's clock jumped in every round"));
        }
        measured_one();
        all.push(of_one);
    }
    Ok(all)
}

fn decoded(packet: &Bytes) -> Result<ClockSkews, Failure> {
    ClockSkews::decode(packet).map_err(|error| Failure::failed(error.to_string()))
}

/// The round of the least delay; there is one.
pub(super) fn least_delayed(rounds: &[Estimate]) -> Estimate {
    let least = rounds.iter().min_by_key(|estimate| estimate.bound_ns);
    *least.expect("invariant: every daemon was measured once at least")
}

/// The round of the least skew; there is one.
pub(super) fn nearest_zero(rounds: &[Estimate]) -> Estimate {
    let least = rounds.iter().min_by_key(|estimate| estimate.skew_ns.unsigned_abs());
    *least.expect("invariant: every daemon was measured once at least")
}
