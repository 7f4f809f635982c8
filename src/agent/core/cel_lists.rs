//! The functions on lists that Kubernetes adds to CEL, and that the CEL crate does not have. Each looks at every element
//! once, so that a loop step costs no more than a copy of the list.

use std::cmp::Ordering;

use cel::common::types::{CelBool, CelInt, DYN_TYPE, Kind, LIST_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

type Answer<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// Declares the functions.
///
/// # Errors
/// Where the environment has one of them already.
pub fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_member_overload("isSorted", "list.isSorted()", LIST_TYPE, vec![], is_sorted)?;
    env.add_member_overload("sum", "list.sum()", LIST_TYPE, vec![], sum)?;
    env.add_member_overload("min", "list.min()", LIST_TYPE, vec![], min)?;
    env.add_member_overload("max", "list.max()", LIST_TYPE, vec![], max)?;
    let any = || vec![DYN_TYPE];
    env.add_member_overload("indexOf", "list.indexOf(dyn)", LIST_TYPE, any(), index_of)?;
    env.add_member_overload("lastIndexOf", "list.lastIndexOf(dyn)", LIST_TYPE, any(), last_index_of)
}

fn is_sorted<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
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

/// Of an empty list 0.
fn sum<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
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

fn min<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    outermost("min", Ordering::Less, arguments)
}

fn max<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    outermost("max", Ordering::Greater, arguments)
}

fn outermost<'b, 'v>(
    function: &str,
    wanted: Ordering,
    arguments: Vec<CowVal<'b, 'v>>,
) -> Answer<'b, 'v> {
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

fn index_of<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    let [list, wanted] = take("indexOf", arguments)?;
    place(items(list.as_ref()).iter().position(|item| item.equals(wanted.as_ref())))
}

fn last_index_of<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    let [list, wanted] = take("lastIndexOf", arguments)?;
    place(items(list.as_ref()).iter().rposition(|item| item.equals(wanted.as_ref())))
}

/// -1 where there is none.
fn place<'b, 'v>(found: Option<usize>) -> Answer<'b, 'v> {
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

fn failed(function: &str, problem: &str) -> ExecutionError {
    ExecutionError::function_error(function, problem)
}
