//! Checks the CEL of condition rules before it reaches a cluster: syntax, and names that nothing
//! declares.
//!
//! It is a check, not the judge: types are not looked at, and the agent's own CEL decides. The
//! functions are those that OCM's work agent declares, and a test of the agent's own CEL calls each
//! of them.

use std::sync::LazyLock;

use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr, MapExpr, SourceInfo, StructExpr};
use cel::{Env, ParseErrors};

use crate::limits::{CEL_BYTES_MAX, CEL_DEPTH_MAX};

/// What is wrong with an expression, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} (line {line}, character {column} of the expression)")]
pub struct CelCheckError {
    /// From 1.
    pub line: usize,
    /// Character of the line, from 1.
    pub column: usize,
    pub problem: CelProblem,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CelProblem {
    #[error("the expression is empty")]
    Empty,
    #[error("the expression is longer than {CEL_BYTES_MAX} bytes")]
    TooLong,
    #[error("the expression holds more than {SIGNS_MAX} operators, dots and brackets")]
    TooManySigns,
    #[error("brackets, calls and conditions nest deeper than {CEL_DEPTH_MAX} levels")]
    TooDeep,
    #[error("{0}")]
    Syntax(String),
    #[error("{name:?} is not declared: the variables here are {variables}")]
    UnknownVariable { name: String, variables: String },
    #[error("there is no function {0}() in the CEL of OCM's work agent")]
    UnknownFunction(String),
}

/// Signs of one expression. A chain such as a.b.c or a + b + c is as deep as it is long once it is
/// parsed; this many fit into a stack of 2 MiB several times over.
const SIGNS_MAX: usize = 1_000;

/// The environment that macros come from: `has`, `all`, `exists`, `exists_one`, `map`, `filter`,
/// `optMap`, `optFlatMap`, and the optional syntax.
static ENV: LazyLock<Env> = LazyLock::new(Env::stdlib);

/// Names of types, and the first names of types that have dots.
const TYPES: &[&str] = &[
    "bool",
    "bytes",
    "double",
    "dyn",
    "google",
    "int",
    "kubernetes",
    "list",
    "map",
    "net",
    "null_type",
    "optional_type",
    "string",
    "type",
    "uint",
];

/// Names that functions stand behind, as in `math.greatest(1, 2)`.
const NAMESPACES: &[&str] = &["format", "ip", "optional", "strings"];

/// Functions of CEL itself, optional values, texts (cel-go), lists, regular expressions, URLs,
/// quantities, addresses, formats, versions (Kubernetes), and OCM's own: members and globals
/// together, sorted.
pub const FUNCTIONS: &[&str] = &[
    "add",
    "asApproximateFloat",
    "asInteger",
    "bool",
    "byte",
    "bytes",
    "charAt",
    "cidr",
    "compareTo",
    "contains",
    "containsCIDR",
    "containsIP",
    "date",
    "datetime",
    "dns1035Label",
    "dns1035LabelPrefix",
    "dns1123Label",
    "dns1123LabelPrefix",
    "dns1123Subdomain",
    "dns1123SubdomainPrefix",
    "double",
    "duration",
    "dyn",
    "endsWith",
    "family",
    "find",
    "findAll",
    "first",
    "format",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getEscapedPath",
    "getFullYear",
    "getHost",
    "getHostname",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getPort",
    "getQuery",
    "getScheme",
    "getSeconds",
    "hasConditions",
    "hasValue",
    "indexOf",
    "int",
    "ip",
    "isCIDR",
    "isCanonical",
    "isGlobalUnicast",
    "isGreaterThan",
    "isIP",
    "isInteger",
    "isLessThan",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isLoopback",
    "isQuantity",
    "isSemver",
    "isSorted",
    "isURL",
    "isUnspecified",
    "join",
    "labelValue",
    "last",
    "lastIndexOf",
    "lowerAscii",
    "major",
    "masked",
    "matches",
    "max",
    "min",
    "minor",
    "named",
    "none",
    "of",
    "ofNonZeroValue",
    "or",
    "orValue",
    "patch",
    "prefixLength",
    "qualifiedName",
    "quantity",
    "quote",
    "replace",
    "reverse",
    "semver",
    "sign",
    "size",
    "split",
    "startsWith",
    "string",
    "sub",
    "substring",
    "sum",
    "timestamp",
    "trim",
    "type",
    "uint",
    "unwrap",
    "unwrapOpt",
    "upperAscii",
    "uri",
    "url",
    "uuid",
    "validate",
    "value",
];

/// Checks an expression that may use `variables`.
///
/// # Errors
/// The first syntax error, variable or function that is not declared, with its place.
pub fn check(expression: &str, variables: &[&str]) -> Result<(), CelCheckError> {
    let at_start = |problem| CelCheckError { line: 1, column: 1, problem };
    if expression.trim().is_empty() {
        return Err(at_start(CelProblem::Empty));
    }
    if expression.len() > CEL_BYTES_MAX {
        return Err(at_start(CelProblem::TooLong));
    }
    if signs(expression) > SIGNS_MAX {
        return Err(at_start(CelProblem::TooManySigns));
    }
    let (tree, source) = ENV
        .parser()
        .max_recursion_depth(CEL_DEPTH_MAX)
        .parse_with_source_info(expression)
        .map_err(|errors| syntax_error(&errors))?;
    let names = Names { expression, source: &source, variables };
    names.check(&tree)
}

/// Counts the signs that make trees deep, wherever they stand.
fn signs(expression: &str) -> usize {
    let is_sign = |b: &u8| b.is_ascii_punctuation() && !matches!(b, b'_' | b',' | b'"' | b'\'');
    let words = expression.split_whitespace().filter(|word| *word == "in").count();
    expression.bytes().filter(is_sign).count() + words
}

fn syntax_error(errors: &ParseErrors) -> CelCheckError {
    // The parser reports what went wrong behind its limit too.
    let deep = errors.errors.iter().find(|error| error.msg.contains("Recursion limit"));
    let Some(error) = deep.or(errors.errors.first()) else {
        return CelCheckError { line: 1, column: 1, problem: CelProblem::Syntax("no CEL".into()) };
    };
    // Macros report without a place.
    let from_one = |number: isize| usize::try_from(number).unwrap_or(1).max(1);
    let problem = if deep.is_some() {
        CelProblem::TooDeep
    } else {
        CelProblem::Syntax(error.msg.trim_start_matches("Syntax error: ").to_owned())
    };
    CelCheckError { line: from_one(error.pos.0), column: from_one(error.pos.1), problem }
}

/// Looks for names that nothing declares.
struct Names<'a> {
    expression: &'a str,
    source: &'a SourceInfo,
    variables: &'a [&'a str],
}

