//! What rendered works and their inputs hold in memory, in bytes. It is about right: what an
//! allocation costs depends on the allocator.

use std::sync::Arc;

use gitwork_api::compressed_json::CompressedJson;
use gitwork_schemas::CrdSchemas;
use serde_json::Value;

use super::inputs::ClusterConfig;
use crate::config::WorkSettings;
use crate::model::approval::{Approvals, Target};
use crate::model::diagnostic::Diagnostic;
use crate::model::kinds::CrdNames;
use crate::model::manifest::{Identity, Origin};
use crate::model::work::{DeletionPolicy, DesiredWork, NamedObject};
use crate::render::values::Variable;
use crate::render::work_folder::{Rendered, RenderedSizes};

/// Bytes that an allocation costs besides its content.
pub(super) const ALLOCATION: usize = 32;

/// The objects of the work, or of the frozen folder.
pub(super) fn named(rendered: &Rendered) -> &Arc<[NamedObject]> {
    rendered.work.as_ref().map_or(&rendered.uncommon().frozen.objects, |work| &work.objects)
}

/// What a rendered folder holds.
pub(super) fn sizes(rendered: &Rendered) -> RenderedSizes {
    let mut own = size_of::<Rendered>() + ALLOCATION + rendered.path.as_str().len();
    own += rendered.uncommon_bytes();
    let uncommon = rendered.uncommon();
    let kinds = uncommon.custom_kinds.iter();
    own += kinds.map(|((group, kind), _)| group.len() + 2 * kind.len() + 96).sum::<usize>();
    let schemas = |crd: &CrdNames| crd.schemas.as_ref().map_or(0, CrdSchemas::bytes);
    let crd_bytes = |crd: &CrdNames| 96 + crd.kind.len() + crd.group.len() + schemas(crd);
    own += uncommon.crds.iter().map(crd_bytes).sum::<usize>();
    own += rendered.work.as_deref().map_or(0, work_bytes);
    RenderedSizes {
        own,
        objects: placed_bytes(&rendered.objects),
        named: named_bytes(named(rendered)),
        diagnostics: rendered.diagnostics.iter().map(diagnostic_bytes).sum(),
        variables: variables_bytes(&rendered.variables),
    }
}

/// The bytes of a text, as if it was not compressed: whoever does not keep texts does not compress
/// them, and must come to the same result.
pub(super) fn text_bytes(text: &CompressedJson) -> usize {
    text.text_bytes() + ALLOCATION
}

/// The bytes of a list of texts, without the texts.
pub(super) fn spec_bytes(parts: &[CompressedJson]) -> usize {
    size_of_val(parts) + ALLOCATION
}

/// The bytes of objects with the places where they stand.
pub(super) fn placed_bytes(objects: &[(Identity, Origin)]) -> usize {
    let origin = |at: &Origin| size_of::<Origin>() + at.file.as_str().len();
    objects.iter().map(|(identity, at)| identity_bytes(identity) + origin(at)).sum()
}

/// The bytes of objects.
pub(super) fn named_bytes(objects: &[NamedObject]) -> usize {
    let bytes = |one: &NamedObject| size_of::<NamedObject>() + one.resource.len() + ALLOCATION;
    objects.iter().map(bytes).sum()
}

/// The bytes of variables.
pub(super) fn variables_bytes(variables: &[Variable]) -> usize {
    variables.iter().map(variable_bytes).sum()
}

/// The bytes that approvals hold in memory.
pub(super) fn approval_bytes(approved: &Approvals) -> usize {
    let Approvals { deletions, changes, .. } = approved;
    let target = |Target { key, uid }: &Target| {
        let texts = [key.cluster.as_str(), key.work.as_str(), uid];
        let texts = texts.map(|text| text.len() + ALLOCATION);
        size_of::<Target>() + texts.into_iter().sum::<usize>()
    };
    deletions.iter().chain(changes).map(target).sum()
}

fn identity_bytes(identity: &Identity) -> usize {
    let Identity { group, resource, namespace, name } = identity;
    let texts = [group, resource, namespace, name].into_iter();
    size_of::<Identity>() + texts.map(|text| text.len() + ALLOCATION / 2).sum::<usize>()
}

fn variable_bytes(variable: &Variable) -> usize {
    let name = match variable {
        Variable::Value(name) | Variable::Label(name) | Variable::Claim(name) => name.len(),
        Variable::ClusterName => 0,
    };
    size_of::<Variable>() + name + ALLOCATION
}

fn work_bytes(work: &DesiredWork) -> usize {
    let orphans = match &work.delete_option {
        DeletionPolicy::SelectivelyOrphan(rules) => rules.iter().map(identity_bytes).sum(),
        DeletionPolicy::Foreground | DeletionPolicy::Orphan => 0,
    };
    let depends_on = size_of_val(&*work.depends_on);
    // During a rollout, the desired state has a copy.
    work.body.metadata_bytes()
        + 2 * (size_of_val(work) + ALLOCATION)
        + size_of_val(&*work.body)
        + 2 * ALLOCATION
        + 2 * orphans
        + depends_on
}

/// The bytes of a diagnostic.
pub(super) fn diagnostic_bytes(one: &Diagnostic) -> usize {
    let texts = [&one.field, &one.hint, &one.snippet].into_iter().flatten();
    let related = one.related.iter().map(|(_, why)| why.len() + size_of::<(Diagnostic, String)>());
    size_of::<Diagnostic>()
        + one.message.len()
        + texts.map(String::len).sum::<usize>()
        + related.sum::<usize>()
}

/// The bytes of what cluster.yaml says.
pub(super) fn config_bytes(config: &ClusterConfig) -> usize {
    let ClusterConfig { file, values, .. } = config;
    let WorkSettings { labels, annotations, manifest_configs, delete_option, executor, .. } =
        &file.defaults;
    let maps = [&file.labels, labels, annotations];
    let maps = maps.into_iter().flatten().map(|(name, value)| name.len() + value.len() + 64);
    // The file has the values, too, and the index of the rules has their names.
    let values =
        2 * values.all().iter().map(|(name, value)| entry_bytes(name, value)).sum::<usize>();
    let rules = 2 * manifest_configs.iter().map(value_bytes).sum::<usize>();
    let others = delete_option.iter().chain(executor).map(value_bytes);
    size_of::<ClusterConfig>() + maps.sum::<usize>() + values + rules + others.sum::<usize>()
}

fn entry_bytes(name: &str, value: &Value) -> usize {
    name.len() + size_of::<String>() + ALLOCATION + value_bytes(value)
}

/// Values are nested up to [`gitwork_yaml::limits::YAML_DEPTH_MAX`] levels.
fn value_bytes(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len() + ALLOCATION / 2,
            Value::Array(items) => items.iter().map(value_bytes).sum(),
            Value::Object(fields) => fields.iter().map(|(n, v)| entry_bytes(n, v)).sum(),
        }
}
