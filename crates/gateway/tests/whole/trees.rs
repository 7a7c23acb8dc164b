//! Kept trees: of calls that asked for them, and of a sample of the others.

use crate::world::{World, ask};
use serde_json::Value;
use treefold_gateway::Limits;

const SUM: &str = "/v1/call/sums/sum";

async fn listed(world: &World) -> Vec<Value> {
    world.get("/v1/trees").await.json()["trees"].as_array().unwrap().clone()
}

fn without_samples(limits: &mut Limits) {
    limits.trees_per_s = 0;
}

#[tokio::test]
async fn tree_of_a_call_that_asked_for_it_is_kept() {
    let world = World::with_limits(without_samples).await;
    let plain = world.sum("", "null").await;
    assert_eq!(plain.header("treefold-call"), None);
    let asked = world.sum("?explain&min_coverage=0.5", r#"{"fail": [2]}"#).await;
    assert_eq!(asked.header("treefold-call"), Some("1"));
    let lines = listed(&world).await;
    assert_eq!(lines.len(), 1);
    let of_line = |name: &str| lines[0][name].clone();
    assert_eq!(
        (of_line("call"), of_line("service"), of_line("aggregation")),
        (1.into(), "sums".into(), "sum".into())
    );
    assert_eq!(
        (of_line("status"), of_line("sampled"), of_line("nodes")),
        ("partial".into(), false.into(), 1.into())
    );
    let (kept, asked) = (world.get("/v1/trees/1").await.json(), asked.json());
    for same in ["tree", "coverage", "elapsed_us", "status", "total_is_guess"] {
        assert_eq!(kept[same], asked[same], "{same}");
    }
    let (kept_loss, asked_loss) = (&kept["missing"][0], &asked["missing"][0]);
    for same in ["partition", "node", "reason"] {
        assert_eq!(kept_loss[same], asked_loss[same], "{same}");
    }
    assert_eq!((&kept_loss["partition"], kept_loss.get("detail")), (&2.into(), None));
    assert!(asked_loss["detail"].is_string(), "an operator's text is for its caller alone: {asked_loss}");
    assert_eq!((kept.get("value"), kept.get("params")), (None, None), "no data of callers is kept");
}

#[tokio::test]
async fn trees_of_some_other_calls_are_kept_and_their_callers_do_not_get_them() {
    let world = World::with_limits(|limits| limits.trees_per_s = 1).await;
    let sampled = world.sum("", "null").await;
    assert_eq!((sampled.header("treefold-call"), sampled.json().get("tree")), (Some("1"), None));
    let insufficient = world.sum("?explain", r#"{"fail": [2]}"#).await;
    assert_eq!((insufficient.status, insufficient.header("treefold-call")), (503, Some("2")));
    assert!(insufficient.json()["tree"].is_object());
    let lines = listed(&world).await;
    let sampled: Vec<&Value> = lines.iter().map(|line| &line["sampled"]).collect();
    assert_eq!(sampled, [false, true], "latest first");
    assert_eq!((&lines[0]["status"], &lines[1]["status"]), (&"insufficient".into(), &"full".into()));
}

#[tokio::test]
async fn only_the_latest_trees_are_kept() {
    let world = World::with_limits(|limits| (limits.trees_max, limits.trees_per_s) = (2, 0)).await;
    for _ in 0..3 {
        world.sum("?explain", "null").await;
    }
    let calls: Vec<Value> = listed(&world).await.iter().map(|line| line["call"].clone()).collect();
    assert_eq!(calls, [3, 2]);
    let gone = world.get("/v1/trees/1").await;
    assert_eq!(
        (gone.status, gone.problem().as_str(), gone.json()["given"].as_str()),
        (404, "unknown_call", Some("1"))
    );
    let odd = world.get("/v1/trees/first").await;
    assert_eq!((odd.status, odd.json()["field"].as_str()), (400, Some("call")));
}

#[tokio::test]
async fn tokens_see_trees_of_their_services_or_all_with_the_right_to_read() {
    use crate::tokens::{entry, with_token, world_of};
    use treefold_gateway::tokens::{GatewayRight, draw};
    let (caller, reader, other) = (draw().unwrap(), draw().unwrap(), draw().unwrap());
    let entries = [
        entry("caller", &caller, &["sums"], &[GatewayRight::Call]),
        entry("reader", &reader, &["none"], &[GatewayRight::Read]),
        entry("other", &other, &["faces"], &[GatewayRight::Call]),
    ];
    let (world, _file) = world_of(&entries).await;
    let made = with_token(&world, "POST", &format!("{SUM}?explain"), &caller).await;
    let tree = format!("/v1/trees/{}", made.header("treefold-call").unwrap());
    for (token, count, status) in [(&caller, 1, 200), (&reader, 1, 200), (&other, 0, 404)] {
        let list = with_token(&world, "GET", "/v1/trees", token).await.json();
        assert_eq!(list["trees"].as_array().unwrap().len(), count);
        let answer = with_token(&world, "GET", &tree, token).await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
    let hidden = with_token(&world, "GET", &tree, &other).await.json();
    let unknown = with_token(&world, "GET", "/v1/trees/999", &other).await.json();
    assert_eq!(hidden["type"], unknown["type"], "a token learns nothing about other services");
    for path in ["/v1/trees", tree.as_str(), "/v1/watch"] {
        assert_eq!(ask(world.addr(), "GET", path, &[], b"").await.status, 401, "{path}");
    }
    let denied = with_token(&world, "GET", "/v1/watch", &caller).await;
    assert_eq!((denied.status, denied.problem().as_str()), (403, "denied"));
}
