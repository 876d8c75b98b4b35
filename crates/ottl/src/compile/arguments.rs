//! Calls: arguments in the order of the parameters, each in the form its parameter declares.

use std::ops::Range;

use bumpalo::Bump;

use super::{Compiler, literal};
use crate::ast;
use crate::context::{Context, LEVELS};
use crate::error::Fault;
use crate::functions::{Function, Kind, Parameter, Type, grok, xml};
use crate::group::Limits;
use crate::paths::{Codec, Field};
use crate::pattern::{self, Origin};
use crate::program::{Argument, Arguments, Call, Expr, Lambda, LambdaBody, Path, Pattern, Syntax, Target};
use crate::scene::Scene;
use crate::strptime::Format;
use crate::value::Value;
use crate::value::zone::Zone;

/// The most memory for values made of literals: a width in a format could ask for any length (OTTL-1).
const MAX_LITERAL: usize = 1 << 20;

impl Compiler {
    /// Compiles a call.
    pub(super) fn call(&mut self, call: &ast::Call) -> Result<Call, Fault> {
        let function = self.function(&call.name, &call.name_range)?;
        let given = ordered(function, call)?;
        let mut arguments = Vec::with_capacity(function.parameters.len());
        for (parameter, value) in function.parameters.iter().zip(given) {
            arguments.push(match value {
                Some(value) => self.argument(function, parameter, value)?,
                None => Argument::Missing,
            });
        }
        let arguments = Arguments(arguments);
        (function.check)(&arguments).map_err(|message| Fault::new(call.range.clone(), message))?;
        if let ("set", [target, value]) = (function.name, &call.arguments[..]) {
            check_assignment(&arguments, &target.value, &value.value)?;
        }
        if !function.is_editor() && arguments.are_literals() {
            // What fails without an item fails for every item.
            let arena = Bump::new();
            let limits = Limits { now_unix_nano: 0, max_growth: 0, max_scratch: MAX_LITERAL };
            let mut nowhere = Scene::new(&[], &arena, &[0; LEVELS], &limits);
            let result = (function.call)(&arguments, &mut nowhere);
            result.map_err(|failure| Fault::new(call.range.clone(), failure.to_string()))?;
        }
        let keys = call.keys.iter().map(|key| self.value(key)).collect::<Result<_, _>>()?;
        Ok(Call { function, arguments, keys })
    }

    fn argument(
        &mut self,
        function: &'static Function,
        parameter: &Parameter,
        value: &ast::Value,
    ) -> Result<Argument, Fault> {
        let wrong = || {
            let message = format!("the argument {} of {} must be a {}", parameter.name, function.name, parameter.kind);
            Fault::new(value.range.clone(), message)
        };
        Ok(match (parameter.kind, &value.kind) {
            (Kind::Any | Kind::Like, _) => Argument::Value(self.value(value)?),
            (Kind::Typed(kind), _) => {
                Argument::Value(self.typed(kind, value).map_err(|fault| fault.unwrap_or_else(wrong))?)
            }
            (Kind::Path | Kind::MapPath | Kind::ListPath, ast::ValueKind::Path(path)) => {
                Argument::Path(self.settable(parameter.kind, path, &value.range, wrong)?)
            }
            (Kind::Values, ast::ValueKind::List(values)) => {
                Argument::Values(values.iter().map(|value| self.value(value)).collect::<Result<_, _>>()?)
            }
            (Kind::Texts, ast::ValueKind::List(values)) => {
                Argument::Texts(values.iter().map(|value| text_of(value).ok_or_else(wrong)).collect::<Result<_, _>>()?)
            }
            (Kind::Pattern(syntax), _) => Argument::Pattern(self.pattern(syntax, value, wrong)?),
            (Kind::Grok, _) => Argument::Grok(self.value(value)?, grok::Cell::new()),
            (Kind::Lambda(parameters), ast::ValueKind::Lambda(lambda)) => {
                Argument::Lambda(self.lambda(lambda, &value.range, parameters)?)
            }
            (Kind::Function, ast::ValueKind::Name(name)) => Argument::Lambda(self.passed_on(name, value)?),
            (kind, _) => return constant(kind, value, wrong),
        })
    }

    /// A path that a call may write to, of the kind that its parameter wants.
    fn settable(
        &mut self,
        kind: Kind,
        path: &ast::Path,
        range: &Range<usize>,
        wrong: impl Fn() -> Fault,
    ) -> Result<Path, Fault> {
        let path = self.path(path)?;
        let fits = match kind {
            Kind::MapPath => may_be(&path, |target| matches!(target, Target::Map(_) | Target::Cache)),
            Kind::ListPath => {
                may_be(&path, |target| matches!(target, Target::Field(field) if field.codec.type_name() == "list"))
            }
            _ => true,
        };
        if !fits {
            return Err(wrong());
        }
        if matches!(path.target, Target::EventIndex | Target::MetricType | Target::Local(_)) {
            return Err(Fault::new(range.clone(), "this cannot be set"));
        }
        if let Some(walked) = walked(self.context, path.target) {
            let message = format!("the {walked} cannot be replaced while statements go through them");
            let help = "put this into a group of its own, whose paths name nothing in them";
            return Err(Fault::new(range.clone(), message).help(help));
        }
        Ok(path)
    }

