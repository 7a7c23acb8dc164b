//! The content of a datagram: a SWIM message, then items.
//!
//! ```text
//!   format 1 │ digest 8 │ swim_len 2 │ swim … or, when swim_len is 0, the sender │ item │ item │ …
//! ```
//!
//! foca's message travels unchanged inside. The items are Treefold's: cards, load figures, requests for
//! cards, accusations. The digest is the sender's whole view in eight bytes. If two digests differ, both
//! nodes know that one of them lacks something (see [`View::digest`](super::view::View::digest)).
//!
//! A datagram is decoded to its last byte before any of it takes effect, including foca's part. So a datagram
//! with garbage anywhere changes nothing.

use super::card::MemberCard;
use super::codec::read_card;
use super::config::{DATAGRAM_BYTES_MAX, RUMOUR_ROOM_BYTES};
use super::identity::{SwimCodec, SwimId};
use super::sync::Request;
use super::wire::{CodecError, CodecProblem, Decoded, Reader};
use crate::encoding::node::put_marked;
use crate::encoding::numbers::put_number;
use crate::id::NodeId;
use crate::load::figure::LoadFigure;
use crate::time::Duration;
use alloc::sync::Arc;
use alloc::vec::Vec;
use foca::{Header, Message};

const FORMAT: u8 = 4;
const HEAD_BYTES: usize = 1 + 8 + 2;
/// Bytes that foca may fill.
pub(super) const SWIM_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - HEAD_BYTES - RUMOUR_ROOM_BYTES;
/// Bytes of an item that fits into a datagram of its own, after the longest sender.
pub(super) const ITEM_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - HEAD_BYTES - 27;

/// One item besides SWIM's own message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    /// A card that has just changed: pass it on.
    CardNews(Arc<MemberCard>),
    /// A card in answer to a request.
    CardCopy(Arc<MemberCard>),
    /// A card of this version exists and is too large for a datagram. If `news` is true, it is passed on.
    CardNotice { node: NodeId, version: u64, news: bool },
    /// A node's load, `age` before this was sent.
    Load { node: NodeId, sequence: u64, age: Duration, figure: LoadFigure },
    /// Asks for the cards that the sender lacks.
    Sync(Request),
    /// The answer to a request continues after this node.
    More { after: NodeId },
    /// This member is down. Sent in answer to a request.
    Gone(SwimId),
    /// The receiver is accused of being down, under this identity.
    Accused { target: SwimId, incarnation: u16 },
}

const CARD_NEWS: u8 = 1;
const CARD_COPY: u8 = 2;
const CARD_NOTICE_NEWS: u8 = 3;
const CARD_NOTICE_COPY: u8 = 4;
const LOAD: u8 = 5;
const SYNC: u8 = 6;
const MORE: u8 = 7;
const GONE: u8 = 8;
const ACCUSED: u8 = 9;

/// The tag before a card that is already encoded.
pub(super) const fn card_tag(news: bool) -> u8 {
    if news { CARD_NEWS } else { CARD_COPY }
}

/// Appends an item. The owner of a card encodes it once; it comes with [`card_tag`].
pub(super) fn put_item(out: &mut Vec<u8>, item: &Item) {
    match item {
        Item::CardNews(card) | Item::CardCopy(card) => {
            out.push(card_tag(matches!(item, Item::CardNews(_))));
            super::codec::encode_card(card, out).expect("a card in a view has passed its check");
        }
        Item::CardNotice { node, version, news } => {
            out.push(if *news { CARD_NOTICE_NEWS } else { CARD_NOTICE_COPY });
            put_marked(out, *node);
            put_number(out, *version);
        }
        Item::Load { node, sequence, age, figure } => {
            out.push(LOAD);
            put_marked(out, *node);
            put_number(out, *sequence);
            put_number(out, age.as_millis());
            put_number(out, figure.queued.as_micros());
            put_number(out, figure.in_flight.into());
            put_number(out, figure.processors.into());
            put_number(out, figure.latency.as_micros());
        }
        Item::Sync(request) => {
            out.push(SYNC);
            request.put(out);
        }
        Item::More { after } => {
            out.push(MORE);
            put_marked(out, *after);
        }
        Item::Gone(id) => {
            out.push(GONE);
            id.put(out);
        }
        Item::Accused { target, incarnation } => {
            out.push(ACCUSED);
            target.put(out);
            out.extend_from_slice(&incarnation.to_le_bytes());
        }
    }
}

fn read_item(reader: &mut Reader<'_>) -> Decoded<Item> {
    Ok(match reader.u8("item.kind")? {
        CARD_NEWS => Item::CardNews(Arc::new(read_card(reader)?)),
        CARD_COPY => Item::CardCopy(Arc::new(read_card(reader)?)),
        tag @ (CARD_NOTICE_NEWS | CARD_NOTICE_COPY) => Item::CardNotice {
            node: reader.node()?,
            version: reader.varint("card.version", u64::MAX)?,
            news: tag == CARD_NOTICE_NEWS,
        },
        LOAD => Item::Load {
            node: reader.node()?,
            sequence: reader.varint("load.sequence", u64::MAX)?,
            age: Duration::from_millis(reader.varint("load.age_ms", u32::MAX.into())?),
            figure: LoadFigure {
                queued: Duration::from_micros(reader.varint("load.queued_us", u64::MAX / 1_000)?),
                in_flight: reader.varint_u32("load.in_flight", u32::MAX)?,
                processors: reader.varint_u32("load.processors", u32::MAX)?,
                latency: Duration::from_micros(reader.varint("load.latency_us", u64::MAX / 1_000)?),
            },
        },
        SYNC => Item::Sync(Request::read(reader)?),
        MORE => Item::More { after: reader.node()? },
        GONE => Item::Gone(SwimId::read(reader)?),
        ACCUSED => {
            Item::Accused { target: SwimId::read(reader)?, incarnation: reader.u16("member.incarnation")? }
        }
        other => return Err(CodecError::new("item.kind", CodecProblem::Unknown { value: other.into() })),
    })
}

