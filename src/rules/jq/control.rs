//! What decides which parts of an expression are evaluated: alternatives, folds, errors and names.

use jaq_core::load::parse::{Pattern, Term};

use super::error::JqError;
use super::eval::Evaluation;
use super::item::{Flow, Item, Out, Stop};
use super::scope::NameScope;
use super::value::JqValue;

impl Evaluation {
    /// `left as pattern | right`.
    pub fn named<'a>(
        &self,
        (left, pattern, right): (&'a Term<&'a str>, &'a Pattern<&'a str>, &'a Term<&'a str>),
        (scope, item): (&NameScope<'a>, &Item),
        out: Out<'_>,
    ) -> Flow {
        self.eval(left, scope, item, &mut |found| {
            self.bind(pattern, &found.value, (scope, item), &mut |scope| {
                self.eval(right, scope, item, out)
            })
        })
    }

    /// `left // right`.
    pub fn alternative<'a>(
        &self,
        left: &'a Term<&'a str>,
        right: &'a Term<&'a str>,
        (scope, item): (&NameScope<'a>, &Item),
        out: Out<'_>,
    ) -> Flow {
        let mut any = false;
        let (flow, asked) = self.apart(out, |out| {
            self.eval(left, scope, item, &mut |found| {
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
        if any { Ok(()) } else { self.eval(right, scope, item, out) }
    }

    /// `or` and `and`. `decides`: the value of the left side that decides alone.
    pub fn logic<'a>(
        &self,
        left: &'a Term<&'a str>,
        decides: bool,
        right: &'a Term<&'a str>,
        (scope, item): (&NameScope<'a>, &Item),
        out: Out<'_>,
    ) -> Flow {
        self.eval(left, scope, item, &mut |found| {
            if found.value.is_true() == decides {
                return out(Item::computed(JqValue::Boolean(decides)));
            }
            self.eval(right, scope, item, &mut |found| {
                out(Item::computed(JqValue::Boolean(found.value.is_true())))
            })
        })
    }

    /// `label`.
    pub fn labelled<'a>(
        &self,
        name: &'a str,
        body: &'a Term<&'a str>,
        (scope, item): (&NameScope<'a>, &Item),
        out: Out<'_>,
    ) -> Flow {
        let id = self.next_label();
        match self.eval(body, &scope.with_label(name, id), item, out) {
            Err(Stop::Break(to)) if to == id => Ok(()),
            flow => flow,
        }
    }

    /// `reduce` and `foreach`.
    pub fn fold<'a>(
        &self,
        kind: &str,
        source: &'a Term<&'a str>,
        (pattern, arguments): (&'a Pattern<&'a str>, &'a [Term<&'a str>]),
        (scope, item): (&NameScope<'a>, &Item),
        out: Out<'_>,
    ) -> Flow {
        let [start, update, rest @ ..] = arguments else {
            return Err(Stop::Fatal(JqError::Syntax));
        };
        self.eval(start, scope, item, &mut |start| {
            let mut state = start;
            self.eval(source, scope, item, &mut |found| {
                self.bind(pattern, &found.value, (scope, item), &mut |scope| {
                    let mut last = None;
                    let before = state.clone();
                    self.eval(update, scope, &before, &mut |new| {
                        last = Some(new.clone());
                        match (kind, rest.first()) {
                            ("foreach", None) => out(new),
                            ("foreach", Some(extract)) => self.eval(extract, scope, &new, out),
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
        &self,
        body: &'a Term<&'a str>,
        handler: &'a Option<Box<Term<&'a str>>>,
        (scope, item): (&NameScope<'a>, &Item),
        out: Out<'_>,
    ) -> Flow {
        let (flow, asked) = self.apart(out, |out| self.eval(body, scope, item, out));
        asked?;
        match (flow, handler) {
            (Err(Stop::Error(error)), Some(handler)) => {
                self.eval(handler, scope, &Item::computed(error), out)
            }
            (Err(Stop::Error(_)), None) => Ok(()),
            (flow, _) => flow,
        }
    }

    /// `if`.
    pub fn choose<'a>(
        &self,
        cases: &'a [(Term<&'a str>, Term<&'a str>)],
        otherwise: Option<&'a Term<&'a str>>,
        (scope, item): (&NameScope<'a>, &Item),
        out: Out<'_>,
    ) -> Flow {
        let Some(((condition, then), rest)) = cases.split_first() else {
            return match otherwise {
                Some(otherwise) => self.eval(otherwise, scope, item, out),
                None => out(item.clone()),
            };
        };
        self.eval(condition, scope, item, &mut |found| {
            if found.value.is_true() {
                self.eval(then, scope, item, out)
            } else {
                self.choose(rest, otherwise, (scope, item), out)
            }
        })
    }

    /// Names the parts of a value, and goes on with each way to do so.
    pub fn bind<'a>(
        &self,
        pattern: &'a Pattern<&'a str>,
        value: &JqValue,
        (scope, item): (&NameScope<'a>, &Item),
        out: &mut dyn FnMut(&NameScope<'a>) -> Flow,
    ) -> Flow {
        self.charge(1)?;
        match pattern {
            Pattern::Var(name) => out(&scope.with_variable(name, value.clone())),
            Pattern::Arr(parts) => self.bind_parts(parts, 0, value, (scope, item), out),
            Pattern::Obj(parts) => self.bind_fields(parts, value, (scope, item), out),
        }
    }

    fn bind_parts<'a>(
        &self,
        parts: &'a [Pattern<&'a str>],
        index: usize,
        value: &JqValue,
        (scope, item): (&NameScope<'a>, &Item),
        out: &mut dyn FnMut(&NameScope<'a>) -> Flow,
    ) -> Flow {
        let Some((first, rest)) = parts.split_first() else { return out(scope) };
        let part = self.index(&Item::computed(value.clone()), &JqValue::integer(index))?.value;
        self.bind(first, &part, (scope, item), &mut |scope| {
            self.bind_parts(rest, index + 1, value, (scope, item), out)
        })
    }

    fn bind_fields<'a>(
        &self,
        parts: &'a [(Term<&'a str>, Pattern<&'a str>)],
        value: &JqValue,
        (scope, item): (&NameScope<'a>, &Item),
        out: &mut dyn FnMut(&NameScope<'a>) -> Flow,
    ) -> Flow {
        let Some(((key, pattern), rest)) = parts.split_first() else { return out(scope) };
        let mut with = |scope: &NameScope<'a>, key: &JqValue| {
            let field = self.index(&Item::computed(value.clone()), key)?.value;
            self.bind(pattern, &field, (scope, item), &mut |scope| {
                self.bind_fields(rest, value, (scope, item), out)
            })
        };
        // `{$x: …}` names the field itself, too.
        if let Term::Var(name) = key {
            let field = JqValue::text(name.trim_start_matches('$'));
            let found = self.index(&Item::computed(value.clone()), &field)?.value;
            return with(&scope.with_variable(name, found), &field);
        }
        self.eval(key, scope, item, &mut |key| with(scope, &key.value))
    }
}
