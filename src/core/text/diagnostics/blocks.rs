//! One mistake that is copied to many clusters, put together.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::diagnostic::{Code, Diagnostic, Scope, Severity, Span};
use crate::model::name::{ClusterName, RepoPath};
use crate::text::escape::escape_untrusted;
use crate::text::style::count;

/// Names of other places that a block shows.
const NAMES_MAX: usize = 3;

/// Diagnostics that differ only in the cluster or work that they are about.
#[derive(Debug)]
pub struct Block<'a> {
    /// The one that is shown.
    pub first: &'a Diagnostic,
    /// The same in other places.
    pub others: Vec<&'a Diagnostic>,
}

/// What copies of a mistake have in common. Files in a folder of the cluster count without the
/// name of the cluster and without the line: another copy may have more lines above the mistake.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Mistake {
    code: Code,
    severity: Severity,
    file: String,
    span: Option<Span>,
    texts: [Option<String>; 4],
    related: Vec<(String, String)>,
}

impl Mistake {
    /// `text`: how a text counts that may name the cluster.
    fn of(diagnostic: &Diagnostic, text: impl Fn(&str) -> String) -> Self {
        let cluster = cluster_of(&diagnostic.scope);
        let file = |path: &RepoPath| cluster.and_then(|cluster| below_cluster(path, cluster));
        let own = file(&diagnostic.location.file);
        let Diagnostic { field, message, hint, snippet, related, .. } = diagnostic;
        let texts = [field.as_deref(), Some(message), hint.as_deref(), snippet.as_deref()];
        let path = |path: &RepoPath| file(path).unwrap_or_else(|| path.to_string());
        Self {
            code: diagnostic.code,
            severity: diagnostic.severity,
            span: diagnostic.location.span.filter(|_| own.is_none()),
            file: path(&diagnostic.location.file),
            texts: texts.map(|one| one.map(&text)),
            related: related.iter().map(|(at, why)| (path(&at.file), text(why))).collect(),
        }
    }

    fn verbatim(diagnostic: &Diagnostic) -> Self {
        Self::of(diagnostic, str::to_owned)
    }

    /// Without the name of the cluster in its texts.
    fn nameless(diagnostic: &Diagnostic) -> Self {
        match cluster_of(&diagnostic.scope) {
            Some(cluster) => Self::of(diagnostic, |text| without_name(text, cluster.as_str())),
            None => Self::verbatim(diagnostic),
        }
    }
}

/// The blocks of diagnostics, in the order of their first ones. One mistake twice for one work is
/// two blocks.
pub fn blocks(diagnostics: &[Diagnostic]) -> Vec<Block<'_>> {
    let alone = diagnostics.iter().map(|first| Block { first, others: Vec::new() });
    // The texts of most mistakes do not name the cluster. A cluster may have the name of an
    // ordinary word, so equal texts are put together before names are left out.
    let equal = merged(alone.collect(), Mistake::verbatim);
    merged(equal, Mistake::nameless)
}

/// Adds each block to the first earlier one of the same mistake.
fn merged<'a>(all: Vec<Block<'a>>, key: impl Fn(&Diagnostic) -> Mistake) -> Vec<Block<'a>> {
    let mut earlier: BTreeMap<(Mistake, usize), usize> = BTreeMap::new();
    let mut repeated: BTreeMap<(Mistake, &Scope), usize> = BTreeMap::new();
    let mut kept: Vec<Block<'a>> = Vec::new();
    for block in all {
        let mistake = key(block.first);
        let count = repeated.entry((mistake.clone(), &block.first.scope)).or_default();
        let index = *earlier.entry((mistake, *count)).or_insert(kept.len());
        *count += 1;
        match kept.get_mut(index) {
            Some(first) => {
                first.others.push(block.first);
                first.others.extend(block.others);
            }
            None => kept.push(block),
        }
    }
    kept
}

