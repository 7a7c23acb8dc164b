//! Layouts by their counts and depths, and the placement of their processes.

use super::*;
use crate::topology::host::parse_hosts;
use crate::topology::stats::Stats;
use proptest::prelude::*;

fn placement(hosts: &str) -> Placement {
    Placement {
        front_end: Host::new("fe").unwrap(),
        hosts: parse_hosts(hosts).unwrap(),
        inner_hosts: Vec::new(),
        slots: 1,
        back_ends: None,
    }
}

fn layout(text: &str) -> Layout {
    text.parse().unwrap()
}

fn made(text: &str, placement: &Placement) -> Topology {
    generate(&layout(text), placement, &Bounds::DEFAULT).unwrap()
}

fn refused(text: &str, placement: &Placement) -> String {
    generate(&layout(text), placement, &Bounds::DEFAULT).unwrap_err().to_string()
}

#[test]
fn layouts_parse_their_own_names() {
    for text in ["flat", "kary:8", "binomial", "binomial:4", "balanced:8x8x4"] {
        assert_eq!(layout(text).to_string(), text);
    }
    assert_eq!(layout("balanced:4^3"), layout("balanced:4x4x4"));
    for senseless in [
        "kary",
        "kary:1",
        "kary:x",
        "balanced:",
        "balanced:4x0",
        "balanced:4^0",
        "binomial:0",
        "ring",
        "balanced:1^65",
        "balanced:2^4294967295",
    ] {
        assert_eq!(senseless.parse::<Layout>(), Err(BadLayout), "{senseless}");
    }
}

#[test]
fn kary_has_the_fewest_inner_processes() {
    let of = |back_ends: u32, k: u32| {
        let stats = Stats::of(&made(&format!("kary:{k}"), &placement(&format!("n[1-{back_ends}]"))));
        (stats.inner, stats.depth, stats.fan_out_max)
    };
    assert_eq!(of(4, 4), (0, 1, 4));
    assert_eq!(of(16, 4), (4, 2, 4));
    assert_eq!(of(16, 8), (2, 2, 8));
    assert_eq!(of(64, 8), (8, 2, 8));
    assert_eq!(of(256, 8), (4 + 32, 3, 8));
    assert_eq!(of(9, 8), (2, 2, 5));
    assert_eq!(of(5, 2), (3, 3, 2));
}

#[test]
fn binomial_has_an_inner_process_for_each_back_end_but_one() {
    let topology = made("binomial", &placement("n[1-8]"));
    let stats = Stats::of(&topology);
    assert_eq!((stats.processes, stats.inner, stats.back_ends), (16, 7, 8));
    // The root of a binomial tree of 2^k has k children, with 2^(k-1), …, 1 below and including them.
    let row = topology.processes();
    let sizes: Vec<u32> = topology.children_of(0).map(|child| row[child].size).collect();
    assert_eq!(sizes, [8, 4, 2, 1]);
}

#[test]
fn the_unbalanced_tree_of_the_papers_figure_4b() {
    let stats = Stats::of(&made("binomial:4", &placement("n[1-16]")));
    assert_eq!((stats.inner, stats.back_ends, stats.depth), (3, 16, 3));
    assert_eq!(stats.fan_out_max, 6, "the root has two inner children and four back-ends");
}

#[test]
fn balanced_is_level_by_level() {
    let stats = Stats::of(&made("balanced:2x3x4", &placement("n[1-30]")));
    assert_eq!((stats.inner, stats.back_ends, stats.depth), (2 + 6, 24, 3));
    assert_eq!(made("balanced:16", &placement("n[1-16]")), made("flat", &placement("n[1-16]")));
}

