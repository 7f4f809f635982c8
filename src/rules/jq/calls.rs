//! Calls of functions: defined in the expression, in jq's prelude, or native.

use super::evaluation::{Evaluation, Input, JqTerm};
use super::item::{Flow, Out};
use super::natives::native;
use super::prelude::prelude;
use super::scope::{Function, NameScope};

/// Calls a function.
pub fn call<'a>(
    run: &Evaluation,
    name: &'a str,
    arguments: &'a [JqTerm<'a>],
    input: Input<'a, '_>,
    out: Out<'_>,
) -> Flow {
    let (function, inner) = match input.scope.function(name, arguments.len()) {
        Some(Function::Argument(term, scope)) => {
            return run.eval(term, input.with(&scope), out);
        }
        Some(Function::Defined(function, inner)) => (function, inner),
        None => match prelude(name, arguments.len()) {
            Some(function) => (function, NameScope::default()),
            None => return native(run, name, arguments, input, out),
        },
    };
    let pairs = function.args.iter().copied().zip(arguments);
    let pairs: Vec<(&str, &JqTerm<'_>)> = pairs.collect();
    enter(run, &function.body, &pairs, &inner, input, out)
}

/// Evaluates the body of a function. An argument `$x` is a value, others are filters.
fn enter<'a>(
    run: &Evaluation,
    body: &'a JqTerm<'a>,
    arguments: &[(&'a str, &'a JqTerm<'a>)],
    inner: &NameScope<'a>,
    input: Input<'a, '_>,
    out: Out<'_>,
) -> Flow {
    let Some(((name, term), rest)) = arguments.split_first() else {
        return run.eval(body, input.with(inner), out);
    };
    if name.starts_with('$') {
        return run.eval(term, input, &mut |value| {
            let inner = inner.with_variable(name, value.value);
            enter(run, body, rest, &inner, input, out)
        });
    }
    enter(run, body, rest, &inner.with_argument(name, term, input.scope), input, out)
}
