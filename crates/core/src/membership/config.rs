//! Periods and limits of membership, as presets from one table.
//!
//! The time until all members know of a silent death is the sum of four: until some member probes the dead
//! one, the probe's period, the suspicion, and the spreading of the verdict. In each period all n−1 others
//! pick one member each, so no member picks the dead one with probability 1/e; after five periods that is 0.7
//! %. For `lan`:
//!
//! ```text
//!   5 × 200 ms  +  200 ms  +  600 ms  +  ~150 ms  <  2 s
//! ```
//!
//! A living node is declared down only after it was silent through a probe and the suspicion (800 ms), *and*
//! has missed every direct accusation. A pause of 300 ms, common on a machine with more processes than
//! processors, is refuted within one round trip of its end. A node whose own timers run late stretches its
//! periods (`health.rs`).

use crate::bounded;
use crate::bounds::Range::{Count, Switch, Time};
use crate::bounds::{Figure, OutOfBounds, YEAR};
use core::num::{NonZeroU8, NonZeroUsize};
use core::time::Duration;

/// The longest time of a setting, except for the memory of dead members.
const HOUR: Duration = Duration::from_secs(3_600);

/// Largest datagram in bytes in every configuration: below the MTU of every common network.
pub const DATAGRAM_BYTES_MAX: usize = 1_400;
/// Bytes of every datagram that foca's updates leave for cards and load figures.
pub const RUMOUR_ROOM_BYTES: usize = 300;
/// Largest number of addresses remembered from [`Membership::join`](super::Membership::join).
pub const SEEDS_MAX: usize = 64;
/// Largest number of lost members' addresses on which a node calls when it has lost all members.
pub const DEPARTED_MAX: usize = 16;
/// Largest number of marks in a request for cards. It fits into a datagram.
pub const SYNC_MARKS_MAX: usize = 600;
/// Largest number of datagrams in which a node asks one other for cards.
pub const SYNC_REQUESTS_MAX: usize = 16;
/// Cards in circulation above which each is passed on only [`BULK_TRANSMISSIONS`] times: as many as fit into a datagram.
pub const BULK_CARDS: usize = 24;
/// How many times a node passes on a card while many are in circulation. The requests for missing cards bring the rest, and
/// bring each node a card once.
pub const BULK_TRANSMISSIONS: u8 = 3;
/// Largest number of datagrams in answer to one request for cards.
pub const SYNC_DATAGRAMS_MAX: usize = 12;
/// Largest number of dead members named in answer to one request for cards.
pub const SYNC_GONE_MAX: usize = 32;
/// Largest number of cards requested from the driver at a time.
pub const CARDS_WANTED_MAX: usize = 16;
/// How many times a node passes a load figure on: enough for 98 % of the cluster, and the next figure
/// follows.
pub const LOAD_TRANSMISSIONS: u8 = 4;

bounded! {
    /// The parameters of membership. Start from a preset.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(
        feature = "serde",
        derive(serde::Serialize, serde::Deserialize),
        serde(default, deny_unknown_fields)
    )]
    pub struct MembershipConfig in "tuning.membership" {
        /// How often each node probes another; varied by ±10 %.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub probe_period: Duration => Time(Duration::from_millis(1), HOUR),
        /// How long a probe waits before others are asked to probe too; less than half of `probe_period`.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub probe_timeout: Duration => Time(Duration::from_micros(1), HOUR),
        /// How long a suspected member has to refute the suspicion.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub suspicion: Duration => Time(Duration::from_millis(1), HOUR),
        /// Interval between rounds of gossip while there is news of members or cards; varied by ±25 %.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub gossip_interval: Duration => Time(Duration::from_millis(1), HOUR),
        /// Interval between rounds of gossip while there is only news of load figures; varied by ±25 %.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub load_interval: Duration => Time(Duration::from_millis(1), HOUR),
        /// Least interval between announcements of an unchanged load figure.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub load_repeat: Duration => Time(Duration::from_millis(1), HOUR),
        /// Members told per round of gossip, and members asked to probe in a node's place.
        pub fanout: NonZeroUsize => Count(1, 64),
        /// How often a node calls on a member that is down, so that a healed partition is joined again.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub announce_down_interval: Duration => Time(Duration::from_millis(1), HOUR),
        /// How long a card must stand before its claim about a service's total counts, if this node has not heard from
        /// its member directly. Longer than it takes to find a dead member.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub claim_stands_after: Duration => Time(Duration::from_millis(1), HOUR),
        /// How long a member that is down is remembered.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub forget_down_after: Duration => Time(Duration::from_secs(1), YEAR),
        /// The first wait before a seed is called again; it doubles up to `seek_interval_max`.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub seek_interval: Duration => Time(Duration::from_millis(1), HOUR),
        /// The longest wait before an absent seed is called again.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub seek_interval_max: Duration => Time(Duration::from_millis(1), HOUR),
        /// The least wait between requests for cards; it doubles up to `sync_interval_max` while nothing is
        /// learnt.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub sync_interval: Duration => Time(Duration::from_millis(1), HOUR),
        /// The longest wait between requests for cards.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub sync_interval_max: Duration => Time(Duration::from_millis(1), HOUR),
        /// A timer that fires later than this shows that the node itself was asleep.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub asleep_after: Duration => Time(Duration::from_millis(1), HOUR),
        /// Time for a node that was asleep to read the datagrams in its socket before it judges others again.
        #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
        pub wake_grace: Duration => Time(Duration::ZERO, HOUR),
        /// False for a node that neither probes nor is probed.
        ///
        /// Such a node knows the members given to it by [`Cards`](crate::message::Message::Cards), and detects
        /// lost members only by their connections.
        pub gossips: bool => Switch,
    }
}

