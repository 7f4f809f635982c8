//! "Did you mean", for names of all kinds.

use crate::limits;

/// The known name that a text was probably meant to be: at most a third of its letters differ.
pub fn closest<'a>(text: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let text: String = text.chars().take(limits::TEXT_CHARS_MAX).collect::<String>().to_lowercase();
    let length = text.chars().count();
    let limit = (length / 3).max(1);
    known
        .filter(|name| name.chars().count().abs_diff(length) <= limit)
        .map(|name| (strsim::damerau_levenshtein(&text, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, name)| name)
}

/// `; did you mean X?`, or nothing.
pub(crate) fn did_you_mean<'a>(text: &str, known: impl Iterator<Item = &'a str>) -> String {
    closest(text, known).map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}
