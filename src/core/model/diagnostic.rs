//! Problems of a repository: what, where, and how to fix them.

use gitwork_yaml::ProblemKind;
pub use gitwork_yaml::Span;
use serde::Serialize;

use super::name::{ClusterName, RepoPath, WorkKey};

/// How bad it is. An error freezes the work (or cluster, or source) that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
    Info,
}

/// A file of the repository, and a place in it where there is one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Location {
    pub file: RepoPath,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
}

impl Location {
    /// The file as a whole.
    pub fn file(file: &RepoPath) -> Self {
        Self { file: file.clone(), span: None }
    }
    pub fn at(file: &RepoPath, span: Span) -> Self {
        Self { file: file.clone(), span: Some(span) }
    }
}

/// What a diagnostic is about, so that it freezes just that.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The whole source: nothing is planned until it is fixed.
    Source,
    /// Every work of one cluster.
    Cluster(ClusterName),
    /// One work.
    Work(WorkKey),
}

/// One problem. `message` says what is wrong; `hint` says what to do. Neither ever holds a value
/// out of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Diagnostic {
    pub location: Location,
    pub code: Code,
    pub severity: Severity,
    pub scope: Scope,
    /// The field concerned, as in `spec.deleteOption.propagationPolicy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Other places that matter, each with a word on why ("first defined here").
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<(Location, String)>,
    /// The source line that `location` points to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
}

impl Diagnostic {
    /// A diagnostic with the code's own severity.
    pub fn new(code: Code, location: Location, scope: Scope, message: impl Into<String>) -> Self {
        Self {
            location,
            code,
            severity: code.severity(),
            scope,
            field: None,
            message: message.into(),
            hint: None,
            related: Vec::new(),
            snippet: None,
        }
    }
    pub fn with_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
    pub fn with_related(mut self, location: Location, why: impl Into<String>) -> Self {
        self.related.push((location, why.into()));
        self
    }
    /// With every location relative to the repository's root, for a source whose files start at `path`.
    pub fn below(&mut self, path: &RepoPath) {
        let related = self.related.iter_mut().map(|(location, _)| location);
        for location in std::iter::once(&mut self.location).chain(related) {
            location.file = path.join_path(&location.file);
        }
    }
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

macro_rules! codes {
    ($($name:ident = $id:literal, $severity:ident, $title:literal, $help:literal;)*) => {
        /// The stable codes. A code is never reused for another meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $(#[doc = $title] $name,)* }

        impl Code {
            /// Every code, in the order of the catalogue.
            pub const ALL: &[Code] = &[$(Code::$name,)*];
            /// The code as users see it, for example `GW101`.
            pub fn id(self) -> &'static str {
                match self { $(Code::$name => $id,)* }
            }
            pub fn severity(self) -> Severity {
                match self { $(Code::$name => Severity::$severity,)* }
            }
            /// One line: what this code says.
            pub fn title(self) -> &'static str {
                match self { $(Code::$name => $title,)* }
            }
            /// What to do about it.
            pub fn help(self) -> &'static str {
                match self { $(Code::$name => $help,)* }
            }
        }
    };
}

