//! The tree that follows the network path (NetAgg §3.1): relays fold partials on their way to the caller,
//! rack by rack and zone by zone.
//!
//! ```text
//!   caller ◀── relay of its rack ◀─┬── members of its rack
//!                                  └── relay of its zone ◀─┬── relay of another rack ◀── its members
//!                                                          └── relay of no zone ◀── relay of another zone ◀── …
//! ```
//!
//! A relay stands in a rack; or, without a rack, where the racks of its zone meet; or, without a zone, where
//! zones meet. Hashing decides which relay of a place heads a tree: the *application* ranks the relays, and
//! the *tag* chooses among the first ones of that ranking. So the partials of one call meet at the same
//! relays, calls are spread over all relays, and different trees are disjoint wherever a place has at least
//! as many relays as there are trees. A tree that meets no other at its relays may draw two of a place and take the less busy
//! one, which keeps longest queues short (Mitzenmacher, 2001): see [`Relays::less_busy`].
//!
//! Relays may be anywhere or nowhere. A rack without one forms a load-adaptive tree of its members. The racks
//! of a zone without one pass their partials on to the next place above. A relay that would have a single
//! child is left out, because it would fold nothing. Members without a rack are children of the next relay
//! above them.

use super::Tree;
use super::adaptive;
use super::shape::Candidate;
use crate::id::NodeId;
use crate::partitions::PartitionSet;
use crate::random::hashed;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// The place of a node. An empty name is an unknown place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site<'a> {
    /// Its zone.
    pub zone: &'a str,
    /// Its rack.
    pub rack: &'a str,
}

impl<'a> Site<'a> {
    /// The place where the racks of this site's zone meet.
    fn of_zone(self) -> Self {
        Self { rack: "", ..self }
    }

    /// The place where zones meet.
    fn of_all() -> Self {
        Self::default()
    }
}

/// The relays of one tree: the head at each place that has relays.
#[derive(Clone, Debug)]
pub struct Relays<'a> {
    heads: BTreeMap<Site<'a>, Drawn>,
    /// True if the tag chooses among several relays of a place.
    is_drawn: bool,
}

/// The relays that a tag draws at a place.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    first: NodeId,
    /// Another one, if there are several.
    second: Option<NodeId>,
}

impl<'a> Relays<'a> {
    /// Chooses the relays for the tree of `application` with this `tag`, one of so many `trees`.
    ///
    /// If `trees` is 0, each place uses all of its relays.
    pub fn new(
        relays: impl IntoIterator<Item = (NodeId, Site<'a>)>,
        application: &str,
        tag: u64,
        trees: u32,
    ) -> Self {
        let (application, tag) = (hashed(application.bytes().map(u64::from)), hashed([tag]));
        // By address, so that a relay that starts again keeps its place.
        let rank = |relay: &NodeId| {
            let [high, low, port] = relay.addr_words();
            (hashed([application, high, low, port]), *relay)
        };
        let mut at: BTreeMap<Site<'a>, Vec<NodeId>> = BTreeMap::new();
        relays.into_iter().for_each(|(relay, site)| at.entry(site).or_default().push(relay));
        let mut is_drawn = false;
        let head = |(site, mut relays): (Site<'a>, Vec<NodeId>)| {
            relays.sort_unstable_by_key(rank);
            let used = if trees == 0 { relays.len() } else { relays.len().min(trees as usize) };
            is_drawn |= used > 1;
            let used = used as u64;
            let first = tag % used;
            let second = (used > 1).then(|| (first + 1 + tag / used % (used - 1)) % used);
            let drawn = |at: u64| relays[at as usize];
            (site, Drawn { first: drawn(first), second: second.map(drawn) })
        };
        Self { heads: at.into_iter().map(head).collect(), is_drawn }
    }

    /// Draws two relays of each place, and takes the one with less work per processor, in ms.
    pub fn less_busy(mut self, load_ms: impl Fn(NodeId) -> f64) -> Self {
        for drawn in self.heads.values_mut() {
            if let Some(second) = drawn.second.filter(|&second| load_ms(second) < load_ms(drawn.first)) {
                drawn.first = second;
            }
        }
        self
    }

    /// True if no place has a relay.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// True if members at these `sites` form the same tree with every tag and under every load.
    pub fn are_the_same_always(&self, mut sites: impl Iterator<Item = Site<'a>>, caller: Site<'a>) -> bool {
        let path = Path { relays: self, caller };
        !self.is_drawn && sites.all(|site| path.takes_apart(site))
    }

    /// The relay that heads this tree at a place, if the place has one.
    fn head(&self, site: Site<'a>) -> Option<NodeId> {
        self.heads.get(&site).map(|drawn| drawn.first)
    }
}

/// The trees that reach a caller at `caller` from `members`, each given with its place, largest first.
///
/// It is one tree if a relay stands next to the caller. No member may be one of the relays.
pub fn form<'a>(members: Vec<(Candidate, Site<'a>)>, relays: &Relays<'a>, caller: Site<'a>) -> Vec<Tree> {
    let mut racks: BTreeMap<Site<'a>, Vec<Candidate>> = BTreeMap::new();
    members.into_iter().for_each(|(member, site)| racks.entry(site).or_default().push(member));
    let path = Path { relays, caller };
    let mut elsewhere = Vec::new();
    let mut zones: BTreeMap<&str, Vec<Tree>> = BTreeMap::new();
    let mut own_rack = Vec::new();
    for (site, members) in racks {
        let trees = path.rack(site, members);
        if site == caller && !site.rack.is_empty() {
            own_rack = trees;
        } else {
            zones.entry(site.zone).or_default().extend(trees);
        }
    }
    let own_zone = zones.remove(caller.zone).unwrap_or_default();
    for (zone, trees) in zones {
        elsewhere.extend(path.gathered(Site { zone, rack: "" }, trees));
    }
    // Towards the caller, each place joins the trees that have come so far with its own.
    let mut coming = path.gathered(Site::of_all(), elsewhere);
    coming.extend(own_zone);
    if !caller.zone.is_empty() {
        coming = path.gathered(caller.of_zone(), coming);
    } else if caller.rack.is_empty() {
        coming = path.gathered(Site::of_all(), coming);
    }
    coming.extend(own_rack);
    if !caller.rack.is_empty() {
        coming = path.gathered(caller, coming);
    }
    largest_first(coming)
}

