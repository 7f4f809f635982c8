//! Bounds the size of an explanation: settings and statuses may come from anybody.

use serde::Serialize;
use serde_json::Value;

use super::Explanation;
use gitwork_core::limits::EXPLANATION_SETTING_BYTES_MAX;

impl Explanation {
    /// Leaves out what does not fit into `bytes_max` and counts it: settings first come first, then
    /// objects in Git, then objects on the hub.
    pub fn limit(&mut self, bytes_max: usize) {
        let git = &mut self.git;
        for setting in &mut git.settings {
            let bytes = printed_bytes(&setting.value);
            if bytes > EXPLANATION_SETTING_BYTES_MAX {
                setting.value = Value::String(format!("({bytes} bytes, not shown)"));
            }
        }
        let mut left = bytes_max;
        self.omitted = keep_fitting(&mut git.problems, &mut left)
            + keep_fitting(&mut git.settings, &mut left)
            + keep_fitting(&mut git.objects, &mut left);
        if let Some(tree) = self.hub.as_mut().and_then(|hub| hub.work.as_mut()) {
            self.omitted += keep_fitting(&mut tree.objects, &mut left);
        }
    }
}

/// Keeps the first ones that fit. Gives how many do not.
fn keep_fitting<T: Serialize>(all: &mut Vec<T>, left: &mut usize) -> usize {
    let fits = |one: &&T| match left.checked_sub(printed_bytes(*one)) {
        Some(rest) => {
            *left = rest;
            true
        }
        None => false,
    };
    let kept = all.iter().take_while(fits).count();
    let omitted = all.len() - kept;
    all.truncate(kept);
    omitted
}

/// The bytes of a value as indented JSON, inside of the explanation.
fn printed_bytes(value: &impl Serialize) -> usize {
    const INDENT: usize = 8;
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.len() + INDENT * (1 + text.bytes().filter(|byte| *byte == b'\n').count())
}

/// As many of the lines as fit into `bytes_max`. A last line says how many more there are.
pub(super) fn within(lines: &[String], bytes_max: usize) -> String {
    let text = lines.join("\n") + "\n";
    if text.len() <= bytes_max {
        return text;
    }
    let cut = text.as_bytes().get(..bytes_max).unwrap_or_default();
    let end = cut.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let (shown, rest) = text.split_at(end);
    format!("{shown}{} more lines are not shown\n", rest.lines().count())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use gitwork_core::limits::EXPLANATION_BYTES_MAX;
    use gitwork_core::model::name::RepoPath;
    use gitwork_core::render::setting::{FileLine, ObjectLocation, Setting};

    use crate::explain::{Conclusion, GitSide, text};
    use crate::status::print::Layout;
    use gitwork_core::text::style::ColorMode;

    /// Settings with these values, and this many objects in a file with a long name.
    fn explanation(values: Vec<Value>, objects: usize) -> Explanation {
        let file = RepoPath::parse(&format!("clusters/a/web/{}.yaml", "x".repeat(2_000))).unwrap();
        let setting = |(n, value)| Setting {
            name: format!("annotations.n{n}"),
            value,
            set_by: None,
            fact: None,
            overrides: Vec::new(),
        };
        let object = |n: usize| ObjectLocation {
            object: format!("ConfigMap x/{n}"),
            place: FileLine { file: file.clone(), line: Some(1) },
        };
        let git = GitSide {
            settings: values.into_iter().enumerate().map(setting).collect(),
            objects: (0..objects).map(object).collect(),
            ..GitSide::default()
        };
        let answer =
            Conclusion { there: true, reason: "Applied".into(), message: "x".into(), advice: None };
        let (cluster, work) = ("a".to_owned(), "web".to_owned());
        Explanation {
            cluster,
            work,
            object: None,
            answer,
            git,
            hub: None,
            hub_unknown: None,
            omitted: 0,
        }
    }

    #[test]
    fn every_form_of_an_explanation_has_a_limit_of_bytes_and_says_what_is_left_out() {
        let deep = (0..100).fold(json!([0]), |inner, _| json!([inner, 0, 0]));
        for values in [
            vec![json!("x".repeat(4 * EXPLANATION_BYTES_MAX))],
            vec![json!("x".repeat(EXPLANATION_SETTING_BYTES_MAX - 200)); 300],
            vec![json!(vec![deep.clone(); 20])],
            vec![deep; 1_000],
            Vec::new(),
        ] {
            let settings = values.len();
            let mut explanation = explanation(values, 4_000);
            explanation.limit(EXPLANATION_BYTES_MAX);
            let git = &explanation.git;
            assert!(explanation.omitted > 0);
            assert_eq!(
                git.settings.len() + git.objects.len() + explanation.omitted,
                settings + 4_000
            );
            let value = json!(explanation);
            assert_eq!(value["omitted"], explanation.omitted);
            let (style, now) = (ColorMode::Plain, Timestamp::UNIX_EPOCH);
            let wide = Layout { wide: true, width: None, style, now };
            for shown in
                [format!("{value:#}"), gitwork_yaml::write(&value), text(&explanation, &wide)]
            {
                assert!(shown.len() < EXPLANATION_BYTES_MAX + 64 * 1024, "{} bytes", shown.len());
            }
        }
    }

    #[test]
    fn usual_explanation_is_whole() {
        let mut explanation = explanation(vec![json!("platform"), json!({"a": 1})], 20);
        let whole = explanation.clone();
        explanation.limit(EXPLANATION_BYTES_MAX);
        assert_eq!(explanation, whole);
        assert!(json!(explanation).get("omitted").is_none());
    }

    #[test]
    fn text_is_cut_between_lines() {
        let lines = |count: usize| (0..count).map(|n| format!("line {n}")).collect::<Vec<_>>();
        assert_eq!(within(&lines(2), 20), "line 0\nline 1\n");
        assert_eq!(within(&lines(4), 20), "line 0\nline 1\n2 more lines are not shown\n");
    }
}
