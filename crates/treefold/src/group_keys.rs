//! The keys under which a cluster's datagrams are sealed.
//!
//! ```text
//!   "tfd" 2 │ class u8 │ key u64 │ sender 12 │ counter u64 │ AES-256-GCM of core's bytes │ tag 16
//! ```
//!
//! Every member has the newest *group key*. A process without it can neither send a datagram that a member takes nor read
//! one. Members hand each other keys over connections, after the greeting:
//!
//! - A node that connects to another sends its key, or none. The other answers with its own if that is a different one, and
//!   makes the first.
//! - If there are two, the greater (epoch, number) wins, and each node tells it to those it is connected to.
//! - A first key has epoch 0. As soon as a node with one knows a member, the member with the least name makes a new key. So
//!   the key of a cluster wins over that of a node which joins it.
//! - A node that gets a datagram under a key that it lacks says so, with the key's number alone. The sender then connects to
//!   it, so that both have both keys.
//! - The member with the least name makes a new key every [`KEY_LIFE`]. Former keys are accepted for [`KEY_GRACE`].
//!
//! **Classes.** Gossip and polls have different keys. Clients get the key of polls, which is derived from the group key
//! and does not lead back to it: they may ask nodes for their load, but cannot name, expel or invent a member.
//!
//! **Senders.** A process draws a random name at its start, and seals with a key derived for that name. So a counter is enough
//! as a nonce, and the receiver knows each counter once ([`Window`]).

use lru::LruCache;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac::{self, HMAC_SHA256};
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};
use treefold_core::node::DatagramClass;

/// How long members use one key.
pub(crate) const KEY_LIFE: Duration = Duration::from_secs(3_600);
/// How long a former key is accepted.
pub(crate) const KEY_GRACE: Duration = Duration::from_secs(60);
/// The most keys that a process keeps. Beyond them, the oldest goes before its time.
pub(crate) const KEYS_MAX: usize = 8;
/// The most senders whose counters a process knows. Beyond them it forgets the one that was silent for the longest time.
const SENDERS_MAX: NonZeroUsize = NonZeroUsize::new(16_384).expect("not zero");
/// The first bytes of a datagram; the last one is the version of this form.
const MAGIC: [u8; 4] = *b"tfd\x02";
/// In place of a class: the receiver of a datagram lacks its key.
const UNKNOWN_KEY: u8 = 255;
/// The content of a datagram that nobody can open: it reads like a poll.
const STRAY: &[u8] = b"\x01stray";
const SECRET_BYTES: usize = 32;
const SENDER_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
/// Bytes before core's: all are authenticated.
const HEAD_BYTES: usize = MAGIC.len() + 1 + 8 + SENDER_BYTES + 8;
/// Bytes of a datagram besides core's.
pub(crate) const SEAL_BYTES: usize = HEAD_BYTES + TAG_BYTES;
/// Separate the derived keys from each other.
const POLLS_CONTEXT: &[u8] = b"treefold polls 1";
const SENDER_CONTEXT: &[u8] = b"treefold datagram 2";

type Secret = [u8; SECRET_BYTES];
type Sender = [u8; SENDER_BYTES];

/// A key of a cluster's datagrams, as one process hands it to another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct GroupKey {
    /// Grows with each new key of a cluster.
    pub epoch: u64,
    /// A random number, by which datagrams name the key.
    pub id: u64,
    /// True if the secret is that of polls alone, as clients have it.
    pub polls_only: bool,
    /// The secret.
    pub secret: [u8; SECRET_BYTES],
}

/// Hides the secret, so that it does not appear in logs.
impl fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupKey({:016x}, epoch {})", self.id, self.epoch)
    }
}

impl GroupKey {
    fn draw(epoch: u64) -> Option<Self> {
        let (random, mut id, mut secret) = (SystemRandom::new(), [0; 8], [0; SECRET_BYTES]);
        random.fill(&mut id).ok()?;
        random.fill(&mut secret).ok()?;
        Some(Self { epoch, id: u64::from_le_bytes(id), polls_only: false, secret })
    }

    /// The part of this key that a client gets.
    pub(crate) fn for_client(&self) -> Self {
        if self.polls_only {
            return *self;
        }
        Self { polls_only: true, secret: derived(&self.secret, &[POLLS_CONTEXT]), ..*self }
    }

    /// The secret of a class; `None` if this process does not have it.
    fn secret_of(&self, class: DatagramClass) -> Option<Secret> {
        match class {
            DatagramClass::Gossip => (!self.polls_only).then_some(self.secret),
            DatagramClass::Poll => Some(self.for_client().secret),
        }
    }

    fn order(&self) -> (u64, u64) {
        (self.epoch, self.id)
    }
}

