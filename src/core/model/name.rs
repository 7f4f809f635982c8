//! Names as types, so that one cannot be taken for another.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gitwork_api::names::{NameError, check_label, check_subdomain};

use super::string_schema::string_schema;
use crate::limits;
use gitwork_api::truncate::truncate_chars;

macro_rules! text_name {
    ($(#[$doc:meta])* $name:ident, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and keeps the name.
            pub fn parse(text: &str) -> Result<Self, NameError> {
                let check: fn(&str) -> Result<(), NameError> = $check;
                check(text)?;
                Ok(Self(text.into()))
            }
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        // They are compared and hashed as their texts are.
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
        string_schema!($name);
        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = String::deserialize(from)?;
                let shown = truncate_chars(&text, limits::MESSAGE_TEXT_CHARS_MAX);
                let problem = |why| serde::de::Error::custom(format_args!("{shown:?} {why}"));
                Self::parse(&text).map_err(problem)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

text_name! {
    /// A ManagedCluster's name, which is also its namespace on the hub.
    ClusterName, |text| check_label(text, 63)
}
text_name! {
    /// A ManifestWork's name.
    WorkName, |text| check_subdomain(text, limits::WORK_NAME_CHARS_MAX)
}
text_name! {
    /// A group's name: that of its folder in `groups`.
    GroupName, |text| check_label(text, 63)
}
text_name! {
    /// Which source a ManifestWork belongs to: the value of the label `gitwork.dev/source`.
    SourceId, |text| check_label(text, 63)
}

impl WorkName {
    /// Stands for a folder whose own name cannot be a work's. It is no valid name, so that no work
    /// has it: an error in such a folder freezes nothing else.
    pub(crate) fn of_unnamed_folder(folder: &str) -> Self {
        let mut text = "_".to_owned();
        for byte in folder.bytes().take(limits::WORK_NAME_CHARS_MAX) {
            match byte {
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' => text.push(char::from(byte)),
                _ => text.push_str(&format!("_{byte:02x}")),
            }
        }
        Self(text.into())
    }

    /// Whether it stands for a folder whose own name cannot be a work's.
    pub(crate) fn is_of_unnamed_folder(&self) -> bool {
        self.0.starts_with('_')
    }
}

/// Begins the place of ManifestWorkReplicaSets. No cluster's name has a dot.
const REPLICA_SETS: &str = "mwrs.";

impl ClusterName {
    /// The place of the ManifestWorkReplicaSets in a namespace. It stands beside the clusters, and
    /// is printed as `mwrs.NAMESPACE`, with the short name of the kind.
    ///
    /// # Errors
    /// The name cannot be one of a namespace.
    pub fn of_replica_sets(namespace: &str) -> Result<Self, NameError> {
        check_label(namespace, 63)?;
        Ok(Self(format!("{REPLICA_SETS}{namespace}").into()))
    }

    /// Reads the name of a cluster, or the place of ManifestWorkReplicaSets, as both are printed.
    ///
    /// # Errors
    /// The text is neither of both.
    pub fn parse_place(text: &str) -> Result<Self, NameError> {
        text.strip_prefix(REPLICA_SETS).map_or_else(|| Self::parse(text), Self::of_replica_sets)
    }

    /// Sorts before every place of ManifestWorkReplicaSets. Clusters may come before and after
    /// these.
    pub(crate) fn least_of_replica_sets() -> Self {
        Self(REPLICA_SETS.into())
    }

    /// The namespace, if this is the place of ManifestWorkReplicaSets.
    pub fn replica_set_namespace(&self) -> Option<&str> {
        self.0.strip_prefix(REPLICA_SETS)
    }

    /// The namespace on the hub that has the objects of this place.
    pub fn namespace(&self) -> &str {
        self.replica_set_namespace().unwrap_or(&self.0)
    }
}

/// One ManifestWork on the hub: cluster namespace and name. Or a ManifestWorkReplicaSet: see
/// [`ClusterName::of_replica_sets`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct WorkKey {
    /// The ManagedCluster, which is the ManifestWork's namespace.
    pub cluster: ClusterName,
    /// The ManifestWork's name.
    pub work: WorkName,
}

impl WorkKey {
    /// Sorts before every work of the cluster, and after those of clusters before it.
    pub fn least_of(cluster: &ClusterName) -> Self {
        Self { cluster: cluster.clone(), work: WorkName("".into()) }
    }

    /// The entries of one cluster.
    pub fn entries_of<'a, T>(
        all: &'a BTreeMap<Self, T>,
        cluster: &ClusterName,
    ) -> impl Iterator<Item = (&'a Self, &'a T)> + use<'a, T> {
        let least = Self::least_of(cluster);
        let cluster = cluster.clone();
        all.range(least..).take_while(move |(key, _)| key.cluster == cluster)
    }

    /// Whether it is the key of a ManifestWorkReplicaSet.
    pub fn is_replica_set(&self) -> bool {
        self.cluster.replica_set_namespace().is_some()
    }

    /// Whether it is the key of a ManifestWork.
    pub fn is_work(&self) -> bool {
        !self.is_replica_set()
    }

    /// Whether a work may have this key. Otherwise it stands for a folder without a valid name.
    pub fn is_of_work(&self) -> bool {
        !self.work.is_of_unnamed_folder()
    }
}

impl fmt::Display for WorkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.cluster, self.work)
    }
}

/// A path inside a repository: relative, `/` between parts, no `.` or `..`; empty for the root.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RepoPath(Arc<str>);

