//! Member cards, and a node's status with its view of the other members.
//!
//! Counters are a row of numbers at fixed positions; new counters are appended. If a row is shorter than this
//! version's, the rest stays zero. Extra numbers at the end of a longer row are ignored.

use crate::wire::columns::{Sets, node_alone, put_node, put_number, put_set, set_alone};
use crate::wire::error::{WireError, malformed, within};
use crate::wire::header::{
    CardHeader, CardsHeader, LoadHeader, MemberHeader, OpenStreamHeader, PlacedHeader, RefusedHeader,
    SlowHeader, StatusHeader, TotalHeader,
};
use crate::wire::members_max;
use std::collections::BTreeMap;
use std::sync::Arc;
use treefold_core::limits::Limits;
use treefold_core::load::figure::LoadFigure;
use treefold_core::membership::card::{MemberCard, NAME_BYTES_MAX, Placed, Roles, SERVICES_MAX, ServiceCard};
use treefold_core::membership::service::AgreedTotal;
use treefold_core::message::Cards;
use treefold_core::placement::REPLICAS_MAX;
use treefold_core::status::{
    Counters, MemberStatus, NodeStatus, OpenWork, ProcessFacts, RefusedTotal, SLOW_SHOWN_MAX,
    STREAMS_SHOWN_MAX, SlowNode, StreamStatus, TotalStatus,
};
use treefold_core::stream::traffic::StreamTraffic;
use treefold_core::time::Duration;

/// Encodes a card.
pub(super) fn card_header(card: &MemberCard, limits: &Limits) -> Result<CardHeader, WireError> {
    within("card.services", SERVICES_MAX, card.services.len())?;
    within("card.rack", NAME_BYTES_MAX, card.rack.len())?;
    within("card.zone", NAME_BYTES_MAX, card.zone.len())?;
    within("card.name", NAME_BYTES_MAX, card.name.len())?;
    let mut header = CardHeader {
        version: card.version,
        rack: card.rack.clone(),
        zone: card.zone.clone(),
        provider: card.roles.provider,
        relay: card.roles.relay,
        name: card.name.clone(),
        draining: card.roles.draining,
        processors: card.processors,
        ..CardHeader::default()
    };
    put_node(&mut header.node, card.node);
    card.parent.iter().for_each(|parent| put_node(&mut header.parent, *parent));
    if card.services.values().any(|service| service.declared) {
        header.declared = card.services.values().map(|service| service.declared).collect();
    }
    for (name, service) in &card.services {
        within("card.service", NAME_BYTES_MAX, name.len())?;
        within("card.total", limits.partitions_max as usize, service.total as usize)?;
        header.services.push(name.clone());
        header.totals.push(service.total);
        let count = put_set(&mut header.runs, &service.partitions, limits.partitions_max, "card.partitions")?;
        put_number(&mut header.run_counts, count);
    }
    for (at, service) in card.services.values().enumerate() {
        let Some(placed) = &service.placed else { continue };
        let mut placing =
            PlacedHeader { service: at as u32, replicas: placed.replicas, ..Default::default() };
        put_set(&mut placing.pinned, &placed.pinned, limits.partitions_max, "card.pinned")?;
        put_set(&mut placing.refused, &placed.refused, limits.partitions_max, "card.refused")?;
        header.placed.push(placing);
    }
    Ok(header)
}

/// Decodes a card.
pub(super) fn card_of(header: CardHeader, limits: &Limits) -> Result<Arc<MemberCard>, WireError> {
    within("card.services", SERVICES_MAX, header.services.len())?;
    within("card.rack", NAME_BYTES_MAX, header.rack.len())?;
    within("card.zone", NAME_BYTES_MAX, header.zone.len())?;
    within("card.name", NAME_BYTES_MAX, header.name.len())?;
    if header.services.len() != header.totals.len() {
        return Err(malformed("card.totals"));
    }
    if !header.declared.is_empty() && header.services.len() != header.declared.len() {
        return Err(malformed("card.declared"));
    }
    let mut sets = Sets::new(&header.run_counts, &header.runs, limits.partitions_max, "card.partitions");
    let mut services = BTreeMap::new();
    let declared = header.declared.into_iter().chain(std::iter::repeat(false));
    let totals = header.totals.into_iter().zip(declared);
    for (name, (total, declared)) in header.services.into_iter().zip(totals) {
        within("card.service", NAME_BYTES_MAX, name.len())?;
        within("card.total", limits.partitions_max as usize, total as usize)?;
        // Names must ascend, so that each card has exactly one encoding and no name occurs twice.
        if services.last_key_value().is_some_and(|(last, _)| *last >= name) {
            return Err(malformed("card.services"));
        }
        services.insert(name, ServiceCard { partitions: sets.take()?, total, declared, placed: None });
    }
    if !sets.is_empty() {
        return Err(malformed("card.partitions"));
    }
    set_placed(&mut services, header.placed, limits)?;
    Ok(Arc::new(MemberCard {
        node: node_alone(&header.node, "card.node")?,
        version: header.version,
        rack: header.rack,
        zone: header.zone,
        name: header.name,
        roles: Roles { provider: header.provider, relay: header.relay, draining: header.draining },
        parent: (!header.parent.is_empty()).then(|| node_alone(&header.parent, "card.parent")).transpose()?,
        processors: header.processors,
        services,
    }))
}

