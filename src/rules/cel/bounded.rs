//! Functions that charge their cost to the meter of the expression. The tree of an expression calls
//! them in place of CEL's own: see [`super::meter`].
#![expect(
    clippy::needless_pass_by_value,
    reason = "a function of CEL is given its arguments by value"
)]

use cel::common::types::{
    CelBool, CelInt, CelString, DYN_TYPE, INT_TYPE, LIST_TYPE, STRING_TYPE, Type,
};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};
use regex::Regex;

use super::meter::{KEPT, MADE, METER, Meter, VALUE_BYTES};
use super::values::{failed, texts};

/// Declares the functions.
///
/// # Errors
/// Fails if the environment already has one of them.
pub fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    let with = |rest: Vec<Type>| {
        let mut types = vec![Meter::cel_type().to_owned()];
        types.extend(rest);
        types
    };
    env.add_overload(MADE, MADE, with(vec![DYN_TYPE]), made)?;
    env.add_overload(KEPT, KEPT, with(vec![DYN_TYPE]), kept)?;
    let texts = |count| with(std::iter::repeat_n((), count).map(|()| STRING_TYPE).collect());
    let counted = |count| {
        let mut types = texts(count);
        types.push(INT_TYPE);
        types
    };
    env.add_overload("@matches", "@matches", texts(2), matches)?;
    env.add_overload("@find", "@find", texts(2), find)?;
    env.add_overload("@findAll", "@findAll", texts(2), find_all)?;
    env.add_overload("@findAll", "@findAll_n", counted(2), find_all)?;
    env.add_overload("@join", "@join", with(vec![LIST_TYPE]), join)?;
    env.add_overload("@join", "@join_with", with(vec![LIST_TYPE, STRING_TYPE]), join)?;
    env.add_overload("@replace", "@replace", texts(3), replace)?;
    env.add_overload("@replace", "@replace_n", counted(3), replace)
}

type CelResult<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

fn pass<'b, 'v>(mut arguments: Vec<CowVal<'b, 'v>>, even_borrowed: bool) -> CelResult<'b, 'v> {
    let value = arguments.pop().ok_or_else(|| failed(KEPT, "there is no value"))?;
    if even_borrowed || value.is_owned() {
        meter_of(&arguments)?.charge_value(value.as_ref())?;
    }
    Ok(value)
}

fn made<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> CelResult<'b, 'v> {
    pass(arguments, false)
}

fn kept<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> CelResult<'b, 'v> {
    pass(arguments, true)
}

fn meter_of<'a>(arguments: &'a [CowVal<'_, '_>]) -> Result<&'a Meter, ExecutionError> {
    let meter = arguments.first().and_then(|meter| meter.downcast_ref::<Meter>());
    meter.ok_or_else(|| failed(METER, "there is none"))
}

fn text_of<'a>(arguments: &'a [CowVal<'_, '_>], place: usize) -> Result<&'a str, ExecutionError> {
    let text = arguments.get(place).and_then(|text| text.downcast_ref::<CelString<'_>>());
    text.map(CelString::inner).ok_or_else(|| failed("text", "an argument is no text"))
}

/// Reads a maximum number of matches; `None` for all.
fn times_of(arguments: &[CowVal<'_, '_>], place: usize) -> Option<usize> {
    let times = arguments.get(place)?.downcast_ref::<CelInt>()?;
    usize::try_from(*times.inner()).ok()
}

fn bytes(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Searches a text for a pattern. The arguments are meter, text and pattern.
fn searched<'a>(
    function: &str,
    arguments: &'a [CowVal<'_, '_>],
) -> Result<(Regex, &'a str), ExecutionError> {
    let meter = meter_of(arguments)?;
    let text = text_of(arguments, 1)?;
    let pattern = meter.pattern(function, text_of(arguments, 2)?)?;
    meter.charge(VALUE_BYTES.saturating_add(bytes(text.len())))?;
    Ok((pattern, text))
}

fn matches<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> CelResult<'b, 'v> {
    let (pattern, text) = searched("matches", &arguments)?;
    Ok(CowVal::owned(CelBool::from(pattern.is_match(text))))
}

/// Returns the first match, or an empty text.
fn find<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> CelResult<'b, 'v> {
    let (pattern, text) = searched("find", &arguments)?;
    let found = pattern.find(text).map_or("", |found| found.as_str());
    Ok(CowVal::owned(CelString::from(found.to_owned())))
}

/// Returns all matches, or the first few.
fn find_all<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> CelResult<'b, 'v> {
    let (pattern, text) = searched("findAll", &arguments)?;
    let meter = meter_of(&arguments)?;
    let mut found = Vec::new();
    for one in pattern.find_iter(text).take(times_of(&arguments, 3).unwrap_or(usize::MAX)) {
        meter.charge(VALUE_BYTES.saturating_add(bytes(one.len())))?;
        found.push(one.as_str());
    }
    Ok(CowVal::owned(texts(found)))
}

fn join<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> CelResult<'b, 'v> {
    let meter = meter_of(&arguments)?;
    let separator = if arguments.len() > 2 { text_of(&arguments, 2)? } else { "" };
    let list = arguments.get(1).and_then(|list| list.as_iterable());
    let mut items = list.ok_or_else(|| failed("join", "it is no list"))?.iter();
    let mut joined = String::new();
    let mut is_first = true;
    while let Some(item) = items.next() {
        let item = item.downcast_ref::<CelString<'_>>();
        let item = item.ok_or_else(|| failed("join", "an element is no text"))?.inner();
        meter.charge(bytes(item.len().saturating_add(separator.len())).saturating_add(1))?;
        if !std::mem::take(&mut is_first) {
            joined.push_str(separator);
        }
        joined.push_str(item);
    }
    Ok(CowVal::owned(CelString::from(joined)))
}

fn replace<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> CelResult<'b, 'v> {
    let meter = meter_of(&arguments)?;
    let (text, from, to) =
        (text_of(&arguments, 1)?, text_of(&arguments, 2)?, text_of(&arguments, 3)?);
    let times = times_of(&arguments, 4).unwrap_or(usize::MAX);
    meter.charge(VALUE_BYTES.saturating_add(bytes(text.len())))?;
    let found = text.matches(from).take(times).count();
    meter.charge(bytes(found.saturating_mul(to.len())).saturating_add(1))?;
    Ok(CowVal::owned(CelString::from(text.replacen(from, to, times))))
}
