//! Patterns of jq: they name parts of a value.

use jaq_core::load::parse::{Pattern, Term};

use super::access::index;
use super::evaluation::{Evaluation, Input, JqTerm};
use super::item::{Flow, Item, Out};
use super::scope::NameScope;
use super::value::JqValue;

/// Receives the names that a pattern gives.
type Named<'n, 'a> = &'n mut dyn FnMut(&NameScope<'a>) -> Flow;

/// `left as pattern | right`.
pub fn named<'a>(
    run: &Evaluation,
    left: &'a JqTerm<'a>,
    pattern: &'a Pattern<&'a str>,
    right: &'a JqTerm<'a>,
    input: Input<'a, '_>,
    out: Out<'_>,
) -> Flow {
    run.eval(left, input, &mut |found| {
        bind(run, pattern, &found.value, input, &mut |scope| {
            run.eval(right, input.with(scope), out)
        })
    })
}

/// Names the parts of a value, and goes on with each way to do so.
pub fn bind<'a>(
    run: &Evaluation,
    pattern: &'a Pattern<&'a str>,
    value: &JqValue,
    input: Input<'a, '_>,
    out: Named<'_, 'a>,
) -> Flow {
    run.budget.charge(1)?;
    match pattern {
        Pattern::Var(name) => out(&input.scope.with_variable(name, value.clone())),
        Pattern::Arr(parts) => bind_parts(run, parts, 0, value, input, out),
        Pattern::Obj(parts) => bind_fields(run, parts, value, input, out),
    }
}

fn bind_parts<'a>(
    run: &Evaluation,
    parts: &'a [Pattern<&'a str>],
    at: usize,
    value: &JqValue,
    input: Input<'a, '_>,
    out: Named<'_, 'a>,
) -> Flow {
    let Some((first, rest)) = parts.split_first() else { return out(input.scope) };
    let whole = Item::computed(value.clone());
    let part = index(&run.budget, &whole, &JqValue::integer(at))?.value;
    bind(run, first, &part, input, &mut |scope| {
        bind_parts(run, rest, at + 1, value, input.with(scope), out)
    })
}

fn bind_fields<'a>(
    run: &Evaluation,
    parts: &'a [(JqTerm<'a>, Pattern<&'a str>)],
    value: &JqValue,
    input: Input<'a, '_>,
    out: Named<'_, 'a>,
) -> Flow {
    let Some(((key, pattern), rest)) = parts.split_first() else { return out(input.scope) };
    let whole = Item::computed(value.clone());
    let mut with = |scope: &NameScope<'a>, key: &JqValue| {
        let field = index(&run.budget, &whole, key)?.value;
        bind(run, pattern, &field, input.with(scope), &mut |scope| {
            bind_fields(run, rest, value, input.with(scope), out)
        })
    };
    // `{$x: …}` names the field itself, too.
    if let Term::Var(name) = key {
        let field = JqValue::text(name.trim_start_matches('$'));
        let found = index(&run.budget, &whole, &field)?.value;
        return with(&input.scope.with_variable(name, found), &field);
    }
    run.eval(key, input, &mut |key| with(input.scope, &key.value))
}
