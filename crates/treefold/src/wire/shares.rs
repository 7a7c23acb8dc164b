//! The shares of applications in a node: settings, and reports of consumption.

use crate::wire::error::{WireError, malformed, within};
use crate::wire::header::{ServiceAccountHeader, ShareHeader, SharesReplyHeader, SharesRequestHeader};
use crate::wire::outcome::clipped;
use std::sync::Arc;
use treefold_core::limits::Limits;
use treefold_core::membership::card::{NAME_BYTES_MAX, SERVICES_MAX};
use treefold_core::schedule::share::{
    Class, SETTINGS_MAX, ServiceAccount, ServiceShare, ShareSetting, SharesReport,
};
use treefold_core::time::Duration;

/// The most applications of one node: services that run on it, as many services with a set share, and the
/// rest.
pub(super) const ACCOUNTS_MAX: usize = 2 * SERVICES_MAX + 1;

/// The content of an answer.
type Told = Result<Box<SharesReport>, Arc<str>>;

fn class_number(class: Class) -> u32 {
    match class {
        Class::Interactive => 1,
        Class::Batch => 2,
    }
}

fn class_of(number: u32, field: &'static str) -> Result<Class, WireError> {
    match number {
        1 => Ok(Class::Interactive),
        2 => Ok(Class::Batch),
        _ => Err(malformed(field)),
    }
}

/// Encodes a request for `settings`.
pub(super) fn shares_request_header(
    id: u64,
    settings: &[ShareSetting],
) -> Result<SharesRequestHeader, WireError> {
    within("settings", SETTINGS_MAX, settings.len())?;
    let header = |setting: &ShareSetting| {
        within("settings.service", NAME_BYTES_MAX, setting.service.len())?;
        Ok(ShareHeader {
            service: setting.service.clone(),
            share: setting.share,
            class: setting.class.map_or(0, class_number),
        })
    };
    Ok(SharesRequestHeader { id, settings: settings.iter().map(header).collect::<Result<_, _>>()? })
}

/// Decodes the settings of a request. The node checks whether the shares are valid and answers.
pub(super) fn settings_of(header: SharesRequestHeader) -> Result<Vec<ShareSetting>, WireError> {
    within("settings", SETTINGS_MAX, header.settings.len())?;
    let setting = |header: ShareHeader| {
        within("settings.service", NAME_BYTES_MAX, header.service.len())?;
        let class = match header.class {
            0 => None,
            number => Some(class_of(number, "settings.class")?),
        };
        Ok(ShareSetting { service: header.service, share: header.share, class })
    };
    header.settings.into_iter().map(setting).collect()
}

/// Encodes `result` as a header.
pub(super) fn shares_reply_header(
    id: u64,
    result: &Told,
    limits: &Limits,
) -> Result<SharesReplyHeader, WireError> {
    let none = SharesReplyHeader { id, ..SharesReplyHeader::default() };
    let report = match result {
        Ok(report) => report,
        Err(problem) => {
            let problem = Some(clipped(problem, limits).to_owned());
            return Ok(SharesReplyHeader { problem, ..none });
        }
    };
    within("services", ACCOUNTS_MAX, report.services.len())?;
    let header = |account: &ServiceAccount| {
        within("services.service", NAME_BYTES_MAX, account.service.len())?;
        Ok(ServiceAccountHeader {
            service: account.service.as_ref().to_owned(),
            share: account.share.share,
            class: class_number(account.share.class),
            used_ns: Duration::from(account.used).as_nanos(),
            recent_ns: Duration::from(account.recent).as_nanos(),
            jobs_done: account.jobs_done,
            jobs_queued: account.jobs_queued as u64,
            queued_ns: Duration::from(account.queued).as_nanos(),
            refused: account.refused,
            held_bytes: account.held_bytes as u64,
            held_bytes_max: account.held_bytes_max as u64,
        })
    };
    Ok(SharesReplyHeader {
        processors: report.processors,
        uptime_ns: Duration::from(report.uptime).as_nanos(),
        window_ns: Duration::from(report.window).as_nanos(),
        services: report.services.iter().map(header).collect::<Result<_, _>>()?,
        ..none
    })
}

/// Decodes the content of an answer.
pub(super) fn shares_reply_of(header: SharesReplyHeader, limits: &Limits) -> Result<Told, WireError> {
    if let Some(problem) = header.problem {
        within("problem", limits.message_bytes_max, problem.len())?;
        return Ok(Err(problem.into()));
    }
    within("services", ACCOUNTS_MAX, header.services.len())?;
    let size = |count: u64, field| usize::try_from(count).map_err(|_| malformed(field));
    let account = |header: ServiceAccountHeader| {
        within("services.service", NAME_BYTES_MAX, header.service.len())?;
        let class = class_of(header.class, "services.class")?;
        Ok(ServiceAccount {
            service: header.service.into(),
            share: ServiceShare { share: header.share, class },
            used: Duration::from_nanos(header.used_ns).into(),
            recent: Duration::from_nanos(header.recent_ns).into(),
            jobs_done: header.jobs_done,
            jobs_queued: size(header.jobs_queued, "services.jobs_queued")?,
            queued: Duration::from_nanos(header.queued_ns).into(),
            refused: header.refused,
            held_bytes: size(header.held_bytes, "services.held_bytes")?,
            held_bytes_max: size(header.held_bytes_max, "services.held_bytes_max")?,
        })
    };
    Ok(Ok(Box::new(SharesReport {
        processors: header.processors,
        uptime: Duration::from_nanos(header.uptime_ns).into(),
        window: Duration::from_nanos(header.window_ns).into(),
        services: header.services.into_iter().map(account).collect::<Result<_, _>>()?,
    })))
}
