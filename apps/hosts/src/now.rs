//! `hosts/now`: the current activity of every host, as a call.

use crate::hosts::Hosts;
use crate::watch::Watch;
use serde::{Deserialize, Serialize};
use treefold_operators::{Aggregation, OperatorError, Partition, Result, merging};

/// Default length of each list.
pub const TOP_DEFAULT: u32 = 10;

/// Largest length of each list.
pub const TOP_MAX: u32 = 64;

/// Parameters of `hosts/now`; nil for the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// Length of each list, from 1 to [`TOP_MAX`].
    pub top: u32,
}

impl Default for Ask {
    fn default() -> Self {
        Self { top: TOP_DEFAULT }
    }
}

impl Ask {
    /// The requested length of each list.
    ///
    /// # Errors
    /// If it is outside its limits. The error names the field.
    pub(crate) fn top(ask: Option<Self>) -> Result<u32> {
        let top = ask.unwrap_or_default().top;
        if (1..=TOP_MAX).contains(&top) {
            return Ok(top);
        }
        Err(OperatorError::new(format!("top is {top}; allowed: 1 to {TOP_MAX}")))
    }
}

/// The aggregation `hosts/now`. A partition is a host, and its data is its [`Watch`].
///
/// Locals read some hundred files, so they run on a worker. Merges are measured, and run on the loop if
/// they are cheap.
pub fn now() -> impl Aggregation<Params = Option<Ask>, Partial = Hosts> {
    merging("hosts/now", |partition: &Partition, ask: &Option<Ask>| {
        let top = Ask::top(*ask)?;
        let sample = partition.data_as::<Watch>()?.now()?;
        Ok(Hosts::of(&sample, top)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use bytes::Bytes;
    use std::sync::Arc;
    use treefold_operators::{Body, erase};

    fn partition(id: u32) -> Partition {
        let watch = Watch::start(Host::new(id, &format!("host-{id}"))).unwrap();
        Partition::new(crate::SERVICE.into(), id, 2, Arc::new(watch))
    }

    #[test]
    fn two_partitions_are_two_hosts() {
        let now = erase(now());
        let local = |id| now.local(&partition(id), &Bytes::new()).now().unwrap().unwrap();
        let folded = now.reduce(local(0), local(1), &Bytes::new()).now().unwrap().unwrap();
        let hosts = Hosts::decode(&folded).unwrap();
        let cores = std::thread::available_parallelism().unwrap().get() as u64;
        assert!(hosts.hosts == 2 && hosts.figures.cores >= 2 * cores, "{hosts:?}");
        assert!(hosts.figures.memory_bytes > 0 && !hosts.processes_by_memory.items().is_empty(), "{hosts:?}");
        let named: Vec<&str> =
            hosts.hosts_by_cpu.items().iter().map(|line| line.0.host.name.as_str()).collect();
        assert!(named.contains(&"host-0") && named.contains(&"host-1"), "{named:?}");
    }

    #[test]
    fn parameters_are_checked() {
        let (now, one) = (erase(now()), partition(0));
        let refused = |params: &Bytes| now.local(&one, params).now().unwrap().unwrap_err().to_string();
        assert_eq!(refused(&Ask { top: 65 }.encode().unwrap()), "hosts/now: top is 65; allowed: 1 to 64");
        let unknown = std::collections::BTreeMap::from([("tops".to_string(), 3)]).encode().unwrap();
        assert!(refused(&unknown).contains("unknown field `tops`"));
    }
}
