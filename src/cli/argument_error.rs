//! Errors of the parsers of argument values.

use gitwork_api::names::NameError;

/// Why the value of an argument is refused. clap prints it after the argument and the value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// The value is none of these words.
    #[error("name one of {0}")]
    OneOf(String),
    /// The value is no state of a work; these are the states.
    #[error("the states are {0} and unreachable")]
    State(String),
    /// The namespace is invalid.
    #[error("a namespace's name {0}")]
    Namespace(NameError),
    /// The source id is invalid.
    #[error("a source id {0}")]
    SourceId(NameError),
    /// The cluster's name is invalid.
    #[error("the cluster's name {0}")]
    Cluster(NameError),
    /// The group's name is invalid.
    #[error("the group's name {0}")]
    Group(NameError),
    /// The work's name is invalid.
    #[error("the work's name {0}")]
    Work(NameError),
    /// The name of an object on the hub is invalid.
    #[error("the name {0}")]
    ObjectName(NameError),
    /// A work is named without its cluster.
    #[error("name it as CLUSTER/WORK")]
    WorkKey,
    /// The value is no hash.
    #[error("a hash has 64 hexadecimal digits")]
    Hash,
    /// The value is no id of a commit.
    #[error("a commit's id has 40 hexadecimal digits")]
    Commit,
    /// The text is too long; both numbers count characters.
    #[error("it has {length} characters; the limit is {limit}")]
    TooLong { length: usize, limit: usize },
}

impl ArgumentError {
    /// The value is none of `words`.
    pub fn one_of<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        Self::OneOf(words.into_iter().collect::<Vec<_>>().join(", "))
    }
}
