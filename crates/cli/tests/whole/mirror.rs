//! Rules and traces with the real program: the examples of the documentation, and invalid input.

use crate::real::{self, Ended, NodeProcess, run, run_args, wait_for_members, wait_until};

const PAGE: &str = include_str!("../../../../docs/mirrors.md");

/// The content of the page's block whose fence begins with `heading`.
fn block(heading: &str) -> String {
    let start = PAGE.find(&format!("```{heading}\n")).expect("the block") + heading.len() + 4;
    let length = PAGE[start..].find("```").expect("the block's end");
    PAGE[start..start + length].to_owned()
}

/// Runs a command line, split at spaces, with this text on its standard input.
fn run_with_input(line: &str, input: &str) -> Ended {
    real::run_with_input(&line.split(' ').collect::<Vec<_>>(), input)
}

fn directory_with_rules() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("rules.toml"), block("toml rules.toml")).expect("a file");
    directory
}

#[test]
fn documented_example_gives_the_documented_figures() {
    let directory = directory_with_rules();
    let rules = directory.path().join("rules.toml");
    let rules = rules.to_str().expect("a path");
    let checked = run(&format!("mirror check {rules}"));
    assert_eq!((checked.code, checked.stdout.trim()), (0, format!("{rules}: valid, 3 rules").as_str()));

    let trace = run("mirror flights --events 100000");
    assert_eq!(trace.stdout.lines().count(), 100_000);
    assert!(PAGE.contains(trace.stdout.lines().next().expect("a line")), "the page shows the first event");
    let played = run_with_input(&format!("mirror replay - --rules {rules}"), &trace.stdout);
    assert_eq!(played.code, 0, "{}", played.stderr);
    for line in played.stdout.lines() {
        assert!(PAGE.contains(line), "the page does not show: {line}");
    }
}

#[test]
fn json_has_figures_of_each_rule() {
    let directory = directory_with_rules();
    let rules = directory.path().join("rules.toml");
    let trace = run("mirror flights --events 2000 --flights 5 --body 100 --seed 3").stdout;
    let played = run_with_input(&format!("mirror replay - --rules {} -o json", rules.display()), &trace);
    let report: serde_json::Value = serde_json::from_str(&played.stdout).expect("JSON");
    assert_eq!(report["given"]["events"], 2000);
    let mirrored = report["mirrored"]["events"].as_u64().expect("a number");
    let of_rules = |field: &str| -> u64 {
        let rules = report["rules"].as_array().expect("rules").iter();
        rules.map(|rule| rule[field].as_u64().expect("a number")).sum()
    };
    assert_eq!(2000 - of_rules("suppressed") + of_rules("made"), mirrored, "{report}");
}

#[test]
fn invalid_rules_are_shown_with_line_and_column() {
    let text = "[[rule]]\nname = \"run\"\noverwrite = { type = \"position\", run = 1 }\n";
    let checked = run_with_input("mirror check -", text);
    assert_eq!(checked.code, 1);
    assert!(checked.stdout.contains("standard input:2:8"), "{}", checked.stdout);
    let json = run_with_input("mirror check - -o json", text);
    let problem = &serde_json::from_str::<serde_json::Value>(&json.stdout).expect("JSON")["problems"][0];
    assert_eq!((problem["line"].as_u64(), problem["column"].as_u64()), (Some(2), Some(8)));
    let played = run_with_input("mirror replay /dev/null --rules -", text);
    assert_eq!(played.code, 1);
    assert!(played.stderr.contains("standard input:2:8: rule `run`: run is 1"), "{}", played.stderr);
}

