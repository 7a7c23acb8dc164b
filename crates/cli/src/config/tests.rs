//! Tests of reading configuration files, and of the pages about them.

use super::*;
use std::fs;
use std::io::Write;
use treefold::ReplicaPolicy;

/// Set to write the schema and the page instead of comparing them.
const WRITE: &str = "TREEFOLD_WRITE_GENERATED";

fn parsed(text: &str) -> Settled {
    Settled::parse(text).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn problems(text: &str) -> Vec<String> {
    let problems = Settled::parse(text).expect_err("it has problems");
    problems.iter().map(ToString::to_string).collect()
}

fn is_current(path: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, expected).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let path = path.display();
    assert!(
        kept == expected,
        "{path} differs from the keys: run {WRITE}=1 cargo test -p treefold-cli --lib config"
    );
}

#[test]
fn the_schema_is_current() {
    is_current("docs/node.schema.json", &format!("{:#}\n", schema::schema()));
}

#[test]
fn the_page_has_the_tables_of_all_keys() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(page::MARKS.0).expect("a mark before the tables");
    let (_, after) = rest.split_once(page::MARKS.1).expect("a mark after them");
    is_current(
        "docs/configuration.md",
        &[before, page::MARKS.0, &page::tables(), page::MARKS.1, after].concat(),
    );
}

#[test]
fn example_files_of_the_pages_are_valid() {
    for page in ["configuration.md", "guide.md"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
        let text = fs::read_to_string(path).unwrap();
        let blocks =
            text.split("```toml").skip(1).filter_map(|block| block.split_once('\n')?.1.split("```").next());
        let files: Vec<&str> = blocks.filter(|block| block.contains("listen = ")).collect();
        assert!(!files.is_empty(), "{page} has no example");
        files.into_iter().for_each(|file| _ = parsed(file));
    }
}

#[test]
fn file_has_the_same_keys_as_the_flags() {
    let file = parsed(
        "listen = '127.0.0.1:7700'\njoin = ['a:1', 'dns:b:2', '@seeds']\nserve = ['micro:partitions=0/1']\n\
         grace = '1.5s'\ntoken_file = 'token'\n[limits]\npayload_bytes_max = 1024\n",
    )
    .file;
    assert_eq!(file.listen.as_deref(), Some("127.0.0.1:7700"));
    assert_eq!(file.join, ["a:1", "dns:b:2", "@seeds"]);
    assert_eq!(file.grace, Some(Duration::from_millis(1_500)));
    let limits = file.limits.unwrap();
    assert_eq!(limits.payload_bytes_max, 1024);
    assert_eq!(limits.peers_max, Limits::DEFAULT.peers_max, "unnamed limits keep their defaults");
}

#[test]
fn bytes_and_times_have_units_in_every_table() {
    let file = parsed(
        "[gateway]\nlisten = '127.0.0.1:0'\n[gateway.limits]\nbody_bytes_max = '16MiB'\nhead_within = '2s'\n\
         [limits]\npayload_bytes_max = '64 MiB'\ndeadline_max = '10m'\n\
         [tuning]\nhop_margin = '1ms'\nreplica_policy = 'polled:2'\npatience = 1\n\
         [tuning.membership]\nsuspicion = '2.5s'\n[tuning.placement]\nreplace_after = '5m'\n",
    )
    .file;
    let (limits, tuning) = (file.limits.unwrap(), file.tuning.unwrap());
    assert_eq!(limits.payload_bytes_max, 64 << 20);
    assert_eq!(limits.deadline_max, Duration::from_secs(600));
    assert_eq!(tuning.hop_margin, Duration::from_millis(1));
    assert_eq!(tuning.replica_policy, ReplicaPolicy::Polled { polls: 2 });
    assert_eq!(tuning.patience, 1.0);
    assert_eq!(tuning.membership.suspicion, Duration::from_millis(2_500));
    assert_eq!(tuning.placement.replace_after, Duration::from_secs(300));
    assert_eq!(file.gateway.limits.body_bytes_max, 16 << 20);
    assert_eq!(file.gateway.limits.head_within, Duration::from_secs(2));
}

