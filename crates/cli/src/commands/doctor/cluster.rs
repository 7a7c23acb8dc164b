//! The cluster as its nodes see it: members, totals of services, builds, placement and load.

use super::finding::{Finding, capped, listed};
use super::nodes::{Facts, Seen, count};
use crate::commands::placement::show::{Placed, placed};
use crate::output::json::load_ms_per_processor;
use std::collections::{BTreeMap, BTreeSet};
use treefold::NodeStatus;
use treefold_core::id::NodeId;

const MEMBERS: &str = "members";
const TOTALS: &str = "totals";
const BUILDS: &str = "builds";
const PLACEMENT: &str = "placement";
const LOAD: &str = "load";
const WORK: &str = "work";
const SLOW: &str = "slow";

/// A node's load counts as high if it is this many times the median, and above the least.
const LOAD_TIMES_MAX: f64 = 4.0;
const LOAD_LEAST_MS: f64 = 100.0;
/// Share of refused waves from which on it is a problem, and the least number of waves that is judged.
const REFUSED_MAX: f64 = 0.05;
const WAVES_LEAST: u64 = 100;

pub(super) fn check(seen: &[Seen]) -> Vec<Finding> {
    let facts: Vec<(&str, &Facts)> =
        seen.iter().filter_map(|node| Some((node.name.as_str(), node.facts()?))).collect();
    if facts.is_empty() {
        return Vec::new();
    }
    let views: Vec<View> = facts.iter().map(|(name, facts)| View { name, members: &facts.members }).collect();
    let mut findings = members(&views);
    findings.extend(totals(&facts));
    findings.push(builds(&facts));
    if let Some(status) = seen.iter().find_map(|node| node.status.as_deref()) {
        findings.extend(placement(&placed(status)));
        findings.push(load(status));
    }
    findings.extend(capped(facts.iter().flat_map(|(name, facts)| work(name, facts)).collect()));
    findings.extend(slow(seen));
    findings
}

/// The nodes that others pass over because they take longer.
fn slow(seen: &[Seen]) -> Vec<Finding> {
    let mut said = BTreeSet::new();
    let mut findings = Vec::new();
    for status in seen.iter().filter_map(|node| node.status.as_deref()) {
        for slow in status.slow.iter().filter(|slow| said.insert((slow.node, &slow.aggregation))) {
            let at = status.card.node.addr;
            let advice = "look at that machine (processor, disk, swap) and at its links; calls use other nodes where there are any";
            findings.push(Finding::warn(
                SLOW,
                format!("{}, as {at} sees it", crate::commands::status::slow_line(slow)),
                advice,
            ));
        }
    }
    capped(findings)
}

/// The members that a node sees, with itself.
struct View<'a> {
    name: &'a str,
    members: &'a BTreeSet<NodeId>,
}

fn members(views: &[View<'_>]) -> Vec<Finding> {
    let all: BTreeSet<NodeId> = views.iter().flat_map(|view| view.members).copied().collect();
    let lacking: Vec<Finding> = views
        .iter()
        .filter(|view| view.members.len() < all.len())
        .map(|view| {
            let missing = listed(all.difference(view.members).map(|node| node.addr));
            let found = format!("{} sees {} of {} members, without {missing}", view.name, view.members.len(), all.len());
            let advice = "if nodes start or stop now, ask again in 10 s; else open TCP and UDP between these nodes, both ways, and let \
                          each node --join one of the others";
            Finding::fail(MEMBERS, found, advice)
        })
        .collect();
    if lacking.is_empty() {
        let found = format!("{} asked, and each sees the same {} members", count(views.len()), all.len());
        return vec![Finding::ok(MEMBERS, found)];
    }
    capped(lacking)
}

fn totals(facts: &[(&str, &Facts)]) -> Vec<Finding> {
    let refused: BTreeSet<&String> = facts.iter().flat_map(|(_, facts)| &facts.refused).collect();
    let finding = |refused: &String| {
        let advice = "restart it with the total of the cluster: until then its partitions are not used";
        Finding::fail(TOTALS, refused.clone(), advice)
    };
    capped(refused.into_iter().map(finding).collect())
}

fn builds(facts: &[(&str, &Facts)]) -> Finding {
    let mut builds: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, facts) in facts {
        let build: &str = if facts.build.is_empty() { "older, which does not say" } else { &facts.build };
        *builds.entry(build).or_default() += 1;
    }
    let shown: Vec<String> =
        builds.iter().map(|(build, nodes)| format!("{build} ({})", count(*nodes))).collect();
    let found = shown.join(", ");
    match shown.len() {
        1 => Finding::ok(BUILDS, found),
        _ => Finding::warn(BUILDS, found, "finish the rolling upgrade (docs/upgrade.md)"),
    }
}

