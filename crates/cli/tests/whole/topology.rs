//! Topology files with the real program: every example of the documentation, every kind of mistake, and files
//! of ten thousand processes.

use crate::real::{Ended, run, run_args, run_with_input, treefold};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

const PAGE: &str = include_str!("../../../../docs/topology.md");

/// A fenced block of the page: the words after the fence, and the content.
struct Block {
    kind: &'static str,
    file: &'static str,
    text: String,
}

fn blocks() -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    for line in PAGE.lines() {
        match line.strip_prefix("```") {
            Some(_) if is_open => is_open = false,
            Some(heading) => {
                let (kind, file) = heading.split_once(' ').unwrap_or((heading, ""));
                blocks.push(Block { kind, file, text: String::new() });
                is_open = true;
            }
            None if is_open => {
                let block = blocks.last_mut().expect("an open block");
                writeln!(block.text, "{line}").expect("writing to a String can't fail");
            }
            None => {}
        }
    }
    assert!(!is_open, "the page closes its blocks");
    blocks
}

/// Writes every block that is a file into a directory.
fn write_files(directory: &Path) {
    for block in blocks().iter().filter(|block| !block.file.is_empty()) {
        std::fs::write(directory.join(block.file), &block.text).expect("a file");
    }
}

/// Runs a line in a shell, with the program under test as `treefold`.
///
/// Returns its standard output followed by its standard error.
fn run_in_shell(directory: &Path, line: &str) -> String {
    let program = treefold();
    let program = Path::new(program.get_program()).parent().expect("a directory");
    let path = std::env::join_paths(
        [program.to_owned()]
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").expect("a PATH"))),
    );
    let ended = Command::new("sh")
        .args(["-c", line])
        .env("PATH", path.expect("a PATH"))
        .env("NO_COLOR", "1")
        .env_remove("TREEFOLD_LOG")
        .current_dir(directory)
        .output()
        .expect("a shell");
    let said = |bytes| String::from_utf8(bytes).expect("UTF-8");
    said(ended.stdout) + &said(ended.stderr)
}

#[test]
fn page_commands_print_the_quoted_output() {
    let directory = tempfile::tempdir().unwrap();
    write_files(directory.path());
    let mut commands = 0;
    for block in blocks().iter().filter(|block| block.kind == "console") {
        for part in format!("\n{}", block.text).split("\n$ ").skip(1) {
            let (command, expected) = part.split_once('\n').unwrap_or((part, ""));
            assert_eq!(run_in_shell(directory.path(), command).trim_end(), expected.trim_end(), "{command}");
            commands += 1;
        }
    }
    assert!(commands >= 12, "only {commands} commands were found");
}

#[test]
fn page_files_are_valid_unless_marked_broken() {
    let directory = tempfile::tempdir().unwrap();
    write_files(directory.path());
    let mut sound = 0;
    for block in blocks() {
        let path = directory.path().join(block.file);
        let check = || run_args(&["topology", "check", path.to_str().unwrap()]).code;
        match block.kind {
            "topology" => {
                assert_eq!(check(), 0, "{}", block.file);
                sound += 1;
            }
            "topology-broken" => assert_eq!(check(), 1, "{}", block.file),
            _ => {}
        }
    }
    assert!(sound >= 2, "only {sound} files were found");
}

#[test]
fn equivalent_page_files_draw_the_same_tree() {
    let directory = tempfile::tempdir().unwrap();
    write_files(directory.path());
    let draw =
        |file: &str| run_in_shell(directory.path(), &format!("treefold topology draw --expand {file}"));
    assert_eq!(draw("mrnet.top"), draw("tree.top"));
}

#[test]
fn mistakes_on_the_page_are_reported_by_kind() {
    let rows = PAGE.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [kind, _, example] = cells[..] else { return None };
        let bare = |cell: &'static str| cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`'));
        Some((bare(kind)?, bare(example)?))
    });
    let rows: Vec<(&str, &str)> = rows.collect();
    assert!(rows.len() >= 18, "{rows:?}");
    for (kind, example) in rows {
        let ended = check(example);
        assert_eq!(ended.code, 1, "{example}");
        let told = ended.json();
        let problems = told["problems"].as_array().expect("an array");
        assert!(problems.iter().any(|problem| problem["kind"] == kind), "{kind} in {example}: {told}");
        assert!(problems.iter().all(|problem| problem["line"].as_u64() >= Some(1)), "{told}");
    }
}