/// A datagram that has been opened, or the reason why it has not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// Core's bytes.
    Bytes(Vec<u8>),
    /// It is sealed with the key of this number, which this process lacks. The answer says so.
    Unknown { key: u64, answer: [u8; ANSWER_BYTES] },
    /// The receiver of a datagram of this process lacks its key.
    Lacking,
    /// It is invalid.
    Refused(&'static str),
}

/// A datagram under a key that no other process has, and the answer of a process that lacks the key. `None` if the system gives no
/// random bytes.
pub(crate) fn stray_datagram() -> Option<(Vec<u8>, Vec<u8>)> {
    let mut keys = GroupKeys::new().ok()?;
    let key = GroupKey::draw(0)?;
    keys.learn(key, Instant::now());
    Some((keys.seal(STRAY)?, unknown(key.id).to_vec()))
}

/// Bytes of the answer to a datagram under an unknown key.
const ANSWER_BYTES: usize = MAGIC.len() + 1 + 8;

/// The keys of a process, and the counters of those who have sent to it.
pub(crate) struct GroupKeys {
    /// By age, the newest last, with the time until which a former one is accepted.
    keys: Vec<(GroupKey, Option<Instant>)>,
    name: Sender,
    counter: u64,
    /// The keys of this process under the newest group key, by class.
    sealing: [Option<LessSafeKey>; 2],
    senders: LruCache<(u64, u8, Sender), Receiving>,
}

/// A sender's key, and its counters.
struct Receiving {
    key: LessSafeKey,
    window: Window,
}

impl GroupKeys {
    /// A process without a key.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub(crate) fn new() -> Result<Self, ring::error::Unspecified> {
        let mut name = [0; SENDER_BYTES];
        SystemRandom::new().fill(&mut name)?;
        let (keys, sealing) = (Vec::new(), [None, None]);
        Ok(Self { keys, name, counter: 0, sealing, senders: LruCache::new(SENDERS_MAX) })
    }

    /// The key with which this process seals.
    pub(crate) fn newest(&self) -> Option<GroupKey> {
        self.keys.last().map(|(key, _)| *key)
    }

    /// The newest key, which is made if there is none.
    pub(crate) fn first_key(&mut self, now: Instant) -> Option<GroupKey> {
        if self.keys.is_empty() {
            self.renew(now);
        }
        self.newest()
    }

    /// Makes a new key.
    pub(crate) fn renew(&mut self, now: Instant) -> Option<GroupKey> {
        let key = GroupKey::draw(self.newest().map_or(0, |key| key.epoch.saturating_add(1)))?;
        self.learn(key, now);
        Some(key)
    }

    /// Takes a key of another process. Returns true if this process seals with it from now on.
    pub(crate) fn learn(&mut self, key: GroupKey, now: Instant) -> bool {
        self.keys.retain(|(_, until)| until.is_none_or(|until| now < until));
        if self.keys.iter().any(|(known, _)| known.id == key.id) {
            return false;
        }
        let before = self.newest();
        self.keys.push((key, None));
        if !key.polls_only {
            // A client goes by what it was told last.
            self.keys.sort_by_key(|(key, _)| key.order());
        }
        if self.keys.len() > KEYS_MAX {
            self.keys.remove(0);
        }
        let last = self.keys.len() - 1;
        for (_, until) in &mut self.keys[..last] {
            until.get_or_insert(now + KEY_GRACE);
        }
        let is_newest = self.newest() != before;
        if is_newest {
            let name = self.name;
            self.sealing =
                [DatagramClass::Gossip, DatagramClass::Poll].map(|class| opening(&key, class, name));
        }
        is_newest
    }

    /// Seals core's bytes. `None` without a key, because nobody could open them.
    pub(crate) fn seal(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let class = DatagramClass::of(bytes);
        let (id, sealing) = (self.newest()?.id, self.sealing[usize::from(class_byte(class))].as_ref()?);
        let mut datagram = Vec::with_capacity(SEAL_BYTES + bytes.len());
        datagram.extend_from_slice(&MAGIC);
        datagram.push(class_byte(class));
        datagram.extend_from_slice(&id.to_le_bytes());
        datagram.extend_from_slice(&self.name);
        datagram.extend_from_slice(&self.counter.to_le_bytes());
        datagram.extend_from_slice(bytes);
        let nonce = nonce_of(self.counter);
        // 2⁶⁴ datagrams take longer than a key's life.
        self.counter += 1;
        let (head, body) = datagram.split_at_mut(HEAD_BYTES);
        let tag = sealing.seal_in_place_separate_tag(nonce, Aad::from(&*head), body).ok()?;
        datagram.extend_from_slice(tag.as_ref());
        Some(datagram)
    }

    /// Opens a datagram, once.
    pub(crate) fn open(&mut self, datagram: &[u8], now: Instant) -> Opened {
        let Some(rest) = datagram.strip_prefix(&MAGIC) else {
            return Opened::Refused("a datagram of another program or version");
        };
        if let [UNKNOWN_KEY, id @ ..] = rest {
            // Also one that this process no longer seals with: the receiver lacks the newest as well then.
            let is_ours = self.keys.iter().any(|(key, _)| id == key.id.to_le_bytes());
            return if is_ours { Opened::Lacking } else { Opened::Refused("an answer about an unknown key") };
        }
        let Some((head, sealed)) = datagram.split_at_checked(HEAD_BYTES) else {
            return Opened::Refused("a short datagram");
        };
        let class = match head[4] {
            0 => DatagramClass::Gossip,
            1 => DatagramClass::Poll,
            _ => return Opened::Refused("a datagram of an unknown class"),
        };
        let id = number(&head[5..13]);
        let sender: Sender =
            head[13..13 + SENDER_BYTES].try_into().expect("invariant: the head has its length");
        let counter = number(&head[13 + SENDER_BYTES..]);
        let known =
            self.keys.iter().find(|(key, until)| key.id == id && until.is_none_or(|until| now < until));
        let Some((key, _)) = known else { return Opened::Unknown { key: id, answer: unknown(id) } };
        let place = (id, head[4], sender);
        let plain = match self.senders.get_mut(&place) {
            Some(receiving) => {
                if !receiving.window.accepts(counter) {
                    return Opened::Refused("a repeated datagram");
                }
                let plain = opened(&receiving.key, counter, head, sealed);
                if plain.is_some() {
                    receiving.window.note(counter);
                }
                plain
            }
            None => {
                let Some(key) = opening(key, class, sender) else {
                    return Opened::Refused("a datagram of a class for members");
                };
                let plain = opened(&key, counter, head, sealed);
                // Only who has the key gets a place.
                if plain.is_some() {
                    let mut window = Window::default();
                    window.note(counter);
                    self.senders.put(place, Receiving { key, window });
                }
                plain
            }
        };
        match plain {
            Some(plain) if DatagramClass::of(&plain) == class => Opened::Bytes(plain),
            Some(_) => Opened::Refused("a datagram of another class than its seal"),
            None => Opened::Refused("a datagram with an invalid seal"),
        }
    }
}

