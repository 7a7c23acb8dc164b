//! Phrases with words between (`"a b"~2`), scored the same in every partition.
//!
//! Tantivy's phrase scorer sorts a phrase's words by their frequency in the segment, and then matches positions from the
//! first list to the last one. With slop its result depends on that order: of the lists 1, 2 and 2, 3 it counts one
//! occurrence from the one side and two from the other. The same document then has another score, or does not match at
//! all, beside other documents. So phrases with slop are matched here, by a rule without an order:
//!
//! - An occurrence has one position for each word of the phrase. Positions are compared after a shift by each word's place
//!   in the phrase, so an exact phrase has equal ones. Their greatest difference is at most the slop. So words may stand
//!   apart, and in another order.
//! - A document's count is the number of occurrences that share no position, taken from its beginning to its end.
//!
//! BM25 weighs the count as the frequency of one word whose rarity is the sum of the words' rarities, as in tantivy's
//! exact phrases.

use crate::limits::NEAR_WORDS_MAX;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::query::{Bm25Weight, EmptyScorer, EnableScoring, Explanation, Query, Scorer, Weight};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, Score, SegmentReader, TERMINATED, TantivyError, Term};

/// How much dearer a document of this query is than one of a word's: positions are read and matched.
const COST_PER_WORD: u64 = 10;

/// A phrase of one field, with words between.
#[derive(Clone, Debug)]
pub(crate) struct Near {
    /// Its words, at least two, each with its place in the phrase.
    words: Vec<(u32, Term)>,
    slop: u32,
}

impl Near {
    /// # Panics
    /// If there are fewer than two words, or more than [`NEAR_WORDS_MAX`].
    pub(crate) fn new(words: Vec<(u32, Term)>, slop: u32) -> Self {
        assert!((2..=NEAR_WORDS_MAX).contains(&words.len()), "the parser checks the number of words");
        Self { words, slop }
    }
}

impl Query for Near {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        let terms: Vec<Term> = self.words.iter().map(|(_, term)| term.clone()).collect();
        let bm25 = match scoring {
            EnableScoring::Enabled { statistics_provider, .. } => {
                Some(Bm25Weight::for_terms(statistics_provider, &terms)?)
            }
            EnableScoring::Disabled { .. } => None,
        };
        Ok(Box::new(NearWeight { near: self.clone(), bm25 }))
    }

    fn query_terms<'a>(&'a self, visitor: &mut dyn FnMut(&'a Term, bool)) {
        self.words.iter().for_each(|(_, term)| visitor(term, true));
    }
}

struct NearWeight {
    near: Near,
    /// `None` if nobody asks for scores.
    bm25: Option<Bm25Weight>,
}

impl NearWeight {
    /// `None` if the segment lacks a word.
    fn near_scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Option<NearScorer>> {
        let field = self.near.words[0].1.field();
        let inverted = reader.inverted_index(field)?;
        let (mut lists, mut slots): (Vec<List>, Vec<Slot>) = (Vec::new(), Vec::new());
        for (place, term) in &self.near.words {
            let known = lists.iter().position(|list| list.term == *term);
            let list = match known {
                Some(list) => list,
                None => {
                    let option = IndexRecordOption::WithFreqsAndPositions;
                    let Some(postings) = inverted.read_postings(term, option)? else { return Ok(None) };
                    lists.push(List { term: term.clone(), postings, positions: Vec::new() });
                    lists.len() - 1
                }
            };
            slots.push(Slot { list, place: *place });
        }
        let norms = match self.bm25 {
            Some(_) => reader.get_fieldnorms_reader(field)?,
            None => FieldNormReader::constant(reader.max_doc(), 1),
        };
        let bm25 = self.bm25.as_ref().map(|bm25| bm25.boost_by(boost));
        let mut scorer =
            NearScorer { lists, slots, slop: self.near.slop, norms, bm25, document: 0, count: 0 };
        scorer.settle(0);
        Ok(Some(scorer))
    }
}

