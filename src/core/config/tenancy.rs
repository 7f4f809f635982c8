//! What the operator lets the folders of a repository do: which clusters, work names, executors,
//! kinds and namespaces each may reach. Pure.
//!
//! A work needs a rule for its folder; each of its objects needs one that has the executor, the
//! kind and the namespace together. Without any rule everything is allowed.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::config::ocm_rules::wildcard;
use crate::model::kinds::KindIndex;
use crate::model::manifest::{Identity, Manifest};
use crate::model::name::{ClusterName, RepoPath, WorkKey};

/// One permission of work folders. In patterns, `*` matches any sequence of characters. A field
/// that is absent allows everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TenantRule {
    /// Work folders that the rule applies to, relative to the source's path, for example
    /// `clusters/*/shop-*`.
    pub paths: Option<Vec<String>>,
    /// Clusters on which these folders may have works.
    pub clusters: Option<Vec<String>>,
    /// Names that their ManifestWorks may have.
    pub works: Option<Vec<String>>,
    /// Service accounts that may apply their objects, for example
    /// `system:serviceaccount:shop:deployer`. If set, every work needs an `executor`: without one,
    /// the agent would apply it with its own permissions.
    pub executors: Option<Vec<String>>,
    /// Kinds that their objects may have, for example `Deployment.apps` or `ConfigMap`.
    pub kinds: Option<Vec<String>>,
    /// Namespaces in which they may have objects. If set, the only allowed cluster-scoped objects
    /// are Namespaces with these names. Objects of custom kinds without a CRD in the source are
    /// allowed only if `kinds` names the kind or its group.
    pub namespaces: Option<Vec<String>>,
}

/// All rules of one source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tenancy(Arc<[TenantRule]>);

/// One work folder, as the rules look at it.
#[derive(Debug)]
pub struct Tenant<'a> {
    /// The work folder, from the source's path.
    pub path: &'a RepoPath,
    /// The cluster whose folder it is in.
    pub cluster: &'a ClusterName,
    /// The ManifestWork's name as it is written. It may be invalid.
    pub work: &'a str,
    /// `spec.executor`.
    pub executor: Option<&'a Value>,
    /// The objects of the work.
    pub manifests: &'a [Manifest],
    /// The kinds whose scope is known.
    pub kinds: &'a KindIndex,
}

/// What a work may not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Breach {
    /// No rule is for the folder.
    Path,
    /// Rules are for the folder, but not for this cluster.
    Cluster,
    /// Nor for a work of this name.
    Name,
    /// Nor for this executor; `None`: for none at all.
    Executor(Option<String>),
    /// No rule has the kind and the namespace of the object of this index.
    Object(usize),
}

impl From<Vec<TenantRule>> for Tenancy {
    fn from(rules: Vec<TenantRule>) -> Self {
        Self(rules.into())
    }
}

/// The account that a work's objects are applied as, in the words of Kubernetes.
fn account(executor: Option<&Value>) -> Option<String> {
    let account = executor?.pointer("/subject/serviceAccount")?;
    let text = |field: &str| account.get(field).and_then(Value::as_str).unwrap_or_default();
    Some(format!("system:serviceaccount:{}:{}", text("namespace"), text("name")))
}

fn any(patterns: Option<&Vec<String>>, text: &str) -> bool {
    patterns.is_none_or(|patterns| patterns.iter().any(|pattern| wildcard(pattern, text)))
}

/// A kind as a rule names it.
pub fn kind_name(manifest: &Manifest) -> String {
    name_of_kind(&manifest.identity.group, &manifest.kind)
}

fn name_of_kind(group: &str, kind: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}

/// A work folder with the rules for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantFolder {
    tenancy: Tenancy,
    path: RepoPath,
    cluster: ClusterName,
}

