//! Placement of processes: their hosts, and their numbers on these hosts.

use super::outline::Outline;
use super::{GenerateError, Host, Placement};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A process's host and its number there.
pub(super) type Name = (Arc<str>, u32);

/// Number of slots of all these hosts.
pub(super) fn slots_of(hosts: &[Host], per_mention: u32) -> u64 {
    hosts.iter().map(|host| u64::from(host.slots(per_mention))).sum()
}

/// A name for each process of an outline.
pub(super) fn place(outline: &Outline, placement: &Placement) -> Result<Vec<Name>, GenerateError> {
    let row = outline.preorder();
    let is_leaf = |number: u32| outline.children[number as usize].is_empty();
    let back_ends: Vec<u32> = row.iter().copied().filter(|&number| is_leaf(number)).collect();
    let inner: Vec<u32> = row.iter().copied().filter(|&number| number != 0 && !is_leaf(number)).collect();

    let mut hosts: Vec<Option<Arc<str>>> = vec![None; row.len()];
    hosts[0] = Some(placement.front_end.name.clone());
    let of_back_ends =
        fill("back-ends", back_ends.len(), &placement.hosts, |host| host.slots(placement.slots))?;
    for (number, host) in back_ends.iter().zip(of_back_ends) {
        hosts[*number as usize] = Some(host);
    }
    if placement.inner_hosts.is_empty() {
        stand_with_first_leaf(outline, &row, &mut hosts);
    } else {
        let each = even_share(inner.len(), &placement.inner_hosts);
        let of_inner = fill("inner processes", inner.len(), &placement.inner_hosts, |host| host.slots(each))?;
        for (number, host) in inner.iter().zip(of_inner) {
            hosts[*number as usize] = Some(host);
        }
    }

    // Numbers are given in this order so that back-ends, which are the most frequent, have the same numbers
    // on all hosts.
    let mut taken: BTreeMap<Arc<str>, u32> = BTreeMap::new();
    let mut names: Vec<Option<Name>> = vec![None; row.len()];
    for number in [0].into_iter().chain(back_ends).chain(inner) {
        let host = hosts[number as usize].take().expect("invariant: every process was placed");
        let next = taken.entry(host.clone()).or_default();
        names[number as usize] = Some((host, *next));
        *next += 1;
    }
    Ok(names.into_iter().map(|name| name.expect("invariant: every process was numbered")).collect())
}

/// Returns `wanted` hosts in their order, each as often as it has slots.
fn fill(
    what: &'static str,
    wanted: usize,
    hosts: &[Host],
    slots_of: impl Fn(&Host) -> u32,
) -> Result<Vec<Arc<str>>, GenerateError> {
    let slots = hosts.iter().map(|host| u64::from(slots_of(host))).sum();
    if (wanted as u64) > slots {
        return Err(GenerateError::TooFewSlots { what, wanted, slots });
    }
    let seats = hosts.iter().flat_map(|host| (0..slots_of(host)).map(|_| host.name.clone()));
    Ok(seats.take(wanted).collect())
}

/// Number of processes for each host without a number of slots, after the other hosts are filled.
fn even_share(wanted: usize, hosts: &[Host]) -> u32 {
    let counted: u64 = hosts.iter().map(|host| u64::from(host.slots(0))).sum();
    let uncounted = hosts.iter().filter(|host| !host.is_counted()).count() as u64;
    let left = (wanted as u64).saturating_sub(counted);
    left.div_ceil(uncounted.max(1)) as u32
}

/// Places each inner process on the host of the first back-end below it. In preorder that is the next leaf,
/// so the row is scanned from its end and the last leaf is remembered.
fn stand_with_first_leaf(outline: &Outline, row: &[u32], hosts: &mut [Option<Arc<str>>]) {
    let mut nearest: Option<Arc<str>> = None;
    for &number in row.iter().skip(1).rev() {
        if outline.children[number as usize].is_empty() {
            nearest.clone_from(&hosts[number as usize]);
        } else {
            hosts[number as usize].clone_from(&nearest);
        }
    }
}
