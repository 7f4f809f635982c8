//! The operator's policy: a line of JSON with rules, then one with a work. Rules together allow
//! only what one of them allows alone, and a pattern matches as in a second, simple implementation.

use gitwork_core::config::ocm_rules::wildcard;
use gitwork_core::config::tenancy::{Breach, Tenancy, Tenant, TenantRule, kind_name};
use gitwork_core::model::diagnostic::Span;
use gitwork_core::model::kinds::KindIndex;
use gitwork_core::model::manifest::{Identity, Manifest, Origin};
use gitwork_core::model::name::{ClusterName, RepoPath, WorkName};
use serde_json::{Value, json};

const RULES_MAX: usize = 16;
const OBJECTS_MAX: usize = 16;

/// The work, as in `{"path": .., "cluster": .., "work": .., "account": [..],
/// "objects": [[group, kind, namespace, name]]}`.
struct Work {
    path: RepoPath,
    cluster: ClusterName,
    name: WorkName,
    executor: Option<Value>,
    manifests: Vec<Manifest>,
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn manifest(parts: &Value) -> Manifest {
    let [group, kind, namespace, name] = [0, 1, 2, 3].map(|place| text(&parts[place]).to_owned());
    let span = Span { line: 1, column: 1, length: 1 };
    let origin = Origin { file: RepoPath::root().join("a.yaml"), document: 1, span };
    let identity = Identity { group, resource: String::new(), namespace, name };
    Manifest { object: Value::Null, api_version: "v1".into(), kind, identity, origin }
}

fn work(value: &Value) -> Option<Work> {
    let account = &value["account"];
    let executor = account.is_array().then(|| {
        let account = json!({"namespace": account[0], "name": account[1]});
        json!({"subject": {"type": "ServiceAccount", "serviceAccount": account}})
    });
    let objects = value["objects"].as_array().map_or(&[][..], Vec::as_slice);
    Some(Work {
        path: RepoPath::parse(text(&value["path"]))?,
        cluster: ClusterName::parse(text(&value["cluster"])).ok()?,
        name: WorkName::parse(text(&value["work"])).ok()?,
        executor,
        manifests: objects.iter().take(OBJECTS_MAX).map(manifest).collect(),
    })
}

impl Work {
    fn breaches(&self, rules: &[TenantRule]) -> Vec<Breach> {
        Tenancy::from(rules.to_vec()).breaches(&Tenant {
            path: &self.path,
            cluster: &self.cluster,
            work: self.name.as_str(),
            executor: self.executor.as_ref(),
            manifests: &self.manifests,
            kinds: &KindIndex::default(),
        })
    }
}

/// Whether a pattern matches, by a table of every way to expand its wildcards.
fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let mut row: Vec<bool> = (0..=text.len()).map(|length| length == 0).collect();
    for &p in &pattern {
        let mut next = vec![p == '*' && row[0]];
        for (at, &t) in text.iter().enumerate() {
            next.push(if p == '*' { row[at + 1] || next[at] } else { p == t && row[at] });
        }
        row = next;
    }
    row[text.len()]
}

pub fn check(bytes: &[u8]) -> bool {
    let Ok(input) = std::str::from_utf8(bytes) else { return false };
    let (rules, tenant) = input.split_once('\n').unwrap_or_default();
    let Ok(mut rules) = serde_json::from_str::<Vec<TenantRule>>(rules) else { return false };
    let Some(work) = serde_json::from_str(tenant).ok().as_ref().and_then(work) else {
        return false;
    };
    rules.truncate(RULES_MAX);
    for rule in &rules {
        for pattern in rule.paths.iter().chain(&rule.clusters).chain(&rule.kinds).flatten().take(8)
        {
            for text in [work.path.as_str(), work.cluster.as_str()] {
                assert_eq!(wildcard(pattern, text), fits(pattern, text), "{pattern:?} {text:?}");
            }
        }
    }
    let together = work.breaches(&rules);
    if rules.is_empty() {
        assert_eq!(together, []);
        return false;
    }
    let alone: Vec<Vec<Breach>> =
        rules.iter().map(|rule| work.breaches(std::slice::from_ref(rule))).collect();
    let whole = |breaches: &Vec<Breach>| breaches.iter().any(|b| !matches!(b, Breach::Object(_)));
    // A rule for another work allows nothing. A matching rule allows its objects, each by itself.
    assert_eq!(whole(&together), alone.iter().all(whole), "{together:?} {alone:?}");
    for (index, manifest) in work.manifests.iter().enumerate() {
        let refused = |one: &Vec<Breach>| whole(one) || one.contains(&Breach::Object(index));
        let name = kind_name(manifest);
        assert_eq!(refused(&together), alone.iter().all(refused), "{name} {together:?} {alone:?}");
    }
    // Another rule never removes a permission.
    for count in 1..rules.len() {
        let fewer = work.breaches(&rules[..count]);
        assert!(!fewer.is_empty() || together.is_empty(), "{fewer:?} {together:?}");
    }
    true
}
