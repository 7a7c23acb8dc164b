//! After any changes of a seat's children, its index, heap and counts agree with the row.

use super::*;
use crate::partitions::PartitionSet;
use crate::time::Duration;
use crate::tree::Tree;
use core::net::SocketAddr;
use proptest::prelude::*;

fn node(number: u16) -> NodeId {
    NodeId::new(SocketAddr::from(([10, 0, 0, 1], number + 1)), 1)
}

fn at_ms(millis: u64) -> Instant {
    Instant::START + Duration::from_millis(millis)
}

fn child(number: u16, branch: u32, due_ms: u64) -> Child<Option<Instant>> {
    let tree = Tree::leaf(node(number), PartitionSet::from_range(0..1));
    Child::asked(Instant::START, branch, tree, Some(at_ms(due_ms)))
}

/// A change of a seat's children.
#[derive(Clone, Debug)]
enum Step {
    Ask(Vec<(u16, u32, u64)>),
    Stand(usize, Standing),
    Due(usize, Option<u64>),
    Remove(u16),
}

fn step() -> impl Strategy<Value = Step> {
    use Standing::{Asked, Done, Gone, Hopeless, There};
    let standing = prop::sample::select(alloc::vec![Asked, There, Hopeless, Done, Gone]);
    prop_oneof![
        3 => prop::collection::vec((0_u16..60, 0_u32..3, 0_u64..50), 1..30).prop_map(Step::Ask),
        5 => (0_usize..64, standing).prop_map(|(at, standing)| Step::Stand(at, standing)),
        5 => (0_usize..64, prop::option::of(0_u64..50)).prop_map(|(at, due)| Step::Due(at, due)),
        1 => (0_u16..60).prop_map(Step::Remove),
    ]
}

fn play(children: &mut Children<Option<Instant>>, step: Step) {
    match step {
        Step::Ask(asked) => {
            let mut fresh: Vec<(u16, u32, u64)> = Vec::new();
            for (number, branch, due) in asked {
                let is_new = !fresh.iter().any(|one| (one.0, one.1) == (number, branch));
                if is_new && children.find(node(number), branch).is_none() {
                    fresh.push((number, branch, due));
                }
            }
            let fresh = fresh.into_iter().map(|(number, branch, due)| child(number, branch, due));
            children.extend(fresh.collect(), |due_at| *due_at);
        }
        Step::Stand(at, standing) if at < children.len() => children.set_standing(at, standing),
        Step::Due(at, due) if at < children.len() => children.set_due(at, due.map(at_ms)),
        Step::Remove(number) => {
            children
                .remove_if(|child| child.node == node(number), |gone| assert_eq!(gone.node, node(number)));
        }
        Step::Stand(..) | Step::Due(..) => {}
    }
}

proptest! {
    #[test]
    fn index_heap_and_counts_agree_with_the_row(steps in prop::collection::vec(step(), 1..60), now in 0_u64..50) {
        let mut children = Children::default();
        for step in steps {
            play(&mut children, step);
            let is_there = |child: &Child<Option<Instant>>| child.standing() == Standing::There;
            prop_assert_eq!(children.any_again(is_there), children.iter().any(is_there));
            let open: Vec<&Child<Option<Instant>>> = children.iter_open().collect();
            let hopeless = open.iter().filter(|child| child.standing() == Standing::Hopeless).count();
            prop_assert_eq!(children.open(), open.len());
            prop_assert_eq!(children.are_hopeless(), hopeless == open.len());
            let due = open.iter().filter_map(|child| child.due_at).min();
            prop_assert_eq!(children.next_due(), due);
            let is_due = |at: &usize| {
                let child = &children[*at];
                child.is_open() && child.due_at.is_some_and(|due_at| due_at <= at_ms(now))
            };
            let all: Vec<usize> = (0..children.len()).filter(is_due).collect();
            prop_assert_eq!(children.all_due(at_ms(now)).to_vec(), all);
            prop_assert_eq!(children.next_due(), due, "looking changes nothing");
            for at in 0..children.len() {
                let (node, branch, is_open) = {
                    let child = &children[at];
                    (child.node, child.branch, child.is_open())
                };
                prop_assert_eq!(children.find(node, branch), Some(at));
                prop_assert_eq!(children.open_of(node).contains(&at), is_open);
            }
        }
    }
}

#[test]
fn any_again_looks_at_each_child_about_twice() {
    const CHILDREN: usize = 1_000;
    // A step that shares no divisor with the number of children reaches every child.
    for step in [1, 383, CHILDREN - 1] {
        let mut children = Children::default();
        children.extend((0..CHILDREN).map(|number| child(number as u16, 0, 0)).collect(), |due_at| *due_at);
        let looks = core::cell::Cell::new(0);
        for turn in 0..CHILDREN {
            let is_asked = |child: &Child<Option<Instant>>| {
                looks.set(looks.get() + 1);
                child.standing() == Standing::Asked
            };
            assert!(children.any_again(is_asked), "{} have yet to answer", CHILDREN - turn);
            children.set_standing(turn * step % CHILDREN, Standing::There);
        }
        assert!(!children.any_again(|child| child.standing() == Standing::Asked));
        assert!(looks.get() <= 3 * CHILDREN, "{} looks at {CHILDREN} children, step {step}", looks.get());
    }
}