fn class_byte(class: DatagramClass) -> u8 {
    match class {
        DatagramClass::Gossip => 0,
        DatagramClass::Poll => 1,
    }
}

fn unknown(id: u64) -> [u8; ANSWER_BYTES] {
    let mut answer = [UNKNOWN_KEY; ANSWER_BYTES];
    answer[..4].copy_from_slice(&MAGIC);
    answer[5..].copy_from_slice(&id.to_le_bytes());
    answer
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

fn nonce_of(counter: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - 8..].copy_from_slice(&counter.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// HMAC-SHA-256 as a function from a secret to another one.
fn derived(secret: &Secret, parts: &[&[u8]]) -> Secret {
    let mut mac = hmac::Context::with_key(&hmac::Key::new(HMAC_SHA256, secret));
    parts.iter().for_each(|part| mac.update(part));
    mac.sign().as_ref().try_into().expect("invariant: a secret is as long as SHA-256's output")
}

/// A sender's key of a class. `None` if this process may not have it.
fn opening(key: &GroupKey, class: DatagramClass, sender: Sender) -> Option<LessSafeKey> {
    let secret = derived(&key.secret_of(class)?, &[SENDER_CONTEXT, &sender]);
    UnboundKey::new(&AES_256_GCM, &secret).ok().map(LessSafeKey::new)
}

fn opened(key: &LessSafeKey, counter: u64, head: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let mut plain = sealed.to_vec();
    let length = key.open_in_place(nonce_of(counter), Aad::from(head), &mut plain).ok()?.len();
    plain.truncate(length);
    Some(plain)
}

/// The last counters of a sender (RFC 4303, 3.4.3): each is accepted once, in any order.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// One above the greatest counter.
    next: u64,
    /// A bit for each counter below `next`, the least bit for the greatest one.
    seen: u128,
}

impl Window {
    fn accepts(self, counter: u64) -> bool {
        match self.next.checked_sub(counter) {
            None | Some(0) => true,
            Some(behind) => behind <= 128 && self.seen & (1 << (behind - 1)) == 0,
        }
    }

    fn note(&mut self, counter: u64) {
        if counter >= self.next {
            let ahead = counter.saturating_add(1) - self.next;
            self.seen =
                u32::try_from(ahead).ok().and_then(|ahead| self.seen.checked_shl(ahead)).unwrap_or(0) | 1;
            self.next = counter.saturating_add(1);
        } else {
            self.seen |= 1 << (self.next - 1 - counter);
        }
    }
}

#[cfg(test)]
mod tests;
