//! The encoding of cards: compact enough for gossip, with a bound for every field.
//!
//! Nodes and partitions are encoded as in frames ([`crate::encoding`]): a thousand scattered partitions take about two
//! thousand bytes. A total is written doubled, plus one if it is declared.

use super::card::{
    CardError, MemberCard, NAME_BYTES_MAX, PARTITIONS_MAX, Placed, Roles, SERVICES_MAX, ServiceCard,
};
use super::wire::{CodecError, CodecProblem, Decoded, Reader, put_text};
use crate::encoding::node::put_marked;
use crate::encoding::numbers::put_number;
use crate::encoding::runs::put_runs;
use crate::id::NodeId;
use crate::partitions::PartitionSet;
use crate::placement::{PLACED_PARTITIONS_MAX, REPLICAS_MAX};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

const ROLE_PROVIDER: u8 = 1;
const ROLE_RELAY: u8 = 2;
const ROLE_DRAINING: u8 = 4;
/// Not a role: the card has a name.
const HAS_NAME: u8 = 8;
/// Not a role: the card has services that are placed automatically.
const HAS_PLACED: u8 = 16;
/// Not a role: the card names the node above it.
const HAS_PARENT: u8 = 32;
const FLAGS: u8 = ROLE_PROVIDER | ROLE_RELAY | ROLE_DRAINING | HAS_NAME | HAS_PLACED | HAS_PARENT;

/// Appends the encoding of `card` to `out`.
///
/// # Errors
/// The limit that the card breaks; `out` is unchanged.
pub fn encode_card(card: &MemberCard, out: &mut Vec<u8>) -> Result<(), CardError> {
    card.check()?;
    put_marked(out, card.node);
    put_number(out, card.version);
    put_text(out, &card.rack);
    put_text(out, &card.zone);
    let placed = card.services.values().filter(|service| service.placed.is_some()).count();
    let flags = [
        (card.roles.provider, ROLE_PROVIDER),
        (card.roles.relay, ROLE_RELAY),
        (card.roles.draining, ROLE_DRAINING),
        (!card.name.is_empty(), HAS_NAME),
        (placed > 0, HAS_PLACED),
        (card.parent.is_some(), HAS_PARENT),
    ];
    out.push(flags.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag));
    if !card.name.is_empty() {
        put_text(out, &card.name);
    }
    card.parent.iter().for_each(|parent| put_marked(out, *parent));
    put_number(out, card.processors.into());
    put_number(out, card.services.len() as u64);
    for (name, service) in &card.services {
        put_text(out, name);
        put_number(out, u64::from(service.total) << 1 | u64::from(service.declared));
        put_partitions(out, &service.partitions);
    }
    if placed > 0 {
        put_number(out, placed as u64);
    }
    for (at, service) in card.services.values().enumerate() {
        let Some(placed) = &service.placed else { continue };
        put_number(out, at as u64);
        put_number(out, placed.replicas.into());
        put_partitions(out, &placed.pinned);
        put_partitions(out, &placed.refused);
    }
    Ok(())
}

/// Decodes one card from the front of `bytes`.
///
/// # Errors
/// The field that is not as [`encode_card`] writes it; `bytes` is unchanged.
pub fn decode_card(bytes: &mut &[u8]) -> Result<MemberCard, CodecError> {
    let mut reader = Reader::new(bytes);
    let card = read_card(&mut reader)?;
    *bytes = reader.rest();
    Ok(card)
}

/// Appends a node's identity, for datagrams other than gossip.
pub(crate) fn encode_node(node: &NodeId, out: &mut Vec<u8>) {
    put_marked(out, *node);
}

/// Decodes `bytes` as a node's identity, and nothing else.
///
/// # Errors
/// The field that is not as [`encode_node`] writes it.
pub(crate) fn decode_node(bytes: &[u8]) -> Result<NodeId, CodecError> {
    let mut reader = Reader::new(bytes);
    let node = reader.node()?;
    if reader.rest().is_empty() { Ok(node) } else { Err(CodecError::new("node", CodecProblem::Trailing)) }
}

