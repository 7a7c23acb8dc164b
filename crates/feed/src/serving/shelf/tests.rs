//! Tests of the messages that are kept for further readers.

use super::*;

#[test]
fn oldest_messages_leave_and_channels_without_readers_are_forgotten() {
    let mut shelf = Shelf::new(1_000, 0);
    let channel = shelf.channel(Filter::default());
    assert!(Arc::ptr_eq(&channel, &shelf.channel(Filter::default())));
    let packets: Vec<Bytes> = (0..10_u8).map(|at| vec![at; 100].into()).collect();
    let message = Bytes::from_static(b"written");
    for packet in &packets {
        shelf.keep(&channel, 0, packet, &message);
        assert!(shelf.bytes <= 1_000);
        assert_eq!(shelf.find(&channel, 0, packet), Some(message.clone()));
        assert_eq!(shelf.find(&channel, 1, packet), None, "another form");
    }
    assert_eq!(shelf.find(&channel, 0, &packets[0]), None);
    shelf.keep(&channel, 0, &packets[9], &message);
    assert_eq!(shelf.order.len(), shelf.written.len());
    for key in 0..10_000 {
        let mut filter = Filter::default();
        filter.add_key(key.to_string()).unwrap();
        shelf.channel(filter);
    }
    assert!(shelf.channels.len() <= CHANNELS_SWEPT_AT, "{}", shelf.channels.len());
    assert!(shelf.channels.contains_key(&Filter::default()));
}

#[test]
fn pieces_of_the_newest_snapshot_are_kept_as_far_as_they_fit() {
    let mut shelf = Shelf::new(0, 1_000);
    let channel = shelf.channel(Filter::default());
    let pieces: Vec<Bytes> = (0..10_u8).map(|at| vec![at; 5_000].into()).collect();
    let [older, newer] = [7, 8].map(|position| Cut { epoch: 1, position });
    let found = |shelf: &Shelf| -> Vec<bool> {
        pieces.iter().map(|piece| shelf.find(&channel, 1, piece).is_some()).collect()
    };
    let message = Bytes::from(vec![0; 200]);
    for _ in 0..2 {
        pieces.iter().for_each(|piece| shelf.keep_piece(&channel, 1, (piece, newer), &message));
        assert!(shelf.pieces.bytes <= 1_000);
        let known = found(&shelf);
        let kept = known.iter().filter(|is_known| **is_known).count();
        assert!(kept > 1 && known[..kept].iter().all(|is_known| *is_known), "{known:?}");
    }
    let before = found(&shelf);
    shelf.keep_piece(&channel, 1, (&pieces[9], older), &message);
    assert_eq!(found(&shelf), before, "an older snapshot displaces nothing");
    shelf.keep_piece(&channel, 1, (&pieces[9], Cut { epoch: 2, position: 0 }), &message);
    assert_eq!(found(&shelf).iter().filter(|is_known| **is_known).count(), 1);
}