impl Block<'_> {
    /// Where else it is: `and in 39 more clusters: edge-2, edge-3, edge-4, …`. Names the first
    /// cluster, too, if neither its file nor its message does, as in the folder of a group: `in
    /// cluster edge-1, and in 39 more clusters: …`. `None` if there is nothing to say.
    pub fn more(&self) -> Option<String> {
        let clusters: BTreeSet<&ClusterName> =
            self.others.iter().filter_map(|one| cluster_of(&one.scope)).collect();
        let first = cluster_of(&self.first.scope);
        let is_one_each = clusters.len() == self.others.len()
            && first.is_some_and(|first| !clusters.contains(first));
        let noun = if is_one_each { "cluster" } else { "work" };
        let unnamed = first.filter(|cluster| !names_cluster(self.first, cluster));
        let here = unnamed.map(|cluster| match is_one_each {
            true => format!("in cluster {cluster}"),
            false => format!("in work {}", place_of(&self.first.scope)),
        });
        if self.others.is_empty() {
            return here.map(|here| escape_untrusted(&here));
        }
        let names: BTreeSet<String> = match is_one_each {
            true => clusters.iter().map(ToString::to_string).collect(),
            false => self.others.iter().map(|one| place_of(&one.scope)).collect(),
        };
        let here = here.map_or_else(String::new, |here| format!("{here}, "));
        let more = count(names.len(), &format!("more {noun}"));
        let rest = if names.len() > NAMES_MAX { ", …" } else { "" };
        let shown: Vec<&str> = names.iter().take(NAMES_MAX).map(String::as_str).collect();
        let (here, shown) = (escape_untrusted(&here), escape_untrusted(&shown.join(", ")));
        Some(format!("{here}and in {more}: {shown}{rest}"))
    }

    /// How many diagnostics it stands for.
    pub fn count(&self) -> usize {
        1 + self.others.len()
    }
}

/// The first `max` of the most severe, in their order, and the others.
pub fn most_severe<T>(
    all: Vec<T>,
    max: usize,
    severity: impl Fn(&T) -> Severity,
) -> (Vec<T>, Vec<T>) {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|index| all.get(*index).map(&severity));
    let shown: BTreeSet<usize> = order.into_iter().take(max).collect();
    let (shown, hidden): (Vec<_>, Vec<_>) =
        all.into_iter().enumerate().partition(|(index, _)| shown.contains(index));
    let values = |list: Vec<(usize, T)>| list.into_iter().map(|(_, one)| one).collect();
    (values(shown), values(hidden))
}

fn cluster_of(scope: &Scope) -> Option<&ClusterName> {
    match scope {
        Scope::Source | Scope::Group(_) => None,
        Scope::Cluster(cluster) => Some(cluster),
        Scope::Work(key) => Some(&key.cluster),
    }
}

fn place_of(scope: &Scope) -> String {
    match scope {
        Scope::Source => "the source".to_owned(),
        Scope::Group(group) => format!("groups/{group}"),
        Scope::Cluster(cluster) => cluster.to_string(),
        Scope::Work(key) => key.to_string(),
    }
}

/// The path without the name of the cluster; `None` if it is not in the folder of the cluster.
fn below_cluster(path: &RepoPath, cluster: &ClusterName) -> Option<String> {
    let parts: Vec<&str> = path.parts().collect();
    let at = parts.windows(2).position(|two| *two == ["clusters", cluster.as_str()])?;
    let (above, below) = (parts.get(..=at)?.join("/"), parts.get(at + 2..)?.join("/"));
    Some(format!("{above}//{below}"))
}

/// Whether the file or the message of a diagnostic tells the cluster, or there is no cluster but a
/// place of ManifestWorkReplicaSets.
fn names_cluster(diagnostic: &Diagnostic, cluster: &ClusterName) -> bool {
    let (path, message) = (&diagnostic.location.file, &diagnostic.message);
    // A cluster may have the name of an ordinary word.
    let is_said = |before: &&str| {
        let said = format!("{before}{cluster}");
        message.split(&said).skip(1).any(|after| !after.starts_with(is_of_word))
    };
    cluster.replica_set_namespace().is_some()
        || below_cluster(path, cluster).is_some()
        || path.parts().collect::<Vec<_>>().ends_with(&["clusters", cluster.as_str()])
        || ["cluster ", "("].iter().any(is_said)
}

/// Whether it is a character of names.
fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '-' | '_' | '.')
}

