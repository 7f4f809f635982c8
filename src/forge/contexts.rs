//! Selects the clusters and groups with their own commit status.

use std::collections::{BTreeMap, BTreeSet};

use globset::{GlobBuilder, GlobMatcher};

use crate::limits;
use gitwork_core::config::commit_status::ContextConfig;
use gitwork_core::model::name::ClusterName;
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_core::report::forge::Part;
use gitwork_core::report::status::RolloutVerdict;
use gitwork_core::report::status::source::SourceStatus;

/// Why the configured contexts are invalid. `index` counts the entries from 0.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show the meaning of the fields")]
pub enum ContextsError {
    /// A pattern of cluster names is invalid.
    #[error("contexts[{index}]: {pattern:?} is not a pattern of cluster names: {source}")]
    Pattern { index: usize, pattern: String, source: globset::Error },
    /// An entry selects no cluster.
    #[error("contexts[{index}]: name at least one cluster, as in `clusters: [\"prod-*\"]`")]
    NoClusters { index: usize },
    /// The name of a group is invalid.
    #[error("contexts[{index}]: a group's name has 1 to 63 letters, digits, `-`, `.` or `_`")]
    Group { index: usize },
}

impl OperationError for ContextsError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "CommitStatusConfig"
    }
}

/// The contexts other than that of the whole source.
#[derive(Debug, Default)]
pub struct Contexts(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    /// `None`: each matching cluster has its own context.
    group: Option<String>,
    clusters: Vec<GlobMatcher>,
}

impl Contexts {
    /// Compiles the patterns of the configured contexts.
    pub fn new(configs: &[ContextConfig]) -> Result<Self, ContextsError> {
        let mut rules = Vec::new();
        for (index, config) in configs.iter().enumerate() {
            let is_name = |name: &String| {
                let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
                (1..=63).contains(&name.len()) && name.chars().all(known)
            };
            if config.group.as_ref().is_some_and(|name| !is_name(name)) {
                return Err(ContextsError::Group { index });
            }
            if config.clusters.is_empty() {
                return Err(ContextsError::NoClusters { index });
            }
            let matcher = |pattern: &String| {
                let glob = GlobBuilder::new(pattern).literal_separator(true).build();
                let glob = glob.map_err(|source| {
                    let pattern = pattern.clone();
                    ContextsError::Pattern { index, pattern, source }
                })?;
                Ok(glob.compile_matcher())
            };
            let clusters = config.clusters.iter().map(matcher).collect::<Result<_, _>>()?;
            rules.push(Rule { group: config.group.clone(), clusters });
        }
        Ok(Self(rules))
    }

    /// The verdict and the summary line of each context, and the number of contexts over the limit.
    /// Lines are at most `chars_max` characters.
    pub fn of(
        &self,
        status: &SourceStatus,
        chars_max: usize,
    ) -> (BTreeMap<Part, (RolloutVerdict, String)>, usize) {
        let names: BTreeSet<&ClusterName> = status.works.clusters().map(|(name, _)| name).collect();
        let mut parts: BTreeMap<Part, (bool, BTreeSet<&ClusterName>)> = BTreeMap::new();
        for rule in &self.0 {
            let is_in =
                |name: &ClusterName| rule.clusters.iter().any(|glob| glob.is_match(name.as_str()));
            for name in names.iter().copied().filter(|name| is_in(name)) {
                let part = rule.group.clone().unwrap_or_else(|| name.to_string());
                let part = parts.entry(part).or_insert((rule.group.is_some(), BTreeSet::new()));
                part.1.insert(name);
            }
        }
        let left_out = parts.len().saturating_sub(limits::FORGE_CONTEXTS_MAX);
        let contexts =
            parts.into_iter().take(limits::FORGE_CONTEXTS_MAX).map(|(part, (grouped, names))| {
                let line = if grouped {
                    status.line_of_clusters(&names, chars_max)
                } else {
                    status.line_of_works(&names, chars_max)
                };
                (part, line)
            });
        (contexts.collect(), left_out)
    }
}
