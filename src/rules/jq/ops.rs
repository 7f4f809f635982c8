//! Operators of jq: arithmetic, comparisons, access and assignments.

use std::cmp::Ordering;
use std::rc::Rc;

use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::ops::Math;

use super::eval::Evaluation;
use super::item::{Flow, Item, Out, Stop, failed};
use super::scope::NameScope;
use super::value::{Fields, JqValue};

impl Evaluation {
    /// Compares two values. The cost is that of the lighter one.
    pub fn compare(&self, left: &JqValue, right: &JqValue) -> Result<Ordering, Stop> {
        const HEAVY: usize = 1_000_000;
        self.charge(left.weight(HEAVY).min(right.weight(HEAVY)))?;
        Ok(left.cmp(right))
    }

    /// Computes `left operator right`.
    pub fn compute(
        &self,
        operator: Math,
        left: &JqValue,
        right: &JqValue,
    ) -> Result<JqValue, Stop> {
        use JqValue::{Integer, List, Map, Null, Text};
        self.charge(1)?;
        let exact = |compute: fn(i64, i64) -> Option<i64>| match (left, right) {
            (Integer(left), Integer(right)) => compute(*left, *right).map(Integer),
            _ => None,
        };
        let floats = left.as_float().zip(right.as_float());
        match (operator, left, right) {
            (Math::Add, Null, other) | (Math::Add, other, Null) => Ok(other.clone()),
            (Math::Add, Text(left), Text(right)) => {
                self.charge((left.len() + right.len()) / 16)?;
                Ok(JqValue::text([left.as_ref(), right.as_ref()].concat()))
            }
            (Math::Add, List(left), List(right)) => {
                self.charge(left.content.len() + right.content.len())?;
                Ok(JqValue::list([left.content.as_slice(), &right.content].concat())?)
            }
            (Math::Add, Map(left), Map(right)) => {
                self.charge(left.content.len() + right.content.len())?;
                let mut fields = left.content.clone();
                fields.extend(right.content.iter().map(|(k, v)| (k.clone(), v.clone())));
                Ok(JqValue::map(fields)?)
            }
            (Math::Sub, List(left), List(right)) => self.difference(&left.content, &right.content),
            (Math::Mul, Text(text), count) | (Math::Mul, count, Text(text))
                if count.as_float().is_some() =>
            {
                self.repeated(text, count)
            }
            (Math::Mul, Map(_), Map(_)) => self.merged(left, right),
            (Math::Div, Text(text), Text(separator)) => self.split(text, separator),
            (Math::Div | Math::Rem, _, _) if floats.is_some_and(|(_, right)| right == 0.0) => {
                failed("a number cannot be divided by zero")
            }
            _ => {
                let Some((a, b)) = floats else {
                    let (left, right) = (left.kind(), right.kind());
                    return failed(format!("{left} and {right} cannot be computed with"));
                };
                Ok(match operator {
                    Math::Add => exact(i64::checked_add).unwrap_or(JqValue::number(a + b)),
                    Math::Sub => exact(i64::checked_sub).unwrap_or(JqValue::number(a - b)),
                    Math::Mul => exact(i64::checked_mul).unwrap_or(JqValue::number(a * b)),
                    Math::Div => JqValue::number(a / b),
                    Math::Rem => exact(i64::checked_rem).unwrap_or(JqValue::number(a % b)),
                })
            }
        }
    }

    fn difference(&self, left: &[JqValue], right: &[JqValue]) -> Result<JqValue, Stop> {
        let mut rest = Vec::new();
        for item in left {
            let mut is_there = false;
            for other in right {
                is_there = is_there || self.compare(item, other)? == Ordering::Equal;
            }
            if !is_there {
                rest.push(item.clone());
            }
        }
        Ok(JqValue::list(rest)?)
    }

