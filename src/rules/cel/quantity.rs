//! Kubernetes' Quantity library: amounts such as `1.5Gi` and `200m`.

use std::cmp::Ordering;

use cel::common::types::{CelBool, CelDouble, CelInt, CelString};
use cel::{DeclarationError, Env, ExecutionError, add_member_overload, add_overload};

use super::values::{failed, value_type};

/// Nano-units of one unit: the finest that Kubernetes keeps.
const NANOS_OF_ONE: i128 = 1_000_000_000;
/// The largest amount. Kubernetes cuts larger ones to it.
const NANOS_MAX: i128 = i64::MAX as i128 * NANOS_OF_ONE;
/// Kubernetes does not cut numbers of at most this many digits, whatever their suffix.
const EXACT_DIGITS: usize = 18;

/// An amount, in billionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

value_type!(Quantity, "kubernetes.Quantity");

/// Declares the functions.
///
/// # Errors
/// Fails if the environment already has one of them.
pub fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    add_overload!(env, fn quantity: (CelString) -> Result<Quantity>)?;
    add_overload!(env, fn is_quantity: (CelString) -> CelBool)?;
    add_member_overload!(env, fn sign: (Quantity) -> CelInt)?;
    add_member_overload!(env, fn is_integer: (Quantity) -> CelBool)?;
    add_member_overload!(env, fn as_integer: (Quantity) -> Result<CelInt>)?;
    add_member_overload!(env, fn as_approximate_float: (Quantity) -> CelDouble)?;
    add_member_overload!(env, fn add: (Quantity, Quantity) -> Result<Quantity>)?;
    add_member_overload!(
        env,
        fn add_integer: (Quantity, CelInt) -> Result<Quantity>,
        name = "add"
    )?;
    add_member_overload!(env, fn sub: (Quantity, Quantity) -> Result<Quantity>)?;
    add_member_overload!(
        env,
        fn sub_integer: (Quantity, CelInt) -> Result<Quantity>,
        name = "sub"
    )?;
    add_member_overload!(env, fn is_greater_than: (Quantity, Quantity) -> CelBool)?;
    add_member_overload!(env, fn is_less_than: (Quantity, Quantity) -> CelBool)?;
    add_member_overload!(env, fn compare_to: (Quantity, Quantity) -> CelInt)
}

fn quantity(text: &CelString<'_>) -> Result<Quantity, ExecutionError> {
    parse(text.inner()).ok_or_else(|| failed("quantity", "the text is no quantity"))
}

fn is_quantity(text: &CelString<'_>) -> CelBool {
    parse(text.inner()).is_some().into()
}

fn sign(this: &Quantity) -> CelInt {
    i64::try_from(this.0.signum()).unwrap_or_default().into()
}

fn integer(this: Quantity) -> Option<i64> {
    (this.0 % NANOS_OF_ONE == 0).then(|| i64::try_from(this.0 / NANOS_OF_ONE).ok()).flatten()
}

fn is_integer(this: &Quantity) -> CelBool {
    integer(*this).is_some().into()
}

fn as_integer(this: &Quantity) -> Result<CelInt, ExecutionError> {
    let whole = integer(*this).ok_or_else(|| failed("asInteger", "it is not a whole number"))?;
    Ok(whole.into())
}

#[expect(clippy::cast_precision_loss, reason = "the function's name says that it is approximate")]
fn as_approximate_float(this: &Quantity) -> CelDouble {
    (this.0 as f64 / NANOS_OF_ONE as f64).into()
}

fn checked(function: &str, sum: Option<i128>) -> Result<Quantity, ExecutionError> {
    sum.map(Quantity).ok_or_else(|| failed(function, "the result is too large"))
}

fn add(this: &Quantity, other: &Quantity) -> Result<Quantity, ExecutionError> {
    checked("add", this.0.checked_add(other.0))
}

fn add_integer(this: &Quantity, other: &CelInt) -> Result<Quantity, ExecutionError> {
    checked("add", this.0.checked_add(i128::from(*other.inner()) * NANOS_OF_ONE))
}

fn sub(this: &Quantity, other: &Quantity) -> Result<Quantity, ExecutionError> {
    checked("sub", this.0.checked_sub(other.0))
}

fn sub_integer(this: &Quantity, other: &CelInt) -> Result<Quantity, ExecutionError> {
    checked("sub", this.0.checked_sub(i128::from(*other.inner()) * NANOS_OF_ONE))
}

fn is_greater_than(this: &Quantity, other: &Quantity) -> CelBool {
    (this > other).into()
}