#[test]
fn files_of_earlier_versions_are_read_as_before() {
    let text = "[limits]\ndeadline_max = 1_000_000_000\n[tuning]\nhop_margin = 1000000\nreplica_policy = 'RoundRobin'\n\
                [tuning.membership]\nsuspicion = 600_000_000\n";
    let file = parsed(text).file;
    assert_eq!(file.limits.unwrap().deadline_max, Duration::from_secs(1));
    let tuning = file.tuning.unwrap();
    assert_eq!(tuning.hop_margin, Duration::from_millis(1));
    assert_eq!(tuning.replica_policy, ReplicaPolicy::RoundRobin);
    assert_eq!(tuning.membership.suspicion, Duration::from_millis(600));
    let polled = parsed("[tuning]\nreplica_policy = { Polled = { polls = 5 } }\n").file.tuning.unwrap();
    assert_eq!(polled.replica_policy, ReplicaPolicy::Polled { polls: 5 });
}

#[test]
fn values_outside_their_bounds_are_refused_with_field_value_and_range() {
    assert_eq!(
        problems(
            "[limits]\npayload_bytes_max = 0\n[gateway.limits]\nhead_within = '2'\nconnections_max = 0\n"
        ),
        [
            "line 2: limits.payload_bytes_max is 0B; allowed: 1KiB to 4GiB",
            "line 4: gateway.limits.head_within is '2'; allowed: 1ms to 3600s, a text with a unit, as in \"200ms\" or \"1.5s\"",
            "line 5: gateway.limits.connections_max is 0; allowed: 1 to 1048576",
        ]
    );
    assert_eq!(
        problems("[gateway.limits]\nhead_within = 2000000000\n").len(),
        1,
        "the gateway has never taken nanoseconds"
    );
}

#[test]
fn settings_that_depend_on_each_other_are_refused_at_their_line() {
    let text = "[tuning.membership]\nprobe_timeout = '150ms'\n";
    let expected = "line 2: tuning.membership.probe_timeout is 150ms; allowed: 1µs to 99.999999ms";
    assert_eq!(problems(text), [expected]);
}

#[test]
fn every_problem_is_listed_in_the_order_of_lines() {
    let text = "rack = 1\nprocessors = 'many'\nserve = ['nonsense']\nlisten = 'here'\njoin = ['dns:a']\n\
                [shares]\nsearch = 0\n[limit]\na = 1\n[tuning]\npatience = -1.0\nreplica_policy = 'best'\n";
    let found = problems(text);
    let lines: Vec<&str> = found.iter().filter_map(|line| line.split(':').next()).collect();
    let expected =
        ["line 1", "line 2", "line 3", "line 4", "line 5", "line 7", "line 8", "line 11", "line 12"];
    assert_eq!(lines, expected, "{found:#?}");
}

#[test]
fn a_text_that_is_no_toml_is_refused_with_its_lines() {
    let found = problems("listen = \nrack = 'r1'\nzone = = 2\n");
    assert!(
        found.len() >= 2 && found[0].starts_with("line 1: ") && found[1].starts_with("line 3: "),
        "{found:?}"
    );
}

#[test]
fn shares_are_numbers_or_texts_with_a_class() {
    let file = parsed("[shares]\nsearch = 3\nmicro = 0.5\nnightly = '1:batch'\n").file;
    let shares: Vec<_> = file.shares.values().map(|share| share.0).collect();
    assert_eq!(shares, [0.5.into(), ServiceShare::batch(1.0), 3.0.into()]);
    for wrong in ["search = 0", "search = 'much'", "search = '1:slow'"] {
        let refused = problems(&format!("[shares]\n{wrong}\n"));
        assert!(refused[0].contains("allowed: 0.001 to 1000"), "{refused:?}");
    }
}

