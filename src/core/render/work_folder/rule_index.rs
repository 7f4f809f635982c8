//! Finds the rules that are about an object, without a comparison of each rule with each object.

use std::collections::HashMap;

use serde_json::Value;

use crate::config::ocm_rules::wildcard;
use crate::limits;
use crate::model::manifest::Identity;

/// Steps of a match besides those of its comparison: the rule is kept, and its fields are copied.
const MATCH_STEPS: usize = 20;

/// Steps of each `*` after the second: the text between two is searched for.
const STAR_STEPS: usize = 4;

/// The comparisons that one work may still make.
#[derive(Debug)]
pub struct RuleSteps(usize);

/// A work's rules and objects need more than [`limits::RULE_STEPS_MAX`] comparisons.
#[derive(Debug, Clone, Copy)]
pub struct TooManySteps;

impl Default for RuleSteps {
    fn default() -> Self {
        Self(limits::RULE_STEPS_MAX)
    }
}

impl RuleSteps {
    fn spend(&mut self, steps: usize) -> Result<(), TooManySteps> {
        self.0 = self.0.checked_sub(steps).ok_or(TooManySteps)?;
        Ok(())
    }
}

/// The namespace and name of the objects that a rule is about; `None` for any.
#[derive(Debug, Clone, Copy)]
pub struct RuleTarget<'a> {
    /// May have wildcards.
    pub namespace: Option<&'a str>,
    /// May have wildcards.
    pub name: Option<&'a str>,
}

/// Rules of one list by the objects that they are about. A class is what a rule and its objects
/// have exactly the same: a resource, or a file.
#[derive(Debug, Default)]
pub struct RuleIndex {
    exact: HashMap<String, Vec<u32>>,
    patterns: HashMap<String, Vec<Pattern>>,
}

#[derive(Debug)]
struct Pattern {
    rule: u32,
    namespace: Option<Box<str>>,
    name: Option<Box<str>>,
    steps: usize,
}

fn key(class: [&str; 2], namespace: Option<&str>, name: &str) -> String {
    let [first, second] = class;
    // No file, resource, namespace or name of an object has a line break.
    format!("{first}\n{second}\n{}\n{name}", namespace.unwrap_or("\n"))
}

impl RuleIndex {
    /// Adds the next rule.
    pub fn add(&mut self, rule: usize, class: [&str; 2], target: RuleTarget<'_>) {
        let rule = u32::try_from(rule).unwrap_or(u32::MAX);
        let stars = |pattern: Option<&str>| pattern.map_or(0, |text| text.matches('*').count());
        let stars = stars(target.namespace) + stars(target.name);
        match target.name {
            Some(name) if stars == 0 => {
                self.exact.entry(key(class, target.namespace, name)).or_default().push(rule);
            }
            _ => {
                let pattern = Pattern {
                    rule,
                    namespace: target.namespace.map(Into::into),
                    name: target.name.map(Into::into),
                    steps: 1 + STAR_STEPS * stars.saturating_sub(2),
                };
                self.patterns.entry(class.join("\n")).or_default().push(pattern);
            }
        }
    }

    /// The rules about an object of this class for which `fits`, in the order in which they were
    /// added.
    pub fn find(
        &self,
        class: [&str; 2],
        object: &Identity,
        steps: &mut RuleSteps,
        fits: impl Fn(usize) -> bool,
    ) -> Result<Vec<u32>, TooManySteps> {
        if self.exact.is_empty() && self.patterns.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        let mut keep = |rule: u32, steps: &mut RuleSteps| {
            if fits(rule as usize) {
                steps.spend(MATCH_STEPS)?;
                found.push(rule);
            }
            Ok(())
        };
        for namespace in [Some(object.namespace.as_str()), None] {
            let exact = self.exact.get(&key(class, namespace, &object.name));
            for rule in exact.into_iter().flatten() {
                steps.spend(1)?;
                keep(*rule, steps)?;
            }
        }
        let is_like = |pattern: &Option<Box<str>>, text: &str| {
            pattern.as_ref().is_none_or(|pattern| wildcard(pattern, text))
        };
        for pattern in self.patterns.get(&class.join("\n")).into_iter().flatten() {
            steps.spend(pattern.steps)?;
            if is_like(&pattern.name, &object.name)
                && is_like(&pattern.namespace, &object.namespace)
            {
                keep(pattern.rule, steps)?;
            }
        }
        found.sort_unstable();
        Ok(found)
    }
}

