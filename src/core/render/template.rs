//! Files that look like a template of Helm which nobody has rendered.

use crate::model::diagnostic::Diagnostic;

/// What to do about such a file.
const HINT: &str = "it looks like a Helm template that was not rendered. gitwork renders none: \
                    commit the rendered manifests";

/// Says of errors in lines with `{{ … }}` that the file looks like a template. Such braces are
/// valid YAML in places, and mean something else there: quotes would make it worse.
pub fn add_hints(diagnostics: &mut [Diagnostic], bytes: &[u8]) {
    let Some(lines) = std::str::from_utf8(bytes).ok().filter(|text| text.contains("{{")) else {
        return;
    };
    let lines: Vec<&str> = lines.lines().collect();
    let is_template =
        |line: &&str| line.split_once("{{").is_some_and(|(_, after)| after.contains("}}"));
    for found in diagnostics.iter_mut().filter(|found| found.is_error()) {
        let at = found.location.span.and_then(|span| usize::try_from(span.line).ok());
        let line = at.and_then(|line| lines.get(line.checked_sub(1)?));
        if line.is_some_and(is_template) {
            found.hint = Some(HINT.into());
            found.fix = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::diagnostic::{Code, FixKind, Location, Scope};
    use crate::model::name::RepoPath;
    use gitwork_yaml::Span;

    fn hint(text: &str, line: u32) -> Option<String> {
        let at = Span { line, column: 1, length: 1 };
        let file = RepoPath::parse("x.yaml").unwrap();
        let found =
            Diagnostic::new(Code::WrongType, Location::at(&file, at), Scope::Source, "wrong");
        let mut found = [found.with_text_fix(at, FixKind::Quote)];
        add_hints(&mut found, text.as_bytes());
        assert_eq!(found[0].hint.is_some(), found[0].fix.is_none(), "quotes would not help");
        found[0].hint.clone()
    }

    #[test]
    fn errors_in_lines_with_braces_of_a_template_have_the_hint() {
        let text = "a: 1\nname: {{ .Release.Name }}\n{{- if .Values.x }}\nb: {{1: 2}: 3}\n";
        assert_eq!(hint(text, 1), None);
        assert_eq!(hint(text, 2).as_deref(), Some(HINT));
        assert_eq!(hint(text, 3).as_deref(), Some(HINT));
        assert_eq!(hint(text, 4), None, "a mapping as a key");
        assert_eq!(hint(text, 9), None, "no such line");
        assert_eq!(hint("a: {b: {}}", 1), None);
    }
}
