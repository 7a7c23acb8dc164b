//! Parses queries, and explains why a query is refused.
//!
//! The language is tantivy's: words (any of them), `"a phrase"`, `"near words"~2`, `+must`, `-not`, `AND`,
//! `OR`, parentheses, `title:word`, `path:[a TO c]`, `path: IN [a b]`, `word^2`, and `*` for everything.
//!
//! People type text and programs send it, and neither knows this language. So every text is a query: one that is not
//! well-formed is searched as words and quoted phrases, any of them, each with its `+` or `-`; a clause that asks for
//! something that does not exist is searched as text; a query that only excludes does so from everything; and an apostrophe
//! is never a quote. A *strict* query is refused instead, with the reason.
//!
//! Prefix phrases (`"a b"*`) are not supported, because they would rank a document differently in different
//! splits of the same folder: tantivy scores them by the partition's own statistics and limits their
//! expansions per partition.
//!
//! Adding floats is commutative but not associative, and an intersection of three words adds their scores
//! in the order of their rarity *in that partition*. So a conjunction of more than two clauses is rebuilt
//! as a balanced tree of pairs. A document's score is then the same sum, bit for bit, in every partition.
//! (Alternatives are added in the order written if every match is visited, and counting the matches visits
//! all of them anyway.)

use crate::limits::{NEAR_WORDS_MAX, QUERY_BYTES_MAX, QUERY_DEPTH_MAX};
use crate::near::Near;
use crate::schema::TITLE_BOOST;
use crate::shard::Shard;
use std::collections::BTreeMap;
use tantivy::query::{AllQuery, BooleanQuery, BoostQuery, EmptyQuery, Query, QueryParserError};
use tantivy::query_grammar::{
    Delimiter, Occur, UserInputAst, UserInputLeaf, UserInputLiteral, parse_query, parse_query_lenient,
};
use tantivy::{Score, Term};

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
    /// A phrase with words between has more words than the limit.
    #[error("a phrase with words between (\"a b\"~2) has {0} words; at most {NEAR_WORDS_MAX} are allowed")]
    TooManyNear(usize),
    /// The query uses a feature that this service does not support.
    #[error("{0}")]
    Unsupported(String),
}

/// Parses `text` as a query to `shard`. If it is not `strict`, every text is a query.
pub(crate) fn parse(shard: &Shard, text: &str, strict: bool) -> Result<Box<dyn Query>, QueryError> {
    if text.trim().is_empty() {
        return Err(QueryError::Empty);
    }
    if text.len() > QUERY_BYTES_MAX {
        return Err(QueryError::TooLong(text.len()));
    }
    let is_deep = depth(text) > QUERY_DEPTH_MAX;
    let ast = match strict {
        true if is_deep => return Err(QueryError::TooDeep),
        true => parse_query(text).map_err(|_| syntax_error(text))?,
        false if is_deep => plain(text),
        // Nobody means an apostrophe as a quote. The other form ends a word as well, and is no syntax.
        false => parse_query(&text.replace('\'', "\u{2019}")).unwrap_or_else(|_| plain(text)),
    };
    let is_negative = only_excludes(&ast);
    if strict && is_negative {
        return Err(QueryError::Unsupported(
            "the query only excludes; add * to exclude from everything".to_owned(),
        ));
    }
    let built = Builder { shard, strict, fills: is_negative }.build(in_pairs(ast))?;
    Ok(built.unwrap_or_else(|| Box::new(EmptyQuery)))
}

