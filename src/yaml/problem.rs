//! Problems of a text.

use crate::span::Span;

/// The kind of a problem. The core gives each kind a stable code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// The text is not YAML as kubectl reads it.
    Syntax,
    /// A mapping has the same key twice.
    DuplicateKey,
    /// The text exceeds a limit of this crate.
    Limit,
    /// A node has a tag that Kubernetes does not know, or that does not fit its value.
    Tag,
    /// A number is infinite or NaN.
    Number,
    /// An unquoted scalar is a boolean or number in YAML 1.1, but does not look like it.
    AmbiguousScalar,
    /// A key is an unquoted boolean or number.
    NonStringKey,
    /// The file is not UTF-8, or has NUL bytes.
    NotText,
    /// The file is a pointer of Git LFS.
    LfsPointer,
    /// The file has more bytes than [`FILE_BYTES_MAX`](crate::limits::FILE_BYTES_MAX).
    FileTooLarge,
    /// A key cannot be converted to text.
    UnexpectedShape,
    /// A merge key overrides a key above it, which only some readers do.
    MergeOverrides,
    /// There are more problems than are kept.
    Omitted,
}

impl ProblemKind {
    /// Every kind.
    pub const ALL: &[Self] = &[
        Self::Syntax,
        Self::DuplicateKey,
        Self::Limit,
        Self::Tag,
        Self::Number,
        Self::AmbiguousScalar,
        Self::NonStringKey,
        Self::NotText,
        Self::LfsPointer,
        Self::FileTooLarge,
        Self::UnexpectedShape,
        Self::MergeOverrides,
        Self::Omitted,
    ];

    /// Describes the kind in one line, without values of the text.
    pub fn title(self) -> &'static str {
        match self {
            Self::Syntax => "invalid YAML",
            Self::DuplicateKey => "duplicate key in a mapping",
            Self::Limit => "YAML exceeds a size or depth limit",
            Self::Tag => "unsupported or wrong YAML tag",
            Self::Number => "number that JSON cannot represent",
            Self::AmbiguousScalar => "ambiguous unquoted value",
            Self::NonStringKey => "mapping key that is not a string",
            Self::NotText => "file is not UTF-8 text",
            Self::LfsPointer => "Git LFS pointer instead of a manifest",
            Self::FileTooLarge => "file exceeds the size limit",
            Self::UnexpectedShape => "unexpected YAML structure",
            Self::MergeOverrides => "merge key overrides an earlier key",
            Self::Omitted => "more problems than are listed",
        }
    }

    /// Whether the text cannot be used. The other kinds are warnings.
    pub fn is_error(self) -> bool {
        !matches!(
            self,
            Self::AmbiguousScalar | Self::NonStringKey | Self::MergeOverrides | Self::Omitted
        )
    }
}

/// One problem of a text. Has no values of the text if the text may hold a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlProblem {
    /// The kind, which decides whether it is an error.
    pub kind: ProblemKind,
    /// The location, or `None` for the text as a whole.
    pub span: Option<Span>,
    /// What is wrong, in one line.
    pub message: String,
    /// Other locations that matter, each with the reason.
    pub related: Vec<(Span, String)>,
    /// The line that `span` points to.
    pub snippet: Option<String>,
}
