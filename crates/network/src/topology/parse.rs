//! Parses topology files: MRNet's format, extended by ranges.
//!
//! ```text
//! # a front-end over two inner processes with four back-ends each
//! login:0  => node01:0 node05:0 ;
//! node01:0 => node[01-04]:1 ;
//! node05:0 => node[05-08]:1 ;
//! ```
//!
//! ```text
//! file      = { statement }
//! statement = process [ "=>" process-or-range { process-or-range } ] ";"
//! process   = host ":" number
//! ```
//!
//! As in MRNet, statements may be in any order, one parent may have several statements, and a process without
//! any is a back-end. A statement with a single process declares it; a network of one process is written in
//! this way. After a mistake, the rest of its statement is skipped and parsing continues, so that one run
//! reports all mistakes. Whether the processes form a tree is checked only if every statement is valid.

use super::graph::{Graph, Member};
use super::host::{Pattern, indexes};
use super::lex::{Lexer, Token};
use super::problem::{Findings, ProblemKind, Problems, Span};
use super::{Bounds, Topology};
use std::str::FromStr;

/// Parses a topology file.
///
/// # Errors
/// All problems of the file.
pub fn parse(text: &str, bounds: &Bounds) -> Result<Topology, Problems> {
    if text.len() > bounds.text_bytes_max {
        let kind = ProblemKind::TooLong { bytes: text.len(), limit: bounds.text_bytes_max };
        return Err(Problems::of_whole(kind));
    }
    let mut parser = Parser {
        lexer: Lexer::new(text),
        findings: Findings::new(text),
        graph: Graph::default(),
        room: bounds.processes_max as u64,
        processes_max: bounds.processes_max,
    };
    parser.statements();
    let Parser { mut findings, graph, .. } = parser;
    let root = if findings.is_empty() { graph.check(bounds, &mut findings) } else { None };
    findings.finish()?;
    Ok(graph.into_topology(root.expect("invariant: a graph without problems has a root")))
}

impl FromStr for Topology {
    type Err = Problems;

    fn from_str(text: &str) -> Result<Self, Problems> {
        parse(text, &Bounds::DEFAULT)
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    findings: Findings<'a>,
    graph: Graph,
    /// Children that may still be mentioned. In a valid topology, no process is mentioned as a child twice.
    room: u64,
    processes_max: usize,
}

/// A mention of a process or a range in the text.
struct Mention {
    hosts: Pattern,
    indexes: Vec<(u32, u32)>,
    span: Span,
}

impl Mention {
    fn count(&self) -> u64 {
        let numbers = self.indexes.iter().map(|(first, last)| u64::from(last - first) + 1);
        self.hosts.count().saturating_mul(numbers.fold(0, u64::saturating_add))
    }
}

/// Why parsing cannot continue. The problem has been noted.
enum Halt {
    /// This statement is wrong; the next may be valid.
    Statement,
    /// The file has too many processes.
    File,
}

impl Parser<'_> {
    fn statements(&mut self) {
        while self.lexer.peek().is_some() {
            match self.statement() {
                Ok(()) => {}
                Err(Halt::Statement) => self.skip_statement(),
                Err(Halt::File) => return,
            }
        }
    }

    /// Skips to the end of the statement.
    fn skip_statement(&mut self) {
        while let Some((token, _)) = self.lexer.next() {
            if token == Token::Semicolon {
                return;
            }
        }
    }

    fn statement(&mut self) -> Result<(), Halt> {
        let mention = self.mention()?;
        let mut parent = self.parent(&mention)?;
        if self.lexer.next_if(Token::Semicolon).is_some() {
            return Ok(());
        }
        let mut arrow = self.lexer.next_if(Token::Arrow).ok_or_else(|| self.unexpected("`=>` or `;`"))?;
        let mut is_childless = true;
        while self.lexer.next_if(Token::Semicolon).is_none() {
            let child = self.mention()?;
            if let Some(next_arrow) = self.lexer.next_if(Token::Arrow) {
                let process = self.lexer.slice(child.span).to_owned();
                self.findings.add(child.span, ProblemKind::MissingSemicolon { process });
                // Interpreted as the head of the next statement, which is the most likely intention.
                (parent, arrow, is_childless) = (self.parent(&child)?, next_arrow, true);
            } else {
                self.adopt(parent, &child)?;
                is_childless = false;
            }
        }
        if is_childless {
            self.findings.add(arrow, ProblemKind::NoChildren { parent: self.graph.name(parent) });
        }
        Ok(())
    }

