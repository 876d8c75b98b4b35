//! XPath texts to paths.

use super::{Axis, Path, Predicate, Relation, Step, Test, XPath};

/// Deepest nesting of brackets and parentheses.
const MAX_DEPTH: u32 = 32;

/// Reads a path.
///
/// # Errors
/// What is wrong with it, or not supported.
pub(crate) fn parse(text: &str) -> Result<XPath, String> {
    let mut parser = Parser { rest: text, depth: 0 };
    let mut paths = Vec::new();
    loop {
        paths.push(parser.path()?);
        if !parser.takes("|") {
            break;
        }
    }
    match parser.rest.trim_start() {
        "" => Ok(XPath(paths)),
        rest => Err(format!("unsupported XPath at \"{rest}\"")),
    }
}

struct Parser<'t> {
    rest: &'t str,
    depth: u32,
}

impl<'t> Parser<'t> {
    fn takes(&mut self, token: &str) -> bool {
        match self.rest.trim_start().strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.takes(token) { Ok(()) } else { Err(format!("expected \"{token}\" in the XPath at \"{}\"", self.rest)) }
    }

    fn peeks(&self, token: &str) -> bool {
        self.rest.trim_start().starts_with(token)
    }

    /// A name, with a prefix perhaps.
    fn name(&mut self) -> Option<&'t str> {
        let text = self.rest.trim_start();
        let is_part = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-' | '.' | ':');
        if !text.starts_with(|first: char| first.is_alphabetic() || first == '_') {
            return None;
        }
        let end = text.find(|char| !is_part(char)).unwrap_or(text.len());
        // An axis, which is none of a name.
        let end = text[..end].find("::").unwrap_or(end);
        self.rest = &text[end..];
        Some(&text[..end])
    }

    fn path(&mut self) -> Result<Path, String> {
        let any_depth = || Step { axis: Axis::DescendantOrOwn, test: Test::Node, predicates: Vec::new() };
        let mut path = Path { absolute: self.peeks("/"), steps: Vec::new() };
        if self.takes("//") {
            path.steps.push(any_depth());
        } else if self.takes("/") && !self.starts_step() {
            return Ok(path);
        }
        loop {
            path.steps.push(self.step()?);
            if self.takes("//") {
                path.steps.push(any_depth());
            } else if !self.takes("/") {
                return Ok(path);
            }
            // A slash at the end selects what the path before it does.
            if !self.starts_step() {
                return Ok(path);
            }
        }
    }

    fn starts_step(&self) -> bool {
        let first = self.rest.trim_start().chars().next();
        first.is_some_and(|first| first.is_alphabetic() || matches!(first, '_' | '@' | '*' | '.'))
    }

    fn step(&mut self) -> Result<Step, String> {
        let (axis, test) = if self.takes("..") {
            (Axis::Parent, Test::Node)
        } else if self.takes(".") {
            (Axis::Own, Test::Node)
        } else if self.takes("@") {
            (Axis::Attribute, self.test()?)
        } else {
            (Axis::Child, self.test()?)
        };
        let mut predicates = Vec::new();
        while self.takes("[") {
            predicates.push(self.nested(Self::predicate)?);
            self.expect("]")?;
        }
        Ok(Step { axis, test, predicates })
    }

    fn test(&mut self) -> Result<Test, String> {
        if self.takes("*") {
            return Ok(Test::Any);
        }
        let at = self.rest;
        let name = self.name().ok_or_else(|| format!("expected a name in the XPath at \"{at}\""))?;
        if self.peeks("::") {
            return Err(format!("the axis \"{name}\" of XPath is not supported"));
        }
        if !self.takes("(") {
            return Ok(Test::Name(name.to_owned()));
        }
        self.expect(")")?;
        match name {
            "text" => Ok(Test::Text),
            "comment" => Ok(Test::Comment),
            "node" => Ok(Test::Node),
            other => Err(format!("the function \"{other}\" of XPath is not supported here")),
        }
    }

    fn nested<T>(&mut self, inner: fn(&mut Self) -> Result<T, String>) -> Result<T, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("the XPath is nested too deep".to_owned());
        }
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn predicate(&mut self) -> Result<Predicate, String> {
        let mut left = self.conjunction()?;
        while self.word("or") {
            left = Predicate::Or(Box::new(left), Box::new(self.conjunction()?));
        }
        Ok(left)
    }

    fn conjunction(&mut self) -> Result<Predicate, String> {
        let mut left = self.primary()?;
        while self.word("and") {
            left = Predicate::And(Box::new(left), Box::new(self.primary()?));
        }
        Ok(left)
    }

    fn word(&mut self, word: &str) -> bool {
        let before = self.rest;
        if self.name() == Some(word) {
            return true;
        }
        self.rest = before;
        false
    }

    fn primary(&mut self) -> Result<Predicate, String> {
        let text = self.rest.trim_start();
        if self.takes("(") {
            let inner = self.nested(Self::predicate)?;
            self.expect(")")?;
            return Ok(inner);
        }
        let digits = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
        if digits > 0 {
            self.rest = &text[digits..];
            let position = text[..digits].parse();
            return position.map(Predicate::Position).map_err(|_| "the position in the XPath is too large".to_owned());
        }
        for (name, relation) in [("contains", Relation::Contains), ("starts-with", Relation::StartsWith)] {
            if self.call(name) {
                let path = self.nested(Self::path)?;
                self.expect(",")?;
                let text = self.literal()?;
                self.expect(")")?;
                return Ok(Predicate::Compare(path, relation, text));
            }
        }
        if self.call("not") {
            let inner = self.nested(Self::predicate)?;
            self.expect(")")?;
            return Ok(Predicate::Not(Box::new(inner)));
        }
        if self.call("last") {
            self.expect(")")?;
            return Ok(Predicate::Last);
        }
        let path = self.nested(Self::path)?;
        if self.takes("!=") {
            return Ok(Predicate::Compare(path, Relation::Differs, self.literal()?));
        }
        if self.takes("=") {
            return Ok(Predicate::Compare(path, Relation::Equals, self.literal()?));
        }
        Ok(Predicate::Exists(path))
    }

    /// Whether a function is called here.
    fn call(&mut self, name: &str) -> bool {
        let before = self.rest;
        if self.word(name) && self.takes("(") {
            return true;
        }
        self.rest = before;
        false
    }

    fn literal(&mut self) -> Result<String, String> {
        for quote in ["'", "\""] {
            if self.takes(quote) {
                let (text, rest) = self.rest.split_once(quote).ok_or("a text in the XPath has no end")?;
                self.rest = rest;
                return Ok(text.to_owned());
            }
        }
        Err(format!("expected a text in quotes in the XPath at \"{}\"", self.rest))
    }
}
