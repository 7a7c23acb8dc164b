//! Decodes headers to stream messages.

use super::end::stream_error_of;
use super::header::{
    AheadHeader, DownHeader, MissedHeader, NewsHeader, OpenHeader, OperatorHeader, ReportHeader, RunHeader,
    SettledHeader, TakenHeader, UpHeader,
};
use super::run::run_of;
use super::tags::TagSets;
use super::{lane_within, lanes_max, names_within};
use crate::wire::LONG_HEADER_BYTES;
use crate::wire::columns::{Nodes, Numbers, Sets, set_alone};
use crate::wire::decode::{decoded, few_enough};
use crate::wire::error::{WireError, malformed, within};
use crate::wire::fields::Fields as _;
use crate::wire::frame::Kind;
use crate::wire::names::Names;
use crate::wire::operators::operator_id_of;
use crate::wire::outcome::missing_of;
use crate::wire::tree::tree_of;
use bytes::Bytes;
use prost::Message as _;
use std::sync::Arc;
use treefold_core::id::Tag;
use treefold_core::limits::Limits;
use treefold_core::partitions::PartitionSet;
use treefold_core::right::Rights;
use treefold_core::stream::message::{
    StreamDown, StreamMessage, StreamNews, StreamOpen, StreamReport, StreamSettled, StreamUp,
};
use treefold_core::stream::places::{Places, SeatNumber};
use treefold_core::stream::tags::TagRuns;
use treefold_core::stream::{OperatorId, StreamId, StreamSpec, Synchronisation};
use treefold_core::time::Duration;

/// Reads headers. Reuses the structures of frequent headers.
#[derive(Debug, Default)]
pub(in crate::wire) struct StreamDecoder {
    up: UpHeader,
    down: DownHeader,
    run: RunHeader,
    settled: SettledHeader,
}

impl StreamDecoder {
    /// Decodes a message of one of the stream kinds.
    pub(in crate::wire) fn message(
        &mut self,
        kind: Kind,
        tag: Tag,
        header: &[u8],
        payload: Option<Bytes>,
        limits: &Limits,
        names: &mut Names,
    ) -> Result<StreamMessage<Bytes>, WireError> {
        if tag.branch != 0 {
            return Err(malformed("branch"));
        }
        let stream = StreamId { origin: tag.wave.origin, sequence: tag.wave.sequence };
        Ok(match kind {
            Kind::StreamUp => StreamMessage::Up(self.up(stream, header, payload, limits)?),
            Kind::StreamDown => StreamMessage::Down(self.down(stream, header, payload, limits)?),
            Kind::StreamRun => {
                StreamMessage::Run(Arc::new(run_of(stream, &mut self.run, header, payload, limits)?))
            }
            Kind::StreamSettled => {
                StreamMessage::Settled(StreamSettled { stream, lanes: self.settled(header, limits)? })
            }
            Kind::StreamOpen => {
                let params = payload.ok_or(malformed("payload"))?;
                StreamMessage::Open(open_of(stream, decoded(header)?, params, limits, names)?)
            }
            Kind::StreamTaken => StreamMessage::Taken { stream, upto: decoded::<TakenHeader>(header)?.upto },
            Kind::StreamMissed => {
                let MissedHeader { first, last } = decoded(header)?;
                StreamMessage::Missed { stream, first, last }
            }
            Kind::StreamNews => {
                few_enough(header, 5, "missing", limits.missing_max)?;
                StreamMessage::News(news_of(stream, decoded(header)?, limits)?)
            }
            Kind::StreamReport => StreamMessage::Report(report_of(stream, &decoded(header)?)?),
            Kind::StreamAhead => StreamMessage::Ahead { stream, tag: decoded::<AheadHeader>(header)?.tag },
            Kind::StreamBeat => StreamMessage::Beat { stream },
            Kind::StreamWantOperator => StreamMessage::WantOperator { stream, id: operator_of(header)? },
            Kind::StreamOperator => StreamMessage::Operator { stream, id: operator_of(header)?, payload },
            Kind::StreamClose => {
                StreamMessage::Close { stream, reason: stream_error_of(decoded(header)?, limits)? }
            }
            other => return Err(WireError::UnknownKind { kind: other as u8 }),
        })
    }

    fn up(
        &mut self,
        stream: StreamId,
        bytes: &[u8],
        payload: Option<Bytes>,
        limits: &Limits,
    ) -> Result<StreamUp<Bytes>, WireError> {
        few_enough(bytes, 7, "missing", limits.missing_max)?;
        let header = &mut self.up;
        header.clear();
        header.take(bytes)?;
        lane_within(header.lane, limits)?;
        let up = StreamUp {
            stream,
            lane: header.lane,
            tag: header.tag,
            serial: header.serial,
            payload,
            more: header.more,
            urgent: header.urgent,
            contributors: set_alone(&header.contributors, limits.partitions_max, "contributors")?,
            missing: missing_of(&mut header.missing, limits)?,
            holds_from: header.holds_from,
        };
        if bytes.len() > LONG_HEADER_BYTES {
            self.up = UpHeader::default();
        }
        Ok(up)
    }