codes! {
    // 1xx: reading files
    YamlSyntax = "GW101", Error, "not valid YAML", "Fix the syntax at the place shown; `kubectl create --dry-run=client -f FILE` reads it the same way.";
    DuplicateKey = "GW102", Error, "a key stands twice in one mapping", "Remove one of the two. kubectl would silently take the last.";
    YamlLimit = "GW103", Error, "the YAML is too deep, too long or expands too far", "Split the file, or write out what the aliases repeat.";
    YamlTag = "GW104", Error, "a custom YAML tag", "Kubernetes has no custom tags; remove it.";
    YamlNumber = "GW105", Error, "a number that JSON cannot carry", "Quote the value if it is meant as text.";
    AmbiguousScalar = "GW106", Warning, "an unquoted word or number that YAML 1.1 reads in its own way", "Quote it if text is meant, or write true/false or a decimal number.";
    NonStringKey = "GW107", Warning, "a mapping key that is not text", "Quote the key.";
    NotText = "GW108", Error, "the file is not UTF-8 text", "Kubernetes manifests are UTF-8; exclude other files with the `ignore` list of gitwork.yaml.";
    LfsPointer = "GW109", Error, "a Git LFS pointer in place of a manifest", "Store manifests in Git itself: remove the pattern from .gitattributes and commit the file.";
    FileTooLarge = "GW110", Error, "the file is larger than gitwork reads", "Split the file.";
    UnexpectedShape = "GW111", Error, "the document is not a mapping", "A manifest is a mapping with apiVersion, kind and metadata.";
    MergeOverrides = "GW112", Warning, "a merge key that overrides a key above it", "Put `<<` first in its mapping: kubectl lets it override what stands above it, other readers do not.";
    // 2xx: layout
    BadName = "GW201", Error, "a folder name that cannot be a cluster's or a work's name", "Rename the folder: lower-case letters, digits and '-'.";
    StrayFile = "GW202", Warning, "a file that belongs to no work", "Move it into a work folder, or add it to the `ignore` list of gitwork.yaml.";
    EmptyWork = "GW203", Error, "a work folder without a manifest", "Add a manifest or remove the folder; an empty folder is no request to delete.";
    NotSupported = "GW204", Error, "a feature that this version does not have", "Remove it, or hold back the upgrade of the repository.";
    Gitlink = "GW205", Error, "a submodule", "gitwork does not follow submodules; commit the files themselves.";
    SymlinkOutside = "GW206", Error, "a symbolic link that leaves its work folder", "Copy the file into the work folder.";
    TooManyFiles = "GW207", Error, "more files, folders or bytes than one work may have", "Split the work.";
    PathTrouble = "GW208", Error, "a path that is unsafe or equal to another on some file systems", "Rename the file.";
    NoClusters = "GW209", Error, "no clusters folder at the source's path", "Check the source's path and ref. Nothing is deleted for its absence.";
    DuplicateWork = "GW210", Error, "two folders make a work of the same name", "Give one of them another `name` in work.yaml.";
    BadApproval = "GW211", Warning, "an approval that approves nothing", "Write it with `gitwork approve HASH --print > approvals/HASH`, and remove it once the deletions are done.";
    // 3xx: configuration files and sidecars
    UnknownField = "GW301", Error, "a field that gitwork does not know", "Check the spelling; `gitwork schema` prints the file's JSON Schema.";
    WrongType = "GW302", Error, "a field of the wrong type", "See the file's JSON Schema.";
    BadValue = "GW303", Error, "a value that is not allowed", "Use one of the values named.";
    MatchesNothing = "GW304", Error, "a sidecar that matches no object", "Correct the file name or the `match`.";
    BadJsonPath = "GW305", Error, "a JSONPath that OCM's agent cannot read", "Write it as kubectl's -o jsonpath does, without braces: .status.phase";
    BadCel = "GW306", Error, "a CEL expression that does not compile", "Correct the expression; it sees `object`.";
    RuleConflict = "GW307", Error, "two rules for one object that cannot both hold", "Remove one of them.";
    UnknownVariable = "GW308", Error, "a variable that has no value", "Define it under `values` in cluster.yaml, or write $${NAME} for the text itself.";
    BadVariable = "GW309", Error, "a `${` that is not a variable", "Write ${NAME} with letters, digits and '_', or $${ for the text itself.";
    GuessedPlural = "GW310", Info, "the plural of a custom kind was guessed", "Put the CRD into the repository, or set `resource` in the sidecar.";
    NoEffect = "GW311", Warning, "a setting without effect", "Remove it.";
    // 4xx: manifests
    MissingField = "GW401", Error, "a manifest without apiVersion, kind or metadata.name", "Add the field.";
    GenerateName = "GW402", Error, "metadata.generateName is not allowed in a ManifestWork", "Give the object a fixed metadata.name.";
    MissingNamespace = "GW403", Error, "a namespaced object without a namespace", "Set metadata.namespace: OCM's agent does not fill in a default.";
    UnexpectedNamespace = "GW404", Error, "a cluster-scoped object with a namespace", "Remove metadata.namespace.";
    DuplicateObject = "GW405", Error, "one object stands twice in a work", "Remove one of the two.";
    ObjectInTwoWorks = "GW406", Error, "one object stands in two works of a cluster", "Keep it in one of them: two works would fight over it.";
    WorkTooLarge = "GW407", Error, "the work is over the hub's size limit", "Split the work folder.";
    PlainSecret = "GW408", Warning, "a Secret in plain text", "Everyone who can read the repository or the hub can read it; use an external secret store.";
    TooManyManifests = "GW409", Error, "more manifests than one work may have", "Split the work folder.";
    BadObjectName = "GW410", Error, "an object name that Kubernetes refuses", "Rename the object.";
    StatusInManifest = "GW411", Warning, "a manifest with a status", "Remove `status`: it is reported by the cluster, not set from Git.";
    // 5xx: the operator's policy
    NotAllowed = "GW501", Error, "the operator's policy does not allow this", "Keep to what `policy` in the daemon's file allows this folder, or ask the operator for more.";
}

impl From<ProblemKind> for Code {
    fn from(kind: ProblemKind) -> Self {
        match kind {
            ProblemKind::Syntax => Self::YamlSyntax,
            ProblemKind::DuplicateKey => Self::DuplicateKey,
            ProblemKind::Limit => Self::YamlLimit,
            ProblemKind::Tag => Self::YamlTag,
            ProblemKind::Number => Self::YamlNumber,
            ProblemKind::AmbiguousScalar => Self::AmbiguousScalar,
            ProblemKind::NonStringKey => Self::NonStringKey,
            ProblemKind::NotText => Self::NotText,
            ProblemKind::LfsPointer => Self::LfsPointer,
            ProblemKind::FileTooLarge => Self::FileTooLarge,
            ProblemKind::UnexpectedShape => Self::UnexpectedShape,
            ProblemKind::MergeOverrides => Self::MergeOverrides,
        }
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}