fn placement(services: &[Placed]) -> Vec<Finding> {
    let mut problems = Vec::new();
    for service in services {
        let Placed { service: name, partitions, replicas, missing, under_replicated, .. } = service;
        if !missing.is_empty() {
            let found =
                format!("{name}: no node holds {missing} of {partitions} partitions, so calls are partial");
            let advice = match replicas {
                0 => "start the nodes that hold them, or give them to another node (--serve)",
                _ => {
                    "start more nodes of the service; `treefold placement show` tells who refuses partitions, and logs of nodes tell \
                     which loads fail"
                }
            };
            problems.push(Finding::fail(PLACEMENT, found, advice));
        } else if *replicas > 1 && !under_replicated.is_empty() {
            let found = format!("{name}: {under_replicated} have fewer than {replicas} replicas");
            let advice = "wait if nodes load partitions now; else start as many nodes as there are replicas, and undo drains";
            problems.push(Finding::warn(PLACEMENT, found, advice));
        }
    }
    if problems.is_empty() && !services.is_empty() {
        let names = services.iter().filter(|service| service.partitions > 0).map(|service| &service.service);
        let names = listed(names);
        return vec![Finding::ok(PLACEMENT, format!("every partition has its holders: {names}"))];
    }
    capped(problems)
}

fn load(status: &NodeStatus) -> Finding {
    let own = (status.card.node.addr.to_string(), load_ms_per_processor(status.load));
    let others = status.members.iter().filter(|member| member.load_age_ms.is_some());
    let others = others.map(|member| (member.card.node.addr.to_string(), load_ms_per_processor(member.load)));
    outliers(&others.chain([own]).collect::<Vec<_>>())
}

fn outliers(loads: &[(String, f64)]) -> Finding {
    let mut sorted: Vec<f64> = loads.iter().map(|(_, load)| *load).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    let is_high = |load: f64| load >= LOAD_LEAST_MS && load > LOAD_TIMES_MAX * median;
    let high =
        loads.iter().filter(|(_, load)| is_high(*load)).map(|(addr, load)| format!("{addr} ({load:.0} ms)"));
    let high: Vec<String> = high.collect();
    if high.is_empty() {
        let most = sorted.last().copied().unwrap_or_default();
        return Finding::ok(
            LOAD,
            format!("queued work per processor: median {median:.1} ms, most {most:.1} ms"),
        );
    }
    let found = format!("work queues far above the median of {median:.1} ms at {}", listed(high));
    Finding::warn(
        LOAD,
        found,
        "look for other programs on these hosts and for partitions that only they hold; add replicas or nodes",
    )
}

fn work(name: &str, facts: &Facts) -> Vec<Finding> {
    let Facts { counters, open, .. } = facts;
    let mut problems = Vec::new();
    if open.jobs_stuck > 0 {
        problems.push(Finding::warn(
            WORK,
            format!("{name} has {} operators that were abandoned and still run", open.jobs_stuck),
            "let operators check their deadline, and restart the node if they never end",
        ));
    }
    let waves = counters.waves.answered + counters.waves.refused;
    if waves >= WAVES_LEAST && counters.waves.refused as f64 > REFUSED_MAX * waves as f64 {
        problems.push(Finding::warn(
            WORK,
            format!(
                "{name} has refused {} of {waves} waves, because its queue was too long for their deadlines",
                counters.waves.refused
            ),
            "add nodes or replicas, or give calls more time",
        ));
    }
    if counters.waves.locals_failed > 0 {
        problems.push(Finding::warn(
            WORK,
            format!(
                "{name}: {} of {} locals failed",
                counters.waves.locals_failed, counters.waves.locals_run
            ),
            "look at its log",
        ));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    fn node(port: u16) -> NodeId {
        NodeId::new(([127, 0, 0, 1], port).into(), 1)
    }

    #[test]
    fn nodes_with_different_views_are_named_with_the_missing_members() {
        let (whole, part): (BTreeSet<_>, BTreeSet<_>) =
            ((1..4).map(node).collect(), (1..3).map(node).collect());
        let views = [View { name: "a", members: &whole }, View { name: "b", members: &part }];
        let [failed] = members(&views).try_into().unwrap();
        assert_eq!(failed.level, Level::Fail);
        assert_eq!(failed.found, "b sees 2 of 3 members, without 127.0.0.1:3");
        assert_eq!(members(&views[..1])[0].level, Level::Ok);
    }

    #[test]
    fn only_loads_far_above_the_others_are_outliers() {
        let loads = |loads: &[f64]| -> Vec<(String, f64)> {
            loads.iter().map(|load| ("n".to_owned(), *load)).collect()
        };
        assert_eq!(outliers(&loads(&[1.0, 2.0, 90.0])).level, Level::Ok, "little in itself");
        assert_eq!(outliers(&loads(&[400.0, 300.0, 500.0])).level, Level::Ok, "all are busy");
        assert_eq!(outliers(&loads(&[1.0, 2.0, 400.0])).level, Level::Warn);
    }
}
