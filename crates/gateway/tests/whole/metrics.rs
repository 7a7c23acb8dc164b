//! The families of `/metrics`: figures after real calls, and their documentation.

use crate::operations::{documented, read};
use crate::world::{Answer, TOTAL, World, options};
use std::collections::BTreeMap;
use treefold::{Node, Service};
use treefold_gateway::Gateway;

async fn metrics(world: &World) -> String {
    let page = world.get("/metrics").await;
    assert_eq!(page.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    text_of(page)
}

fn text_of(page: Answer) -> String {
    assert_eq!(page.status, 200, "{page:?}");
    String::from_utf8(page.body).unwrap()
}

/// The figure on the line of a family, with labels if it has some.
fn figure(text: &str, name: &str) -> f64 {
    let lines = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    lines.unwrap_or_else(|| panic!("{name} is not in {text}"))
}

/// The families of a page, with their types.
fn families(text: &str) -> BTreeMap<String, String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
}

#[tokio::test]
async fn every_family_is_documented_with_its_type_and_every_documented_family_exists() {
    let world = World::usual().await;
    let mut documented = documented();
    if cfg!(not(feature = "grpc")) {
        documented.remove("treefold_gateway_rpcs_total");
    }
    let mut shown = families(&metrics(&world).await);
    // Other systems have no /proc, and a container may hide the tables of the control groups.
    if cfg!(not(target_os = "linux")) {
        documented.retain(|name, _| !name.starts_with("process_"));
        shown.retain(|name, _| !name.starts_with("process_"));
        documented.remove("treefold_memory_limit_bytes");
    }
    assert_eq!(shown, documented, "docs/metrics.md has other families than /metrics");
}

#[tokio::test]
async fn names_follow_the_conventions_of_prometheus() {
    let world = World::usual().await;
    let units =
        ["_milliseconds", "_millis", "_ms", "_us", "_nanoseconds", "_kilobytes", "_kib", "_mib", "_percent"];
    for (name, kind) in families(&metrics(&world).await) {
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
        assert!(units.iter().all(|unit| !name.contains(unit)), "{name}: use seconds, bytes and ratios");
    }
}

#[tokio::test]
async fn figures_of_calls_count_calls_answers_and_partitions() {
    let world = World::usual().await;
    world.sum("", "null").await;
    world.sum("?min_coverage=0.5", r#"{"fail": [1]}"#).await;
    world.get("/nowhere").await;
    let text = metrics(&world).await;
    for (name, count) in [
        ("treefold_calls_full_total", 1),
        ("treefold_calls_partial_total", 1),
        ("treefold_members", 1),
        ("treefold_unreached_by_udp", 0),
        ("treefold_gateway_answers_total{status=\"200\"}", 2),
        ("treefold_gateway_answers_total{status=\"404\"}", 1),
        ("treefold_gateway_call_duration_seconds_bucket{le=\"+Inf\"}", 2),
        ("treefold_gateway_call_duration_seconds_count", 2),
        ("treefold_gateway_partitions_asked_total", 8),
        ("treefold_gateway_partitions_contributed_total", 7),
        ("treefold_gateway_partitions_missing_total{reason=\"local_failed\"}", 1),
    ] {
        assert_eq!(figure(&text, name), f64::from(count), "{name} in {text}");
    }
    assert!(
        text.contains(concat!("treefold_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1\n")),
        "{text}"
    );
}

#[tokio::test]
async fn second_holder_of_a_partition_makes_it_replicated() {
    let world = World::usual().await;
    let text = metrics(&world).await;
    let of = |text: &str, name: &str| figure(text, &format!("treefold_service_{name}{{service=\"sums\"}}"));
    let total = f64::from(TOTAL);
    assert_eq!((of(&text, "partitions"), of(&text, "partitions_held")), (total, total));
    assert_eq!(of(&text, "partitions_replicated"), 0.0);

    let replica = Service::new("sums").total(TOTAL).partition(0, ()).partition(3, ());
    let other = Node::builder().join([world.node.addr()]).service(replica).start().await.unwrap();
    let gateway = Gateway::start(other.client(), options()).await.unwrap();
    let seen = async {
        loop {
            let page = crate::world::ask(gateway.addr(), "GET", "/metrics", &[], b"").await;
            let text = text_of(page);
            if figure(&text, "treefold_members") == 2.0 && of(&text, "partitions_held") == total {
                return of(&text, "partitions_replicated");
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let replicated =
        tokio::time::timeout(crate::world::WITHIN, seen).await.expect("the nodes see each other");
    assert_eq!(replicated, 2.0);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn figures_of_the_process_are_those_of_the_kernel() {
    let world = World::usual().await;
    let text = metrics(&world).await;
    let resident = figure(&text, "process_resident_memory_bytes");
    assert!(resident > 1e6 && resident < figure(&text, "process_virtual_memory_bytes"), "{text}");
    assert!(resident < figure(&text, "treefold_memory_limit_bytes"), "{text}");
    let open = figure(&text, "process_open_fds");
    assert!(open >= 4.0 && open < figure(&text, "process_max_fds"), "{text}");
    let started = figure(&text, "process_start_time_seconds");
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    // The kernel's time of the boot is in whole seconds.
    assert!(started <= now + 1.0 && started > now - 86_400.0, "{started} is not within a day before {now}");
    let used = figure(&text, "process_cpu_seconds_total");
    assert!(used <= figure(&metrics(&world).await, "process_cpu_seconds_total"), "a counter never falls");
}

#[test]
fn documentation_names_no_alert_that_does_not_exist() {
    let rules = read("deploy/prometheus/alerts.yaml");
    for alert in
        read("docs/metrics.md").split('`').filter(|word| word.starts_with("Treefold") && !word.contains(' '))
    {
        assert!(rules.contains(&format!("alert: {alert}\n")), "docs/metrics.md names {alert}");
    }
}
