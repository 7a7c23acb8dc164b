//! Experiments are listed by name.
//!
//! Unknown names and unwritable outputs are refused before any run.

use crate::real::{run, run_args};
use serde_json::json;

/// Returns the experiments' names.
fn names() -> Vec<String> {
    let listed = run("sim list -o json").json();
    let listed = listed.as_array().expect("an array").clone();
    listed.iter().map(|experiment| experiment["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn experiments_are_listed_as_text_and_json() {
    let listed = run("sim list -o json").json();
    for experiment in listed.as_array().expect("an array") {
        for field in ["name", "about", "paper"] {
            assert!(
                experiment[field].as_str().is_some_and(|text| !text.is_empty()),
                "{field} in {experiment}"
            );
        }
        assert!(experiment["charts"].is_array());
    }
    let table = run("sim list");
    assert_eq!((table.code, table.stdout.lines().count()), (0, names().len() + 1), "{}", table.stdout);
    assert!(names().iter().all(|name| table.stdout.contains(name)), "{}", table.stdout);
}

#[test]
fn unknown_experiment_is_refused_with_the_known_names() {
    for line in ["sim run nonsense", "sim plot nonsense"] {
        let refused = run(line);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        let names = names().join(", ");
        assert_eq!(refused.stderr, format!("treefold: experiment is nonsense; allowed: {names}\n"));
    }
    let error = run("sim run nonsense -o json").json()["error"].clone();
    assert_eq!((&error["kind"], &error["field"]), (&"bad_field".into(), &"experiment".into()));
}

#[test]
fn help_examples_name_existing_experiments() {
    for command in ["run", "plot"] {
        let help = run(&format!("sim {command} --help")).stdout;
        let start = format!("  treefold sim {command} ");
        let examples: Vec<&str> = help.lines().filter_map(|line| line.strip_prefix(&start)).collect();
        assert!(!examples.is_empty(), "{help}");
        for example in examples {
            let first = example.split(' ').next().unwrap_or_default();
            assert!(first.starts_with("--") || names().contains(&first.to_owned()), "{first} in {example}");
        }
    }
}

#[test]
fn pictures_are_drawn_from_points_in_files() {
    let directory = tempfile::tempdir().unwrap();
    let in_directory = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let name = "calls-homogeneous";
    let points = |series: &str| {
        let at = |x: f64, view: &str| json!({"series": series, "x": x, "response_ms_mean": 2.0 * x, "throughput_per_s": x, "view": view});
        let of = |view: &str| [at(10.0, view), at(20.0, view)];
        json!([of("one front-end"), of("six front-ends")].concat()).to_string()
    };
    std::fs::write(in_directory(&format!("{name}.json")), points("adaptive")).unwrap();
    std::fs::write(in_directory(&format!("{name}.real.json")), points("adaptive")).unwrap();
    let out = in_directory("pictures");
    let drawn =
        run_args(&["sim", "plot", name, "--from", &in_directory(""), "--out", &out, "-o", "json"]).json();
    let files = drawn["written"].as_array().expect("an array");
    assert!(!files.is_empty());
    for file in files {
        let picture = std::fs::read_to_string(file.as_str().unwrap()).unwrap();
        assert!(picture.starts_with("<svg ") && picture.contains("real adaptive"), "{picture}");
    }
}

#[test]
fn invalid_flags_are_refused() {
    for line in
        ["sim plot --from . --quick", "sim run", "sim run nonsense --repeat 0", "sim evaluate --threads 0"]
    {
        assert_eq!(run(line).code, 2, "{line}");
    }
    for (line, refusal) in [
        ("sim run scale --repeat 0", "repeat is 0; allowed: 1 to 1000"),
        ("sim run scale --seed x", "seed is x; allowed: a whole number"),
        ("sim run scale --threads 0", "threads is 0; allowed: 1 to 1024"),
        ("sim explore --seconds 0", "seconds is 0; allowed: 1 to 604800"),
        ("sim explore --scenario x", "scenario is x; allowed: a whole number"),
    ] {
        let refused = run(line);
        assert_eq!((refused.code, refused.stderr), (2, format!("treefold: {refusal}\n")), "{line}");
    }
    let refused = run("tree --nodes 4 -o csv");
    assert_eq!(refused.code, 2);
    assert_eq!(refused.stderr, "treefold: output is csv; allowed: text, json; csv with `treefold sim run`\n");
}

#[test]
fn unwritable_output_is_refused_before_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "by hand").unwrap();
    let below_a_file = file.join("points.csv");
    // The whole experiment takes minutes.
    for line in [
        ["sim", "run", "replica-policies", "--repeat", "1000", "--out"],
        ["sim", "plot", "replica-policies", "--repeat", "1000", "--out"],
    ] {
        let refused = run_args(&[line.as_slice(), &[below_a_file.to_str().unwrap()]].concat());
        assert_eq!(refused.code, 1, "{}", refused.stderr);
        assert!(refused.stderr.starts_with("treefold: can't write "), "{}", refused.stderr);
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "by hand");
}

#[test]
fn invalid_scenario_is_refused_by_file_and_field() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let kept = std::fs::read_to_string("../sim/testdata/two_alone.json").unwrap();
    let mut scenario: serde_json::Value = serde_json::from_str(&kept).unwrap();
    scenario["nodes"] = json!(u32::MAX);
    std::fs::write(file.path(), scenario.to_string()).unwrap();
    let refused = run_args(&["sim", "explore", "--from", file.path().to_str().unwrap()]);
    let name = file.path().display();
    assert_eq!(refused.stderr, format!("treefold: {name}: nodes is 4294967295; allowed: 1 to 10000\n"));
    assert_eq!(refused.code, 1);
}

#[test]
fn page_without_markers_is_unchanged_and_nothing_runs() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page.md");
    let out = directory.path().join("figures");
    let (page_name, out_name) = (page.to_str().unwrap(), out.to_str().unwrap());
    let evaluate =
        |out: &str| run_args(&["sim", "evaluate", "--quick", "--document", page_name, "--out", out]);
    assert_eq!(evaluate(out_name).code, 1, "there is no page");
    std::fs::write(&page, "by hand\n").unwrap();
    let refused = evaluate(out_name);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("<!-- sim:begin --> is missing"), "{}", refused.stderr);
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "by hand\n");
    assert!(!out.exists(), "nothing was written");
    let elsewhere = evaluate("/elsewhere");
    assert_eq!(elsewhere.code, 2, "links from the page would be invalid: {}", elsewhere.stderr);
}

#[test]
fn invalid_overlay_is_refused_by_file_and_field() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), r#"[{"series": "adaptive"}]"#).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().to_str().unwrap();
    let refused = run_args(&["sim", "plot", "--from", from, "--overlay", file.path().to_str().unwrap()]);
    assert_eq!(refused.code, 1);
    let name = file.path().display();
    assert_eq!(refused.stderr, format!("treefold: {name}: point 0: x is null; allowed: a number\n"));
}
