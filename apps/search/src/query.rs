//! Parses queries, and explains why a query is refused.
//!
//! The language is tantivy's: words (any of them), `"a phrase"`, `"near words"~2`, `+must`, `-not`, `AND`,
//! `OR`, parentheses, `title:word`, `path:[a TO c]`, `path: IN [a b]`, `word^2`, and `*` for everything.
//!
//! Prefix phrases (`"a b"*`) are refused, because they would rank a document differently in different
//! splits of the same folder: tantivy scores them by the partition's own statistics and limits their
//! expansions per partition.
//!
//! Adding floats is commutative but not associative, and an intersection of three words adds their scores
//! in the order of their rarity *in that partition*. So a conjunction of more than two clauses is rebuilt
//! as a balanced tree of pairs. A document's score is then the same sum, bit for bit, in every partition.
//! (Alternatives are added in the order written if every match is visited, and counting the matches visits
//! all of them anyway.)

use crate::limits::{QUERY_BYTES_MAX, QUERY_DEPTH_MAX};
use crate::shard::Shard;
use std::collections::BTreeMap;
use tantivy::Term;
use tantivy::query::{Query, QueryParserError};
use tantivy::query_grammar::{Occur, UserInputAst, UserInputLeaf, parse_query, parse_query_lenient};

/// Why a query is refused. Every partition gives the same error for the same query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The query is empty.
    #[error("the query is empty")]
    Empty,
    /// The query is longer than the limit.
    #[error("the query has {0} bytes; at most {QUERY_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// The query's parentheses nest deeper than the limit.
    #[error("the query's parentheses nest deeper than {QUERY_DEPTH_MAX}")]
    TooDeep,
    /// The query has a syntax error.
    #[error("the query is not well-formed at character {character}: {reason} (quote text that is no syntax)")]
    Syntax {
        /// Position of the error in characters, from 1.
        character: usize,
        /// The reason.
        reason: String,
    },
    /// The query names a field that documents do not have.
    #[error("there is no field {0:?}, only title, path and body (quote text that has a colon)")]
    UnknownField(String),
    /// The query uses a feature that this service does not support.
    #[error("{0}")]
    Unsupported(String),
}

/// Parses `text` as a query to `shard`.
pub(crate) fn parse(shard: &Shard, text: &str) -> Result<Box<dyn Query>, QueryError> {
    if text.trim().is_empty() {
        return Err(QueryError::Empty);
    }
    if text.len() > QUERY_BYTES_MAX {
        return Err(QueryError::TooLong(text.len()));
    }
    if depth(text) > QUERY_DEPTH_MAX {
        return Err(QueryError::TooDeep);
    }
    let ast = parse_query(text).map_err(|_| syntax_error(text))?;
    shard.parser.build_query_from_user_input_ast(in_pairs(ast)?).map_err(|error| match error {
        QueryParserError::FieldDoesNotExist(field) => QueryError::UnknownField(field),
        QueryParserError::AllButQueryForbidden => {
            QueryError::Unsupported("the query only excludes; add * to exclude from everything".into())
        }
        other => QueryError::Unsupported(other.to_string()),
    })
}