/// A name that a macro binds, and the scope around it.
struct Binding<'a> {
    name: &'a str,
    outer: Option<usize>,
}

impl<'a> Names<'a> {
    /// Goes through the tree without recursion: it is as deep as a chain of operators is long.
    fn check(&self, tree: &'a IdedExpr) -> Result<(), CelCheckError> {
        let mut bindings: Vec<Binding<'a>> = Vec::new();
        let mut first: Option<CelCheckError> = None;
        let mut rest = vec![(tree, None)];
        while let Some((node, scope)) = rest.pop() {
            let mut push = |node| rest.push((node, scope));
            let outcome = match &node.expr {
                Expr::Unspecified | Expr::Literal(_) => Ok(()),
                Expr::Ident(name) => self.variable(name, node.id, &bindings, scope),
                Expr::Select(select) => {
                    push(&select.operand);
                    Ok(())
                }
                Expr::List(list) => {
                    list.elements.iter().for_each(push);
                    Ok(())
                }
                Expr::Map(MapExpr { entries }) | Expr::Struct(StructExpr { entries, .. }) => {
                    entries.iter().flat_map(parts).for_each(push);
                    Ok(())
                }
                Expr::Call(call) => {
                    call.target.as_deref().filter(|target| !is_namespace(target)).map(&mut push);
                    call.args.iter().for_each(push);
                    self.function(&call.func_name, node.id)
                }
                Expr::Comprehension(comprehension) => {
                    push(&comprehension.iter_range);
                    push(&comprehension.accu_init);
                    let mut bind = |name, outer| {
                        bindings.push(Binding { name, outer });
                        Some(bindings.len() - 1)
                    };
                    let result = bind(&comprehension.accu_var, scope);
                    let mut inside = bind(&comprehension.iter_var, result);
                    if let Some(second) = &comprehension.iter_var2 {
                        inside = bind(second, inside);
                    }
                    rest.push((&comprehension.result, result));
                    rest.push((&comprehension.loop_cond, inside));
                    rest.push((&comprehension.loop_step, inside));
                    Ok(())
                }
            };
            if let Err(error) = outcome
                && first.as_ref().is_none_or(|f| (error.line, error.column) < (f.line, f.column))
            {
                first = Some(error);
            }
        }
        first.map_or(Ok(()), Err)
    }

