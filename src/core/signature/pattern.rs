//! Patterns of names with `*`, `?` and `!`, as OpenSSH reads them.

/// Whether a text fits a list of patterns with `*` and `?`: one of them, and none behind a `!`
/// (ssh_config(5), PATTERNS).
pub fn fits_any(text: &str, patterns: &[String]) -> bool {
    let denied = |pattern: &String| pattern.strip_prefix('!').is_some_and(|p| fits(text, p));
    !patterns.iter().any(denied) && patterns.iter().any(|pattern| fits(text, pattern))
}

fn fits(text: &str, pattern: &str) -> bool {
    let (text, pattern): (Vec<char>, Vec<char>) =
        (text.chars().collect(), pattern.chars().collect());
    let (mut at, mut of) = (0, 0);
    // Where the last `*` stands, and how far it has reached.
    let mut star: Option<(usize, usize)> = None;
    while let Some(c) = text.get(at) {
        match pattern.get(of) {
            Some('*') => {
                star = Some((of, at));
                of += 1;
            }
            Some(p) if *p == '?' || p == c => (at, of) = (at + 1, of + 1),
            _ => match star {
                Some((star_of, reached)) => {
                    star = Some((star_of, reached + 1));
                    (at, of) = (reached + 1, star_of + 1);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(of).all(|p| *p == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_openssh() {
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        for (text, patterns, expected) in [
            ("git", "git", true),
            ("git", "*", true),
            ("git", "g?t", true),
            ("git", "g*x*t", false),
            ("gixaxt", "g*x*t", true),
            ("git", "file,git", true),
            ("git", "!git,*", false),
            ("git", "!file", false),
            ("git", "", false),
            ("", "*", true),
        ] {
            assert_eq!(fits_any(text, &list(patterns)), expected, "{text} {patterns}");
        }
    }
}