fn is_less_than(this: &Quantity, other: &Quantity) -> CelBool {
    (this < other).into()
}

fn compare_to(this: &Quantity, other: &Quantity) -> CelInt {
    order(this.cmp(other))
}

/// Compares two amounts: -1, 0 or 1.
pub fn order(order: Ordering) -> CelInt {
    CelInt::from(order as i64)
}

/// Parses `<sign><digits>.<digits><suffix>`. The suffix is binary, decimal or an exponent.
fn parse(text: &str) -> Option<Quantity> {
    let (is_negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let (binary, decimal) = factor(suffix)?;
    let digits = format!("{}{fraction}", whole.trim_start_matches('0'));
    let places = decimal.checked_add(9)?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let exact = scaled(&digits, binary, places);
    let size = match exact {
        Some(size) if digits.len() <= EXACT_DIGITS => size,
        Some(size) => size.min(NANOS_MAX),
        None => NANOS_MAX,
    };
    Some(Quantity(if is_negative { -size } else { size }))
}

/// Returns the multiplier of a suffix: a factor, and a power of ten.
fn factor(suffix: &str) -> Option<(i128, i32)> {
    let power = |of: u32| Some((1_i128 << (10 * of), 0));
    match suffix {
        "" => Some((1, 0)),
        "n" => Some((1, -9)),
        "u" => Some((1, -6)),
        "m" => Some((1, -3)),
        "k" => Some((1, 3)),
        "M" => Some((1, 6)),
        "G" => Some((1, 9)),
        "T" => Some((1, 12)),
        "P" => Some((1, 15)),
        "E" => Some((1, 18)),
        "Ki" => power(1),
        "Mi" => power(2),
        "Gi" => power(3),
        "Ti" => power(4),
        "Pi" => power(5),
        "Ei" => power(6),
        _ => Some((1, suffix.strip_prefix(['e', 'E'])?.parse().ok()?)),
    }
}

/// Returns `digits * factor * 10^places`, rounded up, or `None` on overflow.
fn scaled(digits: &str, factor: i128, places: i32) -> Option<i128> {
    if digits.bytes().all(|digit| digit == b'0') {
        return Some(0);
    }
    let shift = places.unsigned_abs();
    if places >= 0 {
        let number = digits.parse::<i128>().ok()?.checked_mul(factor)?;
        return number.checked_mul(10_i128.checked_pow(shift)?);
    }
    // Digits far behind the point only say whether to round.
    let kept = digits.len().min(38);
    let cut = u32::try_from(digits.len() - kept).ok()?;
    let number = digits.get(..kept)?.parse::<i128>().ok()?.checked_mul(factor)?;
    let is_cut = digits.bytes().skip(kept).any(|digit| digit != b'0');
    if cut > shift {
        return None;
    }
    let Some(divisor) = 10_i128.checked_pow(shift - cut) else { return Some(1) };
    let has_rest = is_cut || number % divisor != 0;
    (number / divisor).checked_add(i128::from(has_rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_kubernetes_reads_them() {
        for (text, nanos) in [
            ("0", Some(0)),
            ("1", Some(NANOS_OF_ONE)),
            ("-1.5", Some(-1_500_000_000)),
            ("+.5", Some(500_000_000)),
            ("2.", Some(2_000_000_000)),
            ("200m", Some(200_000_000)),
            ("1u", Some(1_000)),
            ("1n", Some(1)),
            ("0.1n", Some(1)),
            ("1.00000000000000000000000000000000000000000001", Some(1_000_000_001)),
            ("1k", Some(1_000_000_000_000)),
            ("1.5Ki", Some(1_536_000_000_000)),
            ("1e3", Some(1_000_000_000_000)),
            ("1E-3", Some(1_000_000)),
            ("1e-30", Some(1)),
            ("100E", Some(100_000_000_000_000_000_000 * NANOS_OF_ONE)),
            ("9999999999999999999", Some(NANOS_MAX)),
            ("-99999999999999999999999999999999999999999999999999", Some(-NANOS_MAX)),
            ("1e2000000000", Some(NANOS_MAX)),
            ("0e2000000000", Some(0)),
            ("", None),
            ("-", None),
            (".", None),
            ("1.2.3", None),
            ("1 Gi", None),
            ("1ki", None),
            ("1K", None),
            ("1e", None),
            ("1e99999999999", None),
            ("Gi", None),
            ("0x10", None),
        ] {
            assert_eq!(parse(text), nanos.map(Quantity), "{text}");
        }
    }
}
