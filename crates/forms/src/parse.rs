//! Parsers of values on the command line and in the configuration file.
//!
//! Each parser refuses with the library's own [`CallError::BadField`]. So a value refused here, before a
//! socket is opened, gives the same message as one refused by a node: the field, the given value, the allowed
//! values.

use std::fmt::Display;
use std::net::Ipv6Addr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use treefold::parts::Seed;
use treefold::shares::{Class, ShareSetting};
use treefold::{CallError, Limits, PartitionSet, ReplicaPolicy, Shape, Waiting};
use treefold_core::replica::{POLICY_NAMES, POLLS_PER_PARTITION_MAX};
use treefold_core::schedule::fair::{SHARE_MAX, SHARE_MIN};
use treefold_core::tree::TREE_NODES_MAX;

type Result<T> = std::result::Result<T, CallError>;

/// Units of a duration, with their nanoseconds.
const UNITS: [(&str, f64); 7] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// Units of bytes, with their sizes.
const BYTE_UNITS: [(&str, u64); 10] = [
    ("", 1),
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Largest number of worker threads of one node.
pub const WORKERS_MAX: usize = 4096;

/// Parses a number and its unit, as in `200ms`, `1.5s` or `2m`; `None` for anything else.
///
/// A number without a unit is refused, because it could mean seconds or milliseconds.
fn duration_of(text: &str) -> Option<Duration> {
    let at = text.find(|c: char| c.is_alphabetic())?;
    let (number, unit) = (text[..at].trim(), &text[at..]);
    let nanos_per_unit = UNITS.iter().find(|(name, _)| *name == unit)?.1;
    let nanos = number.parse::<f64>().ok()? * nanos_per_unit;
    (nanos >= 0.0 && nanos <= u64::MAX as f64).then(|| Duration::from_nanos(nanos.round() as u64))
}

/// Parses a duration, which may be zero.
pub fn duration(text: &str) -> Result<Duration> {
    duration_of(text)
        .ok_or_else(|| CallError::bad_field("duration", text, "a number and a unit, as in 200ms, 1.5s, 2m"))
}

/// Parses a duration above zero and up to the default limit of nodes.
pub fn deadline(text: &str) -> Result<Duration> {
    let max = Limits::DEFAULT.deadline_max;
    duration_of(text).filter(|deadline| !deadline.is_zero()).ok_or_else(|| {
        CallError::bad_field(
            "deadline",
            text,
            format_args!("above 0, up to {max:?}, with its unit, as in 200ms, 1.5s, 2m"),
        )
    })
}

/// Parses a share from 0 to 1; NaN is refused.
pub fn min_coverage(text: &str) -> Result<f64> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| CallError::bad_field("min_coverage", text, "from 0 to 1"))
}

/// Parses a factor of slowness, as in `5x` or `2.5`.
pub fn factor(text: &str) -> Result<f64> {
    let number = text.strip_suffix('x').unwrap_or(text).parse::<f64>().ok();
    number
        .filter(|factor| (1.0..=1e6).contains(factor))
        .ok_or_else(|| CallError::bad_field("factor", text, "from 1x to 1000000x"))
}

/// Parses a service and its share of a node, with or without a class.
pub fn share(text: &str) -> Result<ShareSetting> {
    let given = text.split_once('=').filter(|(service, _)| !service.is_empty());
    let setting = given.and_then(|(service, text)| {
        let (share, class) = share_and_class(text)?;
        Some(ShareSetting { service: service.to_owned(), share, class })
    });
    setting.ok_or_else(|| {
        let allowed = format_args!(
            "a service and its share, {SHARE_MIN} to {SHARE_MAX}, as in search=3, with :interactive or :batch or \
             without"
        );
        CallError::bad_field("share", text, allowed)
    })
}

