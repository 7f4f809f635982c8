//! Names and label keys as the Kubernetes API takes them.

/// Why a name was refused; reads after "the cluster name `X` ".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name has no characters.
    #[error("is empty")]
    Empty,
    /// The name is longer than its kind allows.
    #[error("is {length} characters long; at most {limit} are allowed")]
    TooLong {
        /// Its length in bytes.
        length: usize,
        /// The longest that is allowed, in bytes.
        limit: usize,
    },
    /// The first character that a DNS label (RFC 1123) may not have.
    #[error("has the character {0:?}; only lower-case letters, digits and '-' are allowed")]
    LabelCharacter(char),
    /// The first character that a DNS subdomain (RFC 1123) may not have.
    #[error("has the character {0:?}; only lower-case letters, digits, '-' and '.' are allowed")]
    SubdomainCharacter(char),
    /// The name, or a part of it between dots, starts or ends with `-`, or is empty.
    #[error("must start and end with a lower-case letter or a digit")]
    Edge,
}

/// Checks a DNS label (RFC 1123) as Kubernetes does for namespaces.
pub fn check_label(text: &str, limit: usize) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if let Some(bad) = text.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-')) {
        return Err(NameError::LabelCharacter(bad));
    }
    if text.starts_with('-') || text.ends_with('-') {
        return Err(NameError::Edge);
    }
    if text.len() > limit {
        return Err(NameError::TooLong { length: text.len(), limit });
    }
    Ok(())
}

/// Checks a DNS subdomain (RFC 1123) as Kubernetes does for most object names.
pub fn check_subdomain(text: &str, limit: usize) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if let Some(bad) = text.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-' | '.')) {
        return Err(NameError::SubdomainCharacter(bad));
    }
    if text.split('.').any(|part| part.is_empty() || part.starts_with('-') || part.ends_with('-')) {
        return Err(NameError::Edge);
    }
    if text.len() > limit {
        return Err(NameError::TooLong { length: text.len(), limit });
    }
    Ok(())
}

/// The rule that [`is_label_text`] checks.
const LABEL_TEXT: &str =
    "at most 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends";

/// What is wrong with a label's or annotation's key (Kubernetes: qualified names); reads after "the
/// key `X` ".
pub fn check_qualified_name(key: &str) -> Option<String> {
    let (prefix, name) =
        key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if let Some(Err(why)) = prefix.map(|prefix| check_subdomain(prefix, 253)) {
        return Some(format!("has a prefix that {why}"));
    }
    (name.is_empty() || !is_label_text(name)).then(|| format!("must be {LABEL_TEXT}"))
}

/// What is wrong with a label's value; reads after "the key `X` ".
pub fn check_label_value(value: &str) -> Option<String> {
    (!is_label_text(value)).then(|| format!("has the value {value:?}: {LABEL_TEXT}"))
}

fn is_label_text(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && edge(text.chars().next())
        && edge(text.chars().last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys_and_values() {
        for (key, good) in [
            ("a", true),
            ("x.io/a-b", true),
            ("", false),
            ("/a", false),
            ("a/b/c", false),
            ("-a", false),
        ] {
            assert_eq!(check_qualified_name(key).is_none(), good, "{key:?}");
        }
        for (value, good) in [("", true), ("a.b", true), ("a b", false), ("a-", false)] {
            assert_eq!(check_label_value(value).is_none(), good, "{value:?}");
        }
    }
}