/// Checks a file with JSON output.
fn check(text: &str) -> Ended {
    run_with_input(&["topology", "check", "-", "-o", "json"], text)
}

#[test]
fn generated_topologies_are_valid_with_requested_counts() {
    for (layout, back_ends, depth) in [
        ("flat --back-ends 12", 12, 1),
        ("kary 3 --hosts n[1-27]", 27, 3),
        ("binomial --hosts a,b,c,d --slots 2", 8, 4),
        ("binomial --attach 4 --back-ends 16", 16, 3),
        ("balanced 2x3x4 --hosts n[01-24] --inner-hosts i[1-3] --front-end fe", 24, 3),
    ] {
        for plain in ["", " --plain"] {
            let made = run(&format!("topology {layout}{plain}"));
            assert_eq!(made.code, 0, "{layout}: {}", made.stderr);
            let checked = check(&made.stdout).json();
            assert_eq!(checked["counts"]["back_ends"], back_ends, "{layout}");
            assert_eq!(checked["counts"]["depth"], depth, "{layout}");
            assert!(plain.is_empty() || !made.stdout.contains('['), "{}", made.stdout);
        }
        let made = run(&format!("topology {layout} -o json")).json();
        let tree = made["tree"].as_array().expect("an array");
        assert_eq!(made["processes"].as_u64(), Some(tree.len() as u64));
        assert_eq!(tree.iter().filter(|process| process["role"] == "back-end").count(), back_ends);
    }
}

#[test]
fn impossible_layouts_are_refused_without_output() {
    for (line, words) in [
        ("topology kary 1 --back-ends 4", "is 1; allowed: 2 to"),
        ("topology kary 4", "the number of back-ends is missing; give their hosts with --hosts"),
        ("topology balanced 4x0", "shape is 4x0; allowed: children level by level"),
        ("topology balanced 4 --back-ends 5", "balanced:4 has 4 back-ends, but 5 were asked for"),
        ("topology flat --hosts n[3-1]", "hosts is n[3-1]; allowed: hosts and ranges of hosts"),
        ("topology flat --hosts a,b --back-ends 3", "3 back-ends do not fit on hosts with 2 slots"),
        ("topology flat --back-ends 20000", "20001 processes; allowed: 16384"),
        ("topology flat --back-ends 5000", "a process with 5000 children; allowed: 4095"),
        (
            "topology flat --back-ends 2 --front-end=-x",
            "front_end is -x; allowed: a host's name (it begins with `-`",
        ),
        ("topology from-ssh-config x --layout ring", "layout is ring; allowed: flat, kary:K"),
    ] {
        let refused = run(line);
        assert_eq!(refused.code, 2, "{line}: {}", refused.stderr);
        assert_eq!(refused.stdout, "", "{line}");
        assert!(refused.stderr.contains(words), "{line}: {}", refused.stderr);
    }
    let refused = run("topology flat --hosts n[3-1] -o json").json();
    assert_eq!(
        (&refused["error"]["kind"], &refused["error"]["field"]),
        (&"bad_field".into(), &"hosts".into())
    );
}

#[test]
fn unreadable_files_are_refused_by_name() {
    for command in ["check", "draw", "stats"] {
        let refused = run(&format!("topology {command} nowhere.top"));
        assert_eq!(refused.code, 1);
        assert!(refused.stderr.starts_with("treefold: can't read nowhere.top: "), "{}", refused.stderr);
    }
    let endless = run("topology check /dev/zero");
    assert_eq!(endless.code, 1);
    assert!(endless.stderr.contains("more than 16777216 bytes"), "{}", endless.stderr);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"a:0 =>\n\xff ;").unwrap();
    let refused = run(&format!("topology stats {}", file.path().display()));
    assert!(refused.stderr.ends_with("line 2 is not UTF-8 text\n"), "{}", refused.stderr);
    std::fs::write(file.path(), "a\nb c\n-x\n").unwrap();
    let refused = run(&format!("topology flat --hosts @{}", file.path().display()));
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("line 3, column 1: `-x` is not a host name"), "{}", refused.stderr);
}

