//! A recursive-descent reader of the DOT grammar. Linear in the text and the edges it makes.

use std::borrow::Cow;

use hashbrown::HashMap;

use super::attributes::{EdgeAttributes, NodeAttributes};
use super::lexer::{Lexer, Token};
use crate::graph::IMPLIED;
use crate::{Error, JobGraph, Result, TaskId};

/// Deeper nesting of subgraphs is refused.
const DEPTH: usize = 64;

pub(in crate::format) fn read(text: &str, name: &str) -> Result<JobGraph> {
    let mut reader = Reader {
        lexer: Lexer::new(text)?,
        strict: false,
        name: name.into(),
        ids: HashMap::new(),
        nodes: Vec::new(),
        edges: Vec::new(),
        implied: 0,
    };
    reader.graph()?;
    reader.build()
}

struct Reader<'a> {
    lexer: Lexer<'a>,
    strict: bool,
    name: String,
    ids: HashMap<Cow<'a, str>, u32>,
    nodes: Vec<NodeAttributes>,
    /// Parent, child, bytes.
    edges: Vec<(u32, u32, f64)>,
    /// How many of the edges are products of two groups.
    implied: usize,
}

/// The default attributes in a pair of braces.
#[derive(Clone, Default)]
struct Defaults {
    node: NodeAttributes,
    edge: EdgeAttributes,
}

impl<'a> Reader<'a> {
    /// `[strict] digraph [name] { statements }`
    fn graph(&mut self) -> Result<()> {
        if self.lexer.peek().is_keyword("strict") {
            self.lexer.advance()?;
            self.strict = true;
        }
        if self.lexer.peek().is_keyword("graph") {
            return Err(self
                .lexer
                .expected("'digraph': dependencies have a direction, write digraph and a -> b"));
        }
        if !self.lexer.peek().is_keyword("digraph") {
            return Err(self.lexer.expected("'digraph'"));
        }
        self.lexer.advance()?;
        if let Token::Id(name, _) = self.lexer.peek().clone() {
            self.lexer.advance()?;
            if !name.is_empty() {
                self.name = name.into_owned();
            }
        }
        if !self.lexer.accept('{')? {
            return Err(self.lexer.expected("'{'"));
        }
        self.statements(&mut Defaults::default(), 0)?;
        match self.lexer.peek() {
            Token::End => Ok(()),
            _ => Err(self.lexer.expected("nothing after the graph")),
        }
    }

    /// Statements up to and with the closing brace; returns the nodes they mention.
    fn statements(&mut self, defaults: &mut Defaults, depth: usize) -> Result<Vec<u32>> {
        if depth > DEPTH {
            let message = format!("subgraphs are nested deeper than {DEPTH}");
            return Err(self.lexer.error_at(self.lexer.position(), message));
        }
        let mut mentioned = Vec::new();
        while !self.lexer.accept('}')? {
            if *self.lexer.peek() == Token::End {
                return Err(self.lexer.expected("'}'"));
            }
            if !self.lexer.accept(';')? {
                self.statement(defaults, depth, &mut mentioned)?;
            }
        }
        mentioned.sort_unstable();
        mentioned.dedup();
        Ok(mentioned)
    }

    fn statement(&mut self, defaults: &mut Defaults, depth: usize, mentioned: &mut Vec<u32>) -> Result<()> {
        let token = self.lexer.peek();
        if token.is_keyword("node") {
            self.lexer.advance()?;
            return self.attributes(|key, value| defaults.node.set_default(key, value));
        }
        if token.is_keyword("edge") {
            self.lexer.advance()?;
            return self.attributes(|key, value| defaults.edge.set(key, value));
        }
        if token.is_keyword("graph") {
            self.lexer.advance()?;
            return self.attributes(|_, _| Ok(()));
        }
        let first = self.operand(defaults, depth)?;
        let Some(first) = first else {
            return Ok(()); // name = value, an attribute of the graph
        };
        mentioned.extend(&first.nodes);
        let mut sides = vec![first.nodes];
        loop {
            match self.lexer.peek() {
                Token::Arrow => {
                    self.lexer.advance()?;
                }
                Token::Line => return Err(self.lexer.expected("'->' in a digraph")),
                _ => break,
            }
            let Some(next) = self.operand(defaults, depth)? else {
                return Err(self.lexer.expected("a node after '->', not an attribute"));
            };
            mentioned.extend(&next.nodes);
            sides.push(next.nodes);
        }
        if sides.len() > 1 {
            let mut edge = defaults.edge;
            self.attributes(|key, value| edge.set(key, value))?;
            return sides.windows(2).try_for_each(|pair| self.connect(&pair[0], &pair[1], edge.bytes()));
        }
        if first.single
            && let [node] = sides[0][..]
        {
            let mut attributes = std::mem::take(&mut self.nodes[node as usize]);
            self.attributes(|key, value| attributes.set(key, value))?;
            self.nodes[node as usize] = attributes;
        }
        Ok(())
    }