/// A text without the words that are this name.
fn without_name(text: &str, name: &str) -> String {
    let pieces = text.split_inclusive(|character| !is_of_word(character));
    let mut out = String::with_capacity(text.len());
    for piece in pieces {
        let word = piece.trim_end_matches(|character| !is_of_word(character));
        let end = piece.get(word.len()..).unwrap_or_default();
        out.push_str(if word == name { "\0" } else { word });
        out.push_str(end);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::diagnostic::Location;
    use crate::model::name::{WorkKey, WorkName};

    fn one(cluster: &str, line: u32, message: &str) -> Diagnostic {
        let file = RepoPath::parse(&format!("clusters/{cluster}/web/x.yaml")).unwrap();
        let key = WorkKey {
            cluster: ClusterName::parse(cluster).unwrap(),
            work: WorkName::parse("web").unwrap(),
        };
        let at = Location::at(&file, Span { line, column: 1, length: 1 });
        Diagnostic::new(Code::BadValue, at, Scope::Work(key), message)
    }

    fn shown(all: &[Diagnostic]) -> Vec<(String, Option<String>)> {
        blocks(all).iter().map(|one| (one.first.message.clone(), one.more())).collect()
    }

    #[test]
    fn copies_in_many_clusters_are_one_block() {
        let clusters: Vec<String> = (1..=40).map(|n| format!("edge-{n:02}")).collect();
        let all: Vec<Diagnostic> = clusters.iter().map(|name| one(name, 3, "m")).collect();
        let more = "and in 39 more clusters: edge-02, edge-03, edge-04, …";
        assert_eq!(shown(&all), [("m".to_owned(), Some(more.to_owned()))]);
        assert_eq!(blocks(&all)[0].count(), 40);
    }

    #[test]
    fn first_cluster_is_named_where_the_file_does_not_tell_it() {
        let of_group = |cluster: &str, line: u32| {
            let file = RepoPath::parse("fleet/groups/all/web/x.yaml").unwrap();
            let at = Location::at(&file, Span { line, column: 1, length: 1 });
            Diagnostic { location: at, ..one(cluster, line, "m") }
        };
        let more = |all: &[Diagnostic]| shown(all).remove(0).1;
        assert_eq!(more(&[of_group("a", 3)]).as_deref(), Some("in cluster a"));
        let two = [of_group("a", 3), of_group("b", 3)];
        assert_eq!(more(&two).as_deref(), Some("in cluster a, and in 1 more cluster: b"));
        let mut twice = two.to_vec();
        let work = WorkName::parse("db").unwrap();
        let cluster = ClusterName::parse("a").unwrap();
        twice[1].scope = Scope::Work(WorkKey { cluster, work });
        assert_eq!(more(&twice).as_deref(), Some("in work a/web, and in 1 more work: a/db"));
        // In the folder of the cluster, or the folder itself.
        assert_eq!(more(&[one("a", 3, "m")]), None);
        let folder = Location::file(&RepoPath::parse("clusters/a").unwrap());
        assert_eq!(more(&[Diagnostic { location: folder, ..one("a", 3, "m") }]), None);
        // The message does, and other words do not.
        for (message, expected) in [
            ("x was removed (a runs 1.31)", None),
            ("cluster a has two works", None),
            ("cluster a-1 has a field", Some("in cluster a")),
        ] {
            let one = Diagnostic { message: message.to_owned(), ..of_group("a", 3) };
            assert_eq!(more(&[one]).as_deref(), expected, "{message}");
        }
        let location = of_group("a", 3).location;
        let cluster = ClusterName::of_replica_sets("fleet").unwrap();
        let scope = Scope::Cluster(cluster);
        assert_eq!(more(&[Diagnostic { location, scope, ..one("a", 3, "m") }]), None);
    }

    #[test]
    fn line_and_name_of_the_cluster_may_differ_and_nothing_else() {
        let all = [
            one("a", 3, "a field is missing (a runs 1.31)"),
            one("b", 7, "a field is missing (b runs 1.31)"),
            one("c", 7, "a field is missing (c runs 1.32)"),
        ];
        let of_a = (all[0].message.clone(), None);
        // `a` is a word of the message too, so only texts that are equal without it count.
        assert_eq!(shown(&all)[0], of_a);
        let named =
            [one("e1", 3, "removed (e1 runs 1.31)"), one("e2", 7, "removed (e2 runs 1.31)")];
        assert_eq!(shown(&named)[0].1.as_deref(), Some("and in 1 more cluster: e2"));
        let word = [one("a", 3, "a field"), one("b", 3, "a field")];
        assert_eq!(shown(&word).len(), 1);
        assert_eq!(shown(&[one("a", 3, "m"), one("b", 3, "n")]).len(), 2);
    }

    #[test]
    fn mistake_twice_in_one_work_is_two_blocks_of_all_clusters() {
        let all = [one("a", 3, "m"), one("a", 4, "m"), one("b", 3, "m"), one("b", 4, "m")];
        let more = Some("and in 1 more cluster: b".to_owned());
        assert_eq!(shown(&all), [("m".to_owned(), more.clone()), ("m".to_owned(), more)]);
    }

    #[test]
    fn most_severe_are_kept_in_their_order() {
        let all = vec![Severity::Info, Severity::Error, Severity::Warning, Severity::Error];
        let (shown, hidden) = most_severe(all, 3, |one| *one);
        assert_eq!(shown, [Severity::Error, Severity::Warning, Severity::Error]);
        assert_eq!(hidden, [Severity::Info]);
    }
}
