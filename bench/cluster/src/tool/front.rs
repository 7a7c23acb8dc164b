//! A tool's front-end: requests to all daemons, folded in the tree or here, and requests to one daemon.
//!
//! In a tree each kind of folding has a stream of its own, because a stream has fixed filters. Without a tree
//! there is one stream without filters, and the front-end folds its packets with the same filters.

use super::backends::{Backends, encoded, in_time};
use super::clocks::{self, Estimate};
use bytes::Bytes;
use treefold::operators::filter::{Piece, Source, Wave, builtin};
use treefold::operators::packet::Packet;
use treefold::{PartitionSet, Shape, Stream, Synchronisation};
use treefold_cli::exit::Failure;
use treefold_daemon::{Injected, Part, Request};

/// How the daemons' answers are folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    Concatenate,
    Classes,
    Sum,
}

impl Fold {
    const ALL: [Self; 3] = [Self::Concatenate, Self::Classes, Self::Sum];

    fn filter(self) -> &'static str {
        match self {
            Self::Concatenate => "concatenate",
            Self::Classes => "classes",
            Self::Sum => "sum",
        }
    }
}

/// A front-end with its streams.
pub(super) struct FrontEnd {
    all: PartitionSet,
    /// One stream for each of [`Fold::ALL`], in that order; empty without a tree.
    folding: Vec<Stream>,
    /// A stream that brings every packet unchanged.
    plain: Stream,
    clocks: Stream,
    plain_tag: u64,
}

impl FrontEnd {
    /// Opens the streams.
    pub(super) async fn open(backends: &Backends, shape: Shape, seed: u64) -> Result<Self, Failure> {
        let part = Part::Answer { seed };
        let mut folding = Vec::new();
        if shape != Shape::Flat {
            for fold in Fold::ALL {
                let stream = backends.stream(shape).up_filter(fold.filter());
                folding.push(backends.open(stream, &part).await?);
            }
        }
        let unsynchronised = backends.stream(shape).synchronisation(Synchronisation::DoNotWait);
        let plain = backends.open(unsynchronised, &part).await?;
        let injected = Injected { seed, ..Injected::default() };
        let clocks = if shape == Shape::Flat {
            clocks::open_plain(backends, &injected).await?
        } else {
            clocks::open_filtered(backends, shape, &injected).await?
        };
        Ok(Self { all: backends.all.clone(), folding, plain, clocks, plain_tag: 0 })
    }

    /// Asks all daemons and returns their folded answers.
    pub(super) async fn gather(&mut self, fold: Fold, request: &Request) -> Result<Packet, Failure> {
        let request = encoded(request)?;
        let folded = match self.folding.get_mut(fold as usize) {
            Some(stream) => from_tree(stream, &self.all, request).await?,
            None => self.fold_here(fold, request).await?,
        };
        Packet::read(&folded).map_err(|error| Failure::failed(error.to_string()))
    }

    async fn fold_here(&mut self, fold: Fold, request: Bytes) -> Result<Bytes, Failure> {
        self.plain_tag += 1;
        let tag = self.plain_tag;
        in_time(self.plain.sender().send_tagged(tag, request)).await?;
        let mut pieces = Vec::with_capacity(self.all.len());
        while pieces.len() < self.all.len() {
            let (endpoint, payload) = self.next_plain(tag).await?;
            pieces.push(Piece { source: Source::Endpoint(endpoint), payload });
        }
        let refused = |error: treefold::OperatorError| Failure::failed(error.to_string());
        let kind = builtin(fold.filter()).expect("invariant: every node has these filters");
        let mut filter = kind.open(&Bytes::new()).map_err(refused)?;
        let mut out = Vec::new();
        filter.up(Wave { tag, pieces: &pieces, now_ns: 0 }, &mut out).map_err(refused)?;
        only(out)
    }

    /// Asks one daemon.
    pub(super) async fn ask(&mut self, endpoint: u32, request: &Request) -> Result<Bytes, Failure> {
        self.plain_tag += 1;
        let (tag, to) = (self.plain_tag, PartitionSet::from_range(endpoint..endpoint + 1));
        in_time(self.plain.send_to(to, tag, encoded(request)?)).await?;
        let (from, payload) = self.next_plain(tag).await?;
        if from != endpoint {
            return Err(Failure::failed(format!("daemon {from} answered a request to daemon {endpoint}")));
        }
        Ok(payload)
    }

    async fn next_plain(&mut self, tag: u64) -> Result<(u32, Bytes), Failure> {
        let wave = in_time(self.plain.wave()).await?;
        match (wave.contributors.least(), wave.contributors.len()) {
            (Some(endpoint), 1) if wave.tag == tag => Ok((endpoint, only(wave.packets)?)),
            _ => Err(Failure::failed(format!(
                "expected the answer to request {tag}, but wave {} from {} came",
                wave.tag, wave.contributors
            ))),
        }
    }

    /// Measures the skews of all clocks in `rounds` rounds.
    pub(super) async fn skews(&mut self, rounds: u32) -> Result<Vec<Estimate>, Failure> {
        let count = self.all.len() as u32;
        if self.folding.is_empty() {
            let measured = clocks::directly(&mut self.clocks, count, rounds, || ()).await?;
            Ok(measured.iter().map(|rounds| clocks::least_delayed(rounds)).collect())
        } else {
            clocks::by_filter(&mut self.clocks, count, rounds).await
        }
    }
}

async fn from_tree(stream: &mut Stream, all: &PartitionSet, request: Bytes) -> Result<Bytes, Failure> {
    let tag = in_time(stream.send(request)).await?;
    let wave = in_time(stream.wave()).await?;
    if wave.tag != tag || wave.contributors != *all {
        let said = format!(
            "expected the answer to request {tag}, but wave {} from {} came",
            wave.tag, wave.contributors
        );
        return Err(Failure::failed(said));
    }
    only(wave.packets)
}

/// Returns the only packet; fails if there is not exactly one.
fn only(mut packets: Vec<Bytes>) -> Result<Bytes, Failure> {
    match (packets.pop(), packets.is_empty()) {
        (Some(packet), true) => Ok(packet),
        (last, _) => {
            let came = packets.len() + usize::from(last.is_some());
            Err(Failure::failed(format!("a wave has {came} packets, expected one")))
        }
    }
}