/// The words and quoted phrases of a text that is not well-formed, each with its `+` or `-`.
fn plain(text: &str) -> UserInputAst {
    let mut clauses = Vec::new();
    let mut occur = None;
    let mut parts = text.split('"').peekable();
    let mut is_phrase = false;
    while let Some(part) = parts.next() {
        // The last quote of an odd number of them opens nothing.
        if is_phrase && parts.peek().is_some() {
            clauses.push((occur.take(), literal(part)));
        } else {
            for word in part.split_whitespace().filter(|word| !["AND", "OR", "NOT"].contains(word)) {
                occur = match word.as_bytes()[0] {
                    b'+' => Some(Occur::Must),
                    b'-' => Some(Occur::MustNot),
                    _ => None,
                };
                // A sign alone belongs to the phrase behind it.
                if word != "+" && word != "-" {
                    clauses.push((occur.take(), literal(word)));
                }
            }
        }
        is_phrase = !is_phrase;
    }
    UserInputAst::Clause(clauses)
}

/// Text in any field. Several words are a phrase.
fn literal(text: &str) -> UserInputAst {
    let (phrase, delimiter) = (text.to_owned(), Delimiter::DoubleQuotes);
    let literal = UserInputLiteral { field_name: None, phrase, delimiter, slop: 0, prefix: false };
    UserInputAst::Leaf(Box::new(UserInputLeaf::Literal(literal)))
}

/// The text of a clause that can't be searched as it is meant.
fn text_of(leaf: &UserInputLeaf) -> String {
    let of = |field: &Option<String>, rest: &str| format!("{} {rest}", field.as_deref().unwrap_or_default());
    match leaf {
        UserInputLeaf::Literal(literal) => of(&literal.field_name, &literal.phrase),
        UserInputLeaf::All => String::new(),
        UserInputLeaf::Range { field, lower, upper } => {
            of(field, &format!("{} {}", lower.term_str(), upper.term_str()))
        }
        UserInputLeaf::Set { field, elements } => of(field, &elements.join(" ")),
        UserInputLeaf::Exists { field } => field.clone(),
        UserInputLeaf::Regex { field, pattern } => of(field, pattern),
    }
}

/// True if nothing that the query asks for would be found: it has only clauses with a minus.
fn only_excludes(ast: &UserInputAst) -> bool {
    match ast {
        UserInputAst::Leaf(_) => false,
        UserInputAst::Boost(boosted, _) => only_excludes(boosted),
        UserInputAst::Clause(clauses) => {
            let excludes = |(occur, clause): &(Option<Occur>, UserInputAst)| {
                *occur == Some(Occur::MustNot) || only_excludes(clause)
            };
            !clauses.is_empty() && clauses.iter().all(excludes)
        }
    }
}

/// Builds the library's queries. Clauses without words are left out.
struct Builder<'a> {
    shard: &'a Shard,
    strict: bool,
    /// Whether clauses that only exclude do so from everything.
    fills: bool,
}