/// Notes which services of a card are placed automatically. Their numbers must ascend, so that each card has one encoding.
fn set_placed(
    services: &mut BTreeMap<String, ServiceCard>,
    headers: Vec<PlacedHeader>,
    limits: &Limits,
) -> Result<(), WireError> {
    let mut rest = services.values_mut().enumerate();
    for header in headers {
        let (_, service) =
            rest.find(|(at, _)| *at == header.service as usize).ok_or(malformed("card.placed"))?;
        within("card.replicas", REPLICAS_MAX as usize, header.replicas as usize)?;
        service.placed = Some(Placed {
            replicas: header.replicas,
            pinned: set_alone(&header.pinned, limits.partitions_max, "card.pinned")?,
            refused: set_alone(&header.refused, limits.partitions_max, "card.refused")?,
        });
    }
    Ok(())
}

/// Encodes the members that a node knows.
pub(super) fn cards_header(known: &Cards, limits: &Limits) -> Result<CardsHeader, WireError> {
    let Cards { cards, totals } = known;
    within("cards", members_max(limits), cards.len())?;
    within("totals", SERVICES_MAX, totals.len())?;
    let cards = cards.iter().map(|card| card_header(card, limits)).collect::<Result<_, _>>()?;
    let total = |(service, total): (&String, &u32)| {
        check_total(service, *total, limits)?;
        Ok(TotalHeader { service: service.clone(), total: *total, ..Default::default() })
    };
    Ok(CardsHeader { cards, totals: totals.iter().map(total).collect::<Result<_, _>>()? })
}

/// Decodes the members that a node knows.
pub(super) fn cards_of(header: CardsHeader, limits: &Limits) -> Result<Cards, WireError> {
    within("cards", members_max(limits), header.cards.len())?;
    within("totals", SERVICES_MAX, header.totals.len())?;
    let cards = header.cards.into_iter().map(|header| card_of(header, limits)).collect::<Result<_, _>>()?;
    let total = |TotalHeader { service, total, .. }: TotalHeader| {
        check_total(&service, total, limits)?;
        Ok((service, total))
    };
    Ok(Cards { cards, totals: header.totals.into_iter().map(total).collect::<Result<_, _>>()? })
}

fn check_total(service: &str, total: u32, limits: &Limits) -> Result<(), WireError> {
    within("totals.service", NAME_BYTES_MAX, service.len())?;
    within("totals.total", limits.partitions_max as usize, total as usize)
}

fn load_header(load: LoadFigure) -> LoadHeader {
    let LoadFigure { queued, in_flight, processors, latency } = load;
    LoadHeader { queued_us: queued.as_micros(), in_flight, processors, latency_us: latency.as_micros() }
}

fn load_of(header: Option<LoadHeader>) -> Result<LoadFigure, WireError> {
    let LoadHeader { queued_us, in_flight, processors, latency_us } = header.ok_or(malformed("load"))?;
    let (queued, latency) = (Duration::from_micros(queued_us), Duration::from_micros(latency_us));
    Ok(LoadFigure { queued, in_flight, processors, latency })
}