    /// Parses `host:index`, of which each may be a range.
    fn mention(&mut self) -> Result<Mention, Halt> {
        let host = self.word("a process, as in node01:0")?;
        let host_text = self.lexer.slice(host);
        let hosts = Pattern::of_hosts(host_text).map_err(|why| {
            self.findings.add(host, ProblemKind::BadHost { host: host_text.to_owned(), why });
            Halt::Statement
        })?;
        if self.lexer.next_if(Token::Colon).is_none() {
            // An unknown character is reported as such. Any other token means that the number is missing.
            if let Some((Token::Unknown(_), _)) = self.lexer.peek() {
                return Err(self.unexpected("`:`"));
            }
            self.findings.add(host, ProblemKind::MissingIndex { host: host_text.to_owned() });
            return Err(Halt::Statement);
        }
        let index = self.word("the number of the process on its host")?;
        let index_text = self.lexer.slice(index);
        let indexes = indexes(index_text).map_err(|why| {
            self.findings.add(index, ProblemKind::BadIndex { index: index_text.to_owned(), why });
            Halt::Statement
        })?;
        Ok(Mention { hosts, indexes, span: host.to(index) })
    }

    fn word(&mut self, expected: &'static str) -> Result<Span, Halt> {
        self.lexer.next_if(Token::Word).ok_or_else(|| self.unexpected(expected))
    }

    fn unexpected(&mut self, expected: &'static str) -> Halt {
        match self.lexer.peek() {
            Some((Token::Unknown(character), span)) => {
                self.findings.add(span, ProblemKind::UnknownToken { character });
            }
            Some((token, span)) => {
                let found = token.described(self.lexer.slice(span));
                self.findings.add(span, ProblemKind::Unexpected { expected, found });
            }
            None => self.findings.add(self.lexer.end(), ProblemKind::Unfinished),
        }
        Halt::Statement
    }

    /// The single process of a mention at the head of a statement.
    fn parent(&mut self, mention: &Mention) -> Result<Member, Halt> {
        let count = mention.count();
        if count != 1 {
            let range = self.lexer.slice(mention.span).to_owned();
            self.findings.add(mention.span, ProblemKind::RangeAsParent { range, count });
            return Err(Halt::Statement);
        }
        let host = mention.hosts.names().swap_remove(0);
        let parent = self.graph.member(&host.into(), mention.indexes[0].0, mention.span);
        self.check_size(mention.span)?;
        Ok(parent)
    }

    /// Makes all processes of a mention children of a parent.
    fn adopt(&mut self, parent: Member, mention: &Mention) -> Result<(), Halt> {
        // Checked before the range is expanded, because it may name more processes than fit in memory.
        self.room = self.room.checked_sub(mention.count()).ok_or_else(|| self.too_many(mention.span))?;
        for host in mention.hosts.names() {
            let host = host.into();
            for index in mention.indexes.iter().flat_map(|&(first, last)| first..=last) {
                let child = self.graph.member(&host, index, mention.span);
                self.graph.link(parent, child, mention.span, &mut self.findings);
            }
        }
        self.check_size(mention.span)
    }

    fn check_size(&mut self, span: Span) -> Result<(), Halt> {
        if self.graph.len() > self.processes_max { Err(self.too_many(span)) } else { Ok(()) }
    }

    fn too_many(&mut self, span: Span) -> Halt {
        self.findings.add(span, ProblemKind::TooManyProcesses { limit: self.processes_max });
        Halt::File
    }
}

#[cfg(test)]
mod tests;
