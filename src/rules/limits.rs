//! Every bound of this crate in one place, each with its reason. Input past a bound is a
//! diagnostic, never a crash and never a silent cut.

/// One JSONPath of a rule. A path with a long filter has some 200 bytes.
pub const JSONPATH_BYTES_MAX: usize = 4_096;
/// Expressions within expressions of one JSONPath; real ones have a key within a filter, which is
/// two.
pub const JSONPATH_DEPTH_MAX: usize = 16;
/// Values that one JSONPath may touch in one object: `..` repeated multiplies them. An object at
/// etcd's limit of 1.5 MiB has at most some 100,000 values.
pub const JSONPATH_STEPS_MAX: usize = 1_000_000;
/// One CEL expression of a condition rule. Real ones have a few hundred bytes, and parsing takes
/// more than linear time.
pub const CEL_BYTES_MAX: usize = 4_096;
/// Brackets, calls and conditions within one another in a CEL expression. A level takes the parser
/// some 150 KiB of stack without optimisation and under 20 KiB with it, and a thread has 2 MiB.
pub const CEL_DEPTH_MAX: u16 = if cfg!(debug_assertions) { 8 } else { 32 };