impl Weight for NearWeight {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        Ok(match self.near_scorer(reader, boost)? {
            Some(scorer) => Box::new(scorer),
            None => Box::new(EmptyScorer),
        })
    }

    fn explain(&self, reader: &SegmentReader, document: DocId) -> tantivy::Result<Explanation> {
        let absent = || TantivyError::InvalidArgument(format!("document {document} does not match"));
        let mut scorer = self.near_scorer(reader, 1.0)?.ok_or_else(absent)?;
        if scorer.doc() > document || scorer.seek(document) != document {
            return Err(absent());
        }
        Ok(Explanation::new("occurrences of words near each other", scorer.score()))
    }
}

/// The documents of a word, and its positions in the present one.
struct List {
    term: Term,
    postings: SegmentPostings,
    positions: Vec<u32>,
}

/// A word of the phrase.
#[derive(Clone, Copy)]
struct Slot {
    /// Index of the word's list, which the slots of a repeated word share.
    list: usize,
    place: u32,
}

struct NearScorer {
    lists: Vec<List>,
    slots: Vec<Slot>,
    slop: u32,
    norms: FieldNormReader,
    bm25: Option<Bm25Weight>,
    document: DocId,
    /// Occurrences in the document.
    count: u32,
}

impl NearScorer {
    /// Goes to the first match at or behind a document.
    fn settle(&mut self, mut candidate: DocId) -> DocId {
        'candidates: while candidate != TERMINATED {
            for list in &mut self.lists {
                let mut at = list.postings.doc();
                if at < candidate {
                    at = list.postings.seek(candidate);
                }
                if at > candidate {
                    candidate = at;
                    continue 'candidates;
                }
            }
            for list in &mut self.lists {
                list.postings.positions(&mut list.positions);
            }
            let positions: Vec<&[u32]> = self.lists.iter().map(|list| list.positions.as_slice()).collect();
            self.count = occurrences(&self.slots, &positions, self.slop);
            if self.count > 0 {
                break;
            }
            candidate = self.lists[0].postings.advance();
        }
        self.document = candidate;
        candidate
    }
}

impl DocSet for NearScorer {
    fn advance(&mut self) -> DocId {
        if self.document == TERMINATED {
            return TERMINATED;
        }
        let next = self.lists[0].postings.advance();
        self.settle(next)
    }

    fn seek(&mut self, target: DocId) -> DocId {
        if self.document >= target { self.document } else { self.settle(target) }
    }

    fn doc(&self) -> DocId {
        self.document
    }

    fn size_hint(&self) -> u32 {
        self.lists.iter().map(|list| list.postings.size_hint()).min().unwrap_or(0)
    }

    fn cost(&self) -> u64 {
        u64::from(self.size_hint()) * COST_PER_WORD * self.slots.len() as u64
    }
}

impl Scorer for NearScorer {
    fn score(&mut self) -> Score {
        let norm = self.norms.fieldnorm_id(self.document);
        self.bm25.as_ref().map_or(1.0, |bm25| bm25.score(norm, self.count))
    }
}

/// Number of occurrences that share no position.
///
/// A head of each slot goes through the positions of its word. If the heads are an occurrence, all go on. Otherwise the
/// first of the shifted positions is too far from the last one, and so from all later positions of that word: only its
/// head goes on. Slots of a repeated word keep their order.
fn occurrences(slots: &[Slot], positions: &[&[u32]], slop: u32) -> u32 {
    let mut heads = vec![0; slots.len()];
    let mut starts = vec![0; positions.len()];
    let mut count = 0;
    restart(slots, &mut heads, &mut starts);
    loop {
        let (mut first, mut last) = ((i64::MAX, 0), i64::MIN);
        for (at, slot) in slots.iter().enumerate() {
            let Some(&position) = positions[slot.list].get(heads[at]) else { return count };
            let shifted = i64::from(position) - i64::from(slot.place);
            first = first.min((shifted, at));
            last = last.max(shifted);
        }
        if last - first.0 <= i64::from(slop) {
            count += 1;
            for (head, slot) in heads.iter().zip(slots) {
                starts[slot.list] = starts[slot.list].max(head + 1);
            }
            restart(slots, &mut heads, &mut starts);
        } else {
            heads[first.1] += 1;
            let (list, mut before) = (slots[first.1].list, heads[first.1]);
            for at in (first.1 + 1..slots.len()).filter(|at| slots[*at].list == list) {
                heads[at] = heads[at].max(before + 1);
                before = heads[at];
            }
        }
    }
}

