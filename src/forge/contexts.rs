//! Selects the clusters and groups that have their own commit status.

use std::collections::{BTreeMap, BTreeSet};

use globset::{GlobBuilder, GlobMatcher};

use crate::limits;
use gitwork_core::config::commit_status::ContextConfig;
use gitwork_core::model::name::{ClusterName, GroupName};
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_report::forge::Part;
use gitwork_report::status::RolloutVerdict;
use gitwork_report::status::source::SourceStatus;

/// Why the configured contexts are invalid. `index` counts the entries from 0.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show the meaning of the fields")]
pub enum ContextsError {
    /// A pattern of names is invalid.
    #[error("contexts[{index}]: {pattern:?} is not a pattern of names: {source}")]
    Pattern { index: usize, pattern: String, source: globset::Error },
    /// An entry selects no cluster and no group, or both.
    #[error(
        "contexts[{index}]: name clusters or groups, as in `clusters: [\"prod-*\"]` or `groups: \
         [\"*\"]`"
    )]
    Selection { index: usize },
    /// The name of a status is invalid.
    #[error("contexts[{index}]: a name has 1 to 63 letters, digits, `-`, `.` or `_`")]
    Name { index: usize },
    /// An entry gives one name to the statuses of several groups.
    #[error("contexts[{index}]: the statuses of groups have the names of the groups: omit `name`")]
    NameOfGroups { index: usize },
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
enum Rule {
    /// Each matching cluster has its own context, or all of them have one of this name.
    Clusters { patterns: Vec<GlobMatcher>, name: Option<String> },
    /// Each matching group has its own context.
    Groups { patterns: Vec<GlobMatcher> },
}

/// What a context counts.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Counted<'a> {
    /// The works of a cluster.
    Works(&'a ClusterName),
    /// These clusters.
    Clusters(BTreeSet<&'a ClusterName>),
    /// The clusters of a group.
    Group(&'a GroupName),
}

impl Rule {
    fn new(index: usize, config: &ContextConfig) -> Result<Self, ContextsError> {
        let ContextConfig { clusters, name, groups } = config;
        let is_valid = |name: &String| {
            let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
            (1..=63).contains(&name.len()) && name.chars().all(known)
        };
        if name.as_ref().is_some_and(|name| !is_valid(name)) {
            return Err(ContextsError::Name { index });
        }
        let matcher = |pattern: &String| {
            let glob = GlobBuilder::new(pattern).literal_separator(true).build();
            let glob = glob.map_err(|source| {
                let pattern = pattern.clone();
                ContextsError::Pattern { index, pattern, source }
            })?;
            Ok(glob.compile_matcher())
        };
        let compiled = |patterns: &[String]| -> Result<Vec<GlobMatcher>, ContextsError> {
            patterns.iter().map(matcher).collect()
        };
        match (&clusters[..], &groups[..]) {
            ([], []) | ([_, ..], [_, ..]) => Err(ContextsError::Selection { index }),
            ([], groups) if name.is_none() => Ok(Self::Groups { patterns: compiled(groups)? }),
            ([], _) => Err(ContextsError::NameOfGroups { index }),
            (clusters, []) => {
                Ok(Self::Clusters { patterns: compiled(clusters)?, name: name.clone() })
            }
        }
    }

    /// Adds the contexts of the rule. Of several with one name, the first counts, but clusters with
    /// one name are counted together.
    fn add_to<'a>(&self, status: &'a SourceStatus, parts: &mut BTreeMap<Part, Counted<'a>>) {
        let is_in =
            |patterns: &[GlobMatcher], name: &str| patterns.iter().any(|glob| glob.is_match(name));
        match self {
            Self::Clusters { patterns, name } => {
                let names = status.works.clusters().map(|(name, _)| name);
                for cluster in names.filter(|cluster| is_in(patterns, cluster.as_str())) {
                    let Some(name) = name else {
                        let part = cluster.to_string();
                        parts.entry(part).or_insert(Counted::Works(cluster));
                        continue;
                    };
                    let together = || Counted::Clusters(BTreeSet::new());
                    let counted = parts.entry(name.clone()).or_insert_with(together);
                    if let Counted::Clusters(all) = counted {
                        all.insert(cluster);
                    }
                }
            }
            Self::Groups { patterns } => {
                let groups = status.groups().into_iter();
                for group in groups.filter(|group| is_in(patterns, group.as_str())) {
                    parts.entry(group.to_string()).or_insert(Counted::Group(group));
                }
            }
        }
    }
}

impl Contexts {
    /// Compiles the patterns of the configured contexts.
    pub fn new(configs: &[ContextConfig]) -> Result<Self, ContextsError> {
        let rules = configs.iter().enumerate().map(|(index, config)| Rule::new(index, config));
        Ok(Self(rules.collect::<Result<_, _>>()?))
    }

    /// The verdict and the summary line of each context, and the number of contexts over the limit.
    /// Lines are at most `chars_max` characters.
    pub fn of(
        &self,
        status: &SourceStatus,
        chars_max: usize,
    ) -> (BTreeMap<Part, (RolloutVerdict, String)>, usize) {
        let mut parts = BTreeMap::new();
        self.0.iter().for_each(|rule| rule.add_to(status, &mut parts));
        let left_out = parts.len().saturating_sub(limits::FORGE_CONTEXTS_MAX);
        let contexts = parts.into_iter().take(limits::FORGE_CONTEXTS_MAX);
        let contexts = contexts.map(|(part, counted)| {
            let line = match counted {
                Counted::Works(cluster) => status.line_of_works(&[cluster].into(), chars_max),
                Counted::Clusters(clusters) => status.line_of_clusters(&clusters, chars_max),
                Counted::Group(group) => status.line_of_group(group, chars_max),
            };
            (part, line)
        });
        (contexts.collect(), left_out)
    }
}
