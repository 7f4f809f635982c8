//! Evaluates terms by their kind.

use std::cmp::Ordering;

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::ops::Math;
use jaq_core::path::{Opt, Part};

use super::access::{each_child, each_descendant, index, slice};
use super::arithmetic::compute;
use super::assignment::assign;
use super::calls::call;
use super::control::{Fold, alternative, choose, fold, labelled, logic, try_catch};
use super::error::JqError;
use super::evaluation::{Evaluation, Input, JqTerm};
use super::formats::formatted;
use super::item::{Flow, Item, Out, Stop, failed, literal};
use super::patterns::named;
use super::scope::NameScope;
use super::value::{Fields, JqValue};

/// Evaluates a term, and passes on each result. [`Evaluation::eval`] bounds it.
pub fn evaluate<'a>(
    run: &Evaluation,
    term: &'a JqTerm<'a>,
    input: Input<'a, '_>,
    out: Out<'_>,
) -> Flow {
    let scope = input.scope;
    match term {
        Term::Id => out(input.item.clone()),
        Term::Recurse => each_descendant(&run.budget, input.item, out),
        Term::Num(text) => out(Item::computed(literal(text)?)),
        Term::Str(format, parts) => text(run, *format, parts, String::new(), input, out),
        Term::Arr(inner) => out(Item::computed(array(run, inner.as_deref(), input)?)),
        Term::Obj(entries) => object(run, entries, Fields::new(), input, out),
        Term::Neg(inner) => negated(run, inner, input, out),
        Term::BinOp(left, operator, right) => operation(run, left, operator, right, input, out),
        Term::Label(name, body) => labelled(run, name, body, input, out),
        Term::Break(name) => {
            Err(scope.label(name).map_or(Stop::Fatal(JqError::UnknownName), Stop::Break))
        }
        Term::Fold(kind, source, pattern, arguments) => {
            fold(run, &Fold { kind, source, pattern, arguments }, input, out)
        }
        Term::TryCatch(body, handler) => try_catch(run, body, handler.as_deref(), input, out),
        Term::IfThenElse(cases, otherwise) => choose(run, cases, otherwise.as_deref(), input, out),
        Term::Def(definitions, body) => {
            let with = |scope: NameScope<'a>, function| scope.with_function(function);
            let scope = definitions.iter().fold(scope.clone(), with);
            run.eval(body, input.with(&scope), out)
        }
        Term::Call(name, arguments) => call(run, name, arguments, input, out),
        Term::Var(name) => out(Item::computed(variable(name, scope)?)),
        Term::Path(start, path) => {
            run.eval(start, input, &mut |found| follow(run, &path.0, &found, input, out))
        }
    }
}

/// The value of a variable.
fn variable(name: &str, scope: &NameScope<'_>) -> Result<JqValue, Stop> {
    match (name, scope.variable(name)) {
        (_, Some(value)) => Ok(value),
        ("$ENV", None) => Ok(JqValue::map(Fields::new())?),
        _ => Err(Stop::Fatal(JqError::UnknownName)),
    }
}

fn negated<'a>(run: &Evaluation, term: &'a JqTerm<'a>, input: Input<'a, '_>, out: Out<'_>) -> Flow {
    run.eval(term, input, &mut |found| {
        let zero = JqValue::Integer(0);
        out(Item::computed(compute(&run.budget, Math::Sub, &zero, &found.value)?))
    })
}

fn array<'a>(
    run: &Evaluation,
    inner: Option<&'a JqTerm<'a>>,
    input: Input<'a, '_>,
) -> Result<JqValue, Stop> {
    let items = match inner {
        Some(inner) => run.collect(inner, input)?,
        None => Vec::new(),
    };
    Ok(JqValue::list(items)?)
}

fn text<'a>(
    run: &Evaluation,
    format: Option<&'a str>,
    parts: &'a [StrPart<&'a str, JqTerm<'a>>],
    made: String,
    input: Input<'a, '_>,
    out: Out<'_>,
) -> Flow {
    let Some((first, rest)) = parts.split_first() else {
        return out(Item::computed(JqValue::text(made)));
    };
    run.budget.charge(1 + made.len() / 16)?;
    match first {
        StrPart::Str(part) => text(run, format, rest, made + part, input, out),
        StrPart::Char(part) => text(run, format, rest, format!("{made}{part}"), input, out),
        StrPart::Term(term) => run.eval(term, input, &mut |found| {
            let part = formatted(&run.budget, format.unwrap_or("@text"), &found.value)?;
            text(run, format, rest, format!("{made}{part}"), input, out)
        }),
    }
}

