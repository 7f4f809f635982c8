//! Objects as an API server would check them.

use std::sync::Arc;

pub use gitwork_schemas::KubernetesVersion;
use gitwork_schemas::{Cluster, CrdSchemas, Finding, Problem};
use serde_json::Value;

use crate::config::{SchemaPolicy, SourceFile};
use crate::limits;
use crate::model::diagnostic::{Code, Severity};
use crate::model::kinds::{CrdNames, KindIndex};
use crate::model::manifest::Identity;
use crate::text::truncate::truncate_chars;

/// How the objects of a source are checked. By default, they are not.
#[derive(Debug, Clone, Default)]
pub struct SchemaChecks {
    /// What the operator says; it comes before `gitwork.yaml`.
    pub operator: Option<SchemaPolicy>,
    /// What applies if nobody says anything.
    pub default: Option<SchemaPolicy>,
    /// The version of clusters of which none is known.
    pub kubernetes_version: Option<KubernetesVersion>,
    /// CRDs that are not in the repository.
    pub crds: Arc<ExtraCrds>,
    /// Whether objects that look for others in vain are reported, and variables that are not
    /// replaced. It takes memory for each workload, so a daemon does not ask for it.
    pub relations: bool,
}

/// CRDs that are not in the repository, by group and kind.
#[derive(Debug, Default)]
pub struct ExtraCrds(Vec<(CrdNames, CrdSchemas)>);

impl ExtraCrds {
    /// The CRDs among some objects.
    pub fn new<'a>(objects: impl Iterator<Item = &'a Value>) -> Self {
        let found =
            objects.filter_map(|object| Some((CrdNames::of(object)?, CrdSchemas::of(object)?)));
        Self(found.collect())
    }

    /// The number of CRDs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, group: &str, kind: &str) -> Option<&CrdSchemas> {
        let mut all = self.0.iter();
        let found = all.find(|(names, _)| names.group == group && names.kind == kind);
        found.map(|(_, schemas)| schemas)
    }

    /// The plural of a kind. It is not used for ManifestWorks, which must not depend on how a
    /// command is called.
    pub(crate) fn plural(&self, group: &str, kind: &str) -> Option<&str> {
        let mut all = self.0.iter();
        let found = all.find(|(names, _)| names.group == group && names.kind == kind);
        found.map(|(names, _)| &*names.resource)
    }
}

impl SchemaChecks {
    /// What applies to the objects of a source.
    pub(crate) fn policy(&self, file: &SourceFile) -> SchemaPolicy {
        let policy = self.operator.or(file.schema_problems).or(self.default);
        // A renderer without any default reads what nobody can correct any more.
        policy.filter(|_| self.default.is_some()).unwrap_or(SchemaPolicy::Ignore)
    }
}

/// How the objects of one work are checked.
#[derive(Debug, Clone)]
pub struct ObjectChecks {
    /// What a violation is.
    pub policy: SchemaPolicy,
    /// The cluster that the work is for.
    pub cluster: Cluster,
    /// CRDs that are not in the repository.
    pub crds: Arc<ExtraCrds>,
    /// As in [`SchemaChecks`].
    pub relations: bool,
}

/// A problem, as a diagnostic has it.
pub(crate) struct ObjectProblem {
    pub(crate) code: Code,
    pub(crate) severity: Severity,
    pub(crate) finding: Finding,
}

impl ObjectChecks {
    /// No checks.
    pub fn none() -> Self {
        let (cluster, crds) = (Cluster::default(), Arc::default());
        Self { policy: SchemaPolicy::Ignore, cluster, crds, relations: false }
    }

    /// What is wrong with an object.
    pub(crate) fn problems(
        &self,
        object: &Value,
        (group, kind): (&str, &str),
        kinds: &KindIndex,
    ) -> Vec<ObjectProblem> {
        let violation = match self.policy {
            SchemaPolicy::Ignore => return Vec::new(),
            SchemaPolicy::Warn => Severity::Warning,
            SchemaPolicy::Error => Severity::Error,
        };
        let of_kind = kinds.schemas(group, kind).or_else(|| self.crds.find(group, kind));
        let found = match of_kind {
            Some(schemas) => gitwork_schemas::check_custom(object, schemas),
            None => gitwork_schemas::check(object, &self.cluster),
        };
        let problem = |finding: Finding| {
            let code = code(finding.problem);
            let severity = match code.severity() {
                Severity::Error if finding.is_uncertain => Severity::Warning,
                Severity::Error => violation,
                severity => severity,
            };
            ObjectProblem { code, severity, finding }
        };
        found.into_iter().map(problem).collect()
    }
}

/// The object that a problem is of, as in `Deployment shop/web`: a file may have many objects.
pub(crate) fn object_name(kind: &str, Identity { namespace, name, .. }: &Identity) -> String {
    let short = |text| truncate_chars(text, limits::MESSAGE_TEXT_CHARS_MAX);
    let (kind, name) = (short(kind), short(name));
    match short(namespace) {
        namespace if namespace.is_empty() => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

fn code(problem: Problem) -> Code {
    match problem {
        Problem::UnknownField => Code::UnknownObjectField,
        Problem::WrongType => Code::WrongObjectType,
        Problem::MissingField => Code::MissingObjectField,
        Problem::InvalidValue => Code::InvalidObjectValue,
        Problem::InvalidMetadata => Code::InvalidMetadata,
        Problem::UnknownKind => Code::UnknownKind,
        Problem::RemovedVersion => Code::RemovedVersion,
        Problem::DeprecatedVersion => Code::DeprecatedVersion,
        Problem::ServerField => Code::ServerField,
    }
}