/// Depth of nested parentheses outside quotes.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut quoted) = (0usize, 0, false);
    for character in text.chars() {
        match character {
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Explains a syntax error. The strict parser only rejects; the lenient one usually reports position and
/// reason. If it reports nothing, the end of the longest valid beginning is taken as the position.
fn syntax_error(text: &str) -> QueryError {
    let (_, errors) = parse_query_lenient(text);
    let (bytes, reason) = match errors.into_iter().min_by_key(|error| error.pos) {
        Some(error) if error.message.contains("invalid field") => {
            (error.pos, "a colon must follow the name of a field".into())
        }
        Some(error) => (error.pos, error.message),
        None => {
            let ends = text.char_indices().rev().map(|(at, _)| at);
            let well_formed = ends.into_iter().find(|end| parse_query(&text[..*end]).is_ok());
            (well_formed.unwrap_or(0), "unexpected here, or incomplete".into())
        }
    };
    let character = text.char_indices().take_while(|(at, _)| *at < bytes).count() + 1;
    QueryError::Syntax { character, reason }
}

/// The same query, with every conjunction of more than two clauses as a balanced tree of pairs.
fn in_pairs(ast: UserInputAst) -> Result<UserInputAst, QueryError> {
    match ast {
        UserInputAst::Clause(clauses) => {
            let (mut musts, mut rest) = (Vec::new(), Vec::new());
            for (occur, clause) in clauses {
                match (occur, in_pairs(clause)?) {
                    (Some(Occur::Must), clause) => musts.push(clause),
                    other => rest.push(other),
                }
            }
            while musts.len() > 2 {
                musts = paired(musts);
            }
            let musts = musts.into_iter().map(|clause| (Some(Occur::Must), clause));
            Ok(UserInputAst::Clause(musts.chain(rest).collect()))
        }
        UserInputAst::Boost(boosted, by) => Ok(UserInputAst::Boost(Box::new(in_pairs(*boosted)?), by)),
        UserInputAst::Leaf(leaf) => match *leaf {
            UserInputLeaf::Literal(ref literal) if literal.prefix => {
                Err(unsupported("prefix phrases (\"a b\"*)"))
            }
            UserInputLeaf::Exists { .. } => Err(unsupported("asking whether a field exists (field:*)")),
            UserInputLeaf::Regex { .. } => Err(unsupported("regular expressions")),
            leaf => Ok(UserInputAst::Leaf(Box::new(leaf))),
        },
    }
}

fn paired(clauses: Vec<UserInputAst>) -> Vec<UserInputAst> {
    let mut pairs = Vec::with_capacity(clauses.len().div_ceil(2));
    let mut clauses = clauses.into_iter();
    while let Some(first) = clauses.next() {
        pairs.push(UserInputAst::and(std::iter::once(first).chain(clauses.next()).collect()));
    }
    pairs
}

fn unsupported(what: &str) -> QueryError {
    QueryError::Unsupported(format!("{what}: not supported by this service"))
}

/// The words of a query, each under its name in [`Statistics`](crate::Statistics): the field, a colon, the
/// word.
pub(crate) fn terms(shard: &Shard, query: &dyn Query) -> BTreeMap<String, Term> {
    let mut terms = BTreeMap::new();
    query.query_terms(&mut |term, _| {
        terms.insert(name_of(shard, term), term.clone());
    });
    terms
}

/// The name of a term in [`Statistics`](crate::Statistics).
pub(crate) fn name_of(shard: &Shard, term: &Term) -> String {
    let field = shard.searcher.schema().get_field_name(term.field());
    let value = term.value();
    format!("{field}:{}", value.as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syntax_error_says_where_in_characters() {
        assert_eq!(
            syntax_error("été title:"),
            QueryError::Syntax { character: 11, reason: "expected word".into() }
        );
        let QueryError::Syntax { character: 8, .. } = syntax_error("tree AND") else {
            panic!("a syntax error")
        };
        let QueryError::Syntax { character: 5, reason } = syntax_error("std::io") else {
            panic!("a syntax error")
        };
        assert_eq!(reason, "a colon must follow the name of a field");
    }

    #[test]
    fn depth_counts_parentheses_outside_of_quotes() {
        assert_eq!(depth("a (b (c)) (d)"), 2);
        assert_eq!(depth("\"((((\" (a"), 1);
        assert_eq!(depth(")))("), 1);
    }

    #[test]
    fn a_long_conjunction_becomes_pairs_and_keeps_the_rest() {
        let ast = in_pairs(parse_query("+a +b +c d +e -f").unwrap()).unwrap();
        assert_eq!(format!("{ast:?}"), "(+(+a +b) +(+c +e) *d -f)");
        let two = parse_query("a AND b").unwrap();
        assert_eq!(in_pairs(two.clone()).unwrap(), two);
    }
}
