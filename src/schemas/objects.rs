//! The check of one object.

use serde_json::Value;

use crate::checker::Checker;
use crate::crd::CrdSchemas;
use crate::finding::{Finding, Problem, shown};
use crate::kinds::{Cluster, Deprecation, Lookup, group_version, lookup, names};
use crate::metadata::{self, MetadataRules};
use crate::names as object_names;
use crate::rules::FieldRules;
use crate::semantics;
use crate::shape::Shape;
use crate::table::{Kind, table};

/// Checks an object of a built-in kind. Of another kind, only whether there may be such a kind, and
/// the metadata.
pub fn check(object: &Value, cluster: &Cluster) -> Vec<Finding> {
    let Some((api_version, kind)) = names(object) else { return Vec::new() };
    let table = table();
    let mut checker = Checker::new(table, cluster.minors(table), semantics::check);
    checker.is_uncertain = cluster.is_uncertain(table);
    checker.runs = cluster.runs();
    match lookup(api_version, kind, cluster) {
        Lookup::BuiltIn(kind, deprecated) => {
            if let Some(Deprecation { message, help }) = deprecated {
                let problem = Problem::DeprecatedVersion;
                checker.changing_last(
                    |checker| checker.report_at(problem, "/apiVersion", message),
                    |last| last.help = help,
                );
            }
            built_in(&mut checker, kind, object, cluster);
        }
        Lookup::Custom => {
            metadata_type(&mut checker, object);
            metadata_of(&mut checker, object, false);
        }
        Lookup::None(problem, is_kind, message) => {
            let below = if is_kind { "/kind" } else { "/apiVersion" };
            checker.report_at(problem, below, message);
            let is_uncertain = cluster.is_uncertain(table);
            checker.found.iter_mut().for_each(|one| one.is_uncertain = is_uncertain);
        }
    }
    checker.found
}

fn built_in(checker: &mut Checker<'_>, kind: &Kind, object: &Value, cluster: &Cluster) {
    checker.is_secret = kind.group.is_empty() && kind.kind == "Secret";
    checker.value(object, &Shape::Type(kind.of), &FieldRules::default());
    let with_prefix = !matches!(
        (kind.group, kind.kind),
        (
            "apiextensions.k8s.io"
                | "apiregistration.k8s.io"
                | "admissionregistration.k8s.io"
                | "coordination.k8s.io"
                | "node.k8s.io",
            _
        ) | ("policy", "PodDisruptionBudget")
            | ("" | "events.k8s.io", "Event")
    );
    metadata_of(checker, object, with_prefix);
    check_name(checker, object, |name| {
        object_names::problem((kind.group, kind.kind), name, object, cluster.version)
    });
}

fn check_name(checker: &mut Checker<'_>, object: &Value, problem: impl Fn(&str) -> Option<String>) {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() {
        return;
    }
    if let Some(why) = problem(name) {
        let message = format!("the name {:?} {why}", shown(name));
        checker.report_at(Problem::InvalidMetadata, "/metadata/name", message);
    }
}

fn metadata_of(checker: &mut Checker<'_>, object: &Value, finalizers_have_prefix: bool) {
    let Some(Value::Object(fields)) = object.get("metadata") else { return };
    let rules = MetadataRules { finalizers_have_prefix, is_of_object: true };
    checker.below("metadata", |checker| metadata::check(checker, fields, rules));
}

/// Checks an object of a custom kind against the schemas of its CRD.
pub fn check_custom(object: &Value, schemas: &CrdSchemas) -> Vec<Finding> {
    let Some((api_version, kind)) = names(object) else { return Vec::new() };
    let table = table();
    let mut checker = Checker::new(table, u8::MAX, semantics::check);
    checker.object = shown(kind);
    let (_, version) = group_version(api_version);
    if schemas.has_version(version) {
        schemas.check(&mut checker, version, object);
        metadata_type(&mut checker, object);
        metadata_of(&mut checker, object, false);
        check_name(&mut checker, object, |name| {
            gitwork_api::names::check_subdomain(name, 253).err().map(|why| why.to_string())
        });
    } else {
        let message = format!(
            "the CRD of {} has no version {:?}; it serves {}",
            shown(kind),
            shown(version),
            schemas.served()
        );
        checker.report_at(Problem::UnknownKind, "/apiVersion", message);
    }
    checker.found
}

/// Checks the fields and types of the metadata of a custom object.
fn metadata_type(checker: &mut Checker<'_>, object: &Value) {
    let table = checker.table;
    let of = table.types.iter().position(|one| one.name == "meta.v1.ObjectMeta");
    let (Some(of), Some(metadata)) = (of, object.get("metadata")) else { return };
    let shape = Shape::Type(of);
    checker.below("metadata", |checker| checker.value(metadata, &shape, &FieldRules::default()));
}
