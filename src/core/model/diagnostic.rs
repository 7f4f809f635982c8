//! Problems of a repository: what, where, and how to fix them.

use gitwork_yaml::ProblemKind;
pub use gitwork_yaml::Span;
use schemars::JsonSchema;
use serde::Serialize;

use super::name::{ClusterName, GroupName, RepoPath, WorkKey};
use super::string_schema::string_schema;

/// How bad it is. An error freezes the work (or cluster, or source) that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Freezes what the diagnostic is about: it is neither changed nor deleted.
    Error,
    /// Probably a mistake, but the meaning is clear: the work is applied.
    Warning,
    /// An assumption of gitwork, such as the plural of a kind.
    Info,
}

/// A file of the repository, and a place in it where there is one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Location {
    /// From the source's path, or from the repository's root after [`Diagnostic::below`].
    pub file: RepoPath,
    /// Line, column and length in characters; `None` for the file as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
}

impl Location {
    /// The file as a whole.
    pub fn file(file: &RepoPath) -> Self {
        Self { file: file.clone(), span: None }
    }
    /// A place inside a file.
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
    /// The works that a group has on all its members.
    Group(GroupName),
    /// One work.
    Work(WorkKey),
}

/// One problem. `message` says what is wrong; `hint` says what to do. Neither ever holds a value
/// out of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Diagnostic {
    /// Where the problem is.
    pub location: Location,
    /// Which problem it is: stable over versions.
    pub code: Code,
    /// The code's own severity, unless a policy (`secrets`) raises or lowers it.
    pub severity: Severity,
    /// What an error freezes.
    pub scope: Scope,
    /// The field concerned, as in `spec.deleteOption.propagationPolicy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What is wrong in this place, in one clause without a full stop.
    pub message: String,
    /// What to do in this place; the code's own help is shown where it is `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Other places that matter, each with a word on why ("first defined here").
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<(Location, String)>,
    /// The source line that `location` points to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
    /// What certainly corrects it, without a decision of anybody.
    #[serde(skip)]
    pub fix: Option<Box<Fix>>,
}

/// A change that certainly corrects a problem.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fix {
    /// A change of the text of the file.
    Text(TextFix),
    /// Another name for the file, in its folder.
    RenameFile(String),
}

/// A change of a text at one place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextFix {
    /// The scalar, the key or the mapping that is changed.
    pub at: Span,
    /// How it is changed.
    pub kind: FixKind,
}

