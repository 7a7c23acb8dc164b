//! Services whose partitions the nodes share among themselves: `partitions=auto/TOTAL:replicas=N`.

use super::{Serve, What, micro, search_service, with_stretched};
use std::path::PathBuf;
use std::sync::Arc;
use treefold::placement::{PLACED_PARTITIONS_MAX, REPLICAS_MAX};
use treefold::{CallError, LoadPartition, PartitionData, Service};
use treefold_search::{Bar, Shard};

/// The key and the word in front of the total.
const AUTO: &str = ":partitions=auto/";
const REPLICAS: &str = ":replicas=";

/// Copies of each partition if `replicas` is not given.
const REPLICAS_DEFAULT: u32 = 1;

/// The argument in the form for services that are placed by hand, and the number of replicas; `None` if it is one.
pub(super) fn split(text: &str) -> Result<Option<(String, u32)>, CallError> {
    let refuse = |limit: String| CallError::bad_field("serve", text, limit);
    let (head, replicas) = take_replicas(text);
    let Some(at) = head.rfind(AUTO) else {
        let allowed =
            "replicas with partitions=auto/TOTAL only, as in search=DIR:partitions=auto/64:replicas=2";
        return if replicas.is_some() { Err(refuse(allowed.to_owned())) } else { Ok(None) };
    };
    let (before, after) = (&head[..at], &head[at + AUTO.len()..]);
    let (total, rest) =
        after.split_once(':').map_or((after, String::new()), |(total, rest)| (total, format!(":{rest}")));
    let total = total.parse().ok().filter(|total| (1..=PLACED_PARTITIONS_MAX).contains(total));
    let Some(total) = total else {
        return Err(refuse(format!("a total from 1 to {PLACED_PARTITIONS_MAX}, as in partitions=auto/64")));
    };
    let replicas = replicas.map_or(Ok(REPLICAS_DEFAULT), |replicas| {
        let number = replicas.parse().ok().filter(|number| (1..=REPLICAS_MAX).contains(number));
        number.ok_or_else(|| refuse(format!("1 to {REPLICAS_MAX} replicas")))
    })?;
    Ok(Some((format!("{before}:partitions=0/{total}{rest}"), replicas)))
}

/// Takes the last `replicas=N` out of an argument.
fn take_replicas(text: &str) -> (String, Option<&str>) {
    let Some(at) = text.rfind(REPLICAS) else { return (text.to_owned(), None) };
    let value = &text[at + REPLICAS.len()..];
    let value = &value[..value.find(':').unwrap_or(value.len())];
    let rest = &text[at + REPLICAS.len() + value.len()..];
    (format!("{}{rest}", &text[..at]), Some(value))
}

impl What {
    /// True if any node can open any partition of it.
    pub(super) fn is_shared(&self) -> bool {
        match self {
            Self::Search(..) | Self::Micro(_) | Self::Exec(_) | Self::Sql(_) => true,
            #[cfg(feature = "objects")]
            Self::Stored(_) => true,
            #[cfg(feature = "vectors")]
            Self::Near(_) => true,
            Self::Echo | Self::Hosts(_) | Self::Daemon | Self::Mirror(..) => false,
        }
    }
}

impl Serve {
    /// Makes the service ready without partitions, and with a loader for them.
    pub(super) fn open_placed(&self, replicas: u32) -> Result<Service, String> {
        let total = self.total;
        Ok(match &self.what {
            What::Search(corpus, emulated) => {
                let report = corpus.index(total, &Bar::new())?;
                let service = search_service(&report.directory, [], total)?;
                let service = match emulated {
                    Some(processors) => with_stretched(service, *processors),
                    None => service,
                };
                service.placed(replicas, ShardLoader { directory: report.directory, total })
            }
            What::Micro(name) => {
                let service = micro(name.as_deref().unwrap_or(treefold_micro::SERVICE)).total(total);
                service.placed(replicas, |_| Ok::<(), String>(()))
            }
            #[cfg(feature = "objects")]
            What::Stored(stored) => stored.open_placed(total, replicas)?,
            _ => {
                let empty = Self { placing: None, partitions: [].into_iter().collect(), ..self.clone() };
                empty.open()?.service.placed(replicas, OneByOne(empty))
            }
        })
    }
}

/// Opens partitions of an index.
struct ShardLoader {
    directory: PathBuf,
    total: u32,
}

impl LoadPartition for ShardLoader {
    fn load(&self, partition: u32) -> Result<PartitionData, String> {
        let shard =
            Shard::open(&self.directory, partition, self.total).map_err(|error| super::chain(&error))?;
        Ok(Arc::new(shard))
    }
}

/// Opens a service for each partition, and takes the partition out of it.
struct OneByOne(Serve);

impl LoadPartition for OneByOne {
    fn load(&self, partition: u32) -> Result<PartitionData, String> {
        let one = Serve { partitions: [partition].into_iter().collect(), ..self.0.clone() };
        let data = one.open()?.service.into_partition(partition);
        data.ok_or_else(|| format!("partition {partition} was opened without data"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_and_replicas_are_taken_out_of_the_argument() {
        let split = |text| split(text).unwrap();
        let search = "search=/a:b:partitions=auto/64:replicas=2:files=5";
        assert_eq!(split(search), Some(("search=/a:b:partitions=0/64:files=5".to_owned(), 2)));
        assert_eq!(split("micro:replicas=3:partitions=auto/8"), Some(("micro:partitions=0/8".to_owned(), 3)));
        assert_eq!(split("micro:partitions=auto/8"), Some(("micro:partitions=0/8".to_owned(), 1)));
        assert_eq!(split("micro:partitions=0-3/8"), None);
    }

    #[test]
    fn invalid_totals_and_replicas_are_refused_by_name() {
        for (text, word) in [
            ("micro:partitions=auto/0", "1 to 16384"),
            ("micro:partitions=auto/many", "1 to 16384"),
            ("micro:partitions=auto/8:replicas=0", "1 to 16 replicas"),
            ("micro:partitions=0-3/8:replicas=2", "auto/TOTAL only"),
            ("hosts:partitions=auto/8", "search, micro"),
            ("mirror=flights:partitions=auto/8", "search, micro"),
            ("daemon:endpoints=auto/8", "ids and ranges"),
        ] {
            let refused = text.parse::<Serve>().unwrap_err().to_string();
            assert!(refused.contains(word), "{text}: {refused}");
        }
    }
}