    /// A node or a group of nodes; `None` after `name = value`.
    fn operand(&mut self, defaults: &Defaults, depth: usize) -> Result<Option<Operand>> {
        let mut is_group = *self.lexer.peek() == Token::Symbol('{');
        if self.lexer.peek().is_keyword("subgraph") {
            is_group = true;
            self.lexer.advance()?;
            if matches!(self.lexer.peek(), Token::Id(..)) {
                self.lexer.advance()?;
            }
        }
        if is_group {
            if !self.lexer.accept('{')? {
                return Err(self.lexer.expected("'{'"));
            }
            let nodes = self.statements(&mut defaults.clone(), depth + 1)?;
            return Ok(Some(Operand { nodes, single: false }));
        }
        if !matches!(self.lexer.peek(), Token::Id(..)) {
            return Err(self.lexer.expected("a node, an edge, an attribute or '}'"));
        }
        let Token::Id(name, _) = self.lexer.advance()? else {
            return Ok(None); // looked at above
        };
        if self.lexer.accept('=')? {
            self.value()?;
            return Ok(None);
        }
        while self.lexer.accept(':')? {
            self.value()?; // a port
        }
        let node = self.node(name, defaults)?;
        Ok(Some(Operand { nodes: vec![node], single: true }))
    }

    /// The node of this name, with the defaults of here if it is new.
    fn node(&mut self, name: Cow<'a, str>, defaults: &Defaults) -> Result<u32> {
        let next = u32::try_from(self.nodes.len()).map_err(|_| crate::graph::too_large("tasks"))?;
        let node = *self.ids.entry(name).or_insert(next);
        if node == next {
            self.nodes.push(defaults.node.clone());
        }
        Ok(node)
    }

    fn connect(&mut self, parents: &[u32], children: &[u32], bytes: f64) -> Result<()> {
        // `{a b} -> {c d}` makes the product of its sides: a short text must not make a graph without end.
        if parents.len().min(children.len()) > 1 {
            self.implied = self.implied.saturating_add(parents.len().saturating_mul(children.len()));
        }
        if self.implied > IMPLIED {
            let what = "dependencies between groups of nodes; put a node that joins them between two groups";
            return Err(Error::TooLarge { what, limit: IMPLIED as u64 });
        }
        for parent in parents {
            self.edges.extend(children.iter().map(|child| (*parent, *child, bytes)));
        }
        Ok(())
    }

    /// Any number of `[name = value, ...]`.
    fn attributes(&mut self, mut set: impl FnMut(&str, &str) -> Result<(), String>) -> Result<()> {
        while self.lexer.accept('[')? {
            while !self.lexer.accept(']')? {
                if self.lexer.accept(',')? || self.lexer.accept(';')? {
                    continue;
                }
                if !matches!(self.lexer.peek(), Token::Id(..)) {
                    return Err(self.lexer.expected("an attribute or ']'"));
                }
                let key = self.value()?;
                let position = self.lexer.position();
                if self.lexer.accept('=')? {
                    let position = self.lexer.position();
                    let value = self.value()?;
                    set(&key, &value)
                        .map_err(|e| self.lexer.error_at(position, format!("attribute {key}: {e}")))?;
                } else if !matches!(self.lexer.peek(), Token::Id(..) | Token::Symbol(',' | ';' | ']')) {
                    return Err(self
                        .lexer
                        .error_at(position, format!("attribute {key}: expected '=' and a value")));
                }
            }
        }
        Ok(())
    }

    /// A name where one must be.
    fn value(&mut self) -> Result<Cow<'a, str>> {
        match self.lexer.peek() {
            Token::Id(..) => {}
            _ => return Err(self.lexer.expected("a name or a quoted text")),
        }
        match self.lexer.advance()? {
            Token::Id(text, _) => Ok(text),
            _ => Ok(Cow::Borrowed("")), // looked at above
        }
    }

    fn build(mut self) -> Result<JobGraph> {
        let mut job = JobGraph::builder(self.name);
        let mut names: Vec<(Cow<str>, u32)> = self.ids.into_iter().collect();
        names.sort_unstable_by_key(|(_, node)| *node);
        for ((name, _), attributes) in names.into_iter().zip(self.nodes) {
            job.task(attributes.into_task(&name))?;
        }
        if self.strict {
            let mut last: HashMap<(u32, u32), f64> = HashMap::new();
            for (parent, child, bytes) in &self.edges {
                last.insert((*parent, *child), *bytes);
            }
            self.edges.retain_mut(|(parent, child, bytes)| {
                last.remove(&(*parent, *child)).map(|last| *bytes = last).is_some()
            });
        }
        for (parent, child, bytes) in self.edges {
            job.depend(TaskId::from(child), TaskId::from(parent), bytes);
        }
        job.build()
    }
}

/// One side of an arrow.
struct Operand {
    nodes: Vec<u32>,
    /// Written as the name of one node, which may have attributes.
    single: bool,
}