impl TenantFolder {
    /// Whether a rule lets the folder have this object, with whatever work name and executor: their
    /// file may be unreadable, too. A kind of unknown scope counts as namespaced.
    pub fn may_have(&self, manifest: &Value) -> bool {
        let Ok(rules) = self.tenancy.rules_for(&self.path, &self.cluster) else { return false };
        let kind = manifest.get("kind").and_then(Value::as_str).unwrap_or_default();
        let object = Identity::of_manifest(manifest, "");
        rules.is_empty() || rules.iter().any(|rule| rule.names(&object, kind))
    }
}

impl TenantRule {
    /// Whether the rule has the kind and the namespace of an object.
    fn names(&self, object: &Identity, kind: &str) -> bool {
        let kind = name_of_kind(&object.group, kind);
        let place = match object.namespace.as_str() {
            "" if kind == "Namespace" => &object.name,
            namespace => namespace,
        };
        any(self.kinds.as_ref(), &kind)
            && (self.namespaces.is_none()
                || !place.is_empty() && any(self.namespaces.as_ref(), place))
    }

    fn allows(&self, manifest: &Manifest, kinds: &KindIndex) -> bool {
        let kind = kind_name(manifest);
        any(self.kinds.as_ref(), &kind)
            && (self.namespaces.is_none() || self.has_namespace_of(manifest, &kind, kinds))
    }

    /// Whether an object is in one of the rule's namespaces. Of a kind whose scope is unknown, an
    /// object can name a namespace and be cluster-scoped: a rule has to name such a kind.
    fn has_namespace_of(&self, manifest: &Manifest, kind: &str, kinds: &KindIndex) -> bool {
        let namespace = match manifest.identity.namespace.as_str() {
            "" if kind == "Namespace" => {
                return any(self.namespaces.as_ref(), &manifest.identity.name);
            }
            namespace => namespace,
        };
        let is_namespaced = match kinds.is_namespaced(&manifest.identity.group, &manifest.kind) {
            Some(known) => known,
            None => self.names_kind(kind),
        };
        is_namespaced && !namespace.is_empty() && any(self.namespaces.as_ref(), namespace)
    }

    /// Whether the rule names the kind or its group, rather than every kind.
    fn names_kind(&self, kind: &str) -> bool {
        let patterns = self.kinds.iter().flatten();
        patterns.filter(|one| one.contains(|c| c != '*')).any(|pattern| wildcard(pattern, kind))
    }
}

/// Whether a rule is for a work.
type Fits<'a> = &'a dyn Fn(&TenantRule) -> bool;

impl Tenancy {
    /// A work folder with these rules.
    pub fn of_folder(&self, path: &RepoPath, cluster: &ClusterName) -> TenantFolder {
        TenantFolder { tenancy: self.clone(), path: path.clone(), cluster: cluster.clone() }
    }

    /// Whether the same rules are for two works, which their folder, cluster and name say.
    pub fn judges_alike(&self, one: (&RepoPath, &WorkKey), other: (&RepoPath, &WorkKey)) -> bool {
        let fits = |rule: &TenantRule, (path, key): (&RepoPath, &WorkKey)| {
            any(rule.paths.as_ref(), path.as_str())
                && any(rule.clusters.as_ref(), key.cluster.as_str())
                && any(rule.works.as_ref(), key.work.as_str())
        };
        self.0.iter().all(|rule| fits(rule, one) == fits(rule, other))
    }

    /// Whether a rule lets a work folder have a work of this name.
    pub fn may_be_named(&self, folder: &RepoPath, key: &WorkKey) -> bool {
        let Ok(rules) = self.rules_for(folder, &key.cluster) else { return false };
        rules.is_empty() || rules.iter().any(|rule| any(rule.works.as_ref(), key.work.as_str()))
    }

    /// The breach of a folder as a whole, before anything in it is read.
    pub fn folder_breach(&self, path: &RepoPath, cluster: &ClusterName) -> Option<Breach> {
        self.rules_for(path, cluster).err()
    }

