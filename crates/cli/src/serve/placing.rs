//! Services whose partitions the nodes share among themselves: `partitions=auto/TOTAL:replicas=N`.

use super::kind::Offer;
use std::sync::Arc;
use treefold::placement::{PLACED_PARTITIONS_MAX, REPLICAS_MAX};
use treefold::{CallError, LoadPartition, PartitionData, PartitionSet, Service};

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

/// Makes the service ready without partitions, and with a loader for them.
pub(super) fn open(offer: &Arc<dyn Offer>, total: u32, replicas: u32) -> Result<Service, String> {
    if let Some(service) = offer.open_placed(total, replicas)? {
        return Ok(service);
    }
    let empty = offer.open(&PartitionSet::default(), total)?.service;
    Ok(empty.placed(replicas, OneByOne { offer: Arc::clone(offer), total }))
}

/// Opens a service for each partition, and takes the partition out of it.
struct OneByOne {
    offer: Arc<dyn Offer>,
    total: u32,
}

impl LoadPartition for OneByOne {
    fn load(&self, partition: u32) -> Result<PartitionData, String> {
        let one = self.offer.open(&[partition].into_iter().collect(), self.total)?;
        let data = one.service.into_partition(partition);
        data.ok_or_else(|| format!("partition {partition} was opened without data"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Serve;
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
            ("echo:partitions=auto/8", "search, micro"),
            ("hosts:partitions=auto/8", "search, micro"),
            ("mirror=flights:partitions=auto/8", "search, micro"),
            ("daemon:endpoints=auto/8", "ids and ranges"),
        ] {
            let refused = text.parse::<Serve>().unwrap_err().to_string();
            assert!(refused.contains(word), "{text}: {refused}");
        }
    }
}
