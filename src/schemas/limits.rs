//! Bounds of the work for one object.

/// Problems of one object. More of them tell nobody more.
pub const FINDINGS_MAX: usize = 50;

/// Levels of nested values that are checked. What the YAML reader accepts is not deeper.
pub const DEPTH_MAX: usize = 200;

/// Characters of a value or a name in a message.
pub const TEXT_CHARS_MAX: usize = 60;

/// Steps of one check: values, and the schemas that each is compared with. An `anyOf` within an
/// `anyOf` multiplies them.
pub const STEPS_MAX: usize = 400_000;

/// Levels below an unknown field in which the field is looked for. `containers` of a CronJob are
/// four levels below its spec.
pub const SEARCH_DEPTH_MAX: usize = 4;

/// Types of fields that are looked at for all unknown fields of one object.
pub const SEARCH_STEPS_MAX: usize = 500;

/// Characters of a pattern in a CRD, as regular expressions take memory to compile.
pub const PATTERN_CHARS_MAX: usize = 4_096;

/// Bytes of a compiled pattern.
pub const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Different patterns that are compiled for one object.
pub const PATTERNS_MAX: usize = 500;

/// Bytes of the keys and values of all annotations of an object (Kubernetes).
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Bytes of the data of a ConfigMap or a Secret (Kubernetes).
pub const DATA_BYTES_MAX: usize = 1024 * 1024;
