//! Checks the variables and functions of an expression.

use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr, MapExpr, SourceInfo, StructExpr};

use super::error::{CelCheckError, CelProblem};
use super::functions::{FUNCTIONS, NAMESPACES, TYPES};

/// Finds names that are not declared.
pub struct Names<'a> {
    pub expression: &'a str,
    pub source: &'a SourceInfo,
    pub variables: &'a [&'a str],
}

/// A name that a macro binds, and the scope around it.
struct Binding<'a> {
    name: &'a str,
    outer: Option<usize>,
}

impl<'a> Names<'a> {
    /// Visits the tree without recursion, as it is as deep as a chain of operators is long.
    pub fn check(&self, tree: &'a IdedExpr) -> Result<(), CelCheckError> {
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

/// Returns the expressions of one entry of a map or of a typed object.
fn parts(entry: &IdedEntryExpr) -> impl Iterator<Item = &IdedExpr> {
    let (key, value) = match &entry.expr {
        EntryExpr::StructField(field) => (None, &field.value),
        EntryExpr::MapEntry(entry) => (Some(&entry.key), &entry.value),
    };
    key.into_iter().chain([value])
}
