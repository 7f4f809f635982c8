//! Errors in lines with braces: templates of Helm which nobody has rendered, and variables.

use std::collections::BTreeSet;

use gitwork_api::escape::pointer_token;
use serde_json::Value;

use crate::model::diagnostic::{Code, Diagnostic};

/// What to do about such a file.
const HINT: &str = "it looks like a Helm template that was not rendered. gitwork renders none: \
                    commit the rendered manifests";

/// What to do about a variable where its brace begins a mapping.
const VARIABLE_HINT: &str =
    "within [...] and {...}, put a text with a variable in quotes, such as \"${NAME}\"";

/// Adds what is likely meant to errors in lines with braces.
///
/// A line with `{{ … }}` looks like a template, and has one error then. Such braces are valid YAML
/// in places, and mean something else there: quotes would make it worse.
pub fn add_hints(diagnostics: &mut Vec<Diagnostic>, bytes: &[u8]) {
    let Some(text) = std::str::from_utf8(bytes).ok().filter(|text| text.contains('{')) else {
        return;
    };
    let lines: Vec<&str> = text.lines().collect();
    let mut seen = BTreeSet::new();
    diagnostics.retain_mut(|found| {
        let Some(at) = found.location.span.filter(|_| found.is_error()) else { return true };
        let line = usize::try_from(at.line).ok().and_then(|line| lines.get(line.checked_sub(1)?));
        let Some(line) = line else { return true };
        if is_template(line) {
            found.hint = Some(HINT.into());
            found.fix = None;
            return seen.insert(at.line);
        }
        if found.code == Code::YamlSyntax && is_variable(line, at.column) {
            found.hint = Some(VARIABLE_HINT.into());
        }
        true
    });
}

fn is_template(line: &str) -> bool {
    line.split_once("{{").is_some_and(|(_, after)| after.contains("}}"))
}

/// Whether the brace of `${` is in this column.
fn is_variable(line: &str, column: u32) -> bool {
    let before = usize::try_from(column).ok().and_then(|column| column.checked_sub(2));
    let mut chars = before.into_iter().flat_map(|before| line.chars().skip(before));
    chars.next() == Some('$') && chars.next() == Some('{')
}

/// The first text of an object, as a JSON pointer, that is a template of Helm in quotes. Texts of
/// several lines, and the data of a ConfigMap or Secret, may be meant for another program.
pub fn quoted_template(object: &Value, kind: &str) -> Option<String> {
    let has_data = matches!(kind, "ConfigMap" | "Secret");
    let fields = object.as_object()?.iter();
    let mut fields =
        fields.filter(|(name, _)| !has_data || !matches!(&***name, "data" | "stringData"));
    fields.find_map(|(name, value)| below(name, value))
}

fn below(name: &str, value: &Value) -> Option<String> {
    let place = first_template(value)?;
    Some(format!("/{}{place}", pointer_token(name)))
}

fn first_template(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => is_helm(text).then(String::new),
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| Some(format!("/{index}{}", first_template(item)?)))
        }
        Value::Object(fields) => fields.iter().find_map(|(name, item)| below(name, item)),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Whether a text of one line has an action that only Helm knows. Other programs use the same
/// braces: `{{ .Labels.x }}`.
fn is_helm(text: &str) -> bool {
    const ONLY_HELM: [&str; 4] = [".Values.", ".Release.", ".Chart.", "include \""];
    if !text.contains("{{") || text.contains('\n') {
        return false;
    }
    let mut actions = text.split("{{").skip(1).map(|rest| rest.trim_start_matches(['-', ' ']));
    actions.any(|action| ONLY_HELM.iter().any(|start| action.starts_with(start)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::diagnostic::{FixKind, Location, Scope};
    use crate::model::name::RepoPath;
    use crate::text::yaml;
    use gitwork_yaml::Span;
    use serde_json::json;

    #[test]
    fn quoted_templates_of_helm_are_found_outside_of_data() {
        let of = |value: Value| quoted_template(&value, value["kind"].as_str().unwrap_or_default());
        let image = |text: &str| json!({"kind": "Pod", "spec": {"containers": [{"image": text}]}});
        let place = Some("/spec/containers/0/image".to_owned());
        for text in ["{{ .Values.image }}", "x:{{- .Release.Name -}}", "{{ include \"x\" . }}"] {
            assert_eq!(of(image(text)), place, "{text}");
        }
        for text in ["{{ $labels.job }}", "{{ .Labels.x }}", "Values.x {{", "a\n{{ .Values.x }}"] {
            assert_eq!(of(image(text)), None, "{text}");
        }
        let text = "{{ .Values.x }}";
        assert_eq!(of(json!({"kind": "ConfigMap", "data": {"a": text}})), None);
        let labelled = json!({"kind": "ConfigMap", "metadata": {"labels": {"a/b": text}}});
        assert_eq!(of(labelled).as_deref(), Some("/metadata/labels/a~1b"));
    }

    #[test]
    fn syntax_errors_at_the_brace_of_a_variable_have_a_hint() {
        let file = RepoPath::parse("x.yaml").unwrap();
        for (text, has_hint) in [
            ("a: [${A}]", true),
            ("a: {ä: ${A:-b}, c: d}", true),
            ("a: [x, y-${A}-${B}]", true),
            ("a: {${A}: b}", true),
            ("a: [\"${A}\", {b]", false),
            ("a: [$A, {b]", false),
            ("{", false),
        ] {
            let mut found = yaml::read(&file, text.as_bytes(), &Scope::Source).diagnostics;
            add_hints(&mut found, text.as_bytes());
            let hints: Vec<Option<&str>> = found.iter().map(|one| one.hint.as_deref()).collect();
            assert_eq!(hints, [has_hint.then_some(VARIABLE_HINT)], "{text}");
        }
        let quoted = "a: [\"${A}\", {b: \"${B}\"}]";
        assert!(yaml::read(&file, quoted.as_bytes(), &Scope::Source).diagnostics.is_empty());
    }

    fn hint(text: &str, line: u32) -> Option<String> {
        let at = Span { line, column: 1, length: 1 };
        let file = RepoPath::parse("x.yaml").unwrap();
        let found =
            Diagnostic::new(Code::WrongType, Location::at(&file, at), Scope::Source, "wrong");
        let mut found = vec![found.clone().with_text_fix(at, FixKind::Quote), found];
        add_hints(&mut found, text.as_bytes());
        assert_eq!(found.len(), if found[0].hint.is_some() { 1 } else { 2 });
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
