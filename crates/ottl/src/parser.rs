//! Tokens to a tree, by recursive descent.
//!
//! The grammar is that of `pkg/ottl/grammar.go`. Where the reference tries alternatives one after the other, this
//! parser looks at the token after the matching bracket. So its time is linear in the length of the text. Length and
//! depth are limited: no text makes it overflow the stack (OTTL-1).

use std::ops::Range;

use crate::ast::{Argument, Call, Compare, Comparison, Condition, Statement};
use crate::error::Fault;
use crate::lexer::{Spanned, Token, tokens};

mod value;

/// Longest statement or condition, in bytes. Real ones have a few hundred.
pub(crate) const MAX_LENGTH: usize = 32 << 10;
/// Deepest nesting of brackets, calls and keys.
const MAX_DEPTH: u32 = 48;

/// Names that mean something by themselves.
const KEYWORDS: &[&str] = &["nil", "not", "or", "and", "true", "false"];

/// Parses a statement: an editor and an optional condition.
pub(crate) fn statement(text: &str) -> Result<Statement, Fault> {
    let mut parser = Parser::new(text)?;
    if !parser.is_call() {
        return Err(parser.expected("an editor call, like set(...)"));
    }
    let editor = parser.call()?;
    if !editor.name.starts_with(|first: char| first.is_ascii_lowercase()) {
        let fault = Fault::new(editor.name_range, format!("\"{}\" does not change anything", editor.name));
        return Err(fault.help("a statement starts with an editor, whose name starts with a lower case letter"));
    }
    if let (Some(first), Some(last)) = (editor.keys.first(), editor.keys.last()) {
        return Err(Fault::new(first.range.start..last.range.end, "only paths and converters can be indexed"));
    }
    let condition = if parser.take_word("where") { Some(parser.condition()?) } else { None };
    parser.end(if condition.is_some() { "\"and\", \"or\" or the end" } else { "\"where\" or the end" })?;
    Ok(Statement { editor, condition })
}