/// The index of a list of `manifestConfigs`.
#[derive(Debug, Default)]
pub struct ConfigIndex(RuleIndex);

impl ConfigIndex {
    /// Indexes the entries.
    pub fn new(entries: &[Value]) -> Self {
        let mut index = RuleIndex::default();
        for (number, entry) in entries.iter().enumerate() {
            let identifier = entry.get("resourceIdentifier");
            let part = |name: &str| {
                let part = identifier.and_then(|one| one.get(name)).and_then(Value::as_str);
                part.unwrap_or_default()
            };
            let (namespace, name) = (Some(part("namespace")), Some(part("name")));
            index.add(number, [part("group"), part("resource")], RuleTarget { namespace, name });
        }
        Self(index)
    }

    /// The entries that are about an object, by their numbers.
    pub fn about(
        &self,
        object: &Identity,
        steps: &mut RuleSteps,
    ) -> Result<Vec<u32>, TooManySteps> {
        self.0.find([&object.group, &object.resource], object, steps, |_| true)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::is_about;
    use super::*;

    fn object(namespace: &str, name: &str) -> Identity {
        Identity {
            group: String::new(),
            resource: "configmaps".into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    #[test]
    fn index_finds_what_a_comparison_of_all_finds() {
        let texts = ["", "a", "b", "*", "a*", "*a"];
        let identifier = |namespace: &str, name: &str, resource: &str| {
            json!({"resourceIdentifier": {
                "resource": resource, "namespace": namespace, "name": name,
            }})
        };
        let mut entries = vec![json!({}), json!({"resourceIdentifier": {"resource": "pods"}})];
        for namespace in texts {
            for name in texts {
                entries.push(identifier(namespace, name, "configmaps"));
                entries.push(identifier(namespace, name, "pods"));
            }
        }
        let index = ConfigIndex::new(&entries);
        for object in [object("", "a"), object("a", "a"), object("ab", "b"), object("ba", "xa")] {
            let expected: Vec<u32> = (0..)
                .zip(&entries)
                .filter_map(|(number, entry)| is_about(entry, &object).then_some(number))
                .collect();
            assert!(!expected.is_empty());
            let found = index.about(&object, &mut RuleSteps::default());
            assert_eq!(found.unwrap(), expected, "{object}");
        }
    }

    #[test]
    fn rules_that_name_an_object_cost_one_step_each() {
        let entry = |n: usize| {
            json!({"resourceIdentifier": {
                "resource": "configmaps", "namespace": "x", "name": format!("n{n}"),
            }})
        };
        let entries: Vec<Value> = (0..9_000).map(entry).collect();
        let index = ConfigIndex::new(&entries);
        let mut steps = RuleSteps::default();
        for n in 0..4_900 {
            let found = index.about(&object("x", &format!("n{n}")), &mut steps).unwrap();
            assert_eq!(found, [n]);
        }
        assert_eq!(limits::RULE_STEPS_MAX - steps.0, 4_900 * (1 + MATCH_STEPS));
    }

    #[test]
    fn costly_patterns_end_with_an_error() {
        let pattern = "*a".repeat(400);
        let entry = || {
            json!({"resourceIdentifier": {
                "resource": "configmaps", "namespace": "x", "name": pattern.clone(),
            }})
        };
        let entries: Vec<Value> = (0..2_000).map(|_| entry()).collect();
        let index = ConfigIndex::new(&entries);
        let mut steps = RuleSteps::default();
        let name = object("x", &"a".repeat(250));
        let rounds = (0..).take_while(|_| index.about(&name, &mut steps).is_ok()).count();
        let steps = 1 + STAR_STEPS * (400 - 2);
        assert_eq!(rounds, limits::RULE_STEPS_MAX / steps / 2_000);
    }
}
