//! Kubernetes' Format library: named checks of texts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cel::common::types::{CelOptional, CelString};
use cel::common::value::Val;
use cel::{DeclarationError, Env, add_member_overload, add_overload};

use super::url;
use super::values::{texts, value_type};
use gitwork_api::names::{check_label, check_label_value, check_qualified_name, check_subdomain};

/// Checks a text; returns the problem, if any.
type Check = fn(&str) -> Option<String>;

/// A format, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format(&'static str);

value_type!(Format, "kubernetes.NamedFormat");

/// All formats, by the names that `format.named` takes.
const FORMATS: &[(&str, Check)] = &[
    ("dns1123Label", label),
    ("dns1123Subdomain", subdomain),
    ("dns1035Label", label_with_letter),
    ("qualifiedName", check_qualified_name),
    ("dns1123LabelPrefix", |text| label(&without_last_dash(text))),
    ("dns1123SubdomainPrefix", |text| subdomain(&without_last_dash(text))),
    ("dns1035LabelPrefix", |text| label_with_letter(&without_last_dash(text))),
    ("labelValue", check_label_value),
    ("uri", |text| unless(url::parse(text).is_some(), "it is no absolute URI or path")),
    ("uuid", |text| unless(is_uuid(text), "it is no UUID")),
    ("byte", |text| unless(STANDARD.decode(text).is_ok(), "it is no base64")),
    ("date", |text| unless(is_date(text), "it is no date such as 2026-01-31")),
    ("datetime", |text| unless(is_datetime(text), "it is no time such as 2026-01-31T10:00:00Z")),
];

/// Declares the functions.
///
/// # Errors
/// Fails if the environment already has one of them.
pub fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    add_overload!(env, fn named: (CelString) -> CelOptional, name = "format.named")?;
    add_member_overload!(env, fn validate: (Format, CelString) -> CelOptional)?;
    macro_rules! declare {
        ($($name:ident = $text:literal),*) => {$(
            fn $name() -> Format {
                Format($text)
            }
            add_overload!(env, fn $name: () -> Format, name = concat!("format.", $text))?;
        )*};
    }
    declare!(
        dns1123_label = "dns1123Label",
        dns1123_subdomain = "dns1123Subdomain",
        dns1035_label = "dns1035Label",
        qualified_name = "qualifiedName",
        dns1123_label_prefix = "dns1123LabelPrefix",
        dns1123_subdomain_prefix = "dns1123SubdomainPrefix",
        dns1035_label_prefix = "dns1035LabelPrefix",
        label_value = "labelValue",
        uri = "uri",
        uuid = "uuid",
        byte = "byte",
        date = "date",
        datetime = "datetime"
    );
    Ok(())
}

fn named(name: &CelString<'_>) -> CelOptional<'static> {
    let found = FORMATS.iter().find(|(known, _)| *known == name.inner());
    found.map(|(name, _)| Box::new(Format(name)) as Box<dyn Val>).into()
}

/// Returns an empty optional for a valid text.
fn validate(this: &Format, text: &CelString<'_>) -> CelOptional<'static> {
    let check = FORMATS.iter().find(|(name, _)| *name == this.0).map(|(_, check)| check);
    let problem = check.and_then(|check| check(text.inner()));
    problem.map(|problem| Box::new(texts([problem.as_str()])) as Box<dyn Val>).into()
}

fn unless(is_fine: bool, problem: &str) -> Option<String> {
    (!is_fine).then(|| problem.to_owned())
}

fn label(text: &str) -> Option<String> {
    check_label(text, 63).err().map(|error| error.to_string())
}

fn subdomain(text: &str) -> Option<String> {
    check_subdomain(text, 253).err().map(|error| error.to_string())
}

fn label_with_letter(text: &str) -> Option<String> {
    let starts_with_digit = text.starts_with(|c: char| c.is_ascii_digit());
    label(text).or_else(|| unless(!starts_with_digit, "must start with a lower-case letter"))
}

/// Replaces a final dash by a letter. The prefix of a name may end with a dash.
fn without_last_dash(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => format!("{rest}a"),
        _ => text.to_owned(),
    }
}

/// Checks a UUID, with or without dashes.
fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    for (place, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if place > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((part, tail)) = rest.split_at_checked(length) else { return false };
        if !part.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return false;
        }
        rest = tail;
    }
    rest.is_empty()
}

/// Parses a number of exactly this many digits.
fn number(text: &str, digits: usize) -> Option<u32> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2))
    else {
        return false;
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// Checks a date and time of RFC 3339.
fn is_datetime(text: &str) -> bool {
    let Some((date, rest)) = text.split_once(['T', 't']) else { return false };
    let Some((time, rest)) = rest.split_at_checked(8) else { return false };
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => {
            let tail = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if tail.len() == fraction.len() {
                return false;
            }
            tail
        }
        None => rest,
    };
    let is_clock = |text: &str, limits: &[u32]| {
        let parts: Vec<_> = text.split(':').map(|part| number(part, 2)).collect();
        parts.len() == limits.len()
            && parts.iter().zip(limits).all(|(part, limit)| part.is_some_and(|part| part < *limit))
    };
    let is_zone = matches!(rest, "Z" | "z")
        || rest.strip_prefix(['+', '-']).is_some_and(|zone| is_clock(zone, &[24, 60]));
    is_date(date) && is_clock(time, &[24, 60, 60]) && is_zone
}
