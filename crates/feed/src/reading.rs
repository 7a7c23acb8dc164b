//! Calls to a feed's mirrors: the values of keys, the state of each mirror, and snapshots for mirrors that join.

use crate::mirror::Shared;
use crate::serving::asked;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use treefold::operators::{OperatorError, Raw, Result};
use treefold::{Aggregation, Partition, Service};
use treefold_mirror::joining::{Ask, PORTION_BYTES};

/// The aggregation by which mirrors give their state.
pub(crate) const STATUS: &str = "status";
/// The aggregation by which a mirror gives a portion of its snapshot.
pub(crate) const SNAPSHOT: &str = "snapshot";

/// Most keys of one call.
const KEYS_MAX: usize = 10_000;

/// Adds the aggregations to a feed's service.
pub(crate) fn readable(service: Service) -> Service {
    service.aggregation(SNAPSHOT, Giving).aggregation("get", Getting).aggregation(STATUS, Reporting)
}

/// Parameters of `get`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    keys: Vec<String>,
}

/// The values of keys, at one place of the feed.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Found {
    epoch: u32,
    position: u64,
    rows: Vec<serde_json::Value>,
}

/// Gives the values of keys. Of several mirrors, the answer is that of the one that is furthest.
struct Getting;

impl Aggregation for Getting {
    type Params = Wanted;
    type Partial = Found;

    fn local(&self, partition: &Partition, wanted: &Wanted) -> Result<Found> {
        if wanted.keys.len() > KEYS_MAX {
            return Err(OperatorError::new(format!("{} keys; allowed: {KEYS_MAX}", wanted.keys.len())));
        }
        let held = partition.data_as::<Shared>()?.current()?;
        let (cut, state) = (held.mirror().cut(), held.mirror().state());
        let rows: Vec<_> = wanted.keys.iter().filter_map(|key| state.value(key)).collect();
        drop(held);
        let rows = rows.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
        Ok(Found { epoch: cut.epoch, position: cut.position, rows })
    }

    fn reduce(&self, a: Found, b: Found, _: &Wanted) -> Result<Found> {
        Ok(if (a.epoch, a.position) >= (b.epoch, b.position) { a } else { b })
    }
}

/// The state of one mirror. It has fourteen fields, because a report shows all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorStatus {
    /// The mirror's number.
    pub mirror: u32,
    /// The epoch of its origin; 0 before the first one.
    pub epoch: u32,
    /// The position of the last applied event.
    pub position: u64,
    /// True if the mirror has had all events that the origin had sent at its last checkpoint. Only such a mirror
    /// serves readers.
    pub is_current: bool,
    /// Number of keys.
    pub keys: usize,
    /// The version of the rules that chose the last event.
    pub rules_version: u32,
    /// All mirrors have the events up to this position.
    pub committed: u64,
    /// True if a new origin could continue its log.
    pub has_state: bool,
    /// The epoch that the mirror has promised to an origin that takes over; 0 if none.
    pub promised: u32,
    /// True if its promises outlive its process.
    pub keeps_promises: bool,
    /// The time since it has heard of its origin, in ms; `None` if it has had none.
    pub silent_ms: Option<u64>,
    /// Readers that it serves.
    pub readers: usize,
    /// Readers that wait for a snapshot.
    pub pending_requests: u64,
    /// The address at which it serves readers over HTTP.
    #[serde(default)]
    pub http: Option<SocketAddr>,
}

impl MirrorStatus {
    /// The last epoch that the mirror follows or has promised.
    pub fn known(&self) -> u32 {
        self.epoch.max(self.promised)
    }

    pub(crate) fn of(shared: &Shared) -> Self {
        let held = shared.held();
        let (mirror, cut) = (held.mirror(), held.mirror().cut());
        Self {
            mirror: shared.options.number,
            epoch: cut.epoch,
            position: cut.position,
            is_current: held.is_current(),
            keys: mirror.state().len(),
            rules_version: mirror.rules_version(),
            committed: mirror.log().committed(),
            has_state: held.pledged().is_some(),
            promised: held.promised().epoch,
            keeps_promises: shared.options.promises.is_some(),
            silent_ms: shared.silent_ms(),
            readers: shared.serving.readers(),
            pending_requests: shared.serving.pending(),
            http: shared.http(),
        }
    }
}

/// Gives the state of each mirror.
struct Reporting;

impl Aggregation for Reporting {
    type Params = ();
    type Partial = Vec<MirrorStatus>;

    fn local(&self, partition: &Partition, (): &()) -> Result<Vec<MirrorStatus>> {
        Ok(vec![MirrorStatus::of(partition.data_as::<Shared>()?)])
    }

    fn reduce(&self, mut a: Vec<MirrorStatus>, b: Vec<MirrorStatus>, (): &()) -> Result<Vec<MirrorStatus>> {
        a.extend(b);
        a.sort_unstable_by_key(|status| status.mirror);
        Ok(a)
    }
}

/// Gives a portion of a mirror's snapshot to one that joins. A call asks one mirror, so nothing is folded.
///
/// The portion is empty if the snapshot is being encoded. The joining mirror asks again.
struct Giving;

impl Aggregation for Giving {
    type Params = Raw;
    type Partial = Raw;

    fn local(&self, partition: &Partition, Raw(ask): &Raw) -> Result<Raw> {
        let ask = Ask::read(ask)?;
        let encoded = asked(&partition.data_shared::<Shared>()?, ask)?;
        let portion = encoded.map(|encoded| encoded.portion(ask.item(), PORTION_BYTES)).transpose()?;
        Ok(Raw(portion.unwrap_or_default()))
    }

    fn reduce(&self, _: Raw, _: Raw, _: &Raw) -> Result<Raw> {
        Err(OperatorError::new("a snapshot is that of one mirror; ask one partition"))
    }
}
