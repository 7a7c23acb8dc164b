//! The encoding of cards: compact enough for gossip, with a bound for every field.
//!
//! Nodes and partitions are encoded as in frames ([`crate::encoding`]): a thousand scattered partitions take about two
//! thousand bytes. A total is written doubled, plus one if it is declared.

use super::card::{CardError, MemberCard, NAME_BYTES_MAX, PARTITIONS_MAX, Roles, SERVICES_MAX, ServiceCard};
use super::wire::{CodecError, CodecProblem, Decoded, Reader, put_text};
use crate::encoding::node::put_marked;
use crate::encoding::numbers::put_number;
use crate::encoding::runs::put_runs;
use crate::id::NodeId;
use crate::partitions::PartitionSet;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

const ROLE_PROVIDER: u8 = 1;
const ROLE_RELAY: u8 = 2;

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
    let provider = if card.roles.provider { ROLE_PROVIDER } else { 0 };
    let relay = if card.roles.relay { ROLE_RELAY } else { 0 };
    out.push(provider | relay);
    put_number(out, card.processors.into());
    put_number(out, card.services.len() as u64);
    for (name, service) in &card.services {
        put_text(out, name);
        put_number(out, u64::from(service.total) << 1 | u64::from(service.declared));
        put_partitions(out, &service.partitions);
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
    if roles & !(ROLE_PROVIDER | ROLE_RELAY) != 0 {
        return Err(CodecError::new("card.roles", CodecProblem::Unknown { value: roles.into() }));
    }
    let processors = reader.varint_u32("card.processors", u32::MAX)?;
    let count = reader.varint("card.services", SERVICES_MAX as u64)?;
    let mut services = BTreeMap::new();
    let mut spare = PARTITIONS_MAX;
    for _ in 0..count {
        let name = reader.text("service.name", NAME_BYTES_MAX)?;
        if services
            .last_key_value()
            .is_some_and(|(before, _): (&alloc::string::String, _)| before.as_str() >= name)
        {
            return Err(CodecError::new("service.name", CodecProblem::NotCanonical));
        }
        let total = reader.varint_u32("service.total", PARTITIONS_MAX << 1 | 1)?;
        let (total, declared) = (total >> 1, total & 1 == 1);
        let partitions = read_partitions(reader, total)?;
        spare = u32::try_from(partitions.len()).ok().and_then(|held| spare.checked_sub(held)).ok_or(
            CodecError::new("card.partitions", CodecProblem::TooLarge { limit: PARTITIONS_MAX.into() }),
        )?;
        services.insert(name.into(), ServiceCard { partitions, total, declared });
    }
    let roles = Roles { provider: roles & ROLE_PROVIDER != 0, relay: roles & ROLE_RELAY != 0 };
    Ok(MemberCard { node, version, rack, zone, roles, processors, services })
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