/// Parses a share that a class may follow, as in `3` and `1:batch`.
pub fn share_and_class(text: &str) -> Option<(f64, Option<Class>)> {
    let (share, class) = match text.split_once(':') {
        Some((share, class)) => (share, Some(class.parse().ok()?)),
        None => (text, None),
    };
    let share = share.parse::<f64>().ok().filter(|share| (SHARE_MIN..=SHARE_MAX).contains(share))?;
    Some((share, class))
}

/// A command line split into words.
#[derive(Clone, Debug)]
pub struct Words(pub Vec<String>);

/// Parses a program and its arguments, with a shell's quotes but without running a shell.
pub fn words(text: &str) -> Result<Words> {
    let words = shlex::split(text).filter(|words| !words.is_empty());
    words.map(Words).ok_or_else(|| {
        CallError::bad_field("command", text, "a program and its arguments, with quotes that are closed")
    })
}

/// Checks that an address has a host and a port, as in `localhost:7700` and `[::1]:7700`. The host is resolved later.
pub fn address(text: &str) -> Result<String> {
    let is_host = |host: &str| match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inside) => inside.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains([':', '/']),
    };
    let parts = text.rsplit_once(':').filter(|(host, port)| is_host(host) && port.parse::<u16>().is_ok());
    parts
        .map(|_| text.to_owned())
        .ok_or_else(|| CallError::bad_field("address", text, "HOST:PORT, as in 127.0.0.1:7700 or [::1]:7700"))
}

/// Parses a way to find nodes: an address, as [`address`] does, `dns:NAME:PORT`, `dns:_service._proto.NAME`, or `@FILE`.
pub fn seed(text: &str) -> Result<String> {
    if Seed::name_in_dns(text).is_none() && !text.starts_with('@') {
        return address(text);
    }
    match Seed::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(problem) => Err(CallError::bad_field(
            "address",
            text,
            format_args!("HOST:PORT, dns:NAME:PORT, dns:_service._tcp.NAME or @FILE: {problem}"),
        )),
    }
}

/// Parses a number of bytes with or without its unit, as in `64MiB`, `1.5GiB`, `500kB` or `4096`.
pub fn bytes(text: &str) -> Result<u64> {
    let at = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = (text[..at].trim(), &text[at..]);
    let each = BYTE_UNITS.iter().find(|(name, _)| *name == unit).map(|&(_, each)| each);
    let whole = number.parse::<u64>().ok().zip(each).and_then(|(number, each)| number.checked_mul(each));
    let fraction = || {
        let bytes = number.parse::<f64>().ok()? * each? as f64;
        // Every whole number below is a number of its own.
        ((0.0..9e15).contains(&bytes) && bytes.fract() == 0.0).then_some(bytes as u64)
    };
    whole.or_else(fraction).ok_or_else(|| {
        CallError::bad_field(
            "bytes",
            text,
            "a whole number of bytes, or one with a unit, as in 64MiB, 1.5GiB, 500kB",
        )
    })
}

/// Parses a number of slices, of which there is at least one. Nodes have their own limit.
pub fn slices(text: &str) -> Result<u32> {
    let slices = text.parse::<u32>().ok().filter(|&slices| slices > 0);
    slices.ok_or_else(|| {
        let max = Limits::DEFAULT.slices_max;
        CallError::bad_field("slices", text, format_args!("1 to {max}, or to a node's own slices_max"))
    })
}

/// Parses partition ids: `0-3,7`.
pub fn partitions(text: &str) -> Result<PartitionSet> {
    let max = Limits::DEFAULT.partitions_max;
    let refuse =
        || CallError::bad_field("partitions", text, format_args!("ids and ranges below {max}, as in 0-3,7"));
    let mut runs = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |digits: &str| digits.trim().parse::<u32>().ok().filter(|&id| id < max);
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => {
                runs.push(PartitionSet::from_range(first..last + 1));
            }
            _ => return Err(refuse()),
        }
    }
    // A body may have a long text. Runs that come in any order are sorted once, and not inserted one by one.
    Ok(PartitionSet::union_of(&runs))
}

