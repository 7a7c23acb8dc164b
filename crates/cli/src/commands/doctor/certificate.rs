//! The certificate of this host's process against this host's clock.

use super::finding::Finding;
use std::path::Path;
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use treefold_certificates::{Certificate, KeyFile};

const CHECK: &str = "certificate";

/// Time before the end of a certificate from which on it is a problem.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

pub(super) fn check(path: &Path) -> Finding {
    let shown = path.display();
    let advice = "issue the file again with `treefold keys issue`, and let only the user of the node read it";
    let file = match KeyFile::load(path) {
        Ok(file) => file,
        Err(error) => return Finding::fail(CHECK, error.to_string(), advice),
    };
    let Some(own) = file.chain.first() else {
        return Finding::fail(CHECK, format!("{shown} has no certificate"), advice);
    };
    match Certificate::read(own) {
        Ok(own) => judged(&own.grant.cluster, own.not_before, own.not_after, SystemTime::now()),
        Err(refusal) => Finding::fail(CHECK, format!("{shown}: {refusal}"), advice),
    }
}

fn judged(cluster: &str, from: SystemTime, until: SystemTime, now: SystemTime) -> Finding {
    let found = format!(
        "for the cluster {cluster:?}, valid from {} until {}; this clock shows {}",
        date(from),
        date(until),
        date(now)
    );
    let clock = "if this clock is wrong, set it (`timedatectl set-ntp true`)";
    if now < from {
        return Finding::fail(CHECK, format!("not valid yet: {found}"), clock);
    }
    let renew = format!("renew it with `treefold keys renew`; {clock}");
    match until.duration_since(now) {
        Err(_) => Finding::fail(CHECK, format!("expired: {found}"), renew),
        Ok(left) if left < RENEW_BEFORE => Finding::warn(CHECK, format!("expires soon: {found}"), renew),
        Ok(_) => Finding::ok(CHECK, found),
    }
}

pub(super) fn date(time: SystemTime) -> String {
    // A time that has no such form is not shown.
    OffsetDateTime::from(time)
        .replace_nanosecond(0)
        .ok()
        .and_then(|time| time.format(&Rfc3339).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_certificate_is_judged_by_the_clock() {
        let day = Duration::from_secs(24 * 60 * 60);
        let from = SystemTime::UNIX_EPOCH + 10_000 * day;
        let at = |days: u32| judged("c", from, from + 90 * day, from + days * day).level;
        assert_eq!((at(1), at(70), at(91)), (Level::Ok, Level::Warn, Level::Fail));
        let early = judged("c", from, from + day, from - day);
        assert_eq!(early.level, Level::Fail);
        assert!(early.advice.unwrap().contains("set it"), "the clock may be wrong");
    }
}