    /// A value of a type, unless it is a literal of another one.
    fn typed(&mut self, kind: Type, value: &ast::Value) -> Result<Expr, Option<Fault>> {
        let expr = self.value(value).map_err(Some)?;
        let fits = match literal(&expr) {
            Some(literal) => literal.type_name() == kind.name(),
            None => static_type(&expr).is_none_or(|name| name == kind.name()),
        };
        if fits { Ok(expr) } else { Err(None) }
    }

    fn pattern(&mut self, syntax: Syntax, value: &ast::Value, wrong: impl Fn() -> Fault) -> Result<Pattern, Fault> {
        match self.value(value)? {
            Expr::Literal(Value::String(source)) => match pattern::compile(&source, syntax, Origin::Statement) {
                Ok(regex) => Ok(Pattern::Ready(Box::new(regex))),
                Err(message) => Err(Fault::new(value.range.clone(), message)),
            },
            Expr::Literal(_) => Err(wrong()),
            expr => Ok(Pattern::Dynamic(expr, syntax)),
        }
    }

    /// A function passed as an argument: a lambda of one parameter that calls it.
    fn passed_on(&mut self, name: &str, value: &ast::Value) -> Result<Lambda, Fault> {
        let function = self.function(name, &value.range)?;
        let takes_one = function.parameters.iter().filter(|parameter| !parameter.optional).count() == 1;
        let first = function.parameters.first().map(|parameter| parameter.kind);
        if !takes_one || !matches!(first, Some(Kind::Any | Kind::Like | Kind::Typed(_))) {
            return Err(Fault::new(value.range.clone(), format!("{name} does not take one value")));
        }
        let base = self.locals.len();
        let local = Path { target: Target::Local(base), keys: Vec::new(), slot: None };
        let mut arguments = vec![Argument::Value(Expr::Path(local))];
        arguments.extend(function.parameters.iter().skip(1).map(|_| Argument::Missing));
        let call = Call { function, arguments: Arguments(arguments), keys: Vec::new() };
        Ok(Lambda { base, parameters: 1, body: LambdaBody::Value(Expr::Call(Box::new(call))) })
    }
}

/// An argument that must be a literal, prepared.
fn constant(kind: Kind, value: &ast::Value, wrong: impl Fn() -> Fault) -> Result<Argument, Fault> {
    let fault = |message| Fault::new(value.range.clone(), message);
    Ok(match (kind, &value.kind) {
        (Kind::TimeFormat, ast::ValueKind::String(text)) => Argument::TimeFormat(Format::compile(text).map_err(fault)?),
        (Kind::Zone, ast::ValueKind::String(name)) => Argument::Zone(Zone::named(name).ok_or_else(|| {
            fault(format!("\"{name}\" is no time zone"))
                .help("the names are those of the IANA database, like Europe/Berlin")
        })?),
        (Kind::XPath, ast::ValueKind::String(text)) => Argument::XPath(xml::parse(text).map_err(fault)?),
        (Kind::Text, ast::ValueKind::String(text)) => Argument::Text(text.clone()),
        (Kind::OneOf(choices), ast::ValueKind::String(text)) => {
            if !choices.contains(&text.as_str()) {
                return Err(wrong().did_you_mean(text, choices.iter().copied()));
            }
            Argument::Text(text.clone())
        }
        (Kind::Int, ast::ValueKind::Int(value)) => Argument::Int(*value),
        (Kind::Double, _) => Argument::Double(double_of(value).ok_or_else(wrong)?),
        (Kind::Doubles, ast::ValueKind::List(values)) => {
            Argument::Doubles(values.iter().map(|value| double_of(value).ok_or_else(&wrong)).collect::<Result<_, _>>()?)
        }
        (Kind::Bool, ast::ValueKind::Bool(value)) => Argument::Bool(*value),
        _ => return Err(wrong()),
    })
}

/// The arguments in the order of the parameters.
fn ordered<'c>(function: &'static Function, call: &'c ast::Call) -> Result<Vec<Option<&'c ast::Value>>, Fault> {
    let parameters = function.parameters;
    let mut given: Vec<Option<&ast::Value>> = vec![None; parameters.len()];
    let mut named_before = false;
    for (position, argument) in call.arguments.iter().enumerate() {
        let index = match &argument.name {
            Some((name, range)) => {
                named_before = true;
                let index = parameters.iter().position(|parameter| camel(parameter.name) == camel(name));
                index.ok_or_else(|| {
                    let fault = Fault::new(range.clone(), format!("{} has no parameter \"{name}\"", function.name));
                    fault.did_you_mean(name, parameters.iter().map(|parameter| parameter.name))
                })?
            }
            None if named_before => {
                return Err(Fault::new(argument.value.range.clone(), "unnamed argument after a named one"));
            }
            None => position,
        };
        match given.get_mut(index) {
            Some(slot @ None) => *slot = Some(&argument.value),
            Some(Some(_)) => {
                return Err(Fault::new(argument.value.range.clone(), "second value for the same parameter"));
            }
            None => return Err(count_fault(function, call)),
        }
    }
    let missing = parameters.iter().zip(&given).any(|(parameter, value)| !parameter.optional && value.is_none());
    if missing { Err(count_fault(function, call)) } else { Ok(given) }
}

