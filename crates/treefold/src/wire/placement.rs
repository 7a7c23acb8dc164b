//! The placement of partitions at a node: an operator's requests, and reports.

use crate::wire::columns::{Sets, put_number, put_set, set_alone};
use crate::wire::error::{WireError, malformed, within};
use crate::wire::header::{
    LoadFailureHeader, PlacementReplyHeader, PlacementRequestHeader, ServicePlacementHeader,
};
use crate::wire::outcome::clipped;
use std::sync::Arc;
use treefold_core::limits::Limits;
use treefold_core::membership::card::{NAME_BYTES_MAX, SERVICES_MAX};
use treefold_core::partitions::PartitionSet;
use treefold_core::placement::{
    FAILURES_SHOWN_MAX, LoadFailure, PlacementAsk, PlacementReport, ServicePlacement,
};

const SHOW: u32 = 0;
const DRAIN: u32 = 1;
const UNDRAIN: u32 = 2;
const PIN: u32 = 3;
const REFUSE: u32 = 4;
const RELEASE: u32 = 5;

/// The content of an answer.
type Told = Result<Box<PlacementReport>, Arc<str>>;

/// Encodes an operator's request.
pub(super) fn placement_request_header(
    id: u64,
    ask: &PlacementAsk,
    limits: &Limits,
) -> Result<PlacementRequestHeader, WireError> {
    let (number, of) = match ask {
        PlacementAsk::Show => (SHOW, None),
        PlacementAsk::Drain(true) => (DRAIN, None),
        PlacementAsk::Drain(false) => (UNDRAIN, None),
        PlacementAsk::Pin { service, partitions } => (PIN, Some((service, partitions))),
        PlacementAsk::Refuse { service, partitions } => (REFUSE, Some((service, partitions))),
        PlacementAsk::Release { service, partitions } => (RELEASE, Some((service, partitions))),
    };
    let mut header = PlacementRequestHeader { id, ask: number, ..PlacementRequestHeader::default() };
    if let Some((service, partitions)) = of {
        within("service", NAME_BYTES_MAX, service.len())?;
        header.service = service.as_ref().to_owned();
        put_set(&mut header.partitions, partitions, limits.partitions_max, "partitions")?;
    }
    Ok(header)
}

/// Decodes an operator's request. The node checks the service and the partitions, and answers.
pub(super) fn placement_ask_of(
    header: PlacementRequestHeader,
    limits: &Limits,
) -> Result<PlacementAsk, WireError> {
    within("service", NAME_BYTES_MAX, header.service.len())?;
    let partitions = set_alone(&header.partitions, limits.partitions_max, "partitions")?;
    let service: Arc<str> = header.service.into();
    Ok(match header.ask {
        SHOW => PlacementAsk::Show,
        DRAIN => PlacementAsk::Drain(true),
        UNDRAIN => PlacementAsk::Drain(false),
        PIN => PlacementAsk::Pin { service, partitions },
        REFUSE => PlacementAsk::Refuse { service, partitions },
        RELEASE => PlacementAsk::Release { service, partitions },
        _ => return Err(malformed("ask")),
    })
}

/// Encodes `result` as a header.
pub(super) fn placement_reply_header(
    id: u64,
    result: &Told,
    limits: &Limits,
) -> Result<PlacementReplyHeader, WireError> {
    let none = PlacementReplyHeader { id, ..PlacementReplyHeader::default() };
    let report = match result {
        Ok(report) => report,
        Err(problem) => {
            let problem = Some(clipped(problem, limits).to_owned());
            return Ok(PlacementReplyHeader { problem, ..none });
        }
    };
    within("services", SERVICES_MAX, report.services.len())?;
    let services = report.services.iter().map(|service| service_header(service, limits));
    Ok(PlacementReplyHeader {
        draining: report.draining,
        is_calm: report.is_calm,
        services: services.collect::<Result<_, _>>()?,
        ..none
    })
}

/// The sets of a service's report, in the order in which they are written.
fn sets_of(placement: &mut ServicePlacement) -> [&mut PartitionSet; 7] {
    let ServicePlacement { held, assigned, loading, leaving, pinned, refused, alone, .. } = placement;
    [held, assigned, loading, leaving, pinned, refused, alone]
}

fn service_header(
    placement: &ServicePlacement,
    limits: &Limits,
) -> Result<ServicePlacementHeader, WireError> {
    within("services.service", NAME_BYTES_MAX, placement.service.len())?;
    within("services.failures", FAILURES_SHOWN_MAX, placement.failures.len())?;
    let failure = |failure: &LoadFailure| LoadFailureHeader {
        partition: failure.partition,
        tries: failure.tries,
        reason: clipped(&failure.reason, limits).to_owned(),
    };
    let mut header = ServicePlacementHeader {
        service: placement.service.clone(),
        total: placement.total,
        replicas: placement.replicas,
        failures: placement.failures.iter().map(failure).collect(),
        ..ServicePlacementHeader::default()
    };
    for set in sets_of(&mut placement.clone()) {
        let count = put_set(&mut header.runs, set, limits.partitions_max, "services.partitions")?;
        put_number(&mut header.run_counts, count);
    }
    Ok(header)
}

/// Decodes the content of an answer.
pub(super) fn placement_reply_of(header: PlacementReplyHeader, limits: &Limits) -> Result<Told, WireError> {
    if let Some(problem) = header.problem {
        within("problem", limits.message_bytes_max, problem.len())?;
        return Ok(Err(problem.into()));
    }
    within("services", SERVICES_MAX, header.services.len())?;
    let services = header.services.into_iter().map(|header| service_of(header, limits));
    let (draining, is_calm) = (header.draining, header.is_calm);
    Ok(Ok(Box::new(PlacementReport { draining, is_calm, services: services.collect::<Result<_, _>>()? })))
}

fn service_of(header: ServicePlacementHeader, limits: &Limits) -> Result<ServicePlacement, WireError> {
    const FIELD: &str = "services.partitions";
    within("services.service", NAME_BYTES_MAX, header.service.len())?;
    within("services.failures", FAILURES_SHOWN_MAX, header.failures.len())?;
    let mut sets = Sets::new(&header.run_counts, &header.runs, limits.partitions_max, FIELD);
    let failure = |failure: LoadFailureHeader| {
        within("failures.reason", limits.message_bytes_max, failure.reason.len())?;
        let LoadFailureHeader { partition, tries, reason } = failure;
        Ok(LoadFailure { partition, tries, reason: reason.into() })
    };
    let mut placement = ServicePlacement {
        service: header.service,
        total: header.total,
        replicas: header.replicas,
        failures: header.failures.into_iter().map(failure).collect::<Result<_, WireError>>()?,
        ..ServicePlacement::default()
    };
    for set in sets_of(&mut placement) {
        *set = sets.take()?;
    }
    if sets.is_empty() { Ok(placement) } else { Err(malformed(FIELD)) }
}
