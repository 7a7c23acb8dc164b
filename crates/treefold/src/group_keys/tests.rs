//! Tests of keys and seals: what members, clients and strangers can send.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const GOSSIP: &[u8] = b"\0gossip";
const POLL: &[u8] = b"\x01poll";

fn with(keys: &[GroupKey], now: Instant) -> GroupKeys {
    let mut ring = GroupKeys::new().unwrap();
    keys.iter().for_each(|key| _ = ring.learn(*key, now));
    ring
}

#[test]
fn members_open_what_members_seal_once() {
    let now = Instant::now();
    let key = GroupKey::draw(0).unwrap();
    let (mut one, mut other) = (with(&[key], now), with(&[key], now));
    for bytes in [GOSSIP, POLL] {
        let datagram = one.seal(bytes).unwrap();
        assert_eq!(datagram.len(), bytes.len() + SEAL_BYTES);
        assert_eq!(other.open(&datagram, now), Opened::Bytes(bytes.to_vec()));
        assert_eq!(other.open(&datagram, now), Opened::Refused("a repeated datagram"));
    }
}

#[test]
fn a_stray_datagram_is_answered_as_one_under_an_unknown_key() {
    let now = Instant::now();
    let mut member = with(&[GroupKey::draw(0).unwrap()], now);
    let (datagram, wanted) = stray_datagram().unwrap();
    let Opened::Unknown { answer, .. } = member.open(&datagram, now) else { panic!("it has no such key") };
    assert_eq!(answer.to_vec(), wanted);
    assert_ne!(stray_datagram().unwrap().1, wanted, "each has a key of its own");
}

#[test]
fn changed_and_foreign_datagrams_are_refused() {
    let now = Instant::now();
    let key = GroupKey::draw(0).unwrap();
    let (mut one, mut other) = (with(&[key], now), with(&[key], now));
    let datagram = one.seal(GOSSIP).unwrap();
    for at in 0..datagram.len() {
        let mut changed = datagram.clone();
        changed[at] ^= 1;
        assert!(!matches!(other.open(&changed, now), Opened::Bytes(_)), "byte {at}");
    }
    for length in 0..datagram.len() {
        assert!(!matches!(other.open(&datagram[..length], now), Opened::Bytes(_)), "{length} bytes");
    }
    assert_eq!(other.senders.len(), 0, "nobody without the key gets a place");
    assert!(matches!(other.open(&datagram, now), Opened::Bytes(_)));
}

#[test]
fn clients_poll_and_do_not_gossip() {
    let now = Instant::now();
    let key = GroupKey::draw(0).unwrap();
    let (mut client, mut member) = (with(&[key.for_client()], now), with(&[key], now));
    assert_eq!(client.seal(GOSSIP), None);
    let poll = client.seal(POLL).unwrap();
    assert_eq!(member.open(&poll, now), Opened::Bytes(POLL.to_vec()));
    let answer = member.seal(POLL).unwrap();
    assert_eq!(client.open(&answer, now), Opened::Bytes(POLL.to_vec()));
    let gossip = member.seal(GOSSIP).unwrap();
    assert_eq!(client.open(&gossip, now), Opened::Refused("a datagram of a class for members"));
    // A client that seals gossip as a poll.
    let (mut forged, head_bytes) = (POLL.to_vec(), HEAD_BYTES);
    forged[0] = 0;
    let mut datagram = poll[..head_bytes].to_vec();
    datagram[head_bytes - 8] = 7;
    let sealing = client.sealing[1].as_ref().unwrap();
    sealing.seal_in_place_append_tag(nonce_of(7), Aad::from(datagram.clone()), &mut forged).unwrap();
    datagram.extend(forged);
    assert_eq!(member.open(&datagram, now), Opened::Refused("a datagram of another class than its seal"));
}

#[test]
fn who_lacks_a_key_says_so_and_who_seals_with_it_understands() {
    let now = Instant::now();
    let (old, new) = (GroupKey::draw(0).unwrap(), GroupKey::draw(1).unwrap());
    let (mut ahead, mut behind) = (with(&[old, new], now), with(&[old], now));
    let datagram = ahead.seal(GOSSIP).unwrap();
    let Opened::Unknown { answer, .. } = behind.open(&datagram, now) else { panic!("it lacks the key") };
    assert_eq!(ahead.open(&answer, now), Opened::Lacking);
    assert!(matches!(behind.open(&answer, now), Opened::Refused(_)), "it does not have that key");
    let datagram = behind.seal(GOSSIP).unwrap();
    assert!(matches!(ahead.open(&datagram, now), Opened::Bytes(_)), "a former key is accepted");
    let later = now + KEY_GRACE;
    let datagram = behind.seal(GOSSIP).unwrap();
    assert!(matches!(ahead.open(&datagram, later), Opened::Unknown { .. }), "but not for ever");
}

#[test]
fn processes_that_hand_on_keys_in_any_order_agree() {
    let now = Instant::now();
    let keys: Vec<GroupKey> =
        [0, 0, 1, 2, 2].into_iter().map(|epoch| GroupKey::draw(epoch).unwrap()).collect();
    let newest = *keys.iter().max_by_key(|key| key.order()).unwrap();
    let mut reversed = keys.clone();
    reversed.reverse();
    for order in [&keys, &reversed] {
        let mut ring = with(order, now);
        assert_eq!(ring.newest(), Some(newest));
        assert!(!ring.learn(newest, now));
        assert_eq!(ring.renew(now).unwrap().epoch, 3);
    }
    let mut many = GroupKeys::new().unwrap();
    assert_eq!(many.newest(), None);
    assert_eq!(many.seal(GOSSIP), None);
    (0..100).for_each(|_| _ = many.renew(now));
    assert_eq!(many.keys.len(), KEYS_MAX);
    assert!(!format!("{newest:?}").contains(&format!("{:?}", newest.secret)));
}

proptest! {
    #[test]
    fn window_accepts_each_counter_once(counters in proptest::collection::vec(0u64..400, 0..300)) {
        let (mut window, mut seen) = (Window::default(), BTreeSet::new());
        for counter in counters {
            let greatest = seen.last().copied().unwrap_or(0);
            let is_new = !seen.contains(&counter);
            if window.accepts(counter) {
                prop_assert!(is_new);
                window.note(counter);
                seen.insert(counter);
            } else {
                prop_assert!(!is_new || greatest - counter >= 128);
            }
        }
    }

    #[test]
    fn window_bears_any_counters(counters in proptest::collection::vec(any::<u64>(), 0..50)) {
        let mut window = Window::default();
        for counter in counters {
            if window.accepts(counter) {
                window.note(counter);
            }
        }
    }
}
