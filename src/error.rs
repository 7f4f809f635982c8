//! Errors as people read them.

/// An error and its causes on one line. A cause that the message before it has told already is left out.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !told.contains(&text) {
            told.push_str(": ");
            told.push_str(&text);
        }
        cause = error.source();
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot fetch")]
    struct Fetch(#[source] std::io::Error);

    #[test]
    fn causes_are_told_once() {
        let error = Fetch(std::io::Error::other("no route"));
        assert_eq!(with_causes(&error), "cannot fetch: no route");
    }
}