#[test]
fn inner_processes_run_with_their_first_back_end() {
    assert_eq!(
        made("balanced:2x2", &placement("n[1-4]")).to_string(),
        "fe:0 => n1:1 n3:1 ;\nn1:1 => n[1-2]:0 ;\nn3:1 => n[3-4]:0 ;\n"
    );
    let alone = Placement { front_end: Host::new("n1").unwrap(), ..placement("n1:4") };
    assert_eq!(
        made("kary:2", &alone).to_string(),
        "n1:0 => n1:[5-6] ;\nn1:5 => n1:[1-2] ;\nn1:6 => n1:[3-4] ;\n"
    );
}

#[test]
fn inner_processes_use_their_own_hosts_if_given() {
    let apart = |inner: &str| Placement { inner_hosts: parse_hosts(inner).unwrap(), ..placement("n[1-4]:2") };
    assert_eq!(
        made("balanced:4x2", &apart("i1,i2")).to_string(),
        "fe:0 => i[1-2]:[0-1] ;\ni1:0 => n1:[0-1] ;\ni1:1 => n2:[0-1] ;\ni2:0 => n3:[0-1] ;\ni2:1 => n4:[0-1] ;\n"
    );
    let heading =
        |inner: &str| made("balanced:4x2", &apart(inner)).to_string().lines().next().unwrap().to_owned();
    assert_eq!(heading("i1:1,i2"), "fe:0 => i1:0 i2:[0-2] ;");
    assert_eq!(
        refused("balanced:4x2", &apart("i1:1,i2:2")),
        "4 inner processes do not fit on hosts with 3 slots; list more hosts or give them more slots"
    );
}

#[test]
fn slots_are_filled_host_by_host() {
    let two_each = Placement { slots: 2, back_ends: Some(3), ..placement("a,b") };
    assert_eq!(made("flat", &two_each).to_string(), "fe:0 => a:[0-1] b:0 ;\n");
    assert_eq!(
        refused("balanced:5", &placement("n[1-4]")),
        "5 back-ends do not fit on hosts with 4 slots; list more hosts or give them more slots"
    );
}

#[test]
fn topologies_beyond_the_bounds_are_refused() {
    let many = Placement { slots: 100_000, ..placement("a") };
    assert_eq!(refused("kary:8", &many), "100001 processes; allowed: 16384");
    assert_eq!(refused("balanced:1000^9", &many), "18446744073709551615 processes; allowed: 16384");
    assert_eq!(refused("balanced:1x1x1x16380", &many), "a process with 16380 children; allowed: 4095");
    assert_eq!(
        refused("binomial", &Placement { back_ends: Some(9_000), ..many.clone() }),
        "18000 processes; allowed: 16384"
    );
    assert_eq!(
        refused("flat", &Placement { back_ends: Some(5_000), ..many }),
        "a process with 5000 children; allowed: 4095"
    );
    let nobody = Placement { back_ends: Some(0), ..placement("a") };
    assert!(refused("flat", &nobody).starts_with("no back-ends"));
    let other = Placement { back_ends: Some(7), ..placement("n[1-8]") };
    assert_eq!(refused("balanced:8", &other), "balanced:8 has 8 back-ends, but 7 were asked for");
}

proptest! {
    #[test]
    fn every_layout_reads_back_and_has_as_many_back_ends_as_asked(
        back_ends in 1u32..300,
        k in 2u32..20,
        which in 0u8..3,
        apart in any::<bool>(),
    ) {
        let layout = match which {
            0 => Layout::Flat,
            1 => Layout::Kary(k),
            _ => Layout::Binomial { attached: k - 1 },
        };
        let mut placement = Placement { slots: 3, back_ends: Some(back_ends), ..placement("node[001-100]") };
        if apart {
            placement.inner_hosts = parse_hosts("in[1-7]").unwrap();
        }
        let topology = generate(&layout, &placement, &Bounds::DEFAULT).unwrap();
        let stats = Stats::of(&topology);
        prop_assert_eq!(stats.back_ends, back_ends as usize);
        if let Layout::Kary(k) = layout {
            prop_assert!(stats.fan_out_max <= k as usize);
        }
        prop_assert_eq!(topology.to_string().parse(), Ok(topology));
    }
}