impl RepoPath {
    /// Normalises `text`; `None` for an absolute path or one with `..`.
    pub fn parse(text: &str) -> Option<Self> {
        if text.starts_with('/') || text.split('/').any(|part| part == "..") {
            return None;
        }
        let parts: Vec<&str> = text.split('/').filter(|p| !p.is_empty() && *p != ".").collect();
        Some(Self(parts.join("/").into()))
    }
    /// The empty path.
    pub fn root() -> Self {
        Self::default()
    }
    /// Whether the path is empty.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
    /// The path of `name`, one tree entry, below this path.
    pub fn join(&self, name: &str) -> Self {
        if self.is_root() { Self(name.into()) } else { Self(format!("{}/{name}", self.0).into()) }
    }
    /// The path of `path`, which is relative to here, from the root.
    pub fn join_path(&self, path: &Self) -> Self {
        path.parts().fold(self.clone(), |at, part| at.join(part))
    }
    /// The path from `folder` if it is inside, or else the same path. [`Self::join_path`] is the
    /// way back.
    pub fn relative_to(&self, folder: &Self) -> Self {
        let rest = self.0.strip_prefix(&*folder.0).and_then(|rest| rest.strip_prefix('/'));
        rest.map_or_else(|| self.clone(), |rest| Self(rest.into()))
    }
    /// The path without its last part; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        Some(Self(self.0.rsplit_once('/').map_or("", |(parent, _)| parent).into()))
    }
    /// The last part, or the empty string for the root.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&*self.0, |(_, name)| name)
    }
    /// The names between the slashes; none for the root.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|part| !part.is_empty())
    }
    /// The path as text, empty for the root. (`Display` writes `.` for it.)
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

string_schema!(RepoPath);

impl Serialize for RepoPath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(if self.is_root() { "." } else { &self.0 })
    }
}

impl fmt::Debug for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A Git object id (SHA-1, as libgit2 reads it).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub [u8; 20]);

/// The id of a commit.
pub type CommitId = ObjectId;

impl ObjectId {
    /// Reads 40 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 20];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }
    /// The first eight digits, for people.
    pub fn short(&self) -> String {
        self.to_string().chars().take(8).collect()
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({self})")
    }
}

string_schema!(ObjectId);

impl Serialize for ObjectId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| serde::de::Error::custom("an id has 40 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_names_are_namespace_names() {
        assert!(ClusterName::parse("edge-7").is_ok());
        assert_eq!(ClusterName::parse(""), Err(NameError::Empty));
        assert_eq!(ClusterName::parse("Edge"), Err(NameError::LabelCharacter('E')));
        assert_eq!(ClusterName::parse("a.b"), Err(NameError::LabelCharacter('.')));
        assert_eq!(ClusterName::parse("-a"), Err(NameError::Edge));
        assert!(ClusterName::parse(&"a".repeat(63)).is_ok());
        assert!(ClusterName::parse(&"a".repeat(64)).is_err());
    }

    #[test]
    fn places_of_replica_sets_are_no_clusters_and_read_what_they_print() {
        let place = ClusterName::of_replica_sets("fleet").unwrap();
        assert_eq!((place.as_str(), place.namespace()), ("mwrs.fleet", "fleet"));
        assert_eq!(place.replica_set_namespace(), Some("fleet"));
        assert!(ClusterName::parse(place.as_str()).is_err());
        assert_eq!(ClusterName::parse_place("mwrs.fleet"), Ok(place));
        assert!(ClusterName::parse_place("mwrs.").is_err());
        assert!(ClusterName::of_replica_sets("a.b").is_err());
        let cluster = ClusterName::parse_place("edge-7").unwrap();
        assert_eq!((cluster.namespace(), cluster.replica_set_namespace()), ("edge-7", None));
    }

    #[test]
    fn work_names_leave_room_for_the_hub_hash() {
        assert!(WorkName::parse("web.v2").is_ok());
        assert_eq!(WorkName::parse("web..v2"), Err(NameError::Edge));
        assert!(WorkName::parse(&"a".repeat(188)).is_ok());
        assert!(WorkName::parse(&"a".repeat(189)).is_err());
    }

    #[test]
    fn no_work_has_the_name_of_an_unnamed_folder() {
        for folder in ["shop-B_", "", "a".repeat(300).as_str(), "a\u{1b}[0m", "\u{fffd}"] {
            let name = WorkName::of_unnamed_folder(folder);
            assert!(name.is_of_unnamed_folder() && WorkName::parse(name.as_str()).is_err());
            assert!(name.as_str().is_ascii() && !name.as_str().contains(char::is_control));
        }
        let names = ["shop-B", "shop-b", "shop_b"].map(WorkName::of_unnamed_folder);
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
    }

    #[test]
    fn repo_paths_are_normal_and_stay_inside() {
        assert_eq!(RepoPath::parse("./a//b/").map(|p| p.to_string()).as_deref(), Some("a/b"));
        assert_eq!(RepoPath::parse("a/../b"), None);
        assert_eq!(RepoPath::parse("/a"), None);
        assert_eq!(RepoPath::parse("").map(|p| p.is_root()), Some(true));
        let path = RepoPath::root().join("a").join("b.yaml");
        assert_eq!((path.name(), path.parent()), ("b.yaml", RepoPath::parse("a")));
        let fleet = RepoPath::root().join("fleet");
        assert_eq!(Some(fleet.join_path(&path)), RepoPath::parse("fleet/a/b.yaml"));
        assert_eq!(fleet.join_path(&RepoPath::root()), fleet);
        assert_eq!(RepoPath::root().join_path(&path), path);
    }

    #[test]
    fn object_ids_read_what_they_print() {
        let text = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(ObjectId::parse(text).map(|id| id.to_string()).as_deref(), Some(text));
        assert_eq!(ObjectId::parse("zz"), None);
        assert_eq!(ObjectId::parse(&"+1".repeat(20)), None, "no signs in hexadecimal");
    }
}
