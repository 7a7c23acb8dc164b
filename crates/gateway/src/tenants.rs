//! Tenants: programs with a token, each with its rights and its limits.
//!
//! Requests per second are counted by a [`Bucket`], so short bursts pass and a flood is refused with the time until the next
//! request would pass.

use crate::bucket::Bucket;
use crate::limits::Limits;
use crate::problem::{Kind, Problem};
use crate::tokens::{Entry, GatewayRight, ServiceNames};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A program with a token, or all programs if there are no tokens.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) name: String,
    services: ServiceNames,
    rights: BTreeSet<GatewayRight>,
    requests_per_s: u32,
    calls_open_max: usize,
    streams_open_max: usize,
    /// The hash of its token; `None` without tokens.
    pub(crate) token: Option<[u8; 32]>,
    /// Shared by all versions of the tenant, so that a changed file does not open its limits.
    usage: Arc<Usage>,
}

/// The requests of a tenant.
#[derive(Debug, Default)]
struct Usage {
    bucket: Mutex<Option<Bucket>>,
    calls_open: AtomicUsize,
    streams_open: AtomicUsize,
}

/// An open call of a tenant.
#[derive(Debug)]
pub(crate) struct OpenCall(Arc<Usage>);

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.calls_open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An open stream of a tenant.
#[derive(Debug)]
pub(crate) struct OpenStream(Arc<Usage>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams_open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Tenant {
    /// The tenant of all requests, if there are no tokens.
    pub(crate) fn anybody(limits: &Limits) -> Self {
        Self {
            name: "anybody".to_owned(),
            services: ServiceNames::all(),
            rights: [GatewayRight::Call, GatewayRight::Read].into(),
            requests_per_s: limits.requests_per_s,
            calls_open_max: limits.calls_open_max,
            streams_open_max: limits.streams_open_max,
            token: None,
            usage: Arc::default(),
        }
    }

    /// The tenant of an entry. `former` is its former version.
    pub(crate) fn of(entry: &Entry, token: [u8; 32], limits: &Limits, former: Option<&Self>) -> Self {
        Self {
            name: entry.name.clone(),
            services: entry.services.clone(),
            rights: entry.rights.clone(),
            requests_per_s: entry.requests_per_s.unwrap_or(limits.requests_per_s),
            calls_open_max: entry.calls_open_max.unwrap_or(limits.calls_open_max),
            streams_open_max: entry.streams_open_max.unwrap_or(limits.streams_open_max),
            token: Some(token),
            usage: former.map(|former| Arc::clone(&former.usage)).unwrap_or_default(),
        }
    }

    /// Refuses a call of a service that the token does not name.
    pub(crate) fn may_call(&self, service: &str) -> Result<(), Problem> {
        if self.rights.contains(&GatewayRight::Call) && self.services.contain(service) {
            return Ok(());
        }
        let detail =
            format!("the token {:?} does not give the right to call the service {service:?}", self.name);
        Err(Problem::new(Kind::Denied, detail).about("service").given(service))
    }

    /// Refuses to show the state of the cluster to a token without that right.
    pub(crate) fn may_read(&self) -> Result<(), Problem> {
        if self.rights.contains(&GatewayRight::Read) {
            return Ok(());
        }
        let detail = format!("the token {:?} does not give the right to read", self.name);
        Err(Problem::new(Kind::Denied, detail).about("rights"))
    }

    /// True if the tenant may see the trees of calls of a service.
    pub(crate) fn may_see_calls_of(&self, service: &str) -> bool {
        self.rights.contains(&GatewayRight::Read) || self.may_call(service).is_ok()
    }

    /// Counts a request, or refuses it.
    pub(crate) fn count_request(&self, now: Instant) -> Result<(), Problem> {
        let rate = f64::from(self.requests_per_s);
        let mut bucket = self.usage.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = bucket.get_or_insert_with(|| Bucket::full(rate, now)).take(1.0, rate, now);
        drop(bucket);
        let Err(wait) = taken else { return Ok(()) };
        let detail = format!(
            "{:?} has made more than {rate} requests in a second; allowed: at most {rate} (requests_per_s)",
            self.name
        );
        Err(Problem::new(Kind::Rate, detail)
            .about("requests_per_s")
            .limit(self.requests_per_s)
            .again_after(wait))
    }

    /// Opens a call, or refuses it.
    pub(crate) fn open_call(&self) -> Result<OpenCall, Problem> {
        let max = self.calls_open_max;
        if take_one(&self.usage.calls_open, max) {
            return Ok(OpenCall(Arc::clone(&self.usage)));
        }
        let detail = format!("{:?} has {max} calls open; allowed: at most {max} (calls_open_max)", self.name);
        let problem = Problem::new(Kind::OpenCalls, detail).about("calls_open_max").limit(max);
        Err(problem.again_after(Duration::from_secs(1)))
    }

    /// Opens a stream, or refuses it.
    pub(crate) fn open_stream(&self) -> Result<OpenStream, Problem> {
        let max = self.streams_open_max;
        if take_one(&self.usage.streams_open, max) {
            return Ok(OpenStream(Arc::clone(&self.usage)));
        }
        let detail =
            format!("{:?} has {max} streams open; allowed: at most {max} (streams_open_max)", self.name);
        let problem = Problem::new(Kind::OpenStreams, detail).about("streams_open_max").limit(max);
        Err(problem.again_after(Duration::from_secs(1)))
    }
}

/// Counts one more, unless there are `max`.
fn take_one(open: &AtomicUsize, max: usize) -> bool {
    let more = |open| (open < max).then_some(open + 1);
    open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(requests_per_s: u32, calls_open_max: usize) -> Tenant {
        Tenant::anybody(&Limits { requests_per_s, calls_open_max, ..Limits::default() })
    }

    #[test]
    fn a_second_worth_of_requests_passes_at_once_and_then_as_many_as_time_gives() {
        let (tenant, start) = (tenant(4, 1), Instant::now());
        assert_eq!((0..10).filter(|_| tenant.count_request(start).is_ok()).count(), 4);
        let later = start + Duration::from_millis(500);
        assert_eq!((0..10).filter(|_| tenant.count_request(later).is_ok()).count(), 2);
        let much_later = start + Duration::from_secs(100);
        assert_eq!((0..10).filter(|_| tenant.count_request(much_later).is_ok()).count(), 4, "no hoard");
        assert_eq!(tenant.count_request(start).unwrap_err().name(), "rate", "an earlier time gives nothing");
    }

    #[test]
    fn open_calls_are_given_back() {
        let tenant = tenant(1, 2);
        let (first, second) = (tenant.open_call().unwrap(), tenant.open_call().unwrap());
        assert_eq!(tenant.open_call().unwrap_err().name(), "open_calls");
        drop(first);
        assert!(tenant.open_call().is_ok());
        drop(second);
    }
}