/// Encodes a status as a header.
pub(super) fn status_header(
    id: u64,
    status: &NodeStatus,
    limits: &Limits,
) -> Result<StatusHeader, WireError> {
    within("members", members_max(limits), status.members.len())?;
    within("totals", SERVICES_MAX, status.totals.len())?;
    within("streams", STREAMS_SHOWN_MAX, status.streams.len())?;
    within("slow", SLOW_SHOWN_MAX, status.slow.len())?;
    within("build", NAME_BYTES_MAX, status.process.build.len())?;
    let (mut counters, mut open) = (status.counters, status.open);
    let member = |member: &MemberStatus| {
        Ok(MemberHeader {
            card: Some(card_header(&member.card, limits)?),
            load: Some(load_header(member.load)),
            load_age_ms: member.load_age_ms,
        })
    };
    Ok(StatusHeader {
        id,
        card: Some(card_header(&status.card, limits)?),
        load: Some(load_header(status.load)),
        counters: counter_places(&mut counters).map(|place| *place).to_vec(),
        open: open_places(&mut open).map(|place| *place as u64).to_vec(),
        members: status.members.iter().map(member).collect::<Result<_, WireError>>()?,
        totals: status.totals.iter().map(|total| total_header(total, limits)).collect::<Result<_, _>>()?,
        unreached_by_udp: status.unreached_by_udp,
        streams: status.streams.iter().map(stream_header).collect::<Result<_, _>>()?,
        build: status.process.build.clone(),
        unix_ms: status.process.unix_ms,
        slow: status.slow.iter().map(slow_header).collect::<Result<_, _>>()?,
    })
}

fn slow_header(slow: &SlowNode) -> Result<SlowHeader, WireError> {
    within("slow.aggregation", NAME_BYTES_MAX, slow.aggregation.len())?;
    let [time_us, usual_us, lasts_us] = [slow.time, slow.usual, slow.lasts].map(Duration::as_micros);
    let mut header = SlowHeader {
        node: Vec::new(),
        aggregation: slow.aggregation.to_string(),
        time_us,
        usual_us,
        lasts_us,
    };
    put_node(&mut header.node, slow.node);
    Ok(header)
}

fn slow_of(header: SlowHeader) -> Result<SlowNode, WireError> {
    within("slow.aggregation", NAME_BYTES_MAX, header.aggregation.len())?;
    let [time, usual, lasts] = [header.time_us, header.usual_us, header.lasts_us].map(Duration::from_micros);
    let node = node_alone(&header.node, "slow.node")?;
    Ok(SlowNode { node, aggregation: header.aggregation.into(), time, usual, lasts })
}

fn stream_header(stream: &StreamStatus) -> Result<OpenStreamHeader, WireError> {
    within("streams.service", NAME_BYTES_MAX, stream.service.len())?;
    within("streams.up_filter", NAME_BYTES_MAX, stream.up_filter.len())?;
    Ok(OpenStreamHeader {
        service: stream.service.to_string(),
        up_filter: stream.up_filter.to_string(),
        is_front: stream.is_front,
        children: stream.children,
        endpoints: stream.endpoints,
        away: stream.away,
        held_bytes: stream.held_bytes,
        traffic: stream.traffic.figures().map(|(_, figure)| figure).to_vec(),
    })
}

fn stream_of(header: OpenStreamHeader) -> Result<StreamStatus, WireError> {
    within("streams.service", NAME_BYTES_MAX, header.service.len())?;
    within("streams.up_filter", NAME_BYTES_MAX, header.up_filter.len())?;
    Ok(StreamStatus {
        service: header.service.into(),
        up_filter: header.up_filter.into(),
        is_front: header.is_front,
        children: header.children,
        endpoints: header.endpoints,
        away: header.away,
        held_bytes: header.held_bytes,
        traffic: StreamTraffic::of_row(header.traffic),
    })
}

fn total_header(total: &TotalStatus, limits: &Limits) -> Result<TotalHeader, WireError> {
    within("totals.service", NAME_BYTES_MAX, total.service.len())?;
    within("totals.refused", members_max(limits), total.refused.len())?;
    let refused = |refused: &RefusedTotal| {
        let mut header = RefusedHeader {
            total: refused.claim.total,
            declared: refused.claim.declared,
            ..RefusedHeader::default()
        };
        put_node(&mut header.node, refused.node);
        header
    };
    Ok(TotalHeader {
        service: total.service.clone(),
        total: total.agreed.total,
        declared: total.agreed.declared,
        refused: total.refused.iter().map(refused).collect(),
    })
}