/// A name in camel case: as in the reference, `element_name` may be written `elementName`.
fn camel(name: &str) -> String {
    let mut camel = String::with_capacity(name.len());
    let mut starts_word = false;
    for char in name.chars() {
        match char {
            '_' => starts_word = true,
            char => camel.push(if std::mem::take(&mut starts_word) { char.to_ascii_uppercase() } else { char }),
        }
    }
    camel
}

fn count_fault(function: &Function, call: &ast::Call) -> Fault {
    let required = function.parameters.iter().filter(|parameter| !parameter.optional).count();
    let most = function.parameters.len();
    let expected = if required == most { required.to_string() } else { format!("{required} to {most}") };
    let message = format!("{} takes {expected} arguments, not {}", function.name, call.arguments.len());
    let names: Vec<&str> = function.parameters.iter().map(|parameter| parameter.name).collect();
    Fault::new(call.range.clone(), message).help(format!("its parameters are ({})", names.join(", ")))
}

/// Whether a path can lead to what is asked for. With keys it can lead anywhere.
fn may_be(path: &Path, fits: fn(Target) -> bool) -> bool {
    match path.target {
        Target::Body | Target::Local(_) => true,
        target => fits(target) || !path.keys.is_empty(),
    }
}

/// What a path leads to, if that holds the items of the context. Their bytes are being written anew one by one, so they
/// cannot be replaced as a whole at the same time.
fn walked(context: Context, target: Target) -> Option<&'static str> {
    let Target::Field(Field { codec: Codec::Messages(kind), .. }) = target else { return None };
    let around: &[&str] = match context {
        Context::SpanEvent => &["events"],
        Context::DataPoint => &["data points"],
        Context::Exemplar => &["data points", "exemplars"],
        Context::Log | Context::Metric | Context::Span | Context::Scope | Context::Resource => &[],
    };
    around.contains(&kind).then_some(kind)
}

fn text_of(value: &ast::Value) -> Option<String> {
    match &value.kind {
        ast::ValueKind::String(text) => Some(text.clone()),
        _ => None,
    }
}

fn double_of(value: &ast::Value) -> Option<f64> {
    match value.kind {
        ast::ValueKind::Float(value) => Some(value),
        _ => None,
    }
}

/// The type of an expression that always has the same one.
fn static_type(expr: &Expr) -> Option<&'static str> {
    match expr {
        Expr::List(_) => Some("list"),
        Expr::Map(_) => Some("map"),
        Expr::Path(Path { target: Target::Field(field), keys, .. }) if keys.is_empty() => Some(field.codec.type_name()),
        Expr::Path(Path { target: Target::Map(_) | Target::Cache, keys, .. }) if keys.is_empty() => Some("map"),
        _ => None,
    }
}

/// Refuses an assignment of a value whose known type is not that of the target.
fn check_assignment(arguments: &Arguments, target: &ast::Value, value: &ast::Value) -> Result<(), Fault> {
    let [Argument::Path(path), Argument::Value(expr)] = &arguments.0[..] else { return Ok(()) };
    let refused = |message| Err(Fault::new(target.range.start..value.range.end, message));
    let found = match literal(expr) {
        // Assigning nothing leaves the target as it is.
        Some(Value::Nil) => return Ok(()),
        Some(literal) => Some(literal.type_name()),
        None => static_type(expr),
    };
    let wanted = match path.target {
        Target::Field(field) if path.keys.is_empty() => field.codec.type_name(),
        Target::Map(_) | Target::Cache if path.keys.is_empty() => "map",
        Target::BodyText | Target::Field(Field { codec: Codec::TraceState, .. }) => "string",
        _ => {
            return match unstorable(expr) {
                Some(found) => refused(format!("a {found} cannot be stored in attributes, bodies and caches")),
                None => Ok(()),
            };
        }
    };
    match found {
        Some(found) if found != wanted => {
            refused(format!("a {found} cannot be assigned to a path of the type {wanted}"))
        }
        _ => Ok(()),
    }
}

/// The type of a value, known to be this one or to contain it, that an `AnyValue` can never hold.
fn unstorable(expr: &Expr) -> Option<&'static str> {
    match expr {
        Expr::List(values) => values.iter().find_map(unstorable),
        Expr::Map(entries) => entries.iter().find_map(|(_, value)| unstorable(value)),
        expr => {
            let storable = ["bool", "int", "double", "string", "list", "map"];
            static_type(expr).filter(|found| !storable.contains(found))
        }
    }
}
