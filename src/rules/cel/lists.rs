//! Functions on lists and optional values that Kubernetes, OCM and cel-go add to CEL. Each visits
//! every element once, so a loop step costs no more than a copy of the list.

use std::cmp::Ordering;

use cel::common::types::{
    CelBool, CelInt, CelList, CelMap, CelOptional, CelString, DYN_TYPE, Kind, LIST_TYPE,
};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

use super::values::failed;

type FunctionResult<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// Declares the functions.
///
/// # Errors
/// Fails if the environment already has one of them.
pub fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_member_overload("isSorted", "list.isSorted()", LIST_TYPE, vec![], is_sorted)?;
    env.add_member_overload("sum", "list.sum()", LIST_TYPE, vec![], sum)?;
    env.add_member_overload("min", "list.min()", LIST_TYPE, vec![], min)?;
    env.add_member_overload("max", "list.max()", LIST_TYPE, vec![], max)?;
    let any = || vec![DYN_TYPE];
    env.add_member_overload("indexOf", "list.indexOf(dyn)", LIST_TYPE, any(), index_of)?;
    env.add_member_overload(
        "lastIndexOf",
        "list.lastIndexOf(dyn)",
        LIST_TYPE,
        any(),
        last_index_of,
    )?;
    env.add_member_overload("first", "list.first()", LIST_TYPE, vec![], first)?;
    env.add_member_overload("last", "list.last()", LIST_TYPE, vec![], last)?;
    env.add_member_overload("unwrapOpt", "list.unwrapOpt()", LIST_TYPE, vec![], unwrap)?;
    env.add_overload("optional.unwrap", "optional.unwrap(list)", vec![LIST_TYPE], unwrap)?;
    env.add_overload("hasConditions", "hasConditions(dyn)", any(), has_conditions)
}

/// Whether a status has conditions. This function is OCM's.
fn has_conditions<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> FunctionResult<'b, 'v> {
    let [status] = take("hasConditions", arguments)?;
    let conditions = status.downcast_ref::<CelMap<'_>>().and_then(|map| {
        let is_it = |key: &dyn Val| key.equals(&CelString::from("conditions"));
        map.inner().iter().find(|(key, _)| is_it(key.inner())).map(|(_, value)| value)
    });
    let list = conditions.and_then(|value| value.downcast_ref::<CelList<'_>>());
    Ok(CowVal::owned(CelBool::from(list.is_some_and(|list| !list.inner().is_empty()))))
}

fn first<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> FunctionResult<'b, 'v> {
    let [list] = take("first", arguments)?;
    Ok(optional(items(list.as_ref()).first().map(|item| item.clone_as_boxed())))
}

fn last<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> FunctionResult<'b, 'v> {
    let [list] = take("last", arguments)?;
    Ok(optional(items(list.as_ref()).last().map(|item| item.clone_as_boxed())))
}

fn optional<'b, 'v>(value: Option<Box<dyn Val + 'v>>) -> CowVal<'b, 'v> {
    CowVal::owned(CelOptional::from(value))
}

/// Returns the values of a list of optionals, without the empty ones.
fn unwrap<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> FunctionResult<'b, 'v> {
    let [list] = take("unwrap", arguments)?;
    let mut found: Vec<Box<dyn Val + 'v>> = Vec::new();
    for item in items(list.as_ref()) {
        let optional = item.downcast_ref::<CelOptional<'_>>();
        let optional = optional.ok_or_else(|| failed("unwrap", "an element is not optional"))?;
        found.extend(optional.option().map(Val::clone_as_boxed));
    }
    Ok(CowVal::owned(CelList::from(found)))
}

fn is_sorted<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> FunctionResult<'b, 'v> {
    let [list] = take("isSorted", arguments)?;
    for pair in items(list.as_ref()).windows(2) {
        if let [one, next] = pair
            && compare("isSorted", *one, *next)? == Ordering::Greater
        {
            return Ok(CowVal::owned(CelBool::from(false)));
        }
    }
    Ok(CowVal::owned(CelBool::from(true)))
}

/// Sums the elements; 0 for an empty list.
fn sum<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> FunctionResult<'b, 'v> {
    let [list] = take("sum", arguments)?;
    let mut total: Option<Box<dyn Val + 'v>> = None;
    for item in items(list.as_ref()) {
        if !matches!(item.get_type().kind(), Kind::Int | Kind::UInt | Kind::Double | Kind::Duration)
        {
            return Err(failed("sum", "the elements are no numbers"));
        }
        total = Some(match total {
            None => item.clone_as_boxed(),
            Some(before) => {
                let adder = before.as_adder();
                let adder = adder.ok_or_else(|| failed("sum", "the elements are no numbers"))?;
                adder.add(item)?.into_owned()
            }
        });
    }
    Ok(total.map_or_else(|| CowVal::owned(CelInt::from(0)), CowVal::Owned))
}

fn min<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> FunctionResult<'b, 'v> {
    outermost("min", Ordering::Less, arguments)
}

fn max<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> FunctionResult<'b, 'v> {
    outermost("max", Ordering::Greater, arguments)
}

fn outermost<'b, 'v>(
    function: &str,
    wanted: Ordering,
    arguments: Vec<CowVal<'b, 'v>>,
) -> FunctionResult<'b, 'v> {
    let [list] = take(function, arguments)?;
    let mut found: Option<&(dyn Val + 'v)> = None;
    for item in items(list.as_ref()) {
        match found {
            Some(best) if compare(function, item, best)? != wanted => {}
            _ => found = Some(item),
        }
    }
    let found = found.ok_or_else(|| failed(function, "the list is empty"))?;
    Ok(CowVal::Owned(found.clone_as_boxed()))
}

fn index_of<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> FunctionResult<'b, 'v> {
    let [list, wanted] = take("indexOf", arguments)?;
    place(items(list.as_ref()).iter().position(|item| item.equals(wanted.as_ref())))
}

fn last_index_of<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> FunctionResult<'b, 'v> {
    let [list, wanted] = take("lastIndexOf", arguments)?;
    place(items(list.as_ref()).iter().rposition(|item| item.equals(wanted.as_ref())))
}

/// Converts an index; -1 for none.
fn place<'b, 'v>(found: Option<usize>) -> FunctionResult<'b, 'v> {
    let place = found.and_then(|place| i64::try_from(place).ok()).unwrap_or(-1);
    Ok(CowVal::owned(CelInt::from(place)))
}

fn take<'b, 'v, const COUNT: usize>(
    function: &str,
    arguments: Vec<CowVal<'b, 'v>>,
) -> Result<[CowVal<'b, 'v>; COUNT], ExecutionError> {
    arguments.try_into().map_err(|_| failed(function, "the number of arguments is another"))
}

fn items<'b, 'v>(list: &'b (dyn Val + 'v)) -> Vec<&'b (dyn Val + 'v)> {
    let mut all = Vec::new();
    if let Some(list) = list.as_iterable() {
        let mut rest = list.iter();
        while let Some(item) = rest.next() {
            all.push(item);
        }
    }
    all
}

fn compare(function: &str, one: &dyn Val, other: &dyn Val) -> Result<Ordering, ExecutionError> {
    let comparer = one.as_comparer();
    comparer.ok_or_else(|| failed(function, "the elements have no order"))?.compare(other)
}
