//! Kubernetes' Semver library: versions of three numbers, and texts that it normalizes to such.

use cel::common::types::{CelBool, CelInt, CelString};
use cel::{DeclarationError, Env, ExecutionError, add_member_overload, add_overload};
use semver::Version;

use super::quantity::order;
use super::values::{failed, value_type};

/// A version. Comparisons ignore its build metadata (after `+`).
#[derive(Debug, Clone)]
pub struct Semver(Version);

impl PartialEq for Semver {
    fn eq(&self, other: &Self) -> bool {
        self.0.cmp_precedence(&other.0).is_eq()
    }
}

value_type!(Semver, "kubernetes.Semver");

/// Declares the functions.
///
/// # Errors
/// Fails if the environment already has one of them.
pub fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    add_overload!(env, fn semver: (CelString) -> Result<Semver>)?;
    add_overload!(env, fn semver_of: (CelString, CelBool) -> Result<Semver>, name = "semver")?;
    add_overload!(env, fn is_semver: (CelString) -> CelBool)?;
    add_overload!(env, fn is_semver_of: (CelString, CelBool) -> CelBool, name = "isSemver")?;
    add_member_overload!(env, fn major: (Semver) -> Result<CelInt>)?;
    add_member_overload!(env, fn minor: (Semver) -> Result<CelInt>)?;
    add_member_overload!(env, fn patch: (Semver) -> Result<CelInt>)?;
    add_member_overload!(env, fn is_greater_than: (Semver, Semver) -> CelBool)?;
    add_member_overload!(env, fn is_less_than: (Semver, Semver) -> CelBool)?;
    add_member_overload!(env, fn compare_to: (Semver, Semver) -> CelInt)
}

fn parse(text: &str, normalizes: bool) -> Option<Semver> {
    let version = if normalizes { normalized(text) } else { text.to_owned() };
    Version::parse(&version).ok().map(Semver)
}

/// Normalizes a version: removes a leading `v` and leading zeros, adds missing numbers.
fn normalized(text: &str) -> String {
    let text = text.trim();
    let text = text.strip_prefix('v').unwrap_or(text);
    let (numbers, rest) = text.split_at(text.find(['-', '+']).unwrap_or(text.len()));
    let mut parts: Vec<&str> = numbers
        .split('.')
        .map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0",
            trimmed => trimmed,
        })
        .collect();
    while parts.len() < 3 {
        parts.push("0");
    }
    format!("{}{rest}", parts.join("."))
}

fn semver(text: &CelString<'_>) -> Result<Semver, ExecutionError> {
    semver_of(text, &false.into())
}

fn semver_of(text: &CelString<'_>, normalizes: &CelBool) -> Result<Semver, ExecutionError> {
    let found = parse(text.inner(), *normalizes.inner());
    found.ok_or_else(|| failed("semver", "the text is no version"))
}

fn is_semver(text: &CelString<'_>) -> CelBool {
    parse(text.inner(), false).is_some().into()
}

fn is_semver_of(text: &CelString<'_>, normalizes: &CelBool) -> CelBool {
    parse(text.inner(), *normalizes.inner()).is_some().into()
}

fn number(function: &str, number: u64) -> Result<CelInt, ExecutionError> {
    let number = i64::try_from(number).map_err(|_| failed(function, "the number is too large"))?;
    Ok(number.into())
}

fn major(this: &Semver) -> Result<CelInt, ExecutionError> {
    number("major", this.0.major)
}

fn minor(this: &Semver) -> Result<CelInt, ExecutionError> {
    number("minor", this.0.minor)
}

fn patch(this: &Semver) -> Result<CelInt, ExecutionError> {
    number("patch", this.0.patch)
}

fn is_greater_than(this: &Semver, other: &Semver) -> CelBool {
    this.0.cmp_precedence(&other.0).is_gt().into()
}

fn is_less_than(this: &Semver, other: &Semver) -> CelBool {
    this.0.cmp_precedence(&other.0).is_lt().into()
}

fn compare_to(this: &Semver, other: &Semver) -> CelInt {
    order(this.0.cmp_precedence(&other.0))
}
