//! Properties of topologies, and random topologies for other tests.

use super::*;
use proptest::prelude::*;

/// Topologies of up to 60 processes, of every depth from a star to a chain, on hosts whose names can form
/// ranges.
pub(crate) fn topologies() -> impl Strategy<Value = Topology> {
    let host = prop_oneof![
        (0u32..12).prop_map(|number| format!("node{number:02}")),
        (8u32..12).prop_map(|number| format!("n{number}")),
        (0u32..4).prop_map(|number| format!("r{number}n{}.lan", number + 1)),
        (1u32..5).prop_map(|number| format!("10.0.0.{number}")),
        Just("fe80::1".to_owned()),
        Just("1a".to_owned()),
        Just("2a".to_owned()),
    ];
    let name = (host, 0u32..4);
    let names =
        prop::collection::btree_set(name, 1..60).prop_map(|names| names.into_iter().collect::<Vec<_>>());
    // Neighbours by name are neighbours in the tree in some cases and not in others.
    let ordered = (names, any::<bool>()).prop_flat_map(|(names, keep)| {
        if keep { Just(names).boxed() } else { Just(names).prop_shuffle().boxed() }
    });
    (ordered, prop::collection::vec(any::<prop::sample::Index>(), 60)).prop_map(|(names, parents)| {
        let mut children = vec![Vec::new(); names.len()];
        for child in 1..names.len() {
            children[parents[child].index(child)].push(child as u32);
        }
        Topology::assemble(0, &children, |number| {
            let (host, index) = &names[number as usize];
            (host.as_str().into(), *index)
        })
    })
}

fn family() -> Topology {
    "fe:0 => in:0 be:0 ; in:0 => be:[1-2] ;".parse().unwrap()
}

fn names(topology: &Topology) -> Vec<String> {
    topology.processes().iter().map(Process::name).collect()
}

#[test]
fn processes_stand_in_preorder_with_their_roles() {
    let topology = family();
    assert_eq!(names(&topology), ["fe:0", "in:0", "be:1", "be:2", "be:0"]);
    let roles: Vec<Role> = topology.processes().iter().map(|process| process.role).collect();
    assert_eq!(roles, [Role::FrontEnd, Role::Inner, Role::BackEnd, Role::BackEnd, Role::BackEnd]);
    assert_eq!(topology.children_of(0).collect::<Vec<_>>(), [1, 4]);
    assert_eq!(topology.children_of(4).count(), 0);
    assert_eq!(topology.parents(), [None, Some(0), Some(1), Some(1), Some(0)]);
    assert_eq!(topology.depths(), [0, 1, 2, 2, 1]);
}

#[test]
fn parts_are_the_subtrees_of_the_children() {
    let topology = family();
    let parts: Vec<Topology> = topology.parts().collect();
    assert_eq!(names(&parts[0]), ["in:0", "be:1", "be:2"]);
    assert_eq!(parts[0].root().role, Role::Inner);
    assert_eq!(parts[0].children_of(0).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(parts[0].part(2), parts[0].parts().nth(1).unwrap());
    assert_eq!(names(&parts[1]), ["be:0"]);
}

#[test]
fn a_part_can_travel_as_text() {
    for part in family().parts() {
        let read: Topology = part.to_string().parse().unwrap();
        assert_eq!(read.root().role, Role::FrontEnd, "a parsed text is a whole topology");
        assert_eq!(read.into_part(), part);
    }
}

#[test]
fn a_chain_is_not_too_deep() {
    let statements: String = (1..16_384).map(|at| format!("h:{} => h:{at} ;\n", at - 1)).collect();
    let topology: Topology = statements.parse().unwrap();
    assert_eq!(topology.depths().last(), Some(&16_383));
    assert_eq!(topology.to_string(), statements);
}