/// A datagram that is decoded completely.
pub(super) struct Datagram<'a> {
    pub(super) digest: u64,
    pub(super) from: NodeId,
    /// foca's part as it came, with its header.
    pub(super) swim: Option<(&'a [u8], Header<SwimId>)>,
    pub(super) items: Vec<Item>,
}

impl<'a> Datagram<'a> {
    /// True if it acknowledges a probe of its receiver.
    pub(super) fn is_ack(&self) -> bool {
        self.swim.as_ref().is_some_and(|(_, header)| matches!(header.message, Message::Ack(_)))
    }

    pub(super) fn decode(bytes: &'a [u8]) -> Decoded<Self> {
        if bytes.len() > DATAGRAM_BYTES_MAX {
            let limit = DATAGRAM_BYTES_MAX as u64;
            return Err(CodecError::new("datagram", CodecProblem::TooLarge { limit }));
        }
        let mut reader = Reader::new(bytes);
        let format = reader.u8("datagram.format")?;
        if format != FORMAT {
            return Err(CodecError::new("datagram.format", CodecProblem::Unknown { value: format.into() }));
        }
        let digest = reader.u64("datagram.digest")?;
        let swim_bytes = usize::from(reader.u16("datagram.swim_len")?);
        if swim_bytes > SWIM_BYTES_MAX {
            let limit = SWIM_BYTES_MAX as u64;
            return Err(CodecError::new("datagram.swim_len", CodecProblem::TooLarge { limit }));
        }
        let (from, swim) = if swim_bytes == 0 {
            (reader.node()?, None)
        } else {
            let swim = reader.bytes("datagram.swim", swim_bytes)?;
            let header = validate_swim(swim)?;
            (header.src.node, Some((swim, header)))
        };
        let mut items = Vec::new();
        while !reader.is_empty() {
            items.push(read_item(&mut reader)?);
        }
        Ok(Self { digest, from, swim, items })
    }
}

/// Validates foca's message completely, so that foca never stops half-way through one.
fn validate_swim(swim: &[u8]) -> Decoded<Header<SwimId>> {
    let mut reader = Reader::new(swim);
    let header = SwimCodec::read_header(&mut reader)?;
    if !matches!(header.message, Message::Announce | Message::TurnUndead) {
        for _ in 0..reader.u16_be("swim.updates")? {
            SwimCodec::read_member(&mut reader)?;
        }
    }
    if !reader.is_empty() {
        return Err(CodecError::new("datagram.swim", CodecProblem::Trailing));
    }
    let third = match &header.message {
        Message::PingReq { target: third, .. }
        | Message::IndirectPing { origin: third, .. }
        | Message::IndirectAck { target: third, .. }
        | Message::ForwardedAck { origin: third, .. } => Some(third),
        _ => None,
    };
    if third == Some(&header.dst) {
        // foca would detect this only after it had applied the updates.
        return Err(CodecError::new("swim.indirect", CodecProblem::NotCanonical));
    }
    Ok(header)
}

/// A datagram being written. Additions never make it longer than [`DATAGRAM_BYTES_MAX`].
pub(super) struct Draft {
    bytes: Vec<u8>,
    has_items: bool,
}

impl Draft {
    /// A datagram around foca's message.
    pub(super) fn around(swim: &[u8], digest: u64) -> Self {
        let mut draft = Self::start(digest, swim.len());
        draft.bytes.extend_from_slice(swim);
        draft
    }

    /// A datagram that has only items.
    pub(super) fn bare(from: &NodeId, digest: u64) -> Self {
        let mut draft = Self::start(digest, 0);
        put_marked(&mut draft.bytes, *from);
        draft
    }

    fn start(digest: u64, swim_bytes: usize) -> Self {
        let mut bytes = Vec::with_capacity(DATAGRAM_BYTES_MAX);
        bytes.push(FORMAT);
        bytes.extend_from_slice(&digest.to_le_bytes());
        // foca is configured to stay within SWIM_BYTES_MAX, which fits.
        bytes.extend_from_slice(&(swim_bytes as u16).to_le_bytes());
        Self { bytes, has_items: false }
    }

    /// True if something was added.
    pub(super) fn has_items(&self) -> bool {
        self.has_items
    }

    /// Adds what `put` writes, unless it does not fit.
    pub(super) fn add(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> bool {
        let before = self.bytes.len();
        put(&mut self.bytes);
        let fits = self.bytes.len() <= DATAGRAM_BYTES_MAX;
        if fits {
            self.has_items = true;
        } else {
            self.bytes.truncate(before);
        }
        fits
    }

    pub(super) fn finish(self) -> bytes::Bytes {
        self.bytes.into()
    }
}
