//! The functions of jq that are not written in jq.

use super::access::get_path;
use super::arithmetic::number;
use super::budget::StepBudget;
use super::dates::date_function;
use super::evaluation::{Evaluation, Input, JqTerm};
use super::formats::formatted;
use super::item::{Flow, Item, Out, Stop, failed};
use super::lists::{contains, has, keys, length, rearranged};
use super::loops::{is_empty, last, limited, range, repeat, sorted_by};
use super::texts::text_function;
use super::value::JqValue;

/// Calls a function that is not written in jq.
pub fn native<'a>(
    run: &Evaluation,
    name: &'a str,
    arguments: &'a [JqTerm<'a>],
    input: Input<'a, '_>,
    out: Out<'_>,
) -> Flow {
    match (name, arguments) {
        ("empty", []) => Ok(()),
        ("error", []) => Err(Stop::Error(input.item.value.clone())),
        ("path", [f]) => {
            run.each_path(f, input, &mut |steps| out(Item::computed(JqValue::list(steps)?)))
        }
        ("getpath", [path]) => run.eval(path, input, &mut |path| {
            let JqValue::List(steps) = &path.value else {
                return failed("a path must be an array");
            };
            out(get_path(&run.budget, input.item, &steps.content)?)
        }),
        ("first", [f]) => limited(run, 1, f, input, out),
        ("limit", [count, f]) => run.eval(count, input, &mut |count| {
            let count = count.value.as_index().unwrap_or_default();
            limited(run, usize::try_from(count).unwrap_or(0), f, input, out)
        }),
        ("last", [f]) => last(run, f, input, out),
        ("isempty", [f]) => out(Item::computed(is_empty(run, f, input)?)),
        ("range", [from, to, by]) => range(run, [from, to, by], input, out),
        ("recurse" | "repeat", [f]) => repeat(run, f, input, &mut |here| {
            out(here.clone())?;
            Ok(true)
        }),
        ("while" | "until", [condition, f]) => repeat(run, f, input, &mut |here| {
            let holds = run.collect(condition, input.of(here))?;
            let holds = holds.first().is_some_and(JqValue::is_true);
            if holds {
                out(here.clone())?;
            }
            Ok(holds == (name == "while"))
        }),
        ("sort_by" | "group_by" | "unique_by" | "min_by" | "max_by", [f]) => {
            out(Item::computed(sorted_by(run, name, f, input)?))
        }
        _ if name.starts_with('@') && arguments.is_empty() => {
            let text = formatted(&run.budget, name, &input.item.value)?;
            out(Item::computed(JqValue::text(text)))
        }
        _ => with_values(run, name, arguments, &[], input, out),
    }
}

/// Calls a function for each combination of the values of its arguments.
fn with_values<'a>(
    run: &Evaluation,
    name: &'a str,
    arguments: &'a [JqTerm<'a>],
    values: &[JqValue],
    input: Input<'a, '_>,
    out: Out<'_>,
) -> Flow {
    match arguments.split_first() {
        None => out(Item::computed(function(&run.budget, name, &input.item.value, values)?)),
        Some((first, rest)) => run.eval(first, input, &mut |found| {
            let mut values = values.to_vec();
            values.push(found.value);
            with_values(run, name, rest, &values, input, out)
        }),
    }
}

fn function(
    budget: &StepBudget,
    name: &str,
    input: &JqValue,
    values: &[JqValue],
) -> Result<JqValue, Stop> {
    match (name, values) {
        ("null", []) => Ok(JqValue::Null),
        ("true" | "false", []) => Ok(JqValue::Boolean(name == "true")),
        ("infinite", []) => Ok(JqValue::Float(f64::INFINITY)),
        ("nan", []) => Ok(JqValue::Float(f64::NAN)),
        ("type", []) => Ok(JqValue::text(input.kind())),
        ("length", []) => length(budget, input),
        ("keys" | "keys_unsorted", []) => keys(budget, input),
        ("has", [key]) => has(input, key),
        ("contains", [inner]) => contains(budget, input, inner).map(JqValue::Boolean),
        ("reverse" | "transpose" | "flatten", _) => rearranged(budget, name, input, values),
        ("isnan" | "isinfinite" | "isnormal", []) => {
            let number = number(input)?;
            Ok(JqValue::Boolean(match name {
                "isnan" => number.is_nan(),
                "isinfinite" => number.is_infinite(),
                _ => number.is_normal(),
            }))
        }
        ("abs" | "fabs" | "floor" | "ceil" | "round" | "sqrt", []) => {
            let number = number(input)?;
            Ok(JqValue::number(match name {
                "floor" => number.floor(),
                "ceil" => number.ceil(),
                "round" => number.round(),
                "sqrt" => number.sqrt(),
                _ => number.abs(),
            }))
        }
        ("gmtime" | "mktime" | "strftime" | "strptime", _) => {
            date_function(budget, name, input, values)
        }
        _ => text_function(budget, name, input, values),
    }
}