    /// The rules for a folder. Without any rule, everything is allowed.
    fn rules_for(
        &self,
        path: &RepoPath,
        cluster: &ClusterName,
    ) -> Result<Vec<&TenantRule>, Breach> {
        let mut rules: Vec<&TenantRule> = self.0.iter().collect();
        if rules.is_empty() {
            return Ok(rules);
        }
        let steps: [(Fits<'_>, Breach); 2] = [
            (&|rule| any(rule.paths.as_ref(), path.as_str()), Breach::Path),
            (&|rule| any(rule.clusters.as_ref(), cluster.as_str()), Breach::Cluster),
        ];
        narrow(&mut rules, steps)?;
        Ok(rules)
    }

    /// What the work may not do; nothing where it is allowed.
    pub fn breaches(&self, tenant: &Tenant<'_>) -> Vec<Breach> {
        let mut rules = match self.rules_for(tenant.path, tenant.cluster) {
            Ok(rules) if rules.is_empty() => return Vec::new(),
            Ok(rules) => rules,
            Err(breach) => return vec![breach],
        };
        let account = account(tenant.executor);
        let runs_as = |rule: &TenantRule| match &account {
            Some(account) => any(rule.executors.as_ref(), account),
            None => rule.executors.is_none(),
        };
        let steps: [(Fits<'_>, Breach); 2] = [
            (&|rule| any(rule.works.as_ref(), tenant.work), Breach::Name),
            (&runs_as, Breach::Executor(account.clone())),
        ];
        if let Err(breach) = narrow(&mut rules, steps) {
            return vec![breach];
        }
        let objects = tenant.manifests.iter().enumerate();
        let is_refused =
            |manifest: &Manifest| !rules.iter().any(|rule| rule.allows(manifest, tenant.kinds));
        let refused = objects.filter(|(_, manifest)| is_refused(manifest));
        refused.map(|(index, _)| Breach::Object(index)).collect()
    }
}

/// Keeps the rules that fit in each step, or gives the breach of the first step without any.
fn narrow<const N: usize>(
    rules: &mut Vec<&TenantRule>,
    steps: [(Fits<'_>, Breach); N],
) -> Result<(), Breach> {
    for (fits, breach) in steps {
        rules.retain(|rule| fits(rule));
        if rules.is_empty() {
            return Err(breach);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::diagnostic::Span;
    use crate::model::manifest::{Identity, Origin};

    fn manifest(group: &str, kind: &str, namespace: &str, name: &str) -> Manifest {
        let identity = Identity {
            group: group.into(),
            resource: String::new(),
            namespace: namespace.into(),
            name: name.into(),
        };
        let span = Span { line: 1, column: 1, length: 1 };
        let origin = Origin { file: RepoPath::root().join("a.yaml"), document: 1, span };
        let api_version = if group.is_empty() { "v1".into() } else { format!("{group}/v1") };
        Manifest { object: Value::Null, api_version, kind: kind.into(), identity, origin }
    }

    fn rules(yaml: &str) -> Tenancy {
        serde_yaml::from_str::<Vec<TenantRule>>(yaml).unwrap().into()
    }

    /// The breaches of a work of this folder and name that is applied as `account`.
    fn breaches(
        tenancy: &Tenancy,
        folder: &str,
        name: &str,
        account: Option<(&str, &str)>,
        manifests: &[Manifest],
    ) -> Vec<Breach> {
        let executor = account.map(|(namespace, name)| {
            json!({
                "subject": {
                    "type": "ServiceAccount",
                    "serviceAccount": {"namespace": namespace, "name": name},
                },
            })
        });
        let cluster = folder.split('/').nth(1).unwrap();
        tenancy.breaches(&Tenant {
            path: &RepoPath::parse(folder).unwrap(),
            cluster: &ClusterName::parse(cluster).unwrap(),
            work: name,
            executor: executor.as_ref(),
            manifests,
            kinds: &KindIndex::default(),
        })
    }

    #[test]
    fn without_rules_everything_is_allowed() {
        let all = [manifest("rbac.authorization.k8s.io", "ClusterRole", "", "admin")];
        assert_eq!(breaches(&Tenancy::default(), "clusters/edge-1/x", "y", None, &all), []);
    }

    #[test]
    fn a_folder_reaches_what_a_rule_for_it_names_and_nothing_else() {
        let tenancy = rules(
            "[{paths: [clusters/*/shop-*], clusters: [edge-*], works: [shop-*], \
               executors: ['system:serviceaccount:shop:*'], \
               kinds: [Deployment.apps, ConfigMap, Namespace], namespaces: [shop, shop-*]}, \
              {paths: [clusters/edge-1/base]}]",
        );
        let shop = Some(("shop", "deployer"));
        let fine = [
            manifest("apps", "Deployment", "shop", "web"),
            manifest("", "ConfigMap", "shop-2", "web"),
            manifest("", "Namespace", "", "shop-2"),
        ];
        let at = |folder: &str, name: &str, account, manifests: &[Manifest]| {
            breaches(&tenancy, folder, name, account, manifests)
        };
        assert_eq!(at("clusters/edge-1/shop-a", "shop-a", shop, &fine), []);
        for (folder, name, account, expected) in [
            ("clusters/edge-1/web", "web", shop, Breach::Path),
            ("clusters/hub-1/shop-a", "shop-a", shop, Breach::Cluster),
            ("clusters/edge-1/shop-a", "base", shop, Breach::Name),
            ("clusters/edge-1/shop-a", "shop-a", None, Breach::Executor(None)),
            (
                "clusters/edge-1/shop-a",
                "shop-a",
                Some(("kube-system", "admin")),
                Breach::Executor(Some("system:serviceaccount:kube-system:admin".into())),
            ),
        ] {
            assert_eq!(at(folder, name, account, &fine), [expected], "{folder} {name}");
        }
        let worse = [
            manifest("apps", "Deployment", "kube-system", "web"),
            manifest("", "Secret", "shop", "web"),
            manifest("apps", "Deployment", "shop", "web"),
            manifest("", "Namespace", "", "kube-system"),
            // A kind of another group that has the name of an allowed one.
            manifest("evil.example", "ConfigMap", "shop", "web"),
            manifest("rbac.authorization.k8s.io", "ClusterRole", "", "shop"),
        ];
        let refused: Vec<Breach> = [0, 1, 3, 4, 5].into_iter().map(Breach::Object).collect();
        assert_eq!(at("clusters/edge-1/shop-a", "shop-a", shop, &worse), refused);
        assert_eq!(at("clusters/edge-1/base", "base", None, &worse), [], "another rule's folder");
    }

    #[test]
    fn one_rule_has_all_that_one_object_needs() {
        let tenancy = rules("[{kinds: [ConfigMap]}, {namespaces: [shop]}, {kinds: []}]");
        let manifests = [
            manifest("", "ConfigMap", "any", "a"),
            manifest("", "Secret", "shop", "b"),
            manifest("", "Secret", "any", "c"),
        ];
        let found = breaches(&tenancy, "clusters/edge-1/x", "x", None, &manifests);
        assert_eq!(found, [Breach::Object(2)]);
    }

    /// `Bastion` may be cluster-scoped, whatever namespace its objects name.
    #[test]
    fn namespaces_refuse_kinds_of_unknown_scope_unless_kinds_names_them() {
        let all = [
            manifest("", "ConfigMap", "shop", "a"),
            manifest("x.example", "Bastion", "shop", "b"),
            manifest("rbac.authorization.k8s.io", "ClusterRole", "shop", "c"),
        ];
        for (kinds, expected) in [
            ("", &[1, 2][..]),
            (", kinds: ['*']", &[1, 2]),
            (", kinds: [ConfigMap, '*.x.example']", &[2]),
            (", kinds: [ConfigMap, Bastion.x.example]", &[2]),
            (", kinds: ['**', 'Bastion.*', 'ClusterRole.*']", &[2]),
        ] {
            let tenancy = rules(&format!("[{{namespaces: [shop]{kinds}}}]"));
            let found = breaches(&tenancy, "clusters/edge-1/x", "x", None, &all);
            let expected: Vec<Breach> = expected.iter().copied().map(Breach::Object).collect();
            assert_eq!(found, expected, "{kinds}");
        }
    }
}
