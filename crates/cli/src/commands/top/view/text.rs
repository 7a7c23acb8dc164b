//! Formats figures in few columns.

use std::collections::BTreeSet;
use treefold_hosts::{Host, Name};

/// Formats a size or a rate in at most five columns: three digits and a unit, K being 1024.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut figure = bytes as f64 / 1024.0;
    let mut unit = 0;
    // From 999.5 on it would need four digits.
    while figure >= 999.5 && unit + 1 < UNITS.len() {
        figure /= 1024.0;
        unit += 1;
    }
    // Below 9.95 and 99.95 rounding to the decimals shown stays below the next power of ten.
    let decimals = if figure < 9.95 { 1 } else { 0 };
    format!("{figure:.decimals$}{}", UNITS[unit])
}

/// Formats a share in percent.
pub(crate) fn percent(permille: u64) -> String {
    format!("{}%", permille.saturating_add(5) / 10)
}

/// Labels of hosts: the name, and also the number if another host has the same name.
pub(crate) struct Labels<'a> {
    shared: BTreeSet<&'a Name>,
}

impl<'a> Labels<'a> {
    /// Makes the labels of these hosts, which may repeat.
    pub(crate) fn of(hosts: impl Iterator<Item = &'a Host>) -> Self {
        let distinct: BTreeSet<(&Name, u32)> = hosts.map(|host| (&host.name, host.id)).collect();
        let mut shared = BTreeSet::new();
        let mut last = None;
        for (name, _) in distinct {
            if last.replace(name) == Some(name) {
                shared.insert(name);
            }
        }
        Self { shared }
    }

    pub(crate) fn label(&self, host: &Host) -> String {
        if self.shared.contains(&host.name) {
            format!("{}#{}", host.name, host.id)
        } else {
            host.name.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits_at_most() {
        let shown = [0, 1023, 1024, 10_240, 1 << 20, 1023 << 10, 88 << 20, u64::MAX].map(size);
        assert_eq!(shown, ["0", "1023", "1.0K", "10K", "1.0M", "1.0M", "88M", "16E"]);
        assert!((0..64).all(|bit| size((1 << bit) - 1).len() <= 5));
    }

    #[test]
    fn hosts_with_equal_names_are_numbered() {
        let (a, b, c) = (Host::new(1, "web"), Host::new(2, "web"), Host::new(3, "db"));
        let labels = Labels::of([&a, &b, &c, &c].into_iter());
        assert_eq!([&a, &b, &c].map(|host| labels.label(host)), ["web#1", "web#2", "db"]);
    }

    #[test]
    fn percents_are_rounded() {
        assert_eq!([0, 4, 5, 374, 1000].map(percent), ["0%", "0%", "1%", "37%", "100%"]);
    }
}