impl MembershipConfig {
    /// Nodes of one site: a join takes at most 1 s, and the detection of a death at most 2 s.
    pub const fn lan() -> Self {
        Self {
            probe_period: Duration::from_millis(200),
            probe_timeout: Duration::from_millis(80),
            suspicion: Duration::from_millis(600),
            gossip_interval: Duration::from_millis(50),
            load_interval: Duration::from_millis(250),
            load_repeat: Duration::from_secs(2),
            fanout: NonZeroUsize::new(3).expect("three is not zero"),
            announce_down_interval: Duration::from_secs(3),
            claim_stands_after: Duration::from_secs(4),
            forget_down_after: Duration::from_secs(3_600),
            seek_interval: Duration::from_millis(200),
            seek_interval_max: Duration::from_secs(10),
            sync_interval: Duration::from_millis(150),
            sync_interval_max: Duration::from_secs(10),
            asleep_after: Duration::from_millis(100),
            wake_grace: Duration::from_millis(50),
            gossips: true,
        }
    }

    /// Nodes of several sites: round trips of up to 300 ms.
    pub const fn wan() -> Self {
        Self {
            probe_period: Duration::from_millis(1_000),
            probe_timeout: Duration::from_millis(400),
            suspicion: Duration::from_millis(4_000),
            gossip_interval: Duration::from_millis(200),
            load_interval: Duration::from_millis(500),
            announce_down_interval: Duration::from_secs(10),
            claim_stands_after: Duration::from_secs(20),
            seek_interval: Duration::from_millis(1_000),
            seek_interval_max: Duration::from_secs(30),
            sync_interval: Duration::from_millis(1_000),
            sync_interval_max: Duration::from_secs(30),
            asleep_after: Duration::from_millis(300),
            ..Self::lan()
        }
    }

    /// Thousands of nodes in one simulation: as `lan`, with a fifth of the probes.
    pub const fn sim() -> Self {
        Self {
            probe_period: Duration::from_millis(1_000),
            probe_timeout: Duration::from_millis(200),
            gossip_interval: Duration::from_millis(100),
            claim_stands_after: Duration::from_secs(20),
            ..Self::lan()
        }
    }

    /// A cluster whose members are given to each other and never change.
    pub const fn still() -> Self {
        Self { gossips: false, ..Self::lan() }
    }

    /// A probe must fail long before the next one begins, because others are asked to probe too in between.
    pub(crate) fn probes_too_long(&self) -> Option<OutOfBounds> {
        let half = self.probe_period / 2;
        (self.probe_timeout >= half).then(|| OutOfBounds {
            table: "tuning.membership",
            field: "probe_timeout",
            given: Figure::Time(self.probe_timeout),
            range: Time(Duration::from_micros(1), half.saturating_sub(Duration::from_nanos(1))),
        })
    }

    pub(super) fn for_foca(&self, members: usize) -> foca::Config {
        foca::Config {
            probe_period: self.probe_period,
            probe_rtt: self.probe_timeout,
            num_indirect_probes: self.fanout,
            max_transmissions: transmissions(members),
            suspect_to_down_after: self.suspicion,
            remove_down_after: Some(self.forget_down_after),
            max_packet_size: NonZeroUsize::new(super::datagram::SWIM_BYTES_MAX)
                .expect("room for SWIM is not zero"),
            notify_down_members: true,
            // Comparing digests finds missing members, and costs nothing if none is missing.
            periodic_announce: None,
            periodic_announce_to_down_members: Some(foca::PeriodicParams {
                frequency: self.announce_down_interval,
                num_members: NonZeroUsize::MIN,
            }),
            // Gossip has a separate timer that stops while there is no news.
            periodic_gossip: None,
        }
    }
}

impl Default for MembershipConfig {
    fn default() -> Self {
        Self::lan()
    }
}

/// How many times a node passes on news of a member, or its card: 2 + 4·⌈log₁₀(n+1)⌉.
///
/// That is memberlist's 4·⌈log₁₀⌉ and two for loss. A node of 64 then misses one piece of news with
/// probability below e⁻¹⁰.
pub(super) fn transmissions(members: usize) -> NonZeroU8 {
    let digits = members.checked_ilog10().map_or(0, |log| log as u8 + 1);
    NonZeroU8::new(2 + 4 * digits.max(1)).expect("at least six")
}
