//! The functions of jq that are not written in jq.

use jaq_core::load::parse::Term;

use super::error::JqError;
use super::eval::Evaluation;
use super::item::{Flow, Item, Out, Stop, failed};
use super::lists::has;
use super::scope::NameScope;
use super::value::{Fields, JqValue};

/// Names with their numbers of arguments.
pub const NATIVES: &[(&str, usize)] = &[
    ("abs", 0),
    ("ascii_case", 1),
    ("ceil", 0),
    ("contains", 1),
    ("del", 1),
    ("empty", 0),
    ("endswith", 1),
    ("error", 0),
    ("explode", 0),
    ("fabs", 0),
    ("false", 0),
    ("first", 1),
    ("flatten", 1),
    ("floor", 0),
    ("fromjson", 0),
    ("getpath", 1),
    ("group_by", 1),
    ("has", 1),
    ("implode", 0),
    ("indices", 1),
    ("infinite", 0),
    ("isempty", 1),
    ("isinfinite", 0),
    ("isnan", 0),
    ("isnormal", 0),
    ("keys", 0),
    ("keys_unsorted", 0),
    ("last", 1),
    ("length", 0),
    ("limit", 2),
    ("ltrim", 0),
    ("ltrimstr", 1),
    ("match_all", 2),
    ("max_by", 1),
    ("min_by", 1),
    ("nan", 0),
    ("null", 0),
    ("path", 1),
    ("range", 3),
    ("recurse", 1),
    ("repeat", 1),
    ("reverse", 0),
    ("round", 0),
    ("rtrim", 0),
    ("rtrimstr", 1),
    ("sort_by", 1),
    ("split", 1),
    ("sqrt", 0),
    ("startswith", 1),
    ("tojson", 0),
    ("tonumber", 0),
    ("tostring", 0),
    ("transpose", 0),
    ("trim", 0),
    ("true", 0),
    ("type", 0),
    ("unique_by", 1),
    ("until", 2),
    ("utf8bytelength", 0),
    ("while", 2),
];

/// Functions of gojq that are not there: dates, streams, input and output, most of arithmetic, and
/// what sets values, as only paths count.
pub const UNSUPPORTED: &[&str] = &[
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bsearch",
    "builtins",
    "cbrt",
    "copysign",
    "cos",
    "cosh",
    "date",
    "dateadd",
    "datesub",
    "debug",
    "delpaths",
    "drem",
    "exp",
    "exp10",
    "exp2",
    "expm1",
    "fdim",
    "fma",
    "fmax",
    "fmin",
    "fmod",
    "frexp",
    "fromdate",
    "fromdateiso8601",
    "fromstream",
    "gamma",
    "gmtime",
    "halt",
    "halt_error",
    "hypot",
    "input",
    "input_filename",
    "input_line_number",
    "inputs",
    "ldexp",
    "lgamma",
    "lgamma_r",
    "localtime",
    "log",
    "log10",
    "log1p",
    "log2",
    "logb",
    "mktime",
    "modf",
    "nearbyint",
    "nextafter",
    "nexttoward",
    "now",
    "pick",
    "pow",
    "rint",
    "scalb",
    "scalbln",
    "setpath",
    "significand",
    "sin",
    "sinh",
    "skip",
    "stderr",
    "strflocaltime",
    "strftime",
    "strptime",
    "tan",
    "tanh",
    "tgamma",
    "toboolean",
    "todate",
    "todateiso8601",
    "tostream",
    "trunc",
    "truncate_stream",
];

