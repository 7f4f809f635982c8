//! Evaluates a parsed expression. Each result goes to a callback, so that a search ends when its
//! caller has enough. Work, depth and sizes are bounded.

use std::cell::Cell;

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::path::{Opt, Part};

use super::error::JqError;
use super::item::{Flow, Item, Out, Stop, failed, literal};
use super::prelude::prelude;
use super::scope::{Function, NameScope};
use super::value::{Fields, JqValue};
use crate::limits::JQ_DEPTH_MAX;

/// One evaluation.
pub struct Evaluation {
    /// The work that it may do, and has done.
    room: usize,
    work: Cell<usize>,
    depth: Cell<usize>,
    labels: Cell<u64>,
}

impl Evaluation {
    /// An evaluation that may do so much work.
    pub fn within(room: usize) -> Self {
        Self { room, work: Cell::new(0), depth: Cell::new(0), labels: Cell::new(0) }
    }

    /// The work that it has done.
    pub fn spent(&self) -> usize {
        self.work.get()
    }

    /// Counts work. A unit is a step, or a value or some bytes that are created or compared.
    pub fn charge(&self, units: usize) -> Flow {
        let work = self.work.get().saturating_add(units);
        self.work.set(work);
        if work > self.room { Err(Stop::Fatal(JqError::TooMuchWork)) } else { Ok(()) }
    }

    /// A number for a label that no other label has.
    pub fn next_label(&self) -> u64 {
        self.labels.set(self.labels.get() + 1);
        self.labels.get()
    }

