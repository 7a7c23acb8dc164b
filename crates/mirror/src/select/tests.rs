//! Tests of the selector: what each rule sends of a script of events.

use super::*;
use proptest::prelude::*;

const LIMITS: MirrorLimits = MirrorLimits::DEFAULT;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn selector(rules: &str) -> Selector {
    Selector::new(Arc::new(RuleFile::read(rules).unwrap()), Functions::new(), &LIMITS, 1).unwrap()
}

/// An event `key type number [field=value]` of stream `s`.
fn event(text: &str) -> Event {
    let words: Vec<&str> = text.split(' ').collect();
    let fields = words.get(3).map_or_else(String::new, |pair| {
        let (name, value) = pair.split_once('=').unwrap();
        format!(r#","fields":{{"{name}":{value}}}"#)
    });
    let (key, kind, number) = (words[0], words[1], words[2]);
    let json = format!(r#"{{"stream":"s","number":{number},"key":"{key}","type":"{kind}"{fields}}}"#);
    Event::from_json(&json, None, &LIMITS).unwrap()
}

fn shown(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| format!("{} {} {}", event.key, event.kind, event.number)).collect()
}

/// Offers events one ms apart, and returns the events that are sent.
fn sent(selector: &mut Selector, events: &[&str]) -> Vec<String> {
    let mut out = Vec::new();
    for (index, text) in events.iter().enumerate() {
        selector.offer(at(index as u64), event(text), &mut out);
    }
    shown(&out)
}

#[test]
fn discard_drops_by_type_and_by_content() {
    let mut selector = selector(
        "[[rule]]\nname='a'\ndiscard={type='ping'}\n[[rule]]\nname='b'\ndiscard={type='pos',field='alt',below=100}",
    );
    let given = ["k ping 1", "k pos 2 alt=99", "k pos 3 alt=100", "k pos 4", "k other 5"];
    assert_eq!(sent(&mut selector, &given), ["k pos 3", "k pos 4", "k other 5"]);
    assert_eq!(selector.counts()[1].suppressed, 1);
}

#[test]
fn overwrite_sends_the_first_of_each_run() {
    let mut selector = selector("[[rule]]\nname='a'\noverwrite={type='pos',run=3}");
    let given = ["k pos 1", "k pos 2", "j pos 3", "k pos 4", "k pos 5", "j pos 6"];
    assert_eq!(sent(&mut selector, &given), ["k pos 1", "j pos 3", "k pos 5"]);
    assert_eq!(selector.undecided_from("s"), Some(6), "2 and 4 are taken up by 5");
    let mut out = Vec::new();
    assert_eq!(selector.wake_at(), Some(at(1005)));
    selector.release_due(at(1004), &mut out);
    assert!(out.is_empty());
    selector.release_due(at(1005), &mut out);
    assert_eq!(shown(&out), ["j pos 6"]);
    assert_eq!(
        selector.counts()[0],
        RuleCount { suppressed: 2, released: 1, behind_ms_max: 1000, ..RuleCount::default() }
    );
    assert_eq!((selector.undecided_from("s"), selector.wake_at()), (None, None));
}

#[test]
fn event_whose_fields_a_held_one_carries_stays_undecided() {
    let mut selector = selector("[[rule]]\nname='a'\noverwrite={type='pos',run=9}");
    let given = ["k pos 1 lat=1", "k pos 2 alt=2", "k pos 3 lat=3", "k pos 4 lat=4"];
    assert_eq!(sent(&mut selector, &given), ["k pos 1"]);
    assert_eq!(selector.undecided_from("s"), Some(2), "only 2 has set alt, so its source must not forget it");
    let mut out = Vec::new();
    selector.offer(at(5), event("k gate 5"), &mut out);
    assert_eq!(shown(&out), ["k pos 4", "k gate 5"]);
    assert_eq!(selector.undecided_from("s"), None);
    // An event that sets all fields of the held one needs none of the others.
    assert!(sent(&mut selector, &["k pos 6 alt=6", "k pos 7 alt=7"]).is_empty());
    assert_eq!(selector.undecided_from("s"), Some(7));
}

#[test]
fn held_events_of_a_key_go_before_its_next_event() {
    let mut selector = selector(
        "[[rule]]\nname='a'\noverwrite={type='pos',run=9}\n[[rule]]\nname='b'\noverwrite={type='fuel',run=9}",
    );
    let given = ["k fuel 1", "k pos 2", "k fuel 3", "k pos 4", "k fuel 5", "j pos 6", "k gate 7"];
    let expected = ["k fuel 1", "k pos 2", "j pos 6", "k pos 4", "k fuel 5", "k gate 7"];
    assert_eq!(sent(&mut selector, &given), expected, "4 arrived before 5");
    assert_eq!(selector.wake_at(), None);
}

#[test]
fn overwrite_keeps_fields_of_overwritten_events() {
    let mut selector = selector("[[rule]]\nname='a'\noverwrite={type='pos',run=3}");
    let mut out = Vec::new();
    for text in ["k pos 1 a=1", "k pos 2 b=2", "k pos 3 a=3", "k pos 4 c=4"] {
        selector.offer(at(0), event(text), &mut out);
    }
    let mut json = Vec::new();
    crate::event::write_json(out.last().unwrap(), &mut json);
    let expected = r#"{"stream":"s","number":4,"key":"k","type":"pos","fields":{"b":2,"a":3,"c":4}}"#;
    assert_eq!(String::from_utf8(json).unwrap(), expected);
}

#[test]
fn older_fields_do_not_move_behind_younger_events() {
    let rules =
        "[[rule]]\nname='a'\noverwrite={type='t',run=9}\n[[rule]]\nname='b'\noverwrite={type='u',run=9}";
    let mut selector = selector(rules);
    let given = ["k t 1", "k u 2", "k t 3 x=3", "k u 4 x=4", "k t 5 y=5"];
    assert_eq!(sent(&mut selector, &given), ["k t 1", "k u 2", "k t 3", "k u 4"], "5 would carry x=3 past 4");
    assert_eq!(selector.undecided_from("s"), Some(5));
}

#[test]
fn sequence_drops_a_type_until_it_ends() {
    let mut selector = selector(
        "[[rule]]\nname='a'\nsequence={after={type='st',field='s',equals='landed'},discard='pos',until={type='st',field='s',equals='boards'}}",
    );
    let given = [
        "k pos 1",
        r#"k st 2 s="landed""#,
        "k pos 3",
        "j pos 4",
        r#"k st 5 s="at-gate""#,
        "k pos 6",
        r#"k st 7 s="boards""#,
        "k pos 8",
    ];
    let expected = ["k pos 1", "k st 2", "j pos 4", "k st 5", "k st 7", "k pos 8"];
    assert_eq!(sent(&mut selector, &given), expected);
    assert_eq!(selector.counts()[0].suppressed, 2);
}

const TUPLE: &str = "[[rule]]\nname='arrived'\ntuple={of=[{type='landed'},{type='runway'},{type='gate'}],within_ms=100,becomes='arrived',fields={status='arrived'}}";

#[test]
fn tuple_forms_one_event_of_its_parts_in_any_order() {
    let mut selector = selector(TUPLE);
    let given = ["k runway 1 a=1", "k landed 2 b=2", "j gate 3", "k runway 4 a=4", "k gate 5"];
    assert_eq!(sent(&mut selector, &given), ["k arrived 5"]);
    assert_eq!(selector.undecided_from("s"), Some(3));
    let count = selector.counts()[0];
    assert_eq!((count.suppressed, count.made), (4, 1));
}

#[test]
fn parts_of_a_tuple_are_sent_late_if_its_time_runs_out() {
    let mut selector = selector(TUPLE);
    assert!(sent(&mut selector, &["k runway 1", "k landed 2"]).is_empty());
    let mut out = Vec::new();
    selector.release_due(at(99), &mut out);
    assert!(out.is_empty());
    selector.release_due(at(100), &mut out);
    assert_eq!(shown(&out), ["k runway 1", "k landed 2"]);
    assert_eq!((selector.counts()[0].released, selector.undecided_from("s")), (2, None));
}

#[test]
fn formed_events_pass_the_rules_again() {
    let mut selector = selector(&format!("{TUPLE}\n[[rule]]\nname='none'\ndiscard={{type='arrived'}}"));
    assert!(sent(&mut selector, &["k runway 1", "k landed 2", "k gate 3"]).is_empty());
    assert_eq!(selector.counts()[1].suppressed, 1);
}

#[test]
fn rules_of_the_other_mode_wait() {
    let mut selector = selector(
        "[adapt]\nready_queue={primary=2,secondary=1}\n[[rule]]\nname='a'\nactive='loaded'\ndiscard={type='pos'}",
    );
    assert_eq!(sent(&mut selector, &["k pos 1"]), ["k pos 1"]);
    selector.set_mode(Mode::Loaded);
    assert!(sent(&mut selector, &["k pos 2"]).is_empty());
}

#[test]
fn functions_replace_events_and_their_errors_pass_them() {
    let rules = "[[rule]]\nname='a'\nfunction={name='split',type='pos'}";
    let split = |event: &Event, out: &mut Vec<Event>| match event.number {
        1 => Ok(()),
        2 => Err("odd".to_owned()),
        _ => {
            let half = Event { number: 99, kind: Name::new("half").unwrap(), ..event.clone() };
            out.extend([half.clone(), half]);
            Ok(())
        }
    };
    let file = Arc::new(RuleFile::read(rules).unwrap());
    let name = Name::new("split").unwrap();
    let refused = Selector::new(Arc::clone(&file), Functions::new(), &LIMITS, 1).err().unwrap();
    assert_eq!(refused.to_string(), "rule `a`: function `split` is unknown here");
    let functions = Functions::from([(name, Box::new(split) as Box<dyn Function>)]);
    let mut selector = Selector::new(file, functions, &LIMITS, 1).unwrap();
    assert_eq!(sent(&mut selector, &["k pos 1", "k pos 2", "k pos 3"]), ["k pos 2", "k half 3", "k half 3"]);
    assert_eq!(selector.counts()[0], RuleCount { suppressed: 1, made: 2, errors: 1, ..RuleCount::default() });
}

#[test]
fn keys_beyond_the_limit_pass() {
    let limits = MirrorLimits { status_keys_max: 1, ..LIMITS };
    let file = Arc::new(RuleFile::read("[[rule]]\nname='a'\noverwrite={type='pos',run=9}").unwrap());
    let mut selector = Selector::new(file, Functions::new(), &limits, 1).unwrap();
    let given = ["k pos 1", "k pos 2", "j pos 3", "j pos 4"];
    assert_eq!(sent(&mut selector, &given), ["k pos 1", "j pos 3", "j pos 4"]);
    assert_eq!(selector.untracked(), 2);
}

/// The last value of each field of each key.
fn last_values(events: &[Event]) -> BTreeMap<(String, String), String> {
    let mut last = BTreeMap::new();
    for event in events {
        for (name, raw) in event.fields.iter() {
            last.insert((event.key.to_string(), name.to_owned()), format!("{raw:?}"));
        }
    }
    last
}

proptest! {
    #[test]
    fn overwriting_keeps_last_values_and_order_within_a_key(
        script in prop::collection::vec((0..3_u8, 0..3_u8, 0..2_u8, 0..700_u64), 0..60),
        run in 2..6_u32,
    ) {
        let mut selector = selector(&format!(
            "[[rule]]\nname='a'\noverwrite={{type='t0',run={run},max_age_ms=900}}\n\
             [[rule]]\nname='b'\noverwrite={{type='t1',run=4,max_age_ms=300}}"
        ));
        let (mut now, mut given, mut out) = (0, Vec::new(), Vec::new());
        for (index, (key, kind, field, pause)) in script.into_iter().enumerate() {
            let number = index + 1;
            let one = event(&format!("k{key} t{kind} {number} f{field}={number}"));
            selector.release_due(at(now), &mut out);
            selector.offer(at(now), one.clone(), &mut out);
            given.push(one);
            // Every event is sent, held, or taken up by one with a greater number.
            let held = selector.undecided_from("s").unwrap_or(u64::MAX);
            let newest = out.iter().map(|event| event.number).max().unwrap_or(0);
            prop_assert!(newest == number as u64 || held <= number as u64);
            now += pause;
        }
        selector.release_due(at(now + 1_000), &mut out);
        prop_assert_eq!(last_values(&out), last_values(&given));
        prop_assert_eq!(selector.undecided_from("s"), None);
        for key in ["k0", "k1", "k2"] {
            let numbers: Vec<u64> = out.iter().filter(|one| &*one.key == key).map(|one| one.number).collect();
            prop_assert!(numbers.is_sorted(), "{key}: {numbers:?}");
        }
    }
}

#[test]
fn rule_that_holds_an_event_back_is_named() {
    let text = "[[rule]]\nname = 'pair'\n[rule.tuple]\nof = [{ type = 'a' }, { type = 'b' }]\nwithin_ms = 1000\nbecomes = 'd'\n\
                [[rule]]\nname = 'run'\noverwrite = { type = 'c', run = 5 }";
    let rules = Arc::new(RuleFile::read(text).unwrap());
    let mut selector = Selector::new(rules, Functions::new(), &MirrorLimits::DEFAULT, 1).unwrap();
    let mut out = Vec::new();
    for (number, kind) in [(1, "a"), (2, "c"), (3, "c"), (4, "e")] {
        let line = format!(r#"{{"stream":"s","number":{number},"key":"k{kind}","type":"{kind}"}}"#);
        let event = Event::from_json(&line, None, &MirrorLimits::DEFAULT).unwrap();
        selector.offer(Instant::START, event, &mut out);
    }
    let held = [1, 2, 3, 4].map(|number| selector.held_by("s", number));
    assert_eq!(held, [Some("pair"), None, Some("run"), None]);
    assert_eq!(selector.held_by("other", 1), None);
}