pub(super) fn read_card(reader: &mut Reader<'_>) -> Decoded<MemberCard> {
    let node = reader.node()?;
    let version = reader.varint("card.version", u64::MAX)?;
    let rack = reader.text("card.rack", NAME_BYTES_MAX)?.into();
    let zone = reader.text("card.zone", NAME_BYTES_MAX)?.into();
    let roles = reader.u8("card.roles")?;
    if roles & !FLAGS != 0 {
        return Err(CodecError::new("card.roles", CodecProblem::Unknown { value: roles.into() }));
    }
    let name = if roles & HAS_NAME == 0 { "" } else { reader.text("card.name", NAME_BYTES_MAX)? }.into();
    let parent = (roles & HAS_PARENT != 0).then(|| reader.node()).transpose()?;
    let processors = reader.varint_u32("card.processors", u32::MAX)?;
    let count = reader.varint("card.services", SERVICES_MAX as u64)?;
    let mut services = BTreeMap::new();
    let mut spare = PARTITIONS_MAX;
    for _ in 0..count {
        let name = reader.text("service.name", NAME_BYTES_MAX)?;
        if services.last_key_value().is_some_and(|(before, _): (&String, _)| before.as_str() >= name) {
            return Err(CodecError::new("service.name", CodecProblem::NotCanonical));
        }
        let total = reader.varint_u32("service.total", PARTITIONS_MAX << 1 | 1)?;
        let (total, declared) = (total >> 1, total & 1 == 1);
        let partitions = read_partitions(reader, total)?;
        spare = u32::try_from(partitions.len()).ok().and_then(|held| spare.checked_sub(held)).ok_or(
            CodecError::new("card.partitions", CodecProblem::TooLarge { limit: PARTITIONS_MAX.into() }),
        )?;
        services.insert(name.into(), ServiceCard { partitions, total, declared, placed: None });
    }
    if roles & HAS_PLACED != 0 {
        read_placed(reader, &mut services)?;
    }
    let roles = Roles {
        provider: roles & ROLE_PROVIDER != 0,
        relay: roles & ROLE_RELAY != 0,
        draining: roles & ROLE_DRAINING != 0,
    };
    Ok(MemberCard { node, version, rack, zone, name, roles, parent, processors, services })
}

/// Reads which of the services are placed automatically, by their numbers in ascending order.
fn read_placed(reader: &mut Reader<'_>, services: &mut BTreeMap<String, ServiceCard>) -> Decoded<()> {
    const FIELD: &str = "service.placed";
    let wrong = || CodecError::new(FIELD, CodecProblem::NotCanonical);
    let count = reader.varint(FIELD, services.len() as u64)?;
    let mut rest = services.values_mut().enumerate();
    if count == 0 {
        return Err(wrong());
    }
    for _ in 0..count {
        let number = reader.varint(FIELD, SERVICES_MAX as u64)?;
        let (_, service) = rest.find(|(at, _)| *at as u64 == number).ok_or_else(wrong)?;
        let replicas = reader.varint_u32("placed.replicas", REPLICAS_MAX)?;
        if service.total > PLACED_PARTITIONS_MAX {
            let limit = PLACED_PARTITIONS_MAX.into();
            return Err(CodecError::new("placed.total", CodecProblem::TooLarge { limit }));
        }
        let pinned = read_partitions(reader, service.total)?;
        let refused = read_partitions(reader, service.total)?;
        service.placed = Some(Placed { replicas, pinned, refused });
    }
    Ok(())
}

fn put_partitions(out: &mut Vec<u8>, set: &PartitionSet) {
    put_number(out, set.runs().len() as u64);
    put_runs(out, set);
}

fn read_partitions(reader: &mut Reader<'_>, total: u32) -> Decoded<PartitionSet> {
    const FIELD: &str = "service.partitions";
    let count = reader.varint_u32(FIELD, total)?;
    reader.partitions(FIELD, count, total)
}