    /// Evaluates a term for one input.
    pub fn eval<'a>(
        &self,
        term: &'a Term<&'a str>,
        scope: &NameScope<'a>,
        item: &Item,
        out: Out<'_>,
    ) -> Flow {
        self.charge(1)?;
        if self.depth.get() >= JQ_DEPTH_MAX {
            return Err(Stop::Fatal(JqError::TooDeep));
        }
        self.depth.set(self.depth.get() + 1);
        let flow = self.eval_term(term, scope, item, out);
        self.depth.set(self.depth.get() - 1);
        flow
    }

    fn eval_term<'a>(
        &self,
        term: &'a Term<&'a str>,
        scope: &NameScope<'a>,
        item: &Item,
        out: Out<'_>,
    ) -> Flow {
        match term {
            Term::Id => out(item.clone()),
            Term::Recurse => self.recurse(item, out),
            Term::Num(text) => out(Item::computed(literal(text)?)),
            Term::Str(format, parts) => {
                self.text(*format, parts, String::new(), (scope, item), out)
            }
            Term::Arr(inner) => out(Item::computed(self.array(inner.as_deref(), scope, item)?)),
            Term::Obj(entries) => self.object(entries, Fields::new(), (scope, item), out),
            Term::Neg(inner) => self.negated(inner, (scope, item), out),
            Term::BinOp(left, operator, right) => {
                self.operation(left, operator, right, (scope, item), out)
            }
            Term::Label(name, body) => self.labelled(name, body, (scope, item), out),
            Term::Break(name) => {
                Err(scope.label(name).map_or(Stop::Fatal(JqError::UnknownName), Stop::Break))
            }
            Term::Fold(kind, source, pattern, arguments) => {
                self.fold(kind, source, (pattern, arguments), (scope, item), out)
            }
            Term::TryCatch(body, handler) => self.try_catch(body, handler, (scope, item), out),
            Term::IfThenElse(cases, otherwise) => {
                self.choose(cases, otherwise.as_deref(), (scope, item), out)
            }
            Term::Def(definitions, body) => {
                let scope = definitions
                    .iter()
                    .fold(scope.clone(), |scope, function| scope.with_function(function));
                self.eval(body, &scope, item, out)
            }
            Term::Call(name, arguments) => self.call(name, arguments, (scope, item), out),
            Term::Var(name) => out(Item::computed(variable(name, scope)?)),
            Term::Path(start, path) => self.eval(start, scope, item, &mut |found| {
                self.follow(&path.0, &found, (scope, item), out)
            }),
        }
    }

    fn negated<'a>(
        &self,
        term: &'a Term<&'a str>,
        (scope, item): (&NameScope<'a>, &Item),
        out: Out<'_>,
    ) -> Flow {
        self.eval(term, scope, item, &mut |found| {
            let zero = JqValue::Integer(0);
            let negated = self.compute(jaq_core::ops::Math::Sub, &zero, &found.value)?;
            out(Item::computed(negated))
        })
    }

    fn array<'a>(
        &self,
        inner: Option<&'a Term<&'a str>>,
        scope: &NameScope<'a>,
        item: &Item,
    ) -> Result<JqValue, Stop> {
        let items = match inner {
            Some(inner) => self.collect(inner, scope, item)?,
            None => Vec::new(),
        };
        Ok(JqValue::list(items)?)
    }

    /// All results of a term.
    pub fn collect<'a>(
        &self,
        term: &'a Term<&'a str>,
        scope: &NameScope<'a>,
        item: &Item,
    ) -> Result<Vec<JqValue>, Stop> {
        let mut found = Vec::new();
        self.eval(term, scope, item, &mut |one| {
            found.push(one.value);
            self.charge(1)
        })?;
        Ok(found)
    }

    /// Runs `body`. Returns its end, and apart from it the one that `out` asked for.
    pub fn apart(&self, out: Out<'_>, body: impl FnOnce(Out<'_>) -> Flow) -> (Flow, Flow) {
        let mut asked = Ok(());
        let flow = body(&mut |item| {
            out(item).map_err(|stop| {
                asked = Err(stop);
                Stop::Passed
            })
        });
        if asked.is_err() { (Ok(()), asked) } else { (flow, Ok(())) }
    }

    /// Everything in a value, each before what is in it.
    fn recurse(&self, item: &Item, out: Out<'_>) -> Flow {
        let mut stack = vec![item.clone()];
        while let Some(item) = stack.pop() {
            self.charge(1)?;
            let mut children = Vec::new();
            self.each_child(&item, &mut |child| {
                children.push(child);
                Ok(())
            })?;
            stack.extend(children.into_iter().rev());
            out(item)?;
        }
        Ok(())
    }

    /// The items of a list or the values of a map; nothing of other values.
    pub fn each_child(&self, item: &Item, out: Out<'_>) -> Flow {
        match &item.value {
            JqValue::List(list) => {
                for (index, value) in list.content.iter().enumerate() {
                    self.charge(1)?;
                    out(item.child(&JqValue::integer(index), value.clone())?)?;
                }
                Ok(())
            }
            JqValue::Map(map) => {
                for (key, value) in &map.content {
                    self.charge(1)?;
                    out(item.child(&JqValue::Text(key.clone()), value.clone())?)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn text<'a>(
        &self,
        format: Option<&'a str>,
        parts: &'a [StrPart<&'a str, Term<&'a str>>],
        text: String,
        (scope, item): (&NameScope<'a>, &Item),
        out: Out<'_>,
    ) -> Flow {
        let Some((first, rest)) = parts.split_first() else {
            return out(Item::computed(JqValue::text(text)));
        };
        self.charge(1 + text.len() / 16)?;
        match first {
            StrPart::Str(part) => self.text(format, rest, text + part, (scope, item), out),
            StrPart::Char(part) => {
                self.text(format, rest, format!("{text}{part}"), (scope, item), out)
            }
            StrPart::Term(term) => self.eval(term, scope, item, &mut |found| {
                let part = self.formatted(format.unwrap_or("@text"), &found.value)?;
                self.text(format, rest, format!("{text}{part}"), (scope, item), out)
            }),
        }
    }

    fn object<'a>(
        &self,
        entries: &'a [(Term<&'a str>, Option<Term<&'a str>>)],
        fields: Fields,
        (scope, item): (&NameScope<'a>, &Item),
        out: Out<'_>,
    ) -> Flow {
        let Some(((key, value), rest)) = entries.split_first() else {
            return out(Item::computed(JqValue::map(fields)?));
        };
        self.charge(1 + fields.len())?;
        let mut with = |key: &JqValue, value: JqValue| {
            let JqValue::Text(key) = key else {
                return failed(format!("{} cannot be a key", key.kind()));
            };
            let mut fields = fields.clone();
            fields.insert(key.clone(), value);
            self.object(rest, fields, (scope, item), out)
        };
        if let (Term::Var(name), None) = (key, value) {
            let value = scope.variable(name).ok_or(Stop::Fatal(JqError::UnknownName))?;
            return with(&JqValue::text(name.trim_start_matches('$')), value);
        }
        self.eval(key, scope, item, &mut |key| match value {
            Some(value) => self.eval(value, scope, item, &mut |one| with(&key.value, one.value)),
            None => {
                let value = self.index(item, &key.value)?.value;
                with(&key.value, value)
            }
        })
    }

    fn operation<'a>(
        &self,
        left: &'a Term<&'a str>,
        operator: &'a BinaryOp<&'a str>,
        right: &'a Term<&'a str>,
        (scope, item): (&NameScope<'a>, &Item),
        out: Out<'_>,
    ) -> Flow {
        match operator {
            BinaryOp::Pipe(None) => {
                self.eval(left, scope, item, &mut |found| self.eval(right, scope, &found, out))
            }
            BinaryOp::Pipe(Some(pattern)) => self.named((left, pattern, right), (scope, item), out),
            BinaryOp::Comma => {
                self.eval(left, scope, item, out)?;
                self.eval(right, scope, item, out)
            }
            BinaryOp::Alt => self.alternative(left, right, (scope, item), out),
            BinaryOp::Or => self.logic(left, true, right, (scope, item), out),
            BinaryOp::And => self.logic(left, false, right, (scope, item), out),
            BinaryOp::Math(operator) => {
                self.pairs(left, right, (scope, item), &mut |left, right| {
                    out(Item::computed(self.compute(*operator, left, right)?))
                })
            }
            BinaryOp::Cmp(operator) => {
                self.pairs(left, right, (scope, item), &mut |left, right| {
                    let ordering = self.compare(left, right)?;
                    let holds = operator.run(&ordering, &std::cmp::Ordering::Equal);
                    out(Item::computed(JqValue::Boolean(holds)))
                })
            }
            BinaryOp::Assign | BinaryOp::Update | BinaryOp::UpdateMath(_) | BinaryOp::UpdateAlt => {
                self.assign((left, operator, right), (scope, item), out)
            }
        }
    }

    /// The values of both sides, in jq's order.
    fn pairs<'a>(
        &self,
        left: &'a Term<&'a str>,
        right: &'a Term<&'a str>,
        (scope, item): (&NameScope<'a>, &Item),
        out: &mut dyn FnMut(&JqValue, &JqValue) -> Flow,
    ) -> Flow {
        self.eval(right, scope, item, &mut |right| {
            self.eval(left, scope, item, &mut |left| out(&left.value, &right.value))
        })
    }

    fn follow<'a>(
        &self,
        parts: &'a [(Part<Term<&'a str>>, Opt)],
        found: &Item,
        (scope, item): (&NameScope<'a>, &Item),
        out: Out<'_>,
    ) -> Flow {
        let Some(((part, optional), rest)) = parts.split_first() else { return out(found.clone()) };
        let mut next = |inner: Item| self.follow(rest, &inner, (scope, item), out);
        let is_optional = matches!(optional, Opt::Optional);
        let mut step = |inner: Result<Item, Stop>| match inner {
            Ok(inner) => next(inner),
            Err(Stop::Error(_)) if is_optional => Ok(()),
            Err(stop) => Err(stop),
        };
        match part {
            Part::Index(index) => {
                self.eval(index, scope, item, &mut |index| step(self.index(found, &index.value)))
            }
            Part::Range(None, None) => match found.value {
                JqValue::List(_) | JqValue::Map(_) => {
                    self.each_child(found, &mut |child| step(Ok(child)))
                }
                _ => step(failed(format!("cannot iterate over {}", found.value.kind()))),
            },
            Part::Range(from, to) => {
                let ends = |bound: &'a Option<Term<&'a str>>| match bound {
                    Some(bound) => self.collect(bound, scope, item),
                    None => Ok(vec![JqValue::Null]),
                };
                for to in ends(to)? {
                    for from in ends(from)? {
                        step(self.slice(found, &from, &to))?;
                    }
                }
                Ok(())
            }
        }
    }

    fn call<'a>(
        &self,
        name: &'a str,
        arguments: &'a [Term<&'a str>],
        (scope, item): (&NameScope<'a>, &Item),
        out: Out<'_>,
    ) -> Flow {
        match scope.function(name, arguments.len()) {
            Some(Function::Argument(term, scope)) => self.eval(term, &scope, item, out),
            Some(Function::Defined(function, inner)) => {
                let pairs = function.args.iter().copied().zip(arguments);
                let pairs: Vec<(&str, &Term<&str>)> = pairs.collect();
                self.enter(&function.body, &pairs, &inner, (scope, item), out)
            }
            None => match prelude(name, arguments.len()) {
                Some(function) => {
                    let pairs = function.args.iter().copied().zip(arguments);
                    let pairs: Vec<(&str, &Term<&str>)> = pairs.collect();
                    self.enter(&function.body, &pairs, &NameScope::default(), (scope, item), out)
                }
                None => self.native(name, arguments, (scope, item), out),
            },
        }
    }

    /// Evaluates the body of a function. An argument `$x` is a value, others are filters.
    fn enter<'a>(
        &self,
        body: &'a Term<&'a str>,
        arguments: &[(&'a str, &'a Term<&'a str>)],
        inner: &NameScope<'a>,
        (scope, item): (&NameScope<'a>, &Item),
        out: Out<'_>,
    ) -> Flow {
        let Some(((name, term), rest)) = arguments.split_first() else {
            return self.eval(body, inner, item, out);
        };
        if name.starts_with('$') {
            return self.eval(term, scope, item, &mut |value| {
                let inner = inner.with_variable(name, value.value);
                self.enter(body, rest, &inner, (scope, item), out)
            });
        }
        self.enter(body, rest, &inner.with_argument(name, term, scope), (scope, item), out)
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