#[test]
fn invalid_lines_of_a_trace_are_refused_with_their_number() {
    let directory = directory_with_rules();
    let rules = directory.path().join("rules.toml");
    let line = |more: &str| format!(r#"{{"stream":"s","key":"k","type":"position",{more}}}"#) + "\n";
    let good = line(r#""number":1,"at_ms":5"#);
    for (wrong, problem) in [
        (line(r#""at_ms":6"#), "the event has no `number`"),
        (line(r#""number":2,"at_ms":4"#), "at_ms is 4, less than on an earlier line"),
        (line(r#""number":2,"at_ms":-1"#), "at_ms is -1; allowed: 0 or more"),
        (line(r#""number":2,"fields":3"#), "fields: expected a MessagePack map"),
        ("garbage\n".to_owned(), "1: not an event: expected value"),
        ("\u{0}\n".to_owned(), "1: not an event"),
    ] {
        let played =
            run_with_input(&format!("mirror replay - --rules {}", rules.display()), &(good.clone() + &wrong));
        assert_eq!(played.code, 1, "{wrong}");
        // A problem of the syntax also has its column.
        let gap = if problem.starts_with("1:") { "" } else { " " };
        let expected = format!("standard input:2:{gap}{problem}");
        assert!(played.stderr.contains(&expected), "{expected}: {}", played.stderr);
    }
}

#[test]
fn field_of_another_type_than_declared_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let rules = directory.path().join("rules.toml");
    std::fs::write(&rules, "[types.position]\nlat = \"number\"\n").expect("a file");
    let event = r#"{"stream":"s","number":1,"key":"k","type":"position","fields":{"lat":"north"}}"#;
    let played = run_with_input(&format!("mirror replay - --rules {}", rules.display()), event);
    assert!(
        played.stderr.contains("field `lat` of type `position` is not of type number"),
        "{}",
        played.stderr
    );
}

/// Starts mirror `number` of at most three of the feed `flights`.
fn mirror(number: u32, join: Option<&NodeProcess>) -> NodeProcess {
    let serve = format!("mirror=flights:partitions={number}/3");
    let mut args = vec!["--serve", &serve];
    args.extend(join.iter().flat_map(|first| ["--join", &first.addr]));
    NodeProcess::start(&args)
}

/// The state of each mirror that answers.
fn status(at: &NodeProcess) -> serde_json::Value {
    let args = ["call", "flights/status", "--at", &at.addr, "--min-coverage", "0", "-o", "json"];
    run_args(&args).json()["value"].take()
}

/// The rows of one mirror, and its place.
fn rows(at: &NodeProcess, partition: &str) -> serde_json::Value {
    let keys: Vec<String> = (100..200).map(|number| format!("DL{number}")).collect();
    let params = serde_json::json!({ "keys": keys }).to_string();
    let args = ["call", "flights/get", "--at", &at.addr, "--params", &params, "--partitions", partition];
    let found = run_args(&[&args[..], &["-o", "json"]].concat()).json()["value"].take();
    assert!(found["rows"].as_array().is_some_and(|rows| !rows.is_empty()), "mirror {partition}: {found}");
    found
}

#[test]
fn fed_events_reach_all_mirrors_and_one_that_was_killed() {
    let directory = directory_with_rules();
    let rules = directory.path().join("rules.toml");
    let first = mirror(0, None);
    let second = mirror(1, Some(&first));
    wait_for_members(&first.addr, 2);
    let trace = run("mirror flights --events 5000").stdout;
    let line = format!("mirror feed flights - --at {} --rules {} -o json", first.addr, rules.display());
    let fed = run_with_input(&line, &trace);
    assert_eq!(fed.code, 0, "{}", fed.stderr);
    let fed = fed.json();
    assert_eq!((fed["offered"].as_u64(), fed["mirrors"].as_u64()), (Some(5000), Some(2)), "{fed}");
    assert_eq!(fed["committed"], fed["mirrored"], "{fed}");
    assert!(fed["mirrored"].as_u64() < Some(5000), "rules suppress events: {fed}");
    assert_eq!(rows(&first, "0"), rows(&first, "1"));

    // Another origin of the epoch gets no mirror, one of a later epoch gets all, also those that start meanwhile.
    let refused = run_with_input(&line, &trace);
    assert_eq!((refused.code, refused.json()["mirrors"].as_u64()), (4, Some(0)), "{}", refused.stderr);
    second.signal(libc::SIGKILL);
    drop(second);
    let second = mirror(1, Some(&first));
    wait_for_members(&second.addr, 2);
    let fed = run_with_input(&format!("{line} --epoch 2"), &trace);
    assert_eq!(fed.code, 0, "{}", fed.stderr);
    assert_eq!(rows(&first, "0"), rows(&first, "1"));
}

#[test]
fn refused_events_show_in_the_exit_code_of_a_feed_and_repeated_ones_do_not() {
    let node = mirror(0, None);
    let directory = tempfile::tempdir().expect("a directory");
    let feed = |name: &str, text: &str| {
        let file = directory.path().join(name);
        std::fs::write(&file, text).expect("a file");
        run(&format!("mirror feed flights {} --at {}", file.display(), node.addr))
    };
    let event =
        |number: u32| format!("{{\"stream\":\"s\",\"number\":{number},\"key\":\"a\",\"type\":\"t\"}}\n");
    let gap = feed("gap.jsonl", &(event(1) + &event(3)));
    assert_eq!(gap.code, 1, "{}{}", gap.stdout, gap.stderr);
    assert!(gap.stdout.contains("1 of 2 events are at 1 mirror, 1 were refused"), "{}", gap.stdout);
    assert!(gap.stderr.contains("1 event was refused"), "{}", gap.stderr);
    // An open quote takes the second row with it.
    let open = feed("open.csv", "stream,number,key,type,v\ns,1,a,t,\"cut\ns,2,b,t,2\n");
    assert_eq!(open.code, 1, "{}{}", open.stdout, open.stderr);
    assert!(open.stderr.contains("open.csv:2: the quote that opens in line 2 has no end"), "{}", open.stderr);
}

#[test]
fn feed_that_repeats_events_ends_with_zero() {
    let node = mirror(0, None);
    let event =
        |number: u32| format!("{{\"stream\":\"s\",\"number\":{number},\"key\":\"a\",\"type\":\"t\"}}\n");
    let line = format!("mirror feed flights - --at {} -o json", node.addr);
    let fed = run_with_input(&line, &(event(1) + &event(1) + &event(2)));
    assert_eq!((fed.code, fed.json()["refused"].as_u64()), (0, Some(1)), "{}", fed.stderr);
}

#[test]
fn rule_drops_only_the_id_of_64_bits_that_it_names() {
    let directory = tempfile::tempdir().expect("a directory");
    let rules = directory.path().join("rules.toml");
    let rule = "[[rule]]\nname='r'\ndiscard={type='t',field='id',equals=9007199254740993}\n";
    std::fs::write(&rules, rule).expect("a file");
    let event = |number: u32, id: u64| {
        format!(
            "{{\"stream\":\"s\",\"number\":{number},\"key\":\"k{number}\",\"type\":\"t\",\"fields\":{{\"id\":{id}}}}}\n"
        )
    };
    let trace = event(1, 9_007_199_254_740_992) + &event(2, 9_007_199_254_740_993);
    let played = run_with_input(&format!("mirror replay - --rules {}", rules.display()), &trace);
    assert!(played.stdout.starts_with("1 of 2 events are mirrored"), "{}{}", played.stdout, played.stderr);
}

#[test]
fn mirror_that_joins_a_running_feed_gets_its_state() {
    let first = mirror(0, None);
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace.jsonl");
    std::fs::write(&trace, run("mirror flights --events 100000").stdout).expect("a file");
    let mut feed = real::treefold()
        .args(["mirror", "feed", "flights", trace.to_str().expect("a path"), "--as-recorded"])
        .args(["--at", &first.addr])
        .spawn()
        .expect("the program can be started");
    wait_until("the first mirror has events", || status(&first)[0]["position"].as_u64() > Some(0));
    let _second = mirror(1, Some(&first));
    wait_until("the second mirror has all of them", || status(&first)[1]["is_current"] == true);
    let pid = libc::pid_t::try_from(feed.id()).expect("a process id");
    // SAFETY: kill touches no memory; the process is a child that was not waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
    assert_eq!(feed.wait().expect("it ends").code(), Some(0), "a stopped feed confirms its events");
    let mirrors = status(&first);
    assert_eq!(mirrors[0]["position"], mirrors[1]["position"], "{mirrors}");
    assert_eq!(rows(&first, "0"), rows(&first, "1"));
}

/// Starts a feed with these sources, and waits until all listeners are there. Returns their addresses.
fn feed_live(at: &NodeProcess, sources: &[&str]) -> (std::process::Child, Vec<String>) {
    use std::io::BufRead;
    let mut feed = real::treefold()
        .args(["mirror", "feed", "flights"])
        .args(sources)
        .args(["--at", &at.addr, "-o", "json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let mut lines = std::io::BufReader::new(feed.stderr.take().expect("a pipe")).lines();
    let live = sources.iter().filter(|source| source.contains("127.0.0.1:0"));
    let addrs = live.map(|_| {
        let line = lines.next().expect("a line").expect("UTF-8");
        line.rsplit_once("p:").unwrap_or_else(|| panic!("it printed {line}")).1.to_owned()
    });
    (feed, addrs.collect())
}

#[test]
fn several_sources_feed_one_origin_until_it_is_stopped() {
    use std::io::{Read, Write};
    let node = mirror(0, None);
    let directory = tempfile::tempdir().expect("a directory");
    let csv = directory.path().join("gates.csv");
    std::fs::write(&csv, "number,key,type,gate\n1,DL100,gate,A7\n2,DL101,gate,0012\n").expect("a file");
    let csv = csv.to_str().expect("a path");
    let (feed, addrs) =
        feed_live(&node, &[csv, "tcp:127.0.0.1:0", "http:127.0.0.1:0", "--stream", "airline"]);

    let mut tcp = std::net::TcpStream::connect(&addrs[0]).expect("it listens");
    tcp.write_all(b"{\"stream\":\"faa\",\"number\":1,\"key\":\"DL102\",\"type\":\"t\"}\n").expect("it reads");
    let mut answer = String::new();
    let mut answers = std::io::BufReader::new(&tcp);
    std::io::BufRead::read_line(&mut answers, &mut answer).expect("an acknowledgement");
    assert_eq!(answer, "{\"acknowledged\":{\"faa\":1}}\n");
    let body = r#"{"number":3,"key":"DL103","type":"gate","fields":{"gate":"B1"}}"#;
    let mut http = std::net::TcpStream::connect(&addrs[1]).expect("it listens");
    let head = format!("content-length: {}\r\nhost: localhost\r\nconnection: close", body.len());
    write!(http, "POST /v1/feeds/flights/events HTTP/1.1\r\n{head}\r\n\r\n{body}").expect("it reads");
    let mut answer = String::new();
    http.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains(r#""acknowledged":{"airline":3}"#), "{answer}");

    let pid = libc::pid_t::try_from(feed.id()).expect("a process id");
    // SAFETY: kill touches no memory; the process is a child that was not waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    let ended = feed.wait_with_output().expect("it ends");
    let fed: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!((ended.status.code(), fed["offered"].as_u64()), (Some(0), Some(4)), "{fed}");
    let counts: Vec<_> =
        fed["sources"].as_array().expect("sources").iter().map(|one| &one["offered"]).collect();
    assert_eq!(counts, [2, 1, 1]);
    assert_eq!((&fed["committed"], &fed["refused"]), (&4.into(), &0.into()), "{fed}");
    let found = rows(&node, "0");
    let gate = |key: &str| {
        let rows = found["rows"].as_array().expect("rows").iter();
        rows.clone().find(|row| row["key"] == key).map(|row| row["fields"]["gate"].clone())
    };
    assert_eq!(gate("DL101"), Some("0012".into()), "a code with zeros stays a text: {found}");
    assert_eq!(gate("DL103"), Some("B1".into()), "{found}");
}

#[test]
fn sources_that_cannot_start_are_told_with_their_names() {
    let node = mirror(0, None);
    for (source, code, problem) in [
        ("missing.jsonl", 1, "can't read missing.jsonl"),
        ("nats:127.0.0.1", 2, "expected SERVER/NAME, as in nats:127.0.0.1:4222/flights"),
        ("tcp:256.0.0.1:1", 1, "can't listen at 256.0.0.1:1"),
        ("jetstream:127.0.0.1:9/S", 1, "can't connect to nats://127.0.0.1:9"),
    ] {
        let ended = run(&format!("mirror feed flights {source} --at {}", node.addr));
        assert_eq!(ended.code, code, "{source}: {}", ended.stderr);
        assert!(ended.stderr.contains(problem), "{source}: {}", ended.stderr);
    }
}

#[test]
fn node_raises_its_limit_of_open_files() {
    let program = real::treefold();
    let mut node = std::process::Command::new("sh")
        .args(["-c", "ulimit -Sn 100 && ulimit -Hn 4000 && exec \"$0\" \"$@\""])
        .arg(program.get_program())
        .args(["node", "--listen", "127.0.0.1:0"])
        .args(["--serve", "mirror=flights:partitions=0/1:http=127.0.0.1:0"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("a shell can be started");
    let mut line = String::new();
    let mut lines = std::io::BufReader::new(node.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut lines, &mut line).expect("it prints its address");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", node.id())).expect("a process's limits");
    node.kill().expect("it can be ended");
    let said = node.wait_with_output().expect("it can be waited for");
    let files = limits.lines().find(|line| line.starts_with("Max open files")).expect("the limit");
    let numbers: Vec<&str> = files.split_whitespace().skip(3).take(2).collect();
    assert_eq!(numbers, ["4000", "4000"], "{files}");
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("open 4000 files") && said.contains("10000 connections"), "{said}");
}