/// Parses partition ids and the total, as in `0-3/12`.
///
/// Without a total, the highest id is taken as the last.
pub fn partitions_of_total(text: &str) -> Result<(PartitionSet, Option<u32>)> {
    let Some((ids, total)) = text.split_once('/') else { return Ok((partitions(text)?, None)) };
    let set = partitions(ids)?;
    let highest = set.runs().last().map_or(0, |&(_, end)| end);
    let max = Limits::DEFAULT.partitions_max;
    match total.parse::<u32>() {
        Ok(total) if total >= highest && total <= max => Ok((set, Some(total))),
        _ => Err(CallError::bad_field(
            "partitions",
            text,
            format_args!("IDS/TOTAL, every id below the total, the total at most {max}"),
        )),
    }
}

/// Parses a tree's shape, as core does.
pub fn shape(text: &str) -> Result<Shape> {
    named(
        "shape",
        text,
        format_args!(
            "auto, adaptive, on-path, on-path:T, earliest-ready, binomial, kary:K, chain, flat, base \
             (K and T from 1 to {TREE_NODES_MAX})"
        ),
    )
}

/// Parses a replica policy, as core does.
pub fn policy(text: &str) -> Result<ReplicaPolicy> {
    let allowed = format_args!("{POLICY_NAMES} (D from 1 to {POLLS_PER_PARTITION_MAX})");
    named("policy", text, allowed)
}

/// Parses a waiting rule, as core does.
pub fn waiting(text: &str) -> Result<Waiting> {
    let allowed = "staged, slope, slope:FMIN,FMAX with 0 ≤ FMIN ≤ FMAX ≤ 1, learned";
    named("waiting", text, allowed)
}

/// Parses a type by its `FromStr`; an error names the field.
pub fn named<T: FromStr>(field: &str, text: &str, allowed: impl Display) -> Result<T> {
    text.parse().map_err(|_| CallError::bad_field(field, text, allowed))
}

/// Parses a number of threads within the limits.
pub fn workers(text: &str) -> Result<usize> {
    let workers = text.parse::<usize>().ok().filter(|workers| (1..=WORKERS_MAX).contains(workers));
    workers.ok_or_else(|| CallError::bad_field("workers", text, format_args!("1 to {WORKERS_MAX}")))
}

/// Parses a duration of a measurement in seconds, above zero and at most a day.
pub fn seconds(text: &str) -> Result<f64> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0 && *seconds <= 86_400.0);
    seconds.ok_or_else(|| CallError::bad_field("seconds", text, "above 0, at most 86400"))
}

/// Parses a positive figure.
pub fn positive(text: &str) -> Result<f64> {
    let figure = text.parse::<f64>().ok().filter(|figure| *figure > 0.0 && *figure <= 1e6);
    figure.ok_or_else(|| CallError::bad_field("figure", text, "above 0, at most 1000000"))
}

/// Parses the seconds before a measurement; zero is allowed.
pub fn warm_up(text: &str) -> Result<f64> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| CallError::bad_field("warm_up", text, "0 to 86400"))
}

/// Parses a time in ms, finite and not negative.
pub fn millis(text: &str) -> Result<f64> {
    let millis = text.parse::<f64>().ok().filter(|millis| millis.is_finite() && *millis >= 0.0);
    millis.ok_or_else(|| CallError::bad_field("milliseconds", text, "a number from 0"))
}

