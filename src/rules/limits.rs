//! Limits of expressions, each with its reason. Input beyond a limit is an error; it is never cut.

/// Bytes of one JSONPath. A path with a long filter has about 200.
pub const JSONPATH_BYTES_MAX: usize = 4_096;
/// Nested expressions of one JSONPath. Real paths have two: a key within a filter.
pub const JSONPATH_DEPTH_MAX: usize = 16;
/// Values that one JSONPath may visit in one object. Each `..` multiplies them. An object at etcd's
/// limit of 1.5 MiB has at most about 100,000 values.
pub const JSONPATH_STEPS_MAX: usize = 1_000_000;
/// Values that all JSONPaths of one manifest may visit together in its object. They take some
/// 20 ms.
pub const JSONPATH_OBJECT_STEPS_MAX: usize = 4_000_000;
/// Bytes of one CEL expression. Real ones have a few hundred. Parsing takes more than linear time.
pub const CEL_BYTES_MAX: usize = 4_096;
/// Nested brackets, calls and conditions of one CEL expression. A level takes the parser less than
/// 20 KiB of stack with optimisation, which all profiles use for it. A thread has 2 MiB.
pub const CEL_DEPTH_MAX: u16 = 32;
/// Bytes of one jq expression. A path that a person writes is far shorter.
pub const JQ_BYTES_MAX: usize = 1_024;
/// Work of one jq expression: steps, values that it makes, and each 16 bytes of text that it makes
/// or searches. It takes less than a second, and at most some 100 MiB.
pub const JQ_WORK_MAX: usize = 2_000_000;
/// Nested parts and calls of one jq expression. A level takes less than 5 KiB of stack with
/// optimisation, which all profiles use for this crate. A thread has 2 MiB.
pub const JQ_DEPTH_MAX: usize = 300;
/// Nested brackets of one jq expression, and words and signs such as `if` and `-` before a part.
/// The parser takes about 20 KiB of stack for a level without optimisation.
pub const JQ_NESTING_MAX: usize = 32;
/// See [`JQ_NESTING_MAX`].
pub const JQ_PREFIXES_MAX: usize = 48;
/// Steps of one path of jq. Manifests nest at most 128 levels.
pub const JQ_PATH_MAX: usize = 256;
/// Paths that one jq expression may yield. A manifest has at most some 500 KiB.
pub const JQ_PATHS_MAX: usize = 10_000;
/// Operators, dots and brackets of one CEL expression. A chain such as `a.b.c` or `a + b + c` is as
/// deep as it is long once it is parsed. This depth fits several times into a stack of 2 MiB.
pub const CEL_SIGNS_MAX: usize = 1_000;
/// Levels of the tree of one CEL expression, which is as deep as a chain of operators is long. The
/// interpreter is recursive: a level takes a few KiB of stack with optimisation, which all profiles
/// use for it. A thread has 2 MiB.
pub const CEL_TREE_DEPTH_MAX: usize = 128;
/// Loop steps of one CEL expression. OCM's agent bounds cost units instead; a step costs about ten.
pub const CEL_STEPS_MAX: u64 = 100_000;
/// Bytes of the values that one CEL expression creates, compares and visits.
pub const CEL_VALUE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// All CEL expressions of a manifest share the budget of this many, as in OCM's agent.
pub const CEL_OBJECT_EXPRESSIONS: u64 = 10;