struct Path<'r, 'a> {
    relays: &'r Relays<'a>,
    caller: Site<'a>,
}

impl<'a> Path<'_, 'a> {
    /// The trees that leave a rack towards the caller.
    fn rack(&self, site: Site<'a>, members: Vec<Candidate>) -> Vec<Tree> {
        if !self.takes_apart(site) {
            return alloc::vec![adaptive::form(members, 0.0)];
        }
        let leaves = members.into_iter().map(|member| Tree::leaf(member.node, member.partitions)).collect();
        // The relay of the caller's own rack heads all trees, not only those of its members.
        if !site.rack.is_empty() && site != self.caller { self.gathered(site, leaves) } else { leaves }
    }

    /// True if each member of a rack is a child of a relay, so that they form no tree of their own.
    fn takes_apart(&self, site: Site<'a>) -> bool {
        match site.rack {
            "" => self.is_headed_above(site),
            _ => self.relays.head(site).is_some(),
        }
    }

    /// True if members without a rack have a relay above them as a parent.
    fn is_headed_above(&self, site: Site<'a>) -> bool {
        let above = [site.of_zone(), self.caller.of_zone(), Site::of_all(), self.caller];
        above.into_iter().any(|site| self.relays.head(site).is_some())
    }

    /// The trees below the relay of a place, if the place has one and it would fold something.
    fn gathered(&self, site: Site<'a>, trees: Vec<Tree>) -> Vec<Tree> {
        let head = match self.relays.head(site) {
            Some(head) if trees.len() > 1 => head,
            _ => return trees,
        };
        // Members without a zone may already be below this relay.
        let (met, mut children): (Vec<Tree>, Vec<Tree>) =
            trees.into_iter().partition(|tree| tree.root().node == head);
        children.extend(met.iter().flat_map(Tree::children));
        alloc::vec![Tree::join(head, PartitionSet::new(), &largest_first(children))]
    }
}

fn largest_first(mut trees: Vec<Tree>) -> Vec<Tree> {
    trees.sort_by_key(|tree| (Reverse(tree.root().size), tree.root().node));
    trees
}

/// Joins the trees for a caller that asks one child and folds nothing: the root of the largest tree adopts
/// the others.
pub fn under_one(trees: &[Tree]) -> Option<Tree> {
    let (first, others) = trees.split_first()?;
    if others.is_empty() {
        return Some(first.clone());
    }
    let root = first.root();
    let children: Vec<Tree> = first.children().chain(others.iter().cloned()).collect();
    Some(Tree::join(root.node, root.partitions.clone(), &largest_first(children)))
}

#[cfg(test)]
mod tests;