impl Builder<'_> {
    fn build(&self, ast: UserInputAst) -> Result<Option<Box<dyn Query>>, QueryError> {
        match ast {
            UserInputAst::Clause(clauses) => {
                let mut built: Vec<(Occur, Box<dyn Query>)> = Vec::with_capacity(clauses.len());
                for (occur, clause) in clauses {
                    let query = self.build(clause)?;
                    built.extend(query.map(|query| (occur.unwrap_or(Occur::Should), query)));
                }
                if self.fills && !built.is_empty() && built.iter().all(|(occur, _)| *occur == Occur::MustNot)
                {
                    built.push((Occur::Should, Box::new(AllQuery)));
                }
                Ok((!built.is_empty()).then(|| Box::new(BooleanQuery::new(built)) as Box<dyn Query>))
            }
            UserInputAst::Boost(boosted, by) => {
                let boosted = self.build(*boosted)?;
                Ok(boosted.map(|query| Box::new(BoostQuery::new(query, by.into_inner() as Score)) as _))
            }
            UserInputAst::Leaf(leaf) => match self.leaf(&leaf) {
                Err(_) if !self.strict => self.library(literal(&text_of(&leaf))),
                built => built,
            },
        }
    }

    fn leaf(&self, leaf: &UserInputLeaf) -> Result<Option<Box<dyn Query>>, QueryError> {
        match leaf {
            UserInputLeaf::Literal(literal) if literal.prefix => {
                Err(unsupported("prefix phrases (\"a b\"*)"))
            }
            UserInputLeaf::Exists { .. } => Err(unsupported("asking whether a field exists (field:*)")),
            UserInputLeaf::Regex { .. } => Err(unsupported("regular expressions")),
            UserInputLeaf::Literal(literal) if literal.slop > 0 => self.near(literal),
            leaf => self.library(UserInputAst::Leaf(Box::new(leaf.clone()))),
        }
    }

    fn library(&self, ast: UserInputAst) -> Result<Option<Box<dyn Query>>, QueryError> {
        let built = self.shard.parser.build_query_from_user_input_ast(ast).map_err(|error| match error {
            QueryParserError::FieldDoesNotExist(field) => QueryError::UnknownField(field),
            other => QueryError::Unsupported(other.to_string()),
        })?;
        Ok((!built.is::<EmptyQuery>()).then_some(built))
    }

    /// A phrase with words between, in its field or in all of them.
    fn near(&self, literal: &UserInputLiteral) -> Result<Option<Box<dyn Query>>, QueryError> {
        let fields = self.shard.fields;
        let named = match &literal.field_name {
            None => fields.all().to_vec(),
            Some(name) => {
                let field = self.shard.searcher.schema().get_field(name);
                vec![field.map_err(|_| QueryError::UnknownField(name.clone()))?]
            }
        };
        let mut words: Vec<(u32, String)> = Vec::new();
        self.shard.tokenizer.clone().token_stream(&literal.phrase).process(&mut |token| {
            words.push((token.position as u32, token.text.clone()));
        });
        if words.len() < 2 {
            let word = UserInputLeaf::Literal(UserInputLiteral { slop: 0, ..literal.clone() });
            return self.library(UserInputAst::Leaf(Box::new(word)));
        }
        if words.len() > NEAR_WORDS_MAX {
            return Err(QueryError::TooManyNear(words.len()));
        }
        let near = |field| -> Box<dyn Query> {
            let terms = words.iter().map(|(place, word)| (*place, Term::from_field_text(field, word)));
            let near = Box::new(Near::new(terms.collect(), literal.slop));
            if field == fields.title { Box::new(BoostQuery::new(near, TITLE_BOOST)) } else { near }
        };
        Ok(Some(Box::new(BooleanQuery::union(named.into_iter().map(near).collect()))))
    }
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
fn in_pairs(ast: UserInputAst) -> UserInputAst {
    match ast {
        UserInputAst::Clause(clauses) => {
            let (mut musts, mut rest) = (Vec::new(), Vec::new());
            for (occur, clause) in clauses {
                match (occur, in_pairs(clause)) {
                    (Some(Occur::Must), clause) => musts.push(clause),
                    other => rest.push(other),
                }
            }
            while musts.len() > 2 {
                musts = paired(musts);
            }
            let musts = musts.into_iter().map(|clause| (Some(Occur::Must), clause));
            UserInputAst::Clause(musts.chain(rest).collect())
        }
        UserInputAst::Boost(boosted, by) => UserInputAst::Boost(Box::new(in_pairs(*boosted)), by),
        leaf @ UserInputAst::Leaf(_) => leaf,
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
        let ast = in_pairs(parse_query("+a +b +c d +e -f").unwrap());
        assert_eq!(format!("{ast:?}"), "(+(+a +b) +(+c +e) *d -f)");
        let two = parse_query("a AND b").unwrap();
        assert_eq!(in_pairs(two.clone()), two);
    }

    #[test]
    fn text_that_is_not_well_formed_is_words_and_phrases() {
        let of = |text: &str| format!("{:?}", plain(text));
        assert_eq!(of("(tree AND"), r#"(*"(tree")"#);
        assert_eq!(of("+tree -\"two words\" 5\" disk"), r#"(+"+tree" -"two words" *"5" *"disk")"#);
    }
}
