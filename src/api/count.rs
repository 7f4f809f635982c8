//! Numbers with their nouns.

/// A number with its noun: `1 work`, `2 works`.
///
/// ```
/// use gitwork_api::count::count;
/// assert_eq!(count(1, "work"), "1 work");
/// assert_eq!(count(0, "work"), "0 works");
/// ```
pub fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// The verb after [`count`]: `1 work is`, `2 works are`.
///
/// ```
/// use gitwork_api::count::is_or_are;
/// assert_eq!((is_or_are(1), is_or_are(2)), ("is", "are"));
/// ```
pub fn is_or_are(number: usize) -> &'static str {
    if number == 1 { "is" } else { "are" }
}
