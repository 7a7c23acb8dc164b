//! Tests of the checks, on files as users write them.

use super::*;

fn problems(text: &str) -> Vec<String> {
    match RuleFile::read(text) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.into_iter().map(|problem| problem.message).collect(),
    }
}

fn only(text: &str) -> Problem {
    let mut problems = RuleFile::read(text).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems.pop().unwrap()
}

const WHOLE: &str = r#"
[types.position]
lat = "number"
[types.status]
status = "text"
gate = "integer"
[[rule]]
name = "no-pings"
discard = { type = "status", field = "status", one_of = ["ping", "pong"] }
[[rule]]
name = "positions"
active = "normal"
overwrite = { type = "position", run = 10 }
[[rule]]
name = "positions-loaded"
active = "loaded"
overwrite = { type = "position", run = 20, max_age_ms = 5000 }
[[rule]]
name = "landed"
sequence = { after = { type = "status", field = "status", equals = "landed" }, discard = "position", until = { type = "status", field = "status", equals = "boarding" } }
[[rule]]
name = "arrived"
tuple = { of = [{ type = "status", field = "status", equals = "landed" }, { type = "status", field = "gate", at_least = 1 }], within_ms = 60000, becomes = "arrived", fields = { status = "arrived" } }
[[rule]]
name = "bursts"
coalesce = { events = 10 }
[checkpoint]
every_events_loaded = 100
[adapt]
pending_requests = { primary = 100, secondary = 40 }
[state]
deletes = ["arrived"]
retention_ms = 86400000
"#;

#[test]
fn whole_file_is_read() {
    let file = RuleFile::read(WHOLE).unwrap();
    assert_eq!(file.rules.len(), 6);
    assert_eq!((file.checkpoint.every_events, file.checkpoint.every_events_loaded), (50, Some(100)));
    let RuleKind::Overwrite(positions) = &file.rules[1].kind else { panic!() };
    assert_eq!((positions.run, positions.max_age_ms), (10, 1000));
    assert_eq!(&WHOLE[file.rules[4].span.clone()], "\"arrived\"");
}

#[test]
fn values_out_of_range_are_refused() {
    let overwrite = |run| format!("[[rule]]\nname='a'\noverwrite={{type='t',run={run}}}");
    assert_eq!(problems(&overwrite(1)), ["rule `a`: run is 1; allowed: 2 to 1000000"]);
    assert!(problems(&overwrite(2)).is_empty());
    assert_eq!(
        problems("[[rule]]\nname='a'\ntuple={of=[{type='t'}],within_ms=1,becomes='d'}"),
        ["rule `a`: parts in `of` is 1; allowed: 2 to 8"]
    );
    assert_eq!(problems("[checkpoint]\nevery_events=0").len(), 1);
    assert_eq!(problems("[adapt]\nready_queue={primary=5,secondary=6}").len(), 1);
}

#[test]
fn rule_has_exactly_one_kind() {
    assert!(problems("[[rule]]\nname='a'")[0].contains("has none of discard, sequence"));
    let two = "[[rule]]\nname='a'\ndiscard={type='t'}\ncoalesce={events=2}";
    assert!(problems(two)[0].contains("has several of"));
    assert!(problems("[[rule]]\nname='a'\ndrop={type='t'}")[0].contains("unknown field `drop`"));
    assert!(problems("[[rule]]\ndiscard={type='t'}")[0].contains("missing field `name`"));
}

#[test]
fn unknown_types_and_fields_are_found_if_types_are_declared() {
    let file = |rule: &str| format!("[types.t]\nn='integer'\ns='text'\n[[rule]]\nname='a'\n{rule}");
    assert!(problems(&file("discard={type='u'}"))[0].ends_with("type `u` is not declared in [types]"));
    assert!(
        problems(&file("discard={type='t',field='x',equals=1}"))[0].ends_with("has no field `x` in [types]")
    );
    let wrong = problems(&file("discard={type='t',field='s',below=1}"));
    assert!(wrong[0].contains("field `s` of type `t` is text"), "{wrong:?}");
    assert!(problems(&file("discard={type='t',field='n',below=1.5}")).is_empty());
}

#[test]
fn rules_that_never_apply_are_found_with_the_reason() {
    let text = "[[rule]]\nname='drop'\ndiscard={type='t'}\n[[rule]]\nname='run'\noverwrite={type='t',run=2}";
    let found = only(text);
    assert_eq!(found.message, "rule `run`: it never applies: `drop` discards all of its `t` events");
    assert_eq!(&text[found.span], "'run'");
    assert_eq!(&text[found.beside.unwrap().0], "'drop'");
    let partly = "[[rule]]\nname='drop'\ndiscard={type='t',field='a',equals=1}\n[[rule]]\nname='run'\noverwrite={type='t',run=2}";
    assert!(problems(partly).is_empty());
    let loaded = "[[rule]]\nname='run'\nactive='loaded'\noverwrite={type='t',run=2}";
    assert!(only(loaded).message.contains("[adapt] has no threshold"));
}

#[test]
fn contradicting_rules_are_found() {
    let two = |active: &str| {
        format!(
            "[adapt]\nready_queue={{primary=9,secondary=1}}\n[[rule]]\nname='a'\nactive='normal'\noverwrite={{type='t',run=2}}\n\
             [[rule]]\nname='b'\nactive='{active}'\noverwrite={{type='t',run=3}}"
        )
    };
    assert!(only(&two("always")).message.ends_with("overwritten by two rules at the same time"));
    assert!(problems(&two("loaded")).is_empty());
    let twice = "[[rule]]\nname='a'\ndiscard={type='t'}\n[[rule]]\nname='a'\ndiscard={type='u'}";
    assert!(only(twice).message.ends_with("the name is used twice"));
}

#[test]
fn tuples_that_form_each_other_are_found() {
    let tuple = |name: &str, of: &str, becomes: &str| {
        format!(
            "[[rule]]\nname='{name}'\ntuple={{of=[{{type='{of}'}},{{type='x{name}'}}],within_ms=1,becomes='{becomes}'}}\n"
        )
    };
    let chain = tuple("a", "t", "u") + &tuple("b", "u", "v");
    assert!(problems(&chain).is_empty());
    let cycle = chain + &tuple("c", "v", "t");
    assert!(only(&cycle).message.contains("form each other without end"));
    assert!(only(&tuple("a", "t", "t")).message.contains("form each other without end"));
}
