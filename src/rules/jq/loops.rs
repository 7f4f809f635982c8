//! Functions of jq that evaluate their arguments several times: loops, and those that sort.

use super::arithmetic::number;
use super::evaluation::{Evaluation, Input, JqTerm};
use super::item::{Flow, Item, Out, Stop, failed};
use super::value::JqValue;

/// The first results of a filter.
pub fn limited<'a>(
    run: &Evaluation,
    count: usize,
    filter: &'a JqTerm<'a>,
    input: Input<'a, '_>,
    out: Out<'_>,
) -> Flow {
    if count == 0 {
        return Ok(());
    }
    let mut left = count;
    let mut asked = Ok(());
    let flow = run.eval(filter, input, &mut |found| {
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

/// The last result of a filter.
pub fn last<'a>(
    run: &Evaluation,
    filter: &'a JqTerm<'a>,
    input: Input<'a, '_>,
    out: Out<'_>,
) -> Flow {
    let mut last = None;
    run.eval(filter, input, &mut |found| {
        last = Some(found);
        Ok(())
    })?;
    last.map_or(Ok(()), out)
}

/// Whether a filter has no result.
pub fn is_empty<'a>(
    run: &Evaluation,
    filter: &'a JqTerm<'a>,
    input: Input<'a, '_>,
) -> Result<JqValue, Stop> {
    let mut any = false;
    limited(run, 1, filter, input, &mut |_| {
        any = true;
        Ok(())
    })?;
    Ok(JqValue::Boolean(!any))
}

/// `range(from; to; by)`.
pub fn range<'a>(
    run: &Evaluation,
    [from, to, by]: [&'a JqTerm<'a>; 3],
    input: Input<'a, '_>,
    out: Out<'_>,
) -> Flow {
    run.eval(from, input, &mut |from| {
        run.eval(to, input, &mut |to| {
            run.eval(by, input, &mut |by| {
                let (to, by) = (number(&to.value)?, number(&by.value)?);
                let mut at = number(&from.value)?;
                while (by > 0.0 && at < to) || (by < 0.0 && at > to) {
                    run.budget.charge(1)?;
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
pub fn repeat<'a>(
    run: &Evaluation,
    filter: &'a JqTerm<'a>,
    input: Input<'a, '_>,
    visit: &mut dyn FnMut(&Item) -> Result<bool, Stop>,
) -> Flow {
    let mut stack = vec![input.item.clone()];
    while let Some(here) = stack.pop() {
        if !visit(&here)? {
            continue;
        }
        let mut next = Vec::new();
        run.eval(filter, input.of(&here), &mut |found| {
            next.push(found);
            run.budget.charge(1)
        })?;
        stack.extend(next.into_iter().rev());
    }
    Ok(())
}

/// Sorts a list by what a filter makes of its items: `sort_by`, `group_by` and the like.
pub fn sorted_by<'a>(
    run: &Evaluation,
    name: &str,
    filter: &'a JqTerm<'a>,
    input: Input<'a, '_>,
) -> Result<JqValue, Stop> {
    let JqValue::List(list) = &input.item.value else {
        let kind = input.item.value.kind();
        return failed(format!("{kind} cannot be sorted, as it is not an array"));
    };
    let mut keyed = Vec::new();
    let mut weight = 0_usize;
    for value in &list.content {
        let key = run.collect(filter, input.of(&Item::computed(value.clone())))?;
        for part in &key {
            weight = weight.saturating_add(run.budget.charge_weight(part)?);
        }
        keyed.push((key, value.clone()));
    }
    // Each of the comparisons costs at most what a key weighs.
    let rounds = usize::try_from(keyed.len().max(2).ilog2()).unwrap_or(0);
    run.budget.charge(weight.saturating_mul(rounds))?;
    keyed.sort_by(|one, other| one.0.cmp(&other.0));
    let values = |keyed: Vec<(Vec<JqValue>, JqValue)>| keyed.into_iter().map(|(_, value)| value);
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