#[test]
fn an_unknown_key_is_refused_by_name_and_line() {
    let refused = problems("rack = 'r1'\nlisten_addr = 'x'\n");
    assert_eq!(refused, ["line 2: unknown key `listen_addr`; `treefold config schema` lists the keys"]);
    let refused = problems("[limits]\npayload_bytes = 1\n");
    assert!(refused[0].starts_with("line 2: unknown key `limits.payload_bytes`"), "{refused:?}");
}

#[test]
fn settings_that_exclude_each_other_are_refused() {
    for (text, line) in [
        ("relay = true\nserve = ['micro:partitions=0/1']\n", "line 2: a relay holds no partitions"),
        (
            "zone = 'a'\nattach = '10.0.0.1:7700'\n",
            "line 2: a process of a topology has an address and a name",
        ),
        ("token = 'a'\nkeys = 'b'\n", "line 1: a node is recognised by one of"),
    ] {
        let refused = problems(text);
        assert!(refused.len() == 1 && refused[0].starts_with(line), "{refused:?}");
    }
}

#[test]
fn shown_settings_are_a_file_with_the_same_settings() {
    let text = "rack = \"a 'rack'\"\nserve = ['micro:partitions=0/1', 'echo:partitions=0/1']\ntoken = 'secret'\n\
                [shares]\nsearch = '2:batch'\n'a b' = 3\n[gateway]\nlisten = '127.0.0.1:0'\ncors = ['https://a.example']\n\
                [gateway.limits]\nhead_within = '1500ms'\nrequests_per_s = 7\n[limits]\npayload_bytes_max = '1MiB'\n\
                [tuning]\nhop_margin = 1500\n";
    let settled = parsed(text);
    let shown = show::shown(&settled);
    assert!(!shown.contains("secret"), "{shown}");
    let mut again = parsed(&shown).file;
    assert_eq!(again.limits.as_ref(), settled.file.limits.as_ref());
    assert_eq!(again.tuning.as_ref(), settled.file.tuning.as_ref());
    let expected = NodeFile { token: None, ..settled.file.clone() };
    // The shown file has the defaults too.
    for (shown, given) in [(&mut again.listen, &expected.listen), (&mut again.cluster, &expected.cluster)] {
        shown.clone_from(given);
    }
    (again.grace, again.patience) = (expected.grace, expected.patience);
    again.log.clone_from(&expected.log);
    assert_eq!(again, expected);
}

#[test]
fn defaults_are_shown_as_a_file() {
    let shown = show::shown(&Settled::default());
    let file = parsed(&shown).file;
    assert_eq!(file.limits, Some(Limits::DEFAULT));
    assert_eq!(file.tuning, Some(Tuning::LAN));
    assert_eq!(file.grace, Some(Duration::from_secs(5)));
}

#[test]
fn changes_are_named_by_key_and_not_by_spelling() {
    let before = parsed("rack = 'a'\n[limits]\npayload_bytes_max = 1048576\n[shares]\nsearch = 1\n");
    let after =
        parsed("rack = \"a\"\nzone = 'b'\n[limits]\npayload_bytes_max = '1MiB'\n[shares]\nsearch = 2\n");
    assert_eq!(before.changed(&after), ["shares.search", "zone"]);
}

#[test]
fn a_token_that_others_can_read_is_warned_about() {
    use std::os::unix::fs::PermissionsExt;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(file, "token = 'secret'").unwrap();
    let warnings = |mode: u32| {
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
        Settled::read(file.path()).map_err(|failure| failure.to_string()).unwrap().warnings(file.path())
    };
    assert_eq!(warnings(0o600), Vec::<String>::new());
    assert!(warnings(0o644)[0].ends_with(&format!("chmod 600 {}", file.path().display())));
}