/// Parses figures separated by commas, each finite and not negative.
///
/// Returns an `Arc`, since clap takes a plain `Vec` for a flag that may be repeated.
pub fn figures(text: &str) -> Result<Arc<[f64]>> {
    let figure = |part: &str| part.trim().parse::<f64>().ok().filter(|f| f.is_finite() && *f >= 0.0);
    let all: Option<Arc<[f64]>> = text.split(',').map(figure).collect();
    all.ok_or_else(|| CallError::bad_field("figures", text, "numbers from 0, separated by commas"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("0.5us"), Ok(Duration::from_nanos(500)));
        for senseless in ["200", "", "ms", "-1s", "NaNs", "1e300h", "5 weeks"] {
            assert!(duration(senseless).is_err(), "{senseless:?} must be refused");
        }
    }

    #[test]
    fn bytes_have_units_of_either_kind() {
        assert_eq!(bytes("4096"), Ok(4_096));
        assert_eq!(bytes("64MiB"), Ok(64 << 20));
        assert_eq!(bytes("64 MiB"), Ok(64 << 20));
        assert_eq!(bytes("1.5GiB"), Ok(3 << 29));
        assert_eq!(bytes("500kB"), Ok(500_000));
        for senseless in ["", "MiB", "-1", "64M", "64mib", "0.3B", "1e30TiB", "NaN", "20000000TiB"] {
            assert!(bytes(senseless).is_err(), "{senseless:?} must be refused");
        }
    }

    #[test]
    fn seeds_are_addresses_names_and_files() {
        for seed_text in
            ["127.0.0.1:7700", "dns:search:7700", "DNS:search:7700", "dns:_tree._tcp.search", "@/etc/seeds"]
        {
            assert_eq!(seed(seed_text).as_deref(), Ok(seed_text));
        }
        let refused = seed("dns:search").unwrap_err().to_string();
        assert!(refused.ends_with("or @FILE: it has no port; write HOST:PORT"), "{refused}");
    }

    #[test]
    fn zero_deadline_is_refused_by_name_and_limit() {
        let refused = deadline("0ms").unwrap_err().to_string();
        assert!(refused.starts_with("deadline is 0ms; allowed: above 0"), "{refused}");
    }

    #[test]
    fn coverage_is_a_share() {
        assert_eq!(min_coverage("0"), Ok(0.0));
        assert_eq!(min_coverage("1"), Ok(1.0));
        for outside in ["NaN", "1.1", "-1", "-0.1", "inf", "all"] {
            assert_eq!(
                min_coverage(outside).unwrap_err().to_string(),
                format!("min_coverage is {outside}; allowed: from 0 to 1")
            );
        }
    }

    #[test]
    fn partitions_read_as_they_are_printed() {
        assert_eq!(partitions("0-3,7").unwrap().to_string(), "0-3,7");
        assert_eq!(partitions(" 4 , 1-2").unwrap().to_string(), "1-2,4");
        assert_eq!(partitions("7,0-3,2-5,6").unwrap().to_string(), "0-7");
        for senseless in ["", "3-1", "a", "1-", "-1", "0-4294967295", "1,,2"] {
            assert!(partitions(senseless).is_err(), "{senseless:?} names no partitions");
        }
    }

    #[test]
    fn every_partition_lies_below_the_total() {
        let (set, total) = partitions_of_total("0,8/16").unwrap();
        assert_eq!((set.to_string().as_str(), total), ("0,8", Some(16)));
        assert_eq!(partitions_of_total("0-3").unwrap().1, None);
        for senseless in ["0-16/16", "0/0", "0/", "0/x", "/4", "0/99999999"] {
            assert!(partitions_of_total(senseless).is_err(), "{senseless:?} must be refused");
        }
    }

    #[test]
    fn seconds_must_be_positive_and_warm_up_may_be_zero() {
        assert!(seconds("0").is_err() && seconds("86401").is_err());
        assert_eq!(warm_up("0"), Ok(0.0));
        for outside in ["-0.1", "NaN", "86401"] {
            assert!(warm_up(outside).is_err(), "{outside}");
        }
    }

    #[test]
    fn factors_are_at_least_one() {
        assert_eq!(factor("5x"), Ok(5.0));
        assert_eq!(factor("1"), Ok(1.0));
        assert!(factor("0.5x").is_err());
        assert!(factor("NaN").is_err());
    }
}
