//! Tests that every tree gives the same classes, also beyond the limit of classes.

use super::*;
use crate::codec::Body;
use crate::fold::laws;
use proptest::prelude::*;

fn samples() -> impl Strategy<Value = Vec<Bytes>> {
    proptest::collection::vec("[ab]{0,2}".prop_map(|text| Row::new().str(&text).packet().into_bytes()), 1..24)
}

fn params() -> impl Strategy<Value = Classify> {
    (any::<bool>(), 1u32..9).prop_map(|(checksum, classes_max)| {
        let by = if checksum { By::Checksum } else { By::Value };
        Classify { by, classes_max, ..Classify::default() }
    })
}

proptest! {
    #[test]
    fn every_endpoint_is_in_one_class_or_among_the_others(
        samples in samples(),
        params in params(),
        tree in laws::tree(),
    ) {
        let came = laws::climbed("classes", &params, &samples, &tree);
        let classes = Classes::of(&Packet::read(&came[0]).unwrap()).unwrap();
        prop_assert!(classes.iter().len() <= params.classes_max as usize);
        let mut seen = classes.others().clone();
        for Class { key, members, representative } in classes.iter() {
            prop_assert!(!seen.intersects(members));
            seen.union_with(members);
            for member in members.iter() {
                let sent = &samples[member as usize];
                match params.by {
                    By::Value => prop_assert_eq!(key, sent),
                    By::Checksum => prop_assert_eq!(&key[..], &Sha256::digest(sent)[..]),
                }
            }
            prop_assert!(members.contains(representative));
        }
        prop_assert_eq!(seen, PartitionSet::first(samples.len() as u32));
    }

    #[test]
    fn corrupt_child_packets_are_read_or_refused(
        samples in samples(),
        at in any::<proptest::sample::Index>(),
        octet in any::<u8>(),
    ) {
        let pieces: Vec<_> = (0..).map(Source::Endpoint).zip(samples).collect();
        let mut sent = laws::up("classes", &Classify::default(), &pieces).unwrap()[0].to_vec();
        let at = at.index(sent.len());
        sent[at] = octet;
        if let Ok(came) = laws::up("classes", &Classify::default(), &[(Source::Child(0), sent.clone().into())]) {
            prop_assert_eq!(&came[0], &Bytes::from(sent), "a packet that is accepted must have one encoding");
        }
    }
}

#[test]
fn a_class_names_its_value_its_representative_and_its_members() {
    let sent = |text: &str| Row::new().str(text).packet().into_bytes();
    let pieces = [
        (Source::Endpoint(4), sent("linux")),
        (Source::Endpoint(7), sent("bsd")),
        (Source::Endpoint(5), sent("linux")),
    ];
    let came = laws::up("classes", &Classify::default(), &pieces).unwrap();
    let classes = Classes::of(&Packet::read(&came[0]).unwrap()).unwrap();
    let told: Vec<_> = classes
        .iter()
        .map(|class| (class.key.clone(), class.representative, class.members.to_string()))
        .collect();
    assert_eq!(told, [(sent("bsd"), 7, "7".into()), (sent("linux"), 4, "4-5".into())]);
    assert!(classes.others().is_empty());
}

#[test]
fn members_of_unlisted_classes_are_among_the_others() {
    let pieces: Vec<_> = (0..6)
        .map(|id| (Source::Endpoint(id), Row::new().u64(u64::from(id / 2)).packet().into_bytes()))
        .collect();
    let params = Classify { classes_max: 2, ..Classify::default() };
    let classes =
        Classes::of(&Packet::read(&laws::up("classes", &params, &pieces).unwrap()[0]).unwrap()).unwrap();
    assert_eq!(classes.iter().len(), 2);
    assert_eq!(classes.others().to_string(), "4-5");
}

#[test]
fn limits_are_named() {
    let pieces = [(Source::Endpoint(0), Bytes::from(vec![1; 40]))];
    let params = Classify { key_bytes_max: 32, ..Classify::default() };
    let refused = laws::up("classes", &params, &pieces).unwrap_err().to_string();
    assert_eq!(refused, "classes: 40 bytes are above the limit `key_bytes_max` of 32");
    assert!(laws::up("classes", &Classify { by: By::Checksum, ..params }, &pieces).is_ok());

    let open = |params: &dyn Fn() -> Bytes| crate::filter::builtin("classes").unwrap().open(&params()).err();
    let refused =
        open(&|| Classify { classes_max: 0, ..Classify::default() }.encode().unwrap()).unwrap().to_string();
    assert_eq!(refused, "classes: parameter `classes_max`: 0 is not within 1 to 65536");
    let refused = open(&|| BTreeMap::from([("by".to_string(), "name".to_string())]).encode().unwrap())
        .unwrap()
        .to_string();
    assert_eq!(refused, "classes: parameter `by`: unknown variant `name`, expected `value` or `checksum`");
}

#[test]
fn a_child_that_contradicts_itself_is_refused() {
    let members = members::written(&PartitionSet::first(3));
    let child = |representative, size| {
        let row =
            Row::new().blobs(&[b"key"]).u64s(&[representative]).u64s(&[size]).blobs(&[&members]).blob(b"");
        laws::up("classes", &Classify::default(), &[(Source::Child(1), row.packet().into_bytes())])
    };
    assert!(child(0, 3).is_ok());
    let wanted = "classes: the packet of child 1 can't come from this filter: a class and its members contradict each other";
    assert_eq!(child(1, 3).unwrap_err().to_string(), wanted);
    assert_eq!(child(0, 4).unwrap_err().to_string(), wanted);
}
