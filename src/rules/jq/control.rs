//! What decides which parts of an expression are evaluated: alternatives, folds and errors.

use jaq_core::load::parse::Pattern;

use super::error::JqError;
use super::evaluation::{Evaluation, Input, JqTerm};
use super::item::{Flow, Item, Out, Stop};
use super::patterns::bind;
use super::value::JqValue;

/// Runs `body`. Returns its end, and apart from it the one that `out` asked for.
fn apart(out: Out<'_>, body: impl FnOnce(Out<'_>) -> Flow) -> (Flow, Flow) {
    let mut asked = Ok(());
    let flow = body(&mut |item| {
        out(item).map_err(|stop| {
            asked = Err(stop);
            Stop::Passed
        })
    });
    if asked.is_err() { (Ok(()), asked) } else { (flow, Ok(())) }
}

/// `left // right`.
pub fn alternative<'a>(
    run: &Evaluation,
    left: &'a JqTerm<'a>,
    right: &'a JqTerm<'a>,
    input: Input<'a, '_>,
    out: Out<'_>,
) -> Flow {
    let mut any = false;
    let (flow, asked) = apart(out, |out| {
        run.eval(left, input, &mut |found| {
            if !found.value.is_true() {
                return Ok(());
            }
            any = true;
            out(found)
        })
    });
    asked?;
    match flow {
        Ok(()) | Err(Stop::Error(_)) => {}
        Err(stop) => return Err(stop),
    }
    if any { Ok(()) } else { run.eval(right, input, out) }
}

/// `or` and `and`. `decides`: the value of the left side that decides alone.
pub fn logic<'a>(
    run: &Evaluation,
    left: &'a JqTerm<'a>,
    decides: bool,
    right: &'a JqTerm<'a>,
    input: Input<'a, '_>,
    out: Out<'_>,
) -> Flow {
    run.eval(left, input, &mut |found| {
        if found.value.is_true() == decides {
            return out(Item::computed(JqValue::Boolean(decides)));
        }
        run.eval(right, input, &mut |found| {
            out(Item::computed(JqValue::Boolean(found.value.is_true())))
        })
    })
}

/// `label`.
pub fn labelled<'a>(
    run: &Evaluation,
    name: &'a str,
    body: &'a JqTerm<'a>,
    input: Input<'a, '_>,
    out: Out<'_>,
) -> Flow {
    let id = run.next_label();
    match run.eval(body, input.with(&input.scope.with_label(name, id)), out) {
        Err(Stop::Break(to)) if to == id => Ok(()),
        flow => flow,
    }
}

/// `reduce` or `foreach`, the `kind`.
pub struct Fold<'a> {
    pub kind: &'a str,
    pub source: &'a JqTerm<'a>,
    pub pattern: &'a Pattern<&'a str>,
    /// The start, the update, and of a `foreach` what it extracts.
    pub arguments: &'a [JqTerm<'a>],
}

/// `reduce` and `foreach`.
pub fn fold<'a>(run: &Evaluation, fold: &Fold<'a>, input: Input<'a, '_>, out: Out<'_>) -> Flow {
    let Fold { kind, source, pattern, arguments } = *fold;
    let [start, update, rest @ ..] = arguments else {
        return Err(Stop::Fatal(JqError::Syntax));
    };
    run.eval(start, input, &mut |start| {
        let mut state = start;
        run.eval(source, input, &mut |found| {
            bind(run, pattern, &found.value, input, &mut |scope| {
                let mut last = None;
                let before = state.clone();
                let inner = input.with(scope);
                run.eval(update, inner.of(&before), &mut |new| {
                    last = Some(new.clone());
                    match (kind, rest.first()) {
                        ("foreach", None) => out(new),
                        ("foreach", Some(extract)) => run.eval(extract, inner.of(&new), out),
                        _ => Ok(()),
                    }
                })?;
                match last {
                    Some(last) => state = last,
                    None if kind == "reduce" => state = Item::computed(JqValue::Null),
                    None => {}
                }
                Ok(())
            })
        })?;
        if kind == "reduce" { out(state) } else { Ok(()) }
    })
}

/// `try`, with `catch` or without.
pub fn try_catch<'a>(
    run: &Evaluation,
    body: &'a JqTerm<'a>,
    handler: Option<&'a JqTerm<'a>>,
    input: Input<'a, '_>,
    out: Out<'_>,
) -> Flow {
    let (flow, asked) = apart(out, |out| run.eval(body, input, out));
    asked?;
    match (flow, handler) {
        (Err(Stop::Error(error)), Some(handler)) => {
            run.eval(handler, input.of(&Item::computed(error)), out)
        }
        (Err(Stop::Error(_)), None) => Ok(()),
        (flow, _) => flow,
    }
}

/// `if`.
pub fn choose<'a>(
    run: &Evaluation,
    cases: &'a [(JqTerm<'a>, JqTerm<'a>)],
    otherwise: Option<&'a JqTerm<'a>>,
    input: Input<'a, '_>,
    out: Out<'_>,
) -> Flow {
    let Some(((condition, then), rest)) = cases.split_first() else {
        return match otherwise {
            Some(otherwise) => run.eval(otherwise, input, out),
            None => out(input.item.clone()),
        };
    };
    run.eval(condition, input, &mut |found| {
        if found.value.is_true() {
            run.eval(then, input, out)
        } else {
            choose(run, rest, otherwise, input, out)
        }
    })
}