    fn repeated(&self, text: &str, count: &JqValue) -> Result<JqValue, Stop> {
        let count = count.as_float().unwrap_or_default();
        if count <= 0.0 {
            return Ok(JqValue::Null);
        }
        let times = match JqValue::number(count.ceil()) {
            JqValue::Integer(times) => usize::try_from(times).unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        self.charge(text.len().saturating_mul(times) / 16)?;
        Ok(JqValue::text(text.repeat(if text.is_empty() { 1 } else { times })))
    }

    /// `*` of two maps: fields of both, merged where both have a map.
    fn merged(&self, left: &JqValue, right: &JqValue) -> Result<JqValue, Stop> {
        let (JqValue::Map(left), JqValue::Map(right)) = (left, right) else {
            return Ok(right.clone());
        };
        self.charge(left.content.len() + right.content.len())?;
        let mut fields = left.content.clone();
        for (key, value) in &right.content {
            let merged = match fields.get(key) {
                Some(old) => self.merged(old, value)?,
                None => value.clone(),
            };
            fields.insert(key.clone(), merged);
        }
        Ok(JqValue::map(fields)?)
    }

    /// The parts of a text between separators.
    pub fn split(&self, text: &str, separator: &str) -> Result<JqValue, Stop> {
        self.charge(text.len())?;
        let parts = if text.is_empty() {
            Vec::new()
        } else if separator.is_empty() {
            text.chars().map(|character| JqValue::text(character.to_string())).collect()
        } else {
            text.split(separator).map(JqValue::text).collect()
        };
        Ok(JqValue::list(parts)?)
    }

    /// The value of `.[index]`.
    pub fn index(&self, item: &Item, index: &JqValue) -> Result<Item, Stop> {
        use JqValue::{Float, Integer, List, Map, Null, Text};
        self.charge(1)?;
        let value = match (&item.value, index) {
            (Map(map), Text(key)) => map.content.get(key).cloned().unwrap_or(Null),
            (List(list), Integer(_) | Float(_)) => {
                let place = index.as_index().and_then(|index| place(index, list.content.len()));
                place.and_then(|place| list.content.get(place).cloned()).unwrap_or(Null)
            }
            (List(list), List(part)) => return self.places_of(&list.content, &part.content),
            (Null, Text(_) | Integer(_) | Float(_) | Null) => Null,
            (List(_) | Null | Text(_), Map(slice)) => {
                let bound = |name: &str| slice.content.get(name).cloned().unwrap_or(Null);
                return self.slice(item, &bound("start"), &bound("end"));
            }
            (value, index) => {
                return failed(format!("{} cannot be indexed with {}", value.kind(), index.kind()));
            }
        };
        item.child(index, value)
    }

    /// Where a list stands in another one.
    fn places_of(&self, list: &[JqValue], part: &[JqValue]) -> Result<Item, Stop> {
        let mut places = Vec::new();
        if !part.is_empty() {
            for (place, window) in list.windows(part.len()).enumerate() {
                let mut same = true;
                for (one, other) in window.iter().zip(part) {
                    same = same && self.compare(one, other)? == Ordering::Equal;
                }
                if same {
                    places.push(JqValue::integer(place));
                }
            }
        }
        Ok(Item::computed(JqValue::list(places)?))
    }

    /// The value of `.[from:to]`.
    pub fn slice(&self, item: &Item, from: &JqValue, to: &JqValue) -> Result<Item, Stop> {
        let bounds = |length: usize| {
            let bound = |value: &JqValue, otherwise: usize, up: bool| match value {
                JqValue::Null => Ok(otherwise),
                JqValue::Integer(index) => Ok(clamped(*index, length)),
                JqValue::Float(float) => {
                    let whole = if up { float.ceil() } else { float.floor() };
                    Ok(clamped(JqValue::number(whole).as_index().unwrap_or(i64::MAX), length))
                }
                other => failed(format!("a slice cannot begin or end at {}", other.kind())),
            };
            let from = bound(from, 0, false)?;
            Ok::<_, Stop>((from, bound(to, length, true)?.max(from)))
        };
        let value = match &item.value {
            JqValue::Null => JqValue::Null,
            JqValue::List(list) => {
                let (from, to) = bounds(list.content.len())?;
                self.charge(to - from)?;
                JqValue::list(list.content.get(from..to).unwrap_or_default().to_vec())?
            }
            JqValue::Text(text) => {
                self.charge(text.len() / 16)?;
                let (from, to) = bounds(text.chars().count())?;
                JqValue::text(text.chars().skip(from).take(to - from).collect::<String>())
            }
            other => return failed(format!("{} cannot be sliced", other.kind())),
        };
        let key = |name: &str| Rc::from(name);
        let slice = Fields::from([(key("start"), from.clone()), (key("end"), to.clone())]);
        item.child(&JqValue::map(slice)?, value)
    }

    /// The value of `left = right`, `left |= right` and the like.
    pub fn assign<'a>(
        &self,
        (left, operator, right): (&'a Term<&'a str>, &'a BinaryOp<&'a str>, &'a Term<&'a str>),
        (scope, item): (&NameScope<'a>, &Item),
        out: Out<'_>,
    ) -> Flow {
        let paths = || {
            let mut paths = Vec::new();
            self.each_path(left, (scope, item), &mut |steps| {
                paths.push(steps);
                Ok(())
            })?;
            Ok::<_, Stop>(paths)
        };
        if matches!(operator, BinaryOp::Update) {
            let mut value = item.value.clone();
            for path in paths()? {
                value = self.set(&value, &path, &mut |old| {
                    let new = self.collect(right, scope, &Item::computed(old.clone()))?;
                    Ok(new.into_iter().next().unwrap_or(JqValue::Null))
                })?;
            }
            return out(Item::computed(value));
        }
        self.eval(right, scope, item, &mut |new| {
            let mut value = item.value.clone();
            for path in paths()? {
                value = self.set(&value, &path, &mut |old| match operator {
                    BinaryOp::UpdateMath(operator) => self.compute(*operator, old, &new.value),
                    BinaryOp::UpdateAlt if old.is_true() => Ok(old.clone()),
                    _ => Ok(new.value.clone()),
                })?;
            }
            out(Item::computed(value))
        })
    }

    /// A copy of a value with another value at a path.
    fn set(
        &self,
        value: &JqValue,
        path: &[JqValue],
        change: &mut dyn FnMut(&JqValue) -> Result<JqValue, Stop>,
    ) -> Result<JqValue, Stop> {
        self.charge(1)?;
        let Some((step, rest)) = path.split_first() else { return change(value) };
        let inner = self.index(&Item::computed(value.clone()), step)?.value;
        let inner = self.set(&inner, rest, change)?;
        match (value, step) {
            (JqValue::Map(map), _) => self.with_field(step, &map.content, inner),
            (JqValue::Null, JqValue::Text(_)) => self.with_field(step, &Fields::new(), inner),
            (JqValue::List(_) | JqValue::Null, JqValue::Integer(index)) => {
                let mut items = value.children();
                let index = place(*index, items.len());
                let Some(index) = index else {
                    return failed("out of bounds negative array index");
                };
                self.charge(items.len().max(index))?;
                if index >= items.len() {
                    items.resize(index + 1, JqValue::Null);
                }
                if let Some(item) = items.get_mut(index) {
                    *item = inner;
                }
                Ok(JqValue::list(items)?)
            }
            _ => failed(format!("a part of {} cannot be assigned", value.kind())),
        }
    }
}

fn place(index: i64, length: usize) -> Option<usize> {
    match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
    }
}

fn clamped(index: i64, length: usize) -> usize {
    place(index, length).unwrap_or(0).min(length)
}