/// Puts the heads on the first positions that no occurrence has, one behind the other for a repeated word.
fn restart(slots: &[Slot], heads: &mut [usize], starts: &mut [usize]) {
    for (head, slot) in heads.iter_mut().zip(slots) {
        *head = starts[slot.list];
        starts[slot.list] += 1;
    }
    // An occurrence is yet to be found among these.
    for slot in slots {
        starts[slot.list] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn count(phrase: &[usize], positions: &[&[u32]], slop: u32) -> u32 {
        let slots: Vec<Slot> = (0..).zip(phrase).map(|(place, list)| Slot { list: *list, place }).collect();
        occurrences(&slots, positions, slop)
    }

    #[test]
    fn slop_is_the_greatest_shift_and_no_position_counts_twice() {
        assert_eq!(count(&[0, 1], &[&[1], &[2]], 0), 1);
        assert_eq!(count(&[0, 1], &[&[1], &[4]], 1), 0);
        assert_eq!(count(&[0, 1], &[&[1], &[4]], 2), 1);
        assert_eq!(count(&[0, 1], &[&[2], &[1]], 1), 0, "exchanged words cost two");
        assert_eq!(count(&[0, 1], &[&[2], &[1]], 2), 1);
        assert_eq!(count(&[0, 1], &[&[1, 2], &[3, 4]], 3), 2, "alpha alpha beta beta");
        assert_eq!(count(&[0, 1, 2], &[&[1], &[3], &[4]], 1), 1);
    }

    #[test]
    fn repeated_words_need_positions_of_their_own() {
        assert_eq!(count(&[0, 0], &[&[1]], 5), 0);
        assert_eq!(count(&[0, 0], &[&[1, 2]], 0), 1);
        assert_eq!(count(&[0, 0], &[&[0, 1, 2, 3]], 1), 2);
        assert_eq!(count(&[0, 1, 0], &[&[1, 3], &[2]], 0), 1);
        assert_eq!(count(&[0, 1, 0], &[&[3], &[2]], 9), 0);
    }

    /// Whether there is an occurrence, by trying all.
    fn exists(a: &[u32], b: &[u32], c: &[u32], slop: u32) -> bool {
        let shifted = |positions: &[u32], place: i64| -> Vec<i64> {
            positions.iter().map(|at| i64::from(*at) - place).collect()
        };
        let (a, b, c) = (shifted(a, 0), shifted(b, 1), shifted(c, 2));
        a.iter()
            .any(|x| b.iter().any(|y| c.iter().any(|z| x.max(y).max(z) - x.min(y).min(z) <= i64::from(slop))))
    }

    proptest! {
        #[test]
        fn an_occurrence_is_found_if_there_is_one(
            all in proptest::collection::btree_map(0u32..24, 0usize..3, 0..16), slop in 0u32..6,
        ) {
            let of = |word| all.iter().filter(|(_, is)| **is == word).map(|(at, _)| *at).collect::<Vec<_>>();
            let (a, b, c) = (of(0), of(1), of(2));
            let counted = count(&[0, 1, 2], &[&a, &b, &c], slop);
            prop_assert_eq!(counted > 0, exists(&a, &b, &c, slop));
            prop_assert!(counted as usize <= a.len().min(b.len()).min(c.len()));
        }
    }
}
