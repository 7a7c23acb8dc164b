//! Galleries of generated faces: people are recognised in pictures that the gallery does not have, by every
//! split alike.

use crate::called;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use treefold_operators::{Body, Partition};
use treefold_vectors::faces::generate::face;
use treefold_vectors::faces::{
    FacesShard, Gallery, Model, Picture, Recognise, RecogniseParams, Recognised, SERVICE, Training,
    aggregations, generate,
};

const PEOPLE: u32 = 12;
const SEED: u64 = 5;

/// A gallery of three pictures of each person, and a model of it.
fn trained() -> (TempDir, Gallery, Arc<Model>) {
    let directory = tempfile::tempdir().unwrap();
    generate(directory.path(), PEOPLE, 0..3, SEED).unwrap();
    let gallery = Gallery::list(directory.path()).unwrap();
    let training = Training { size: (32, 32), components: 24, evens_light: true };
    let faces: Vec<Vec<f32>> = gallery
        .known()
        .iter()
        .map(|known| Model::prepare(&gallery.picture(known).unwrap(), training.size, true).unwrap())
        .collect();
    let model = Arc::new(Model::train(&faces, training).unwrap());
    (directory, gallery, model)
}

fn partitions(shards: BTreeMap<u32, FacesShard>, total: u32) -> Vec<Partition> {
    shards.into_iter().map(|(id, shard)| Partition::new(SERVICE.into(), id, total, Arc::new(shard))).collect()
}

fn opened(gallery: &Gallery, model: &Arc<Model>, total: u32) -> Vec<Partition> {
    let ids: Vec<u32> = (0..total).collect();
    partitions(gallery.open(model, &ids, total).unwrap(), total)
}

fn recognise(split: &[Partition], picture: &Picture) -> Recognised {
    called(&Recognise, split, &RecogniseParams::new(picture.to_pgm())).unwrap()
}

#[test]
fn people_are_recognised_in_new_pictures_and_by_every_split_alike() {
    let (_directory, gallery, model) = trained();
    let splits = [1, 4, 16].map(|total| opened(&gallery, &model, total));
    let mut right = 0;
    for person in 0..PEOPLE {
        let probe = face(SEED, person, 7);
        let [whole, four, sixteen] = splits.each_ref().map(|split| recognise(split, &probe));
        assert_eq!(whole, four);
        assert_eq!(whole, sixteen);
        assert_eq!(whole.compared, 36);
        right += u32::from(whole.person == Some(format!("p{person:03}")));
        // A picture of the gallery is nearest to itself.
        let own = recognise(&splits[1], &face(SEED, person, 1));
        assert_eq!(
            (own.matches[0].distance, own.matches[0].picture.clone()),
            (0.0, format!("p{person:03}/01.pgm"))
        );
    }
    assert!(right >= PEOPLE - 1, "{right} of {PEOPLE} people are named rightly");
}

#[test]
fn pictures_that_are_no_faces_are_told_apart() {
    let (_directory, gallery, model) = trained();
    let split = opened(&gallery, &model, 2);
    let stripes: Vec<u8> = (0..64 * 64).map(|at| if at / 64 % 8 < 4 { 0 } else { 255 }).collect();
    let stripes = recognise(&split, &Picture::new(64, 64, stripes).unwrap());
    let known = recognise(&split, &face(SEED, 3, 8));
    assert!(stripes.residual > 0.8 && known.residual < 0.6, "{} {}", stripes.residual, known.residual);
    let params =
        RecogniseParams { max_distance: Some(0.5), ..RecogniseParams::new(face(SEED, 3, 8).to_pgm()) };
    let strict = called(&Recognise, &split, &params).unwrap();
    assert_eq!((strict.person, strict.matches.len()), (None, 5));
}

#[test]
fn invalid_images_and_parameters_are_refused() {
    let (_directory, gallery, model) = trained();
    let split = opened(&gallery, &model, 2);
    let good = RecogniseParams::new(face(SEED, 0, 0).to_pgm());
    let image = |bytes: &[u8]| RecogniseParams::new(bytes.to_vec());
    for (params, problem) in [
        (image(b"GIF89a"), "image: neither PGM (P2, P5) nor PNG"),
        (image(b"P5 9 9 255\n"), "image: a damaged PGM file: it ends early"),
        (image(b"P5 2 1 255\naa"), "image: the picture has one colour"),
        (image(&vec![0; (4 << 20) + 1]), "image has 4194305 bytes; at most 4194304 are allowed"),
        (RecogniseParams { k: 0, ..good.clone() }, "k is 0; it must be 1 to 1000"),
        (RecogniseParams { max_distance: Some(f32::NAN), ..good.clone() }, "max_distance is NaN"),
    ] {
        let refused = called(&Recognise, &split, &params).unwrap_err();
        assert!(
            refused.is_of_params() && refused.to_string().contains(problem),
            "expected {problem:?}: {refused}"
        );
    }
}

#[test]
fn images_travel_as_bytes_or_as_base64() {
    let params = RecogniseParams::new(vec![0, 255, 7]);
    assert_eq!(RecogniseParams::decode(&params.encode().unwrap()).unwrap(), params);
    let text = serde_json::json!({"image": "AP8H"}).encode().unwrap();
    assert_eq!(RecogniseParams::decode(&text).unwrap(), params);
    let wrong = serde_json::json!({"image": "?"}).encode().unwrap();
    assert!(RecogniseParams::decode(&wrong).unwrap_err().to_string().contains("image is no base64"));
}

#[test]
fn a_damaged_picture_of_a_gallery_is_named() {
    let (directory, _, model) = trained();
    fs::write(directory.path().join("p000/bad.png"), "not a picture").unwrap();
    let gallery = Gallery::list(directory.path()).unwrap();
    let refused = gallery.open(&model, &[0], 1).unwrap_err().to_string();
    assert!(refused.contains("p000/bad.png") && refused.contains("neither PGM"), "{refused}");
    assert!(Gallery::list(Path::new("/nowhere")).is_err());
    assert_eq!(aggregations().iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["recognise"]);
}
