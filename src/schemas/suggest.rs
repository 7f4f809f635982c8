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

/// The known name that a text is meant to be without a doubt: it differs in capitals, `-` or `_`
/// only, or in one letter (two of long ones), and no other name is as near.
pub fn certain<'a>(text: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let folded = |text: &str| text.replace(['-', '_'], "").to_lowercase();
    let (text, length) = (folded(text), text.chars().count());
    let limit = match length {
        0..=3 => 0,
        4..=8 => 1,
        _ => 2,
    };
    if length > limits::TEXT_CHARS_MAX {
        return None;
    }
    let mut near: Vec<(usize, &str)> = known
        .filter(|name| name.chars().count().abs_diff(length) <= limit + 2)
        .map(|name| (strsim::damerau_levenshtein(&text, &folded(name)), name))
        .filter(|(distance, _)| *distance <= limit)
        .collect();
    near.sort_unstable();
    match near.as_slice() {
        [(_, name)] => Some(name),
        [(first, name), (second, _), ..] if first < second => Some(name),
        _ => None,
    }
}

/// ``; did you mean `FIELD`?``, or nothing.
pub(crate) fn did_you_mean_field<'a>(text: &str, known: impl Iterator<Item = &'a str>) -> String {
    closest(text, known).map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

/// `; did you mean "VALUE"?`, or nothing.
pub(crate) fn did_you_mean<'a>(text: &str, known: impl Iterator<Item = &'a str>) -> String {
    closest(text, known).map_or_else(String::new, |near| format!("; did you mean {near:?}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certain_names_have_no_other_that_is_as_near() {
        let known = ["replicas", "selector", "port", "ports", "path", "imagePullPolicy", "env"];
        for (text, meant) in [
            ("replica", Some("replicas")),
            ("Replicas", Some("replicas")),
            ("image_pull_policy", Some("imagePullPolicy")),
            ("imagePullPolcy", Some("imagePullPolicy")),
            ("selecter", Some("selector")),
            ("prt", None),
            ("enf", None),
            ("ENV", Some("env")),
            ("porth", None),
            ("replic", None),
        ] {
            assert_eq!(certain(text, known.into_iter()), meant, "{text}");
        }
    }
}