impl Evaluation {
    /// Calls a function that is not written in jq.
    pub fn native<'a>(
        &self,
        name: &'a str,
        arguments: &'a [Term<&'a str>],
        (scope, item): (&NameScope<'a>, &Item),
        out: Out<'_>,
    ) -> Flow {
        match (name, arguments) {
            ("empty", []) => Ok(()),
            ("error", []) => Err(Stop::Error(item.value.clone())),
            ("path", [f]) => self.each_path(f, (scope, item), &mut |steps| {
                out(Item::computed(JqValue::list(steps)?))
            }),
            ("getpath", [path]) => self.eval(path, scope, item, &mut |path| {
                let JqValue::List(steps) = &path.value else {
                    return failed("a path must be an array");
                };
                out(self.get_path(item, &steps.content)?)
            }),
            ("first", [f]) => self.limited(1, f, (scope, item), out),
            ("limit", [count, f]) => self.eval(count, scope, item, &mut |count| {
                let count = count.value.as_index().unwrap_or_default();
                self.limited(usize::try_from(count).unwrap_or(0), f, (scope, item), out)
            }),
            ("last", [f]) => {
                let mut last = None;
                self.eval(f, scope, item, &mut |found| {
                    last = Some(found);
                    Ok(())
                })?;
                last.map_or(Ok(()), out)
            }
            ("isempty", [f]) => {
                let mut any = false;
                self.limited(1, f, (scope, item), &mut |_| {
                    any = true;
                    Ok(())
                })?;
                out(Item::computed(JqValue::Boolean(!any)))
            }
            ("range", [from, to, by]) => self.range([from, to, by], (scope, item), out),
            ("recurse" | "repeat", [f]) => self.repeat(f, (scope, item), &mut |here| {
                out(here.clone())?;
                Ok(true)
            }),
            ("while" | "until", [condition, f]) => self.repeat(f, (scope, item), &mut |here| {
                let holds = self.collect(condition, scope, here)?;
                let holds = holds.first().is_some_and(JqValue::is_true);
                if holds {
                    out(here.clone())?;
                }
                Ok(holds == (name == "while"))
            }),
            ("sort_by" | "group_by" | "unique_by" | "min_by" | "max_by", [f]) => {
                let value = self.by(name, f, (scope, item))?;
                out(Item::computed(value))
            }
            _ if name.starts_with('@') && arguments.is_empty() => {
                let text = self.formatted(name, &item.value)?;
                out(Item::computed(JqValue::text(text)))
            }
            _ => self.with_values(name, arguments, &[], (scope, item), out),
        }
    }

    /// Calls a function for each combination of the values of its arguments.
    fn with_values<'a>(
        &self,
        name: &'a str,
        arguments: &'a [Term<&'a str>],
        values: &[JqValue],
        (scope, item): (&NameScope<'a>, &Item),
        out: Out<'_>,
    ) -> Flow {
        match arguments.split_first() {
            None => out(Item::computed(self.function(name, &item.value, values)?)),
            Some((first, rest)) => self.eval(first, scope, item, &mut |found| {
                let mut values = values.to_vec();
                values.push(found.value);
                self.with_values(name, rest, &values, (scope, item), out)
            }),
        }
    }

    fn function(&self, name: &str, input: &JqValue, values: &[JqValue]) -> Result<JqValue, Stop> {
        match (name, values) {
            ("null", []) => Ok(JqValue::Null),
            ("true" | "false", []) => Ok(JqValue::Boolean(name == "true")),
            ("infinite", []) => Ok(JqValue::Float(f64::INFINITY)),
            ("nan", []) => Ok(JqValue::Float(f64::NAN)),
            ("type", []) => Ok(JqValue::text(input.kind())),
            ("length", []) => self.length(input),
            ("keys" | "keys_unsorted", []) => self.keys(input),
            ("has", [key]) => has(input, key),
            ("contains", [inner]) => self.contains(input, inner).map(JqValue::Boolean),
            ("reverse" | "transpose" | "flatten", _) => self.rearranged(name, input, values),
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
            _ => self.text_function(name, input, values),
        }
    }

    /// The paths that a filter gives.
    pub fn each_path<'a>(
        &self,
        f: &'a Term<&'a str>,
        (scope, item): (&NameScope<'a>, &Item),
        out: &mut dyn FnMut(Vec<JqValue>) -> Flow,
    ) -> Flow {
        self.eval(f, scope, &Item::root(item.value.clone()), &mut |found| {
            let steps = found.steps().ok_or(Stop::Fatal(JqError::NotAPath))?;
            self.charge(steps.len())?;
            out(steps)
        })
    }

    fn get_path(&self, item: &Item, steps: &[JqValue]) -> Result<Item, Stop> {
        let mut here = item.clone();
        for step in steps {
            self.charge(1)?;
            here = match here.value {
                JqValue::Null => here.child(step, JqValue::Null)?,
                _ => self.index(&here, step)?,
            };
        }
        Ok(here)
    }

    fn limited<'a>(
        &self,
        count: usize,
        f: &'a Term<&'a str>,
        (scope, item): (&NameScope<'a>, &Item),
        out: Out<'_>,
    ) -> Flow {
        if count == 0 {
            return Ok(());
        }
        let mut left = count;
        let mut asked = Ok(());
        let flow = self.eval(f, scope, item, &mut |found| {
            left -= 1;
            if let Err(stop) = out(found) {
                asked = Err(stop);
                return Err(Stop::Passed);
            }
            if left == 0 { Err(Stop::Passed) } else { Ok(()) }
        });
        asked?;
        if left == 0 { Ok(()) } else { flow }
    }

    fn range<'a>(
        &self,
        [from, to, by]: [&'a Term<&'a str>; 3],
        (scope, item): (&NameScope<'a>, &Item),
        out: Out<'_>,
    ) -> Flow {
        self.eval(from, scope, item, &mut |from| {
            self.eval(to, scope, item, &mut |to| {
                self.eval(by, scope, item, &mut |by| {
                    let (to, by) = (number(&to.value)?, number(&by.value)?);
                    let mut at = number(&from.value)?;
                    while (by > 0.0 && at < to) || (by < 0.0 && at > to) {
                        self.charge(1)?;
                        out(Item::computed(JqValue::number(at)))?;
                        at += by;
                    }
                    Ok(())
                })
            })
        })
    }

    /// Visits the input and, again and again, what a filter makes of each visited value for which
    /// `visit` says so.
    fn repeat<'a>(
        &self,
        f: &'a Term<&'a str>,
        (scope, item): (&NameScope<'a>, &Item),
        visit: &mut dyn FnMut(&Item) -> Result<bool, Stop>,
    ) -> Flow {
        let mut stack = vec![item.clone()];
        while let Some(here) = stack.pop() {
            if !visit(&here)? {
                continue;
            }
            let mut next = Vec::new();
            self.eval(f, scope, &here, &mut |found| {
                next.push(found);
                self.charge(1)
            })?;
            stack.extend(next.into_iter().rev());
        }
        Ok(())
    }

    /// Sorts a list by what a filter makes of its items.
    fn by<'a>(
        &self,
        name: &str,
        f: &'a Term<&'a str>,
        (scope, item): (&NameScope<'a>, &Item),
    ) -> Result<JqValue, Stop> {
        let JqValue::List(list) = &item.value else {
            return failed(format!(
                "{} cannot be sorted, as it is not an array",
                item.value.kind()
            ));
        };
        let mut keyed = Vec::new();
        let mut weight = 0_usize;
        for value in &list.content {
            let key = self.collect(f, scope, &Item::computed(value.clone()))?;
            weight += key.iter().map(|key| key.weight(1_000_000)).sum::<usize>();
            keyed.push((key, value.clone()));
        }
        // Each of the comparisons costs at most what a key weighs.
        let rounds = usize::try_from(keyed.len().max(2).ilog2()).unwrap_or(0) + 1;
        self.charge(weight.saturating_mul(rounds))?;
        keyed.sort_by(|one, other| one.0.cmp(&other.0));
        let values =
            |keyed: Vec<(Vec<JqValue>, JqValue)>| keyed.into_iter().map(|(_, value)| value);
        match name {
            "sort_by" => Ok(JqValue::list(values(keyed).collect())?),
            "min_by" => Ok(values(keyed).next().unwrap_or(JqValue::Null)),
            "max_by" => Ok(values(keyed).next_back().unwrap_or(JqValue::Null)),
            "unique_by" => {
                keyed.dedup_by(|one, other| one.0 == other.0);
                Ok(JqValue::list(values(keyed).collect())?)
            }
            _ => {
                let groups = keyed.chunk_by(|one, other| one.0 == other.0);
                let groups = groups.map(|group| values(group.to_vec()).collect());
                let groups: Result<_, _> = groups.map(JqValue::list).collect();
                Ok(JqValue::list(groups?)?)
            }
        }
    }

    /// A map with one more field, or a list with one more item.
    pub fn with_field(
        &self,
        key: &JqValue,
        fields: &Fields,
        value: JqValue,
    ) -> Result<JqValue, Stop> {
        let JqValue::Text(key) = key else {
            return failed(format!("{} cannot be a key", key.kind()));
        };
        self.charge(fields.len())?;
        let mut fields = fields.clone();
        fields.insert(key.clone(), value);
        Ok(JqValue::map(fields)?)
    }
}

/// A number as a float.
pub fn number(value: &JqValue) -> Result<f64, Stop> {
    value.as_float().map_or_else(|| failed(format!("{} is not a number", value.kind())), Ok)
}