/// How a text is changed at one place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FixKind {
    /// The scalar gets quotes.
    Quote,
    /// The key gets another name.
    RenameKey(String),
    /// The mapping gets a field of this name and text.
    AddField(String, String),
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
            fix: None,
        }
    }
    /// A configuration file whose name gitwork does not read.
    pub fn misnamed(file: &RepoPath, meant: &str, scope: Scope) -> Self {
        let message =
            format!("{} has no effect under this name; rename it to {meant}", file.name());
        let fix = Some(Box::new(Fix::RenameFile(meant.to_owned())));
        Self { fix, ..Self::new(Code::MisnamedFile, Location::file(file), scope, message) }
    }
    /// Sets a change of the text at a place, which certainly corrects it.
    pub fn with_text_fix(mut self, at: Span, kind: FixKind) -> Self {
        self.fix = Some(Box::new(Fix::Text(TextFix { at, kind })));
        self
    }
    /// Sets the field concerned, in dotted form.
    pub fn with_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }
    /// Sets what to do, in place of the code's own help.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
    /// Adds another place that matters, with a word on why.
    pub fn with_related(mut self, location: Location, why: impl Into<String>) -> Self {
        self.related.push((location, why.into()));
        self
    }
    /// Makes every location relative to the repository's root, for a source whose files start at
    /// `path`.
    pub fn below(&mut self, path: &RepoPath) {
        let related = self.related.iter_mut().map(|(location, _)| location);
        for location in std::iter::once(&mut self.location).chain(related) {
            location.file = path.join_path(&location.file);
        }
    }
    /// What to do.
    pub fn help(&self) -> &str {
        self.hint.as_deref().unwrap_or(self.code.help())
    }
    /// Whether it freezes its scope.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
    /// Whether a work with it is neither changed nor deleted: with an error, or with unknown facts.
    pub fn freezes_work(&self) -> bool {
        self.is_error() || self.code == Code::UnknownFacts
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
            /// How bad it is, unless a policy says otherwise.
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
    YamlSyntax = "GW101", Error, "invalid YAML",
        "Fix the syntax at this location. `kubectl create --dry-run=client -f FILE` reads \
         the file the same way.";
    DuplicateKey = "GW102", Error, "duplicate key in a mapping",
        "Remove one of the two. kubectl would silently use the last one.";
    YamlLimit = "GW103", Error, "YAML exceeds a size or depth limit",
        "Split the file, nest it less deeply, or replace aliases by their content.";
    YamlTag = "GW104", Error, "unsupported or wrong YAML tag",
        "Remove the tag or correct the value. Kubernetes reads only YAML's standard tags, \
         such as `!!str`.";
    YamlNumber = "GW105", Error, "number that JSON cannot represent",
        "Quote the value if it is text. Kubernetes stores JSON, which has no infinity and \
         no NaN.";
    AmbiguousScalar = "GW106", Warning, "ambiguous unquoted value",
        "Quote the value if it is text; otherwise write true, false or a decimal number. \
         kubectl reads YAML 1.1, where `no` is a boolean and `0644` is octal.";
    NonStringKey = "GW107", Warning, "mapping key that is not a string",
        "Quote the key. Kubernetes accepts only strings as keys, and kubectl converts this \
         one.";
    NotText = "GW108", Error, "file is not UTF-8 text",
        "Convert the file to UTF-8, or exclude it with `ignore` in gitwork.yaml.";
    LfsPointer = "GW109", Error, "Git LFS pointer instead of a manifest",
        "Remove the pattern from .gitattributes and commit the file itself. gitwork does \
         not read Git LFS.";
    FileTooLarge = "GW110", Error, "file exceeds the size limit",
        "Split the file. A manifest of this size does not fit into a ManifestWork.";
    UnexpectedShape = "GW111", Error, "unexpected YAML structure",
        "Correct the structure. Manifests and configuration files are mappings, and their \
         keys are strings.";
    MergeOverrides = "GW112", Warning, "merge key overrides an earlier key",
        "Move `<<` to the start of its mapping. kubectl lets it override the keys above it; \
         other YAML readers do not.";
    Omitted = "GW113", Warning, "more problems than are listed",
        "Fix the listed problems first. gitwork lists a bounded number of each file, work \
         and source.";
    // 2xx: layout
    BadName = "GW201", Error, "invalid cluster or work name",
        "Rename it with lower-case letters, digits and '-'. The name becomes a namespace or \
         a ManifestWork on the hub.";
    StrayFile = "GW202", Warning, "file outside all work folders",
        "Move the file into a work folder, or add it to `ignore` in gitwork.yaml. gitwork \
         does not apply it.";
    EmptyWork = "GW203", Error, "work folder without manifests",
        "Add a manifest, or remove the folder to delete the work. Until then, the work \
         stays as it is.";
    NotSupported = "GW204", Error, "feature not supported by this version",
        "Remove it, or run a version of gitwork that supports it.";
    Gitlink = "GW205", Error, "Git submodule",
        "Commit the files themselves. gitwork does not follow submodules.";
    SymlinkOutside = "GW206", Error, "symbolic link without a target in its work folder",
        "Copy the target into the work folder. gitwork follows links only to files of the \
         same work folder.";
    TooManyFiles = "GW207", Error, "too many files, folders or bytes",
        "Split the work or the source. gitwork bounds what it reads, so that one source \
         cannot exhaust its memory.";
    UnsafePath = "GW208", Error, "unsafe file path",
        "Rename the file or folder. Some file systems and terminals cannot represent this \
         path.";
    NoClusters = "GW209", Error, "no clusters folder",
        "Check the path and the ref of the source. A missing folder deletes nothing.";
    DuplicateWork = "GW210", Error, "duplicate work name in a cluster",
        "Set another `name` in the work.yaml of one of the folders. Two folders cannot \
         define one ManifestWork.";
    BadApproval = "GW211", Warning, "approval without effect",
        "Create the file with `gitwork approve HASH --print > approvals/HASH`. Remove it \
         once the deletions are done.";
    BadObject = "GW212", Error, "unreadable Git object",
        "Commit the folder or file again with `git add`. Its Git object is too large, or not \
         what its folder says.";
    MisnamedFile = "GW213", Warning, "configuration file with a wrong name",
        "Rename the file. gitwork reads a configuration file only under its exact name; \
         `gitwork validate --fix` renames it.";
    // 3xx: configuration files and sidecars
    UnknownField = "GW301", Error, "unknown field",
        "Check the spelling. `gitwork schema` prints the JSON Schema of the file.";
    WrongType = "GW302", Error, "field of the wrong type",
        "Use the type in the JSON Schema, which `gitwork schema` prints.";
    BadValue = "GW303", Error, "invalid value",
        "Use an allowed value. The message or `gitwork schema` shows which values are \
         allowed.";
    MatchesNothing = "GW304", Error, "settings that match no object",
        "Correct the file name, `match` or `resourceIdentifier`. The settings apply to no \
         object now.";
    BadJsonPath = "GW305", Error, "invalid JSONPath",
        "Correct the path, or OCM's agent cannot read it. Write it as for `kubectl -o \
         jsonpath`, without braces: .status.phase";
    BadCel = "GW306", Error, "invalid CEL expression",
        "Correct the expression, or OCM's agent cannot evaluate it. `object` is the live \
         object.";
    RuleConflict = "GW307", Error, "conflicting rules",
        "Remove one of the rules, or narrow the objects that it applies to. Only one of them \
         can apply.";
    UnknownVariable = "GW308", Error, "undefined variable",
        "Define it under `values` in cluster.yaml or group.yaml, or write ${NAME:-DEFAULT}. To \
         write the text itself, use $${NAME}.";
    BadVariable = "GW309", Error, "invalid variable syntax",
        "Write ${NAME} with letters, digits and '_', ${cluster.name}, ${cluster.labels[\"x\"]} or \
         ${cluster.claims[\"x\"]}. To write the text itself, use $${.";
    GuessedPlural = "GW310", Info, "guessed plural of a custom kind",
        "Check the plural: OCM identifies objects by it. To set it, and to have the objects \
         checked, commit the CRD; or set `resource` in the sidecar.";
    NoEffect = "GW311", Warning, "setting without effect",
        "Remove the setting, or change the one that disables it.";
    // 4xx: manifests
    MissingField = "GW401", Error, "missing apiVersion, kind or metadata.name",
        "Add the field. Without it, Kubernetes cannot identify the object.";
    GenerateName = "GW402", Error, "metadata.generateName is not allowed",
        "Set a fixed metadata.name. OCM's agent finds the object on the cluster by its \
         name.";
    MissingNamespace = "GW403", Error, "missing metadata.namespace",
        "Set metadata.namespace, or `namespace` in work.yaml for all objects of the work. OCM's \
         agent does not fill in a default.";
    UnexpectedNamespace = "GW404", Error, "namespace on a cluster-scoped object",
        "Remove metadata.namespace. Kubernetes has no namespaces for objects of this kind.";
    DuplicateObject = "GW405", Error, "duplicate object in a work",
        "Remove one of the two manifests. Both describe the same object.";
    ObjectInTwoWorks = "GW406", Error, "object in two works of a cluster",
        "Keep the object in one of the works. Two works would overwrite each other's \
         changes.";
    WorkTooLarge = "GW407", Error, "work exceeds the hub's size limit",
        "Split the work folder. The hub would reject the ManifestWork.";
    PlainSecret = "GW408", Warning, "Secret in plain text",
        "Use an external secret store. Everyone who can read the repository or the hub can \
         read this Secret.";
    TooManyManifests = "GW409", Error, "too many manifests in a work",
        "Split the work folder. The work's status has conditions for every manifest, and its \
         size is limited.";
    BadObjectName = "GW410", Error, "invalid object name",
        "Rename the object. Kubernetes would reject this name.";
    StatusInManifest = "GW411", Warning, "status in a manifest",
        "Remove `status`. The cluster reports it; it cannot be set from Git.";
    TemplateText = "GW412", Warning, "text of a Helm template",
        "Commit the rendered manifest: gitwork renders no Helm templates, so the text reaches the \
         cluster as it is.";
    SelectsNothing = "GW413", Info, "object that finds no other",
        "Correct the labels or the name, if the other object is in Git. gitwork does not see what \
         other programs create.";
    // 5xx: the operator's policy
    NotAllowed = "GW501", Error, "not allowed by the operator's policy",
        "Stay within the `policy` of the daemon's configuration, or ask the operator to \
         extend it.";
    // 6xx: groups, and what the hub says of clusters
    UnknownMembers = "GW601", Warning, "members of a group are unknown",
        "Fetch the status branch, which has the hub's facts, or name a file with --facts. Until \
         the members are known, the group's works stay as they are on the hub.";
    NoMember = "GW602", Warning, "group or name without a cluster",
        "Correct the name, or the conditions in group.yaml. They match no cluster.";
    ReportedValue = "GW603", Error, "value from a managed cluster in a protected field",
        "Use a value from `values` or from `labels` in cluster.yaml. A managed cluster can \
         change its own labels and claims.";
    UnknownFacts = "GW604", Warning, "work that needs unknown facts of a cluster",
        "Fetch the status branch, which has the hub's facts, or name a file with --facts. Until \
         the facts are known, the work stays as it is on the hub.";
    // 7xx: the order of works
    UnknownDependency = "GW701", Error, "dependency that is not in Git",
        "Correct the name in `dependsOn`, or remove it. Until then, the work stays as it is on \
         the hub.";
    DependencyCycle = "GW702", Error, "works that depend on each other",
        "Remove one of these dependencies. Until then, the works stay as they are on the hub.";
    // 8xx: what the API server would reject; a policy (`schemaProblems`) lowers errors to warnings
    UnknownObjectField = "GW801", Error, "field that the kind does not have",
        "Correct the name of the field or move it. The API server drops unknown fields, or rejects \
         the object.";
    WrongObjectType = "GW802", Error, "value of the wrong type in an object",
        "Use the type of the field. Without quotes, YAML reads 80 as a number and true as a \
         boolean; with quotes, both are text.";
    MissingObjectField = "GW803", Error, "missing field in an object",
        "Add the field, and give it a value. The API server rejects the object without it.";
    InvalidObjectValue = "GW804", Error, "value that the API server rejects",
        "Correct the value. The message says what is allowed.";
    InvalidMetadata = "GW805", Error, "metadata that the API server rejects",
        "Correct the name, label, annotation or owner. The message says what is allowed.";
    UnknownKind = "GW806", Error, "kind that does not exist",
        "Correct `apiVersion` or `kind`. `kubectl api-resources` lists the kinds of a cluster.";
    RemovedVersion = "GW807", Error, "API version that the cluster does not serve",
        "Use an API version that the cluster serves. Its fields may differ.";
    DeprecatedVersion = "GW808", Warning, "deprecated API version",
        "Use the newer API version before the cluster is upgraded. Its fields may differ.";
    ServerField = "GW809", Warning, "metadata that the API server sets",
        "Remove the field. The API server sets it; a value in Git has no effect.";
}

impl Code {
    /// Whether it may name the Kubernetes version of a cluster.
    pub(crate) fn is_about_version(self) -> bool {
        matches!(
            self,
            Self::UnknownObjectField
                | Self::UnknownKind
                | Self::RemovedVersion
                | Self::DeprecatedVersion
        )
    }
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
            ProblemKind::Omitted => Self::Omitted,
        }
    }
}

string_schema!(Code);

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}