/// Parses a condition.
pub(crate) fn condition(text: &str) -> Result<Condition, Fault> {
    let mut parser = Parser::new(text)?;
    let condition = parser.condition()?;
    parser.end("\"and\", \"or\" or the end")?;
    Ok(condition)
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Spanned>,
    /// For each opening bracket the index of the one that closes it.
    closing: Vec<usize>,
    at: usize,
    depth: u32,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Result<Self, Fault> {
        if text.len() > MAX_LENGTH {
            return Err(Fault::new(MAX_LENGTH..MAX_LENGTH, format!("text longer than {MAX_LENGTH} bytes")));
        }
        let tokens = tokens(text)?;
        let closing = matching(&tokens)?;
        Ok(Self { text, tokens, closing, at: 0, depth: 0 })
    }

    fn peek(&self) -> &Spanned {
        self.ahead(0)
    }

    /// A token further on; the end when there are not so many.
    fn ahead(&self, count: usize) -> &Spanned {
        self.tokens.get(self.at + count).unwrap_or(&self.tokens[self.tokens.len() - 1])
    }

    fn word_of(&self, token: &Spanned) -> Option<&'t str> {
        (token.token == Token::Name).then(|| &self.text[token.range.clone()])
    }

    /// The next token, when it is a name or a keyword.
    fn word(&self) -> Option<&'t str> {
        self.word_of(self.peek())
    }

    fn is_mark(&self, mark: &str) -> bool {
        self.peek().token == Token::Mark(match_mark(mark))
    }

    fn take(&mut self) -> Spanned {
        let taken = self.peek().clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        taken
    }

    fn take_mark(&mut self, mark: &str) -> bool {
        let found = self.is_mark(mark);
        if found {
            self.take();
        }
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.word() == Some(word);
        if found {
            self.take();
        }
        found
    }

    fn expect(&mut self, mark: &str, what: &str) -> Result<(), Fault> {
        if self.take_mark(mark) { Ok(()) } else { Err(self.expected(what)) }
    }

    fn end(&self, what: &str) -> Result<(), Fault> {
        if self.peek().token == Token::End { Ok(()) } else { Err(self.expected(what)) }
    }

    /// The error when something else stands here than the grammar demands.
    fn expected(&self, what: &str) -> Fault {
        let range = self.peek().range.clone();
        let found = match self.text.get(range.clone()).unwrap_or_default() {
            "" => "the end of the text".to_owned(),
            token => format!("`{token}`"),
        };
        Fault::new(range, format!("expected {what}, found {found}"))
    }

    /// From the given place to the end of the token taken last.
    fn since(&self, start: usize) -> Range<usize> {
        let end = self.at.checked_sub(1).map_or(start, |last| self.tokens[last].range.end);
        start..end.max(start)
    }

    /// Goes one level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.depth == MAX_DEPTH {
            return Err(Fault::new(self.peek().range.clone(), format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Terms joined by `or`, each of them values joined by `and`.
    fn condition(&mut self) -> Result<Condition, Fault> {
        self.nested(|parser| {
            let mut terms = vec![parser.term()?];
            while parser.take_word("or") {
                terms.push(parser.term()?);
            }
            Ok(one_or(terms, Condition::Or))
        })
    }

    fn term(&mut self) -> Result<Condition, Fault> {
        let mut values = vec![self.boolean()?];
        while self.take_word("and") {
            values.push(self.boolean()?);
        }
        Ok(one_or(values, Condition::And))
    }

    fn boolean(&mut self) -> Result<Condition, Fault> {
        if self.take_word("not") {
            return Ok(Condition::Not(Box::new(self.plain_boolean()?)));
        }
        self.plain_boolean()
    }

    fn plain_boolean(&mut self) -> Result<Condition, Fault> {
        if self.is_mark("(") && !self.group_is_operand() {
            self.take();
            let inner = self.condition()?;
            self.expect(")", "\"and\", \"or\" or \")\"")?;
            return Ok(inner);
        }
        let left = self.value()?;
        if let Some(operator) = self.comparison() {
            self.take();
            let right = self.value()?;
            return Ok(Condition::Compare(Box::new(Compare { left, operator, right })));
        }
        match left.kind {
            crate::ast::ValueKind::Bool(value) => Ok(Condition::Literal(value)),
            crate::ast::ValueKind::Call(call) => Ok(Condition::Call(call)),
            _ => Err(self.expected("a comparison operator, like ==")),
        }
    }

    /// Whether the group that opens here is a number in a comparison and not a condition.
    fn group_is_operand(&self) -> bool {
        let after = self.tokens.get(self.closing[self.at] + 1).map(|spanned| &spanned.token);
        matches!(after, Some(Token::Mark("==" | "!=" | "<" | "<=" | ">" | ">=" | "+" | "-" | "*" | "/")))
    }

    fn comparison(&self) -> Option<Comparison> {
        let Token::Mark(mark) = self.peek().token else { return None };
        Some(match mark {
            "==" => Comparison::Equal,
            "!=" => Comparison::NotEqual,
            "<" => Comparison::Less,
            "<=" => Comparison::LessOrEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterOrEqual,
            _ => return None,
        })
    }

    /// Whether a name and an opening parenthesis stand here.
    fn is_call(&self) -> bool {
        self.word().is_some_and(|word| !KEYWORDS.contains(&word)) && self.ahead(1).token == Token::Mark("(")
    }

    /// A function call and, for converters, the keys after it.
    fn call(&mut self) -> Result<Call, Fault> {
        self.nested(|parser| {
            let name = parser.take();
            let start = name.range.start;
            parser.expect("(", "\"(\"")?;
            let mut arguments = Vec::new();
            while !parser.is_mark(")") {
                if !arguments.is_empty() {
                    parser.expect(",", "\",\" or \")\"")?;
                }
                arguments.push(parser.argument()?);
            }
            parser.take();
            let keys = parser.keys()?;
            let text = parser.text[name.range.clone()].to_owned();
            Ok(Call { name: text, name_range: name.range, arguments, keys, range: parser.since(start) })
        })
    }

    fn argument(&mut self) -> Result<Argument, Fault> {
        let named = self.word().filter(|_| self.ahead(1).token == Token::Mark("="));
        let name = named.map(|name| {
            let range = self.take().range;
            self.take();
            (name.to_owned(), range)
        });
        Ok(Argument { name, value: self.value()? })
    }
}

fn one_or(mut conditions: Vec<Condition>, join: impl FnOnce(Vec<Condition>) -> Condition) -> Condition {
    match conditions.len() {
        1 => conditions.remove(0),
        _ => join(conditions),
    }
}

/// The mark as the lexer has it.
fn match_mark(mark: &str) -> &'static str {
    crate::lexer::MARKS.iter().find(|known| **known == mark).copied().unwrap_or_default()
}

/// For each opening bracket the index of the one that closes it.
fn matching(tokens: &[Spanned]) -> Result<Vec<usize>, Fault> {
    let mut closing = vec![0; tokens.len()];
    let mut open: Vec<(usize, &str)> = Vec::new();
    for (index, spanned) in tokens.iter().enumerate() {
        let Token::Mark(mark) = spanned.token else { continue };
        let close = match mark {
            "(" => ")",
            "[" => "]",
            "{" => "}",
            ")" | "]" | "}" => match open.pop() {
                Some((opener, expected)) if expected == mark => {
                    closing[opener] = index;
                    continue;
                }
                Some((_, expected)) => {
                    return Err(Fault::new(spanned.range.clone(), format!("expected `{expected}`, found `{mark}`")));
                }
                None => return Err(Fault::new(spanned.range.clone(), format!("`{mark}` closes nothing"))),
            },
            _ => continue,
        };
        open.push((index, close));
    }
    match open.pop() {
        None => Ok(closing),
        Some((opener, expected)) => {
            Err(Fault::new(tokens[opener].range.clone(), format!("`{expected}` is missing for this bracket")))
        }
    }
}

#[cfg(test)]
mod tests;