    fn variable(
        &self,
        name: &str,
        id: u64,
        bindings: &[Binding<'_>],
        scope: Option<usize>,
    ) -> Result<(), CelCheckError> {
        // A leading dot asks for the name of the outermost level; '@' marks what macros made.
        let plain = name.trim_start_matches('.');
        let mut scopes = std::iter::successors(scope.and_then(|at| bindings.get(at)), |binding| {
            binding.outer.and_then(|at| bindings.get(at))
        });
        let is_declared = plain.starts_with('@')
            || self.variables.contains(&plain)
            || TYPES.contains(&plain)
            || scopes.any(|binding| binding.name == plain);
        if is_declared {
            return Ok(());
        }
        let problem = CelProblem::UnknownVariable {
            name: name.to_owned(),
            variables: self.variables.join(", "),
        };
        Err(self.located(id, problem))
    }

    fn function(&self, name: &str, id: u64) -> Result<(), CelCheckError> {
        // Operators are calls too, under names like _+_.
        let is_word = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !is_word || FUNCTIONS.binary_search(&name).is_ok() {
            return Ok(());
        }
        Err(self.located(id, CelProblem::UnknownFunction(name.to_owned())))
    }

    fn located(&self, id: u64, problem: CelProblem) -> CelCheckError {
        let start = self.source.offset_for(id).map_or(0, |(start, _)| start);
        let before = self.expression.get(..usize::try_from(start).unwrap_or(0)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        CelCheckError { line, column, problem }
    }
}

/// Whether the target of a call is the first part of the function's name.
fn is_namespace(target: &IdedExpr) -> bool {
    matches!(&target.expr, Expr::Ident(name) if NAMESPACES.contains(&name.as_str()))
}

/// The expressions of one entry of a map or of a typed object.
fn parts(entry: &IdedEntryExpr) -> impl Iterator<Item = &IdedExpr> {
    let (key, value) = match &entry.expr {
        EntryExpr::StructField(field) => (None, &field.value),
        EntryExpr::MapEntry(entry) => (Some(&entry.key), &entry.value),
    };
    key.into_iter().chain([value])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(expression: &str) -> String {
        check(expression, &["object"]).map_or_else(|error| error.to_string(), |()| "ok".into())
    }

    #[test]
    fn expressions_of_real_rules_pass() {
        for expression in [
            "object.status.readyReplicas == object.spec.replicas",
            "has(object.status) && object.status.?phase.orValue('') == 'Running'",
            "object.status.conditions.exists(c, c.type == 'Ready' && c.status == \"True\")",
            "object.status.conditions.filter(c, c.type == 'Ready').all(d, d.status == 'True')",
            "hasConditions(object.status) && object.metadata.name.matches('^a')",
            "object.spec.items.map(i, i.size).all(s, s in [1, 2, 3])",
            "object.?status.?x.optMap(y, y + 1).orValue(0) > 1",
            "quantity(object.spec.size).isGreaterThan(quantity('1Gi'))",
            "semver(object.spec.version).major() > 1 && type(object.x) == int",
            "size(object.items) > 0 ? 'ready' + string(size(object.items)) : \"no\"",
            "optional.none().hasValue() == false",
            "{'a': object.b}.a == [object.c][0]",
            "!object.a && -object.b < 1u && object[\"c\"] >= 1.5",
            "object.items.exists(i, object.others.exists(j, i == j))",
            "format.dns1123Label().validate(object.metadata.name).hasValue()",
        ] {
            assert_eq!(found(expression), "ok", "{expression}");
        }
    }

    #[test]
    fn errors_name_their_place() {
        for (expression, expected) in [
            ("", "the expression is empty (line 1, character 1"),
            (
                "objekt.a == 1",
                "\"objekt\" is not declared: the variables here are object (line 1, character 1 ",
            ),
            (
                "object.a == 'ä' && x",
                "\"x\" is not declared: the variables here are object (line 1, character 20 ",
            ),
            (
                "object.a ==\n  other.b",
                "\"other\" is not declared: the variables here are object (line 2, character 3 ",
            ),
            (
                "object.a.exists(c, c.x) && c",
                "\"c\" is not declared: the variables here are object (line 1, character 28 ",
            ),
            (
                "result",
                "\"result\" is not declared: the variables here are object (line 1, character 1 ",
            ),
            (
                "object.a.beginsWith('x')",
                "there is no function beginsWith() in the CEL of OCM's work agent (line 1, character 20 ",
            ),
        ] {
            let found = found(expression);
            assert!(found.starts_with(expected), "{expression}: {found}");
        }
        assert!(check("result ? 'a' : 'b'", &["object", "result"]).is_ok());
    }

    #[test]
    fn syntax_errors_name_their_place() {
        for (expression, line, column) in [
            ("object.a ==", 1, 12),
            ("object.a = 1", 1, 10),
            ("object.a &&\n&& true", 2, 1),
            ("'abc", 1, 1),
        ] {
            let error = check(expression, &["object"]).unwrap_err();
            assert_eq!((error.line, error.column), (line, column), "{expression}: {error}");
            assert!(matches!(error.problem, CelProblem::Syntax(_)), "{expression}: {error:?}");
        }
    }

    #[test]
    fn functions_are_sorted_for_the_search() {
        assert!(FUNCTIONS.is_sorted() && TYPES.is_sorted() && NAMESPACES.is_sorted());
    }

    #[test]
    fn bounds_hold_before_the_parser_runs_deep() {
        let kinds = [
            ("(", "1", ")"),
            ("!", "true", ""),
            ("-", "1", ""),
            ("[", "1", "]"),
            ("1+", "1", ""),
            ("", "object", ".a"),
            ("true&&", "true", ""),
            ("1 in ", "[]", ""),
            ("true?1:", "1", ""),
            ("{1:", "1", "}"),
            ("f(", "1", ")"),
            ("", "object", "[0]"),
        ];
        for (before, middle, after) in kinds {
            for count in [8, 9, 12, 100, 400, 900] {
                let text = format!("{}{middle}{}", before.repeat(count), after.repeat(count));
                let result = check(&text, &["object"]);
                if count == 8 {
                    assert!(result.is_ok() || before == "f(", "{before}{middle}{after} {result:?}");
                }
            }
        }
        let long = format!("object.a == '{}'", "x".repeat(CEL_BYTES_MAX));
        assert_eq!(check(&long, &["object"]).unwrap_err().problem, CelProblem::TooLong);
    }
}