fn object<'a>(
    run: &Evaluation,
    entries: &'a [(JqTerm<'a>, Option<JqTerm<'a>>)],
    fields: Fields,
    input: Input<'a, '_>,
    out: Out<'_>,
) -> Flow {
    let Some(((key, value), rest)) = entries.split_first() else {
        return out(Item::computed(JqValue::map(fields)?));
    };
    run.budget.charge(1 + fields.len())?;
    let mut with = |key: &JqValue, value: JqValue| {
        let JqValue::Text(key) = key else {
            return failed(format!("{} cannot be a key", key.kind()));
        };
        let mut fields = fields.clone();
        fields.insert(key.clone(), value);
        object(run, rest, fields, input, out)
    };
    if let (Term::Var(name), None) = (key, value) {
        let value = input.scope.variable(name).ok_or(Stop::Fatal(JqError::UnknownName))?;
        return with(&JqValue::text(name.trim_start_matches('$')), value);
    }
    run.eval(key, input, &mut |key| match value {
        Some(value) => run.eval(value, input, &mut |one| with(&key.value, one.value)),
        None => {
            let value = index(&run.budget, input.item, &key.value)?.value;
            with(&key.value, value)
        }
    })
}

fn operation<'a>(
    run: &Evaluation,
    left: &'a JqTerm<'a>,
    operator: &'a BinaryOp<&'a str>,
    right: &'a JqTerm<'a>,
    input: Input<'a, '_>,
    out: Out<'_>,
) -> Flow {
    match operator {
        BinaryOp::Pipe(None) => {
            run.eval(left, input, &mut |found| run.eval(right, input.of(&found), out))
        }
        BinaryOp::Pipe(Some(pattern)) => named(run, left, pattern, right, input, out),
        BinaryOp::Comma => {
            run.eval(left, input, out)?;
            run.eval(right, input, out)
        }
        BinaryOp::Alt => alternative(run, left, right, input, out),
        BinaryOp::Or => logic(run, left, true, right, input, out),
        BinaryOp::And => logic(run, left, false, right, input, out),
        BinaryOp::Math(operator) => pairs(run, left, right, input, &mut |left, right| {
            out(Item::computed(compute(&run.budget, *operator, left, right)?))
        }),
        BinaryOp::Cmp(operator) => pairs(run, left, right, input, &mut |left, right| {
            let ordering = run.budget.compare(left, right)?;
            let holds = operator.run(&ordering, &Ordering::Equal);
            out(Item::computed(JqValue::Boolean(holds)))
        }),
        BinaryOp::Assign | BinaryOp::Update | BinaryOp::UpdateMath(_) | BinaryOp::UpdateAlt => {
            assign(run, left, operator, right, input, out)
        }
    }
}

/// The values of both sides, in jq's order.
fn pairs<'a>(
    run: &Evaluation,
    left: &'a JqTerm<'a>,
    right: &'a JqTerm<'a>,
    input: Input<'a, '_>,
    out: &mut dyn FnMut(&JqValue, &JqValue) -> Flow,
) -> Flow {
    run.eval(right, input, &mut |right| {
        run.eval(left, input, &mut |left| out(&left.value, &right.value))
    })
}

fn follow<'a>(
    run: &Evaluation,
    parts: &'a [(Part<JqTerm<'a>>, Opt)],
    found: &Item,
    input: Input<'a, '_>,
    out: Out<'_>,
) -> Flow {
    let Some(((part, optional), rest)) = parts.split_first() else { return out(found.clone()) };
    let mut next = |inner: Item| follow(run, rest, &inner, input, out);
    let is_optional = matches!(optional, Opt::Optional);
    let mut step = |inner: Result<Item, Stop>| match inner {
        Ok(inner) => next(inner),
        Err(Stop::Error(_)) if is_optional => Ok(()),
        Err(stop) => Err(stop),
    };
    match part {
        Part::Index(part) => {
            run.eval(part, input, &mut |part| step(index(&run.budget, found, &part.value)))
        }
        Part::Range(None, None) => match found.value {
            JqValue::List(_) | JqValue::Map(_) => {
                each_child(&run.budget, found, &mut |child| step(Ok(child)))
            }
            _ => step(failed(format!("cannot iterate over {}", found.value.kind()))),
        },
        Part::Range(from, to) => {
            let ends = |bound: &'a Option<JqTerm<'a>>| match bound {
                Some(bound) => run.collect(bound, input),
                None => Ok(vec![JqValue::Null]),
            };
            for to in ends(to)? {
                for from in ends(from)? {
                    step(slice(&run.budget, found, &from, &to))?;
                }
            }
            Ok(())
        }
    }
}
