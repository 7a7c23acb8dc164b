//! Encodes stream messages to headers.

use super::end::close_header;
use super::header::{
    AheadHeader, DownHeader, MissedHeader, NewsHeader, OpenHeader, OperatorHeader, ReportHeader,
    SettledHeader, TakenHeader, UpHeader,
};
use super::tags::put_tags;
use super::{lane_within, lanes_max, names_within};
use crate::wire::LONG_HEADER_BYTES;
use crate::wire::columns::{put_nodes, put_number, put_set};
use crate::wire::encode::{Shell, append};
use crate::wire::error::{WireError, within};
use crate::wire::fields;
use crate::wire::frame::Kind;
use crate::wire::outcome::missing_headers;
use crate::wire::tree::put_tree;
use bytes::{Bytes, BytesMut};
use prost::Message as _;
use treefold_core::limits::Limits;
use treefold_core::stream::Synchronisation;
use treefold_core::stream::message::{
    StreamDown, StreamMessage, StreamNews, StreamOpen, StreamReport, StreamSettled, StreamUp,
};
use treefold_core::time::Duration;

/// Writes headers. Reuses the structures of frequent headers.
#[derive(Debug, Default)]
pub(in crate::wire) struct StreamEncoder {
    up: UpHeader,
    down: DownHeader,
    settled: SettledHeader,
    /// The bytes of one header.
    row: Vec<u8>,
}

impl StreamEncoder {
    /// Appends the header of `message` to `out`.
    ///
    /// # Errors
    /// If a part of the message is above its limit or cannot be expressed. `out` may then contain part of the
    /// header.
    pub(in crate::wire) fn put_header<'a>(
        &mut self,
        message: &'a StreamMessage<Bytes>,
        limits: &Limits,
        out: &mut BytesMut,
    ) -> Result<Shell<'a>, WireError> {
        let (kind, payload) = match message {
            StreamMessage::Open(open) => {
                append(&open_header(open, limits)?, out);
                (Kind::StreamOpen, Some(&open.spec.params))
            }
            StreamMessage::Up(up) => {
                self.put_up(up, limits, out)?;
                (Kind::StreamUp, up.payload.as_ref())
            }
            StreamMessage::Down(down) => {
                self.put_down(down, limits, out)?;
                (Kind::StreamDown, down.payload.as_ref())
            }
            // The outbox encodes runs as whole frames.
            StreamMessage::Run(_) => return Err(WireError::Inexpressible { field: "run" }),
            StreamMessage::Settled(settled) => {
                self.put_settled(settled, limits, out)?;
                (Kind::StreamSettled, None)
            }
            StreamMessage::Taken { upto, .. } => {
                append(&TakenHeader { upto: *upto }, out);
                (Kind::StreamTaken, None)
            }
            StreamMessage::Missed { first, last, .. } => {
                append(&MissedHeader { first: *first, last: *last }, out);
                (Kind::StreamMissed, None)
            }
            StreamMessage::News(news) => {
                append(&news_header(news, limits)?, out);
                (Kind::StreamNews, None)
            }
            StreamMessage::Report(report) => {
                append(&report_header(report), out);
                return Ok(Shell::out_of_turn(Kind::StreamReport, report.stream));
            }
            StreamMessage::Ahead { tag, .. } => {
                append(&AheadHeader { tag: *tag }, out);
                (Kind::StreamAhead, None)
            }
            StreamMessage::Beat { stream } => return Ok(Shell::out_of_turn(Kind::StreamBeat, *stream)),
            StreamMessage::WantOperator { id, .. } => {
                append(&OperatorHeader { operator: id.0.to_vec() }, out);
                (Kind::StreamWantOperator, None)
            }
            StreamMessage::Operator { id, payload, .. } => {
                append(&OperatorHeader { operator: id.0.to_vec() }, out);
                (Kind::StreamOperator, payload.as_ref())
            }
            StreamMessage::Close { reason, .. } => {
                append(&close_header(reason, limits)?, out);
                (Kind::StreamClose, None)
            }
        };
        Ok(Shell::of_stream(kind, message.stream(), payload))
    }

    fn put_up(&mut self, up: &StreamUp<Bytes>, limits: &Limits, out: &mut BytesMut) -> Result<(), WireError> {
        lane_within(up.lane, limits)?;
        let header = &mut self.up;
        header.clear();
        header.lane = up.lane;
        header.tag = up.tag;
        header.serial = up.serial;
        header.more = up.more;
        header.urgent = up.urgent;
        put_set(&mut header.contributors, &up.contributors, limits.partitions_max, "contributors")?;
        header.missing = missing_headers(&up.missing, limits)?;
        header.holds_from = up.holds_from;
        fields::append(header, &mut self.row, out);
        if self.row.len() > LONG_HEADER_BYTES {
            (self.up, self.row) = Default::default();
        }
        Ok(())
    }

    fn put_down(
        &mut self,
        down: &StreamDown<Bytes>,
        limits: &Limits,
        out: &mut BytesMut,
    ) -> Result<(), WireError> {
        let header = &mut self.down;
        header.clear();
        header.number = down.sequence;
        header.tag = down.tag;
        header.more = down.more;
        header.chosen = down.to.is_some();
        if let Some(to) = &down.to {
            put_set(&mut header.to, to, limits.partitions_max, "to")?;
        }
        fields::append(header, &mut self.row, out);
        if self.row.len() > LONG_HEADER_BYTES {
            (self.down, self.row) = Default::default();
        }
        Ok(())
    }

    fn put_settled(
        &mut self,
        settled: &StreamSettled,
        limits: &Limits,
        out: &mut BytesMut,
    ) -> Result<(), WireError> {
        within("lanes", lanes_max(limits), settled.lanes.len())?;
        if settled.lanes.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Err(WireError::Inexpressible { field: "lanes" });
        }
        let header = &mut self.settled;
        header.clear();
        for (lane, tags) in &settled.lanes {
            lane_within(*lane, limits)?;
            put_number(&mut header.lanes, *lane);
            put_tags(&mut header.run_counts, &mut header.runs, tags);
        }
        fields::append(header, &mut self.row, out);
        if self.row.len() > LONG_HEADER_BYTES {
            (self.settled, self.row) = Default::default();
        }
        Ok(())
    }
}

