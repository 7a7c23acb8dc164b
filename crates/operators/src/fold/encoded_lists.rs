//! Sorted lists of encoded entries, merged in place.

use super::merge_runs;
use crate::codec::Gathered;
use crate::codec::in_place::Reader;
use bytes::Bytes;
use rmp::encode;
use serde::de::DeserializeOwned;
use std::cmp::Ordering;
use std::io::Write;

/// Appends the first `kept` entries of lists that are sorted by `order`. An entry is what is compared, and its bytes.
///
/// Returns `None` if some of these entries are missing, or not sorted: each must be related to the next one as `is_sorted`
/// says, by [`Ordering::is_le`], or by [`Ordering::is_lt`] if no two may be equal.
pub(super) fn append_first<'a, T>(
    to: &mut Gathered,
    kept: u64,
    lists: Vec<impl Iterator<Item = (T, &'a [u8])>>,
    order: impl Fn(&T, &T) -> Ordering,
    is_sorted: impl Fn(Ordering) -> bool,
) -> Option<()> {
    let (mut before, mut left) = (None, kept);
    let merged = merge_runs(lists, |ours: &(T, &[u8]), theirs| order(&ours.0, &theirs.0));
    for (entry, octets) in merged.take(usize::try_from(kept).ok()?) {
        if before.is_some_and(|before| !is_sorted(order(&before, &entry))) {
            return None;
        }
        to.write_all(octets).ok()?;
        (before, left) = (Some(entry), left - 1);
    }
    (left == 0).then_some(())
}

/// Merges encoded partials that are a list and a count, `{hits: […], matched: 17}`: keeps the first `k` entries of all lists,
/// and adds the counts.
///
/// The lists are sorted by `order`. Only entries that are kept are decoded, so of eight lists of k entries it decodes one
/// eighth. Returns `None` for partials that it does not understand, as
/// [`Aggregation::reduce_encoded`](crate::Aggregation::reduce_encoded) does.
pub fn merge_counted<T: DeserializeOwned>(
    parts: &[Bytes],
    [list, count]: [&str; 2],
    k: u32,
    order: impl Fn(&T, &T) -> Ordering,
) -> Option<Bytes> {
    let (mut entries, mut counted, mut bytes_max) = (0, 0_u64, 0);
    let mut lists = Vec::with_capacity(parts.len());
    for part in parts {
        let mut reader = Reader::of_struct(part, 2)?;
        let its_entries = reader.field(list)?.array()?;
        lists.push(reader.clone().entries(its_entries, Reader::value::<T>));
        for _ in 0..its_entries {
            reader.octets()?;
        }
        counted = counted.saturating_add(reader.field(count)?.whole()?);
        (entries, bytes_max) = (entries + u64::from(its_entries), bytes_max.max(part.len()));
    }
    let kept = entries.min(k.into());
    let mut merged = Gathered::new();
    merged.reserve(bytes_max);
    encode::write_map_len(&mut merged, 2).ok()?;
    encode::write_str(&mut merged, list).ok()?;
    encode::write_array_len(&mut merged, u32::try_from(kept).ok()?).ok()?;
    append_first(&mut merged, kept, lists, order, Ordering::is_le)?;
    encode::write_str(&mut merged, count).ok()?;
    encode::write_uint(&mut merged, counted).ok()?;
    Some(merged.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Body;
    use crate::fold::{Concatenate, GroupCount, Merge, TopK};
    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};
    use std::collections::BTreeMap;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Found {
        names: Vec<String>,
        seen: u64,
    }

    fn merged(parts: &[Found], k: u32) -> Option<Found> {
        let parts: Vec<Bytes> = parts.iter().map(|part| part.encode().unwrap()).collect();
        merge_counted(&parts, ["names", "seen"], k, String::cmp).map(|merged| Found::decode(&merged).unwrap())
    }

    proptest! {
        #[test]
        fn the_first_are_kept_and_counts_are_added(
            lists in proptest::collection::vec(proptest::collection::vec("[ab]{0,3}", 0..6), 0..9),
            k in 0_u32..9,
        ) {
            let mut all = lists.concat();
            all.sort();
            all.truncate(k as usize);
            let sorted = |mut names: Vec<String>| {
                names.sort();
                Found { seen: names.len() as u64, names }
            };
            let seen = lists.iter().map(|list| list.len() as u64).sum();
            let parts: Vec<Found> = lists.into_iter().map(sorted).collect();
            prop_assert_eq!(merged(&parts, k), Some(Found { names: all, seen }));
        }
    }

    /// Tests that what was merged in place is what the decoded partials give, if they can be decoded.
    fn agrees<M: Merge + Body>(parts: &[Bytes]) {
        let Some(in_place) = M::merge_encoded(parts) else { return };
        let decoded: Result<Vec<M>, _> = parts.iter().map(M::decode).collect();
        let Ok(mut decoded) = decoded else { return };
        let mut total = decoded.remove(0);
        total.merge_all(decoded).expect("partials that merge in place merge");
        assert_eq!(M::decode(&in_place).unwrap().encode(), total.encode());
    }

    fn mutated<M: Body>(partials: &[M], changes: &[(usize, usize, u8)]) -> Vec<Bytes> {
        let mut parts: Vec<Vec<u8>> = partials.iter().map(|part| part.encode().unwrap().to_vec()).collect();
        for (part, at, octet) in changes {
            let count = parts.len();
            let part = &mut parts[part % count];
            let at = at % part.len();
            part[at] = *octet;
        }
        parts.into_iter().map(Bytes::from).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn changed_bytes_give_what_the_decoded_partials_give(
            lists in proptest::collection::vec(proptest::collection::btree_map(any::<u16>(), "[ab]{0,3}", 0..6), 1..5),
            changes in proptest::collection::vec((any::<usize>(), any::<usize>(), any::<u8>()), 0..3),
        ) {
            let top = |list: &BTreeMap<u16, String>| TopK::of(4, list.iter().map(|(at, word)| (word.clone(), *at)));
            agrees::<TopK<(String, u16)>>(&mutated(&lists.iter().map(top).collect::<Vec<_>>(), &changes));
            let counts = |list: &BTreeMap<u16, String>| {
                let mut counts = GroupCount::new(1000);
                list.iter().for_each(|(at, word)| counts.add(word.clone(), (*at).into()).unwrap());
                counts
            };
            agrees::<GroupCount<String>>(&mutated(&lists.iter().map(counts).collect::<Vec<_>>(), &changes));
            let all = |list: &BTreeMap<u16, String>| Concatenate::of(1000, list.clone()).unwrap();
            agrees::<Concatenate<u16, String>>(&mutated(&lists.iter().map(all).collect::<Vec<_>>(), &changes));
        }
    }

    #[test]
    fn partials_of_another_kind_are_not_understood() {
        let found =
            |names: &[&str]| Found { names: names.iter().map(|&name| name.into()).collect(), seen: 1 };
        assert_eq!(merged(&[found(&["b", "a"])], 2), None, "they are not sorted");
        assert_eq!(merged(&[found(&["b", "a"])], 1), Some(found(&["b"])), "the second is not needed");
        let body = found(&["a"]).encode().unwrap();
        let of = |body: Bytes| merge_counted(&[body], ["names", "seen"], 2, String::cmp);
        assert_eq!(of(body.slice(..body.len() - 1)), None);
        assert_eq!(of(7_u32.encode().unwrap()), None);
        assert_eq!(merge_counted(&[body], ["seen", "names"], 2, String::cmp), None);
    }
}