    fn down(
        &mut self,
        stream: StreamId,
        bytes: &[u8],
        payload: Option<Bytes>,
        limits: &Limits,
    ) -> Result<StreamDown<Bytes>, WireError> {
        let header = &mut self.down;
        header.clear();
        header.take(bytes)?;
        let to = match header.chosen {
            true => Some(set_alone(&header.to, limits.partitions_max, "to")?),
            false => None,
        };
        let down =
            StreamDown { stream, sequence: header.number, tag: header.tag, to, payload, more: header.more };
        if bytes.len() > LONG_HEADER_BYTES {
            self.down = DownHeader::default();
        }
        Ok(down)
    }

    fn settled(&mut self, bytes: &[u8], limits: &Limits) -> Result<Vec<(u32, TagRuns)>, WireError> {
        let header = &mut self.settled;
        header.clear();
        header.take(bytes)?;
        let mut numbers = Numbers::new(&header.lanes);
        let count = numbers.count();
        within("lanes", lanes_max(limits), count)?;
        let mut sets = TagSets::new(&header.run_counts, &header.runs);
        let mut lanes: Vec<(u32, TagRuns)> = Vec::with_capacity(count);
        while !numbers.is_empty() {
            let lane = numbers.take().ok_or_else(|| malformed("lanes"))?;
            lane_within(lane, limits)?;
            if lanes.last().is_some_and(|&(before, _)| before >= lane) {
                return Err(malformed("lanes"));
            }
            lanes.push((lane, sets.take()?));
        }
        if !sets.is_empty() {
            return Err(malformed("runs"));
        }
        if bytes.len() > LONG_HEADER_BYTES {
            self.settled = SettledHeader::default();
        }
        Ok(lanes)
    }
}

fn open_of(
    stream: StreamId,
    header: OpenHeader,
    params: Bytes,
    limits: &Limits,
    names: &mut Names,
) -> Result<StreamOpen<Bytes>, WireError> {
    names_within(&header.service, &header.up_filter, &header.down_filter)?;
    let synchronisation = match header.synchronisation {
        1 => Synchronisation::WaitForAll,
        2 => Synchronisation::TimeOut(Duration::from_nanos(header.timeout_ns).into()),
        3 => Synchronisation::DoNotWait,
        _ => return Err(malformed("synchronisation")),
    };
    let tree = tree_of(&header, limits)?;
    let spec = StreamSpec {
        service: names.intern(&header.service),
        up_filter: names.intern(&header.up_filter),
        down_filter: names.intern(&header.down_filter),
        filter_params: header.filter_params.into(),
        synchronisation,
        params,
        lag_bytes_max: header.lag_bytes_max,
        opener: Rights::from_bits(!u8::try_from(header.opener_lacks).map_err(|_| malformed("opener_lacks"))?),
    };
    if [header.places.len(), header.lives.len()] != [tree.seats().len(); 2] {
        return Err(malformed("places"));
    }
    let numbers = header.places.iter().zip(&header.lives);
    let numbers = numbers.map(|(&place, &life)| SeatNumber { place, life }).collect();
    Ok(StreamOpen {
        stream,
        spec: Arc::new(spec),
        places: Places::new(tree, numbers).ok_or(malformed("lives"))?,
        epoch: header.epoch,
        levels: header.levels,
        window_bytes: header.window_bytes,
        first_tag: header.first_tag,
        packets_before: header.packets_before,
        takes_unfiltered: header.takes_unfiltered,
    })
}

fn news_of(stream: StreamId, mut header: NewsHeader, limits: &Limits) -> Result<StreamNews, WireError> {
    within("joined", limits.partitions_max as usize, header.joined_tags.len())?;
    let (counts, runs) = (&header.joined_run_counts, &header.joined_runs);
    let mut sets = Sets::new(counts, runs, limits.partitions_max, "joined.partitions");
    let mut joined: Vec<(PartitionSet, u64)> = Vec::with_capacity(header.joined_tags.len());
    for &first_tag in &header.joined_tags {
        joined.push((sets.take()?, first_tag));
    }
    if !sets.is_empty() {
        return Err(malformed("joined.partitions"));
    }
    Ok(StreamNews {
        stream,
        place: header.place,
        epoch: header.epoch,
        received: header.received,
        joined,
        away: missing_of(&mut header.missing, limits)?,
        hears_missed: header.hears_missed,
        unfiltered: header.unfiltered,
    })
}

fn report_of(stream: StreamId, header: &ReportHeader) -> Result<StreamReport, WireError> {
    let mut nodes = Nodes::new(&header.node, header.family);
    let node = nodes.take().filter(|_| nodes.is_empty()).ok_or(malformed("node"))?;
    Ok(StreamReport { stream, node, place: header.place, at_once: header.at_once })
}

fn operator_of(header: &[u8]) -> Result<OperatorId, WireError> {
    operator_id_of(&decoded::<OperatorHeader>(header)?.operator)
}

/// Attaches a payload that arrived in chunks to its message, whose header was read before.
pub(in crate::wire) fn put_stream_payload(message: &mut StreamMessage<Bytes>, payload: Bytes) {
    match message {
        StreamMessage::Up(up) => up.payload = Some(payload),
        StreamMessage::Down(down) => down.payload = Some(payload),
        StreamMessage::Operator { payload: place, .. } => *place = Some(payload),
        StreamMessage::Open(open) => {
            let spec = Arc::get_mut(&mut open.spec);
            spec.expect("invariant: the message is not shared before its payload arrives").params = payload;
        }
        _ => unreachable!("invariant: a message of a kind without payload is refused when it is read"),
    }
}