fn open_header(open: &StreamOpen<Bytes>, limits: &Limits) -> Result<OpenHeader, WireError> {
    let spec = &*open.spec;
    names_within(&spec.service, &spec.up_filter, &spec.down_filter)?;
    let (synchronisation, timeout) = match spec.synchronisation {
        Synchronisation::WaitForAll => (1, Duration::ZERO),
        Synchronisation::TimeOut(timeout) => (2, timeout.into()),
        Synchronisation::DoNotWait => (3, Duration::ZERO),
    };
    let mut header = OpenHeader {
        service: spec.service.as_ref().to_owned(),
        up_filter: spec.up_filter.as_ref().to_owned(),
        down_filter: spec.down_filter.as_ref().to_owned(),
        filter_params: spec.filter_params.to_vec(),
        synchronisation,
        timeout_ns: timeout.as_nanos(),
        levels: open.levels,
        window_bytes: open.window_bytes,
        first_tag: open.first_tag,
        packets_before: open.packets_before,
        takes_unfiltered: open.takes_unfiltered,
        epoch: open.epoch,
        lag_bytes_max: spec.lag_bytes_max,
        opener_lacks: (!spec.opener.bits()).into(),
        places: open.places.numbers().iter().map(|number| number.place).collect(),
        lives: open.places.numbers().iter().map(|number| number.life).collect(),
        ..OpenHeader::default()
    };
    put_tree(&mut header, open.places.tree(), limits)?;
    Ok(header)
}

fn news_header(news: &StreamNews, limits: &Limits) -> Result<NewsHeader, WireError> {
    within("joined", limits.partitions_max as usize, news.joined.len())?;
    let mut header = NewsHeader {
        received: news.received,
        missing: missing_headers(&news.away, limits)?,
        place: news.place,
        epoch: news.epoch,
        hears_missed: news.hears_missed,
        unfiltered: news.unfiltered,
        ..NewsHeader::default()
    };
    for (endpoints, first_tag) in &news.joined {
        let partitions_max = limits.partitions_max;
        let count = put_set(&mut header.joined_runs, endpoints, partitions_max, "joined.partitions")?;
        put_number(&mut header.joined_run_counts, count);
        header.joined_tags.push(*first_tag);
    }
    Ok(header)
}

fn report_header(report: &StreamReport) -> ReportHeader {
    let StreamReport { node, place, at_once, .. } = *report;
    let mut header = ReportHeader { place, at_once, ..ReportHeader::default() };
    header.family = put_nodes(&mut header.node, core::iter::once(node));
    header
}