fn total_of(header: TotalHeader, limits: &Limits) -> Result<TotalStatus, WireError> {
    within("totals.service", NAME_BYTES_MAX, header.service.len())?;
    within("totals.refused", members_max(limits), header.refused.len())?;
    let refused = |header: RefusedHeader| {
        let claim = AgreedTotal { total: header.total, declared: header.declared };
        Ok(RefusedTotal { node: node_alone(&header.node, "totals.refused")?, claim })
    };
    Ok(TotalStatus {
        service: header.service,
        agreed: AgreedTotal { total: header.total, declared: header.declared },
        refused: header.refused.into_iter().map(refused).collect::<Result<_, WireError>>()?,
    })
}

/// Decodes a status from its header.
pub(super) fn status_of(header: StatusHeader, limits: &Limits) -> Result<NodeStatus, WireError> {
    within("members", members_max(limits), header.members.len())?;
    within("totals", SERVICES_MAX, header.totals.len())?;
    within("streams", STREAMS_SHOWN_MAX, header.streams.len())?;
    within("slow", SLOW_SHOWN_MAX, header.slow.len())?;
    within("build", NAME_BYTES_MAX, header.build.len())?;
    let (mut counters, mut open) = (Counters::default(), OpenWork::default());
    for (place, count) in counter_places(&mut counters).into_iter().zip(header.counters) {
        *place = count;
    }
    for (place, size) in open_places(&mut open).into_iter().zip(header.open) {
        *place = usize::try_from(size).map_err(|_| malformed("open"))?;
    }
    let member = |member: MemberHeader| {
        Ok(MemberStatus {
            card: card_of(member.card.ok_or(malformed("members.card"))?, limits)?,
            load: load_of(member.load)?,
            load_age_ms: member.load_age_ms,
        })
    };
    Ok(NodeStatus {
        card: card_of(header.card.ok_or(malformed("card"))?, limits)?,
        load: load_of(header.load)?,
        counters,
        open,
        members: header.members.into_iter().map(member).collect::<Result<_, WireError>>()?,
        totals: header.totals.into_iter().map(|total| total_of(total, limits)).collect::<Result<_, _>>()?,
        unreached_by_udp: header.unreached_by_udp,
        streams: header.streams.into_iter().map(stream_of).collect::<Result<_, _>>()?,
        slow: header.slow.into_iter().map(slow_of).collect::<Result<_, _>>()?,
        process: ProcessFacts { build: header.build, unix_ms: header.unix_ms },
    })
}

/// The counters in the order of their row.
fn counter_places(counters: &mut Counters) -> [&mut u64; 24] {
    [
        &mut counters.calls.started,
        &mut counters.calls.full,
        &mut counters.calls.partial,
        &mut counters.calls.insufficient,
        &mut counters.calls.rejected,
        &mut counters.calls.cancelled,
        &mut counters.waves.answered,
        &mut counters.waves.refused,
        &mut counters.waves.locals_run,
        &mut counters.waves.reductions_run,
        &mut counters.waves.locals_failed,
        &mut counters.waves.partials_overlapping,
        &mut counters.waves.partials_late,
        &mut counters.waves.repairs,
        &mut counters.waves.retries,
        &mut counters.polls_late,
        &mut counters.bad_messages,
        &mut counters.waves.hedges,
        &mut counters.stream_waves,
        &mut counters.stream_pieces_late,
        &mut counters.stream_repairs,
        &mut counters.pushes.taken,
        &mut counters.pushes.repeated,
        &mut counters.pushes.dropped,
    ]
}

/// The table sizes in the order of their row.
fn open_places(open: &mut OpenWork) -> [&mut usize; 11] {
    [
        &mut open.calls,
        &mut open.waves,
        &mut open.waves_kept,
        &mut open.kept_bytes,
        &mut open.held_bytes,
        &mut open.jobs_queued,
        &mut open.jobs_running,
        &mut open.jobs_stuck,
        &mut open.streams,
        &mut open.stream_bytes,
        &mut open.workers,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_place() {
        let mut counters = Counters::default();
        let places = counter_places(&mut counters).len();
        counter_places(&mut counters).into_iter().zip(1..).for_each(|(place, count)| *place = count);
        let mut counts: Vec<u64> = counters.iter().map(|(_, count)| count).collect();
        counts.sort_unstable();
        assert!(counts.iter().copied().eq(1..=places as u64), "without a place: {counters:?}");
    }
}
