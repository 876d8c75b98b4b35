//! Values: literals, paths, calls, arithmetic, lists, maps and lambdas.

use std::ops::Range;

use super::{KEYWORDS, Parser};
use crate::ast::{Lambda, LambdaBody, MathOperator, Path, Segment, Value, ValueKind};
use crate::error::Fault;
use crate::lexer::Token;

impl Parser<'_> {
    /// Any value.
    pub(super) fn value(&mut self) -> Result<Value, Fault> {
        let start = self.peek().range.start;
        let kind = match (&self.peek().token, self.word()) {
            (_, Some("nil")) => ValueKind::Nil,
            (_, Some(word @ ("true" | "false"))) => ValueKind::Bool(word == "true"),
            (Token::String(text), _) => ValueKind::String(text.clone()),
            (Token::Bytes(bytes), _) => ValueKind::Bytes(bytes.clone()),
            (Token::Mark("["), _) => return self.nested(Self::list),
            (Token::Mark("{"), _) => return self.nested(Self::map),
            (Token::Mark("("), _) if self.tokens[self.closing[self.at] + 1].token == Token::Mark("=>") => {
                return self.nested(Self::lambda);
            }
            (_, Some(word)) if word.starts_with(|first: char| first.is_ascii_uppercase()) && !self.is_call() => {
                ValueKind::Name(word.to_owned())
            }
            _ => return self.nested(Self::math),
        };
        self.take();
        Ok(Value { kind, range: self.since(start) })
    }

    fn list(&mut self) -> Result<Value, Fault> {
        let start = self.take().range.start;
        let mut values = Vec::new();
        while !self.is_mark("]") {
            if !values.is_empty() {
                self.expect(",", "\",\" or \"]\"")?;
            }
            values.push(self.value()?);
        }
        self.take();
        Ok(Value { kind: ValueKind::List(values), range: self.since(start) })
    }

    fn map(&mut self) -> Result<Value, Fault> {
        let start = self.take().range.start;
        let mut values = Vec::new();
        while !self.is_mark("}") {
            let Token::String(key) = self.peek().token.clone() else { return Err(self.expected("a key in quotes")) };
            self.take();
            self.expect(":", "\":\"")?;
            values.push((key, self.value()?));
            if !self.take_mark(",") && !self.is_mark("}") {
                return Err(self.expected("\",\" or \"}\""));
            }
        }
        self.take();
        Ok(Value { kind: ValueKind::Map(values), range: self.since(start) })
    }

    fn lambda(&mut self) -> Result<Value, Fault> {
        let start = self.take().range.start;
        let mut parameters: Vec<(String, Range<usize>)> = Vec::new();
        while !self.is_mark(")") {
            if !parameters.is_empty() {
                self.expect(",", "\",\" or \")\"")?;
            }
            let name = self.word().filter(|word| *word == "_" || is_field_name(word));
            let Some(name) = name else { return Err(self.expected("the name of a parameter or \"_\"")) };
            let range = self.take().range;
            if name != "_" && parameters.iter().any(|(other, _)| other == name) {
                return Err(Fault::new(range, format!("second parameter with the name \"{name}\"")));
            }
            parameters.push((name.to_owned(), range));
        }
        self.take();
        self.expect("=>", "\"=>\"")?;
        let body = if self.body_is_condition() {
            LambdaBody::Condition(self.condition()?)
        } else {
            LambdaBody::Value(self.value()?)
        };
        if let LambdaBody::Value(Value { kind: ValueKind::Lambda(_), range }) = body {
            return Err(Fault::new(range, "a lambda cannot return a lambda"));
        }
        Ok(Value { kind: ValueKind::Lambda(Lambda { parameters, body: Box::new(body) }), range: self.since(start) })
    }

    /// Whether the body of a lambda, which starts here, has an operator that makes it a condition.
    fn body_is_condition(&self) -> bool {
        let mut index = self.at;
        while let Some(spanned) = self.tokens.get(index) {
            match (&spanned.token, self.word_of(spanned)) {
                (Token::Mark("==" | "!=" | "<" | "<=" | ">" | ">="), _) | (_, Some("and" | "or" | "not")) => {
                    return true;
                }
                (Token::Mark("," | ")" | "]" | "}") | Token::End, _) => return false,
                // Arguments and keys do not say what the whole is; a group does.
                (Token::Mark("["), _) => index = self.closing[index],
                (Token::Mark("{"), _) => index = self.closing[index],
                (Token::Mark("("), _) if self.follows_name(index) => index = self.closing[index],
                (Token::Mark("("), _) => {
                    let inside = &self.tokens[index..self.closing[index]];
                    return inside.iter().any(|spanned| {
                        matches!(spanned.token, Token::Mark("==" | "!=" | "<" | "<=" | ">" | ">="))
                            || matches!(self.word_of(spanned), Some("and" | "or" | "not"))
                    }) || self.rest_is_condition(self.closing[index] + 1);
                }
                _ => {}
            }
            index += 1;
        }
        false
    }

    fn rest_is_condition(&self, index: usize) -> bool {
        self.tokens.get(index).is_some_and(|spanned| {
            matches!(spanned.token, Token::Mark("==" | "!=" | "<" | "<=" | ">" | ">="))
                || matches!(self.word_of(spanned), Some("and" | "or"))
        })
    }

    fn follows_name(&self, index: usize) -> bool {
        index.checked_sub(1).is_some_and(|before| self.tokens[before].token == Token::Name)
    }

    /// Sums of products.
    pub(super) fn math(&mut self) -> Result<Value, Fault> {
        let start = self.peek().range.start;
        let first = self.product()?;
        let mut rest = Vec::new();
        while let Some(operator) = self.take_operator("+", MathOperator::Add, "-", MathOperator::Subtract) {
            rest.push((operator, self.product()?));
        }
        Ok(self.chain(start, first, rest))
    }

    fn product(&mut self) -> Result<Value, Fault> {
        let start = self.peek().range.start;
        let first = self.operand()?;
        let mut rest = Vec::new();
        while let Some(operator) = self.take_operator("*", MathOperator::Multiply, "/", MathOperator::Divide) {
            rest.push((operator, self.operand()?));
        }
        Ok(self.chain(start, first, rest))
    }

    fn chain(&self, start: usize, first: Value, rest: Vec<(MathOperator, Value)>) -> Value {
        if rest.is_empty() {
            return first;
        }
        Value { kind: ValueKind::Math(Box::new(first), rest), range: self.since(start) }
    }

    fn take_operator(
        &mut self,
        first: &str,
        first_operator: MathOperator,
        second: &str,
        second_operator: MathOperator,
    ) -> Option<MathOperator> {
        if self.take_mark(first) {
            return Some(first_operator);
        }
        self.take_mark(second).then_some(second_operator)
    }

    /// A number, a path, a call or a group, with an optional sign.
    fn operand(&mut self) -> Result<Value, Fault> {
        let start = self.peek().range.start;
        let negative = self.take_mark("-");
        if !negative {
            self.take_mark("+");
        }
        let operand = self.unsigned()?;
        let kind = match operand.kind {
            kind if !negative => kind,
            ValueKind::Int(value) => ValueKind::Int(-value),
            ValueKind::Float(value) => ValueKind::Float(-value),
            _ => ValueKind::Negate(Box::new(operand)),
        };
        Ok(Value { kind, range: self.since(start) })
    }

    fn unsigned(&mut self) -> Result<Value, Fault> {
        let start = self.peek().range.start;
        let kind = match (self.peek().token.clone(), self.word()) {
            (Token::Int(value), _) => ValueKind::Int(value),
            (Token::Float(value), _) => ValueKind::Float(value),
            (Token::Mark("("), _) => {
                self.take();
                let inner = self.nested(Self::math)?;
                self.expect(")", "an operator or \")\"")?;
                return Ok(Value { kind: inner.kind, range: self.since(start) });
            }
            (_, Some(_)) if self.is_call() => return self.converter(),
            (_, Some(word))
                if !KEYWORDS.contains(&word) && word.starts_with(|char: char| char.is_ascii_lowercase()) =>
            {
                return self.path();
            }
            _ => return Err(self.expected("a value")),
        };
        self.take();
        Ok(Value { kind, range: self.since(start) })
    }

    fn converter(&mut self) -> Result<Value, Fault> {
        let start = self.peek().range.start;
        let call = self.call()?;
        if !call.name.starts_with(|first: char| first.is_ascii_uppercase()) {
            let fault = Fault::new(call.name_range, format!("\"{}\" is not a converter", call.name));
            let is_converter = |name: &&str| name.starts_with(|first: char| first.is_ascii_uppercase());
            let fault = fault.did_you_mean(&call.name, crate::functions::names().filter(is_converter));
            return Err(if fault.help.is_some() {
                fault
            } else {
                fault.help("names of converters start with an upper case letter, editors return no value")
            });
        }
        Ok(Value { kind: ValueKind::Call(call), range: self.since(start) })
    }

    fn path(&mut self) -> Result<Value, Fault> {
        let start = self.peek().range.start;
        let mut segments = Vec::new();
        loop {
            let Some(name) = self.word().filter(|word| is_field_name(word) && !KEYWORDS.contains(word)) else {
                return Err(self.expected("the name of a field, in lower case"));
            };
            let range = self.take().range;
            let keys = self.keys()?;
            segments.push(Segment { name: name.to_owned(), keys, range });
            if !self.take_mark(".") {
                break;
            }
        }
        let range = self.since(start);
        Ok(Value { kind: ValueKind::Path(Path { segments, range: range.clone() }), range })
    }

    /// Keys in brackets: strings, numbers, paths, calls.
    pub(super) fn keys(&mut self) -> Result<Vec<Value>, Fault> {
        let mut keys = Vec::new();
        while self.take_mark("[") {
            let start = self.peek().range.start;
            let key = match self.peek().token.clone() {
                Token::String(text) => {
                    self.take();
                    Value { kind: ValueKind::String(text), range: self.since(start) }
                }
                _ => self.nested(Self::math)?,
            };
            if let ValueKind::Float(_) = key.kind {
                return Err(Fault::new(key.range, "a key is a string or an integer"));
            }
            self.expect("]", "\"]\"")?;
            keys.push(key);
        }
        Ok(keys)
    }
}

fn is_field_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_lowercase()) && !word.contains(|char: char| char.is_ascii_uppercase())
}