#[test]
fn a_broken_file_is_neither_drawn_nor_counted() {
    for command in ["draw", "stats"] {
        let refused = run_with_input(&["topology", command, "-"], "a:0 => b ;\nc:0 => d ;\n");
        assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
        assert_eq!(
            refused.stderr,
            "treefold: standard input, line 1, column 8: b lacks the number of the process on that host, as in \
             b:0; `treefold topology check` shows it, and one more problem\n"
        );
    }
    let told = run_with_input(&["topology", "draw", "-", "-o", "json"], "a").json();
    assert_eq!(told["error"]["kind"], "failed");
}

#[test]
fn lines_are_as_wide_as_asked() {
    let chain: String = (1..60).map(|at| format!("host:{} => host:{at} ;\n", at - 1)).collect();
    let drawn = run_with_input(&["topology", "draw", "-", "--width", "30"], &chain);
    assert_eq!(drawn.stdout.lines().count(), 60);
    assert!(drawn.stdout.lines().all(|line| line.chars().count() <= 30), "{}", drawn.stdout);
}

#[test]
fn ten_thousand_processes_are_made_checked_counted_and_drawn() {
    let made = run("topology balanced 10x30x33 --hosts node[0001-9900]");
    assert_eq!(made.code, 0, "{}", made.stderr);
    let checked = check(&made.stdout).json();
    assert_eq!(checked["counts"]["processes"], 1 + 10 + 300 + 9_900);
    let drawn = run_with_input(&["topology", "draw", "-", "-o", "json"], &made.stdout).json();
    assert_eq!(drawn["drawing"].as_str().unwrap().lines().count(), 1 + 10 + 300 + 300);
    for kind in ["dot", "svg"] {
        let args = ["topology", "draw", "-", "--expand", "--rows", "20000", "--as", kind];
        let drawn = run_with_input(&args, &made.stdout);
        assert!(drawn.code == 0 && drawn.stdout.contains("node9900:0"), "{kind}");
    }
    let counted = run_with_input(&["topology", "stats", "-"], &made.stdout);
    assert!(counted.stdout.ends_with("… and 9877 more hosts\n"), "{}", counted.stdout);
}

#[test]
fn ssh_configuration_is_read_with_its_includes() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(".ssh").join(name);
    std::fs::create_dir_all(at("conf.d/directory")).unwrap();
    std::fs::write(at("config"), "Include conf.d/*\nHost late\n  Include lost\n").unwrap();
    std::fs::write(at("conf.d/a"), "Host n1\nHost n2\n").unwrap();
    std::fs::write(at("conf.d/b"), "Host gateway n3\n").unwrap();
    let run = |args: &[&str]| {
        let mut command = treefold();
        command.args(["topology", "from-ssh-config", "--layout", "flat"]).args(args).env("HOME", home.path());
        command.output().unwrap()
    };
    let all = run(&[]);
    let text = String::from_utf8(all.stdout).unwrap();
    assert!(text.ends_with("\nlocalhost:0 => n[1-2]:0 gateway:0 n3:0 late:0 ;\n"), "{text}");
    let remarks = String::from_utf8(all.stderr).unwrap();
    assert!(remarks.contains("config:3: this Include holds for `Host late` only"), "{remarks}");

    let some = run(&["--only", "n*", "--except", "?2"]);
    assert!(String::from_utf8(some.stdout).unwrap().ends_with("\nlocalhost:0 => n1:0 n3:0 ;\n"));
    let none = run(&["--only", "x*"]);
    assert_eq!(none.status.code(), Some(1));
    let said = String::from_utf8(none.stderr).unwrap();
    assert!(
        said.ends_with("config names 5 hosts, but --only and --except leave none; change the patterns\n"),
        "{said}"
    );
}
