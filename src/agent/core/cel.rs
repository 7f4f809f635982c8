//! CEL over one live object, with its work bounded: a rule of a ManifestWork must not keep an agent busy.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, operators,
};
use cel::common::types::CelBool;
use cel::common::value::CowVal;
use cel::context::VariableResolver;
use cel::objects::{Key, Map};
use cel::{Context, Env, Program, Value as CelValue, extensions};
use serde_json::Value;

use crate::core::cel::check;

/// Loop steps times the object's values, for one expression: each step may copy a good part of the object, and 40
/// bytes for each of these copies are what an agent can spare. (Upstream bounds cost units instead.)
const COPIES_OF_ONE_MAX: u64 = 1_000_000;
/// At least so many steps are granted, however large the object is.
const STEPS_OF_ONE_MIN: u64 = 1_000;
/// The expressions of one manifest share the steps of so many, as upstream has it.
const SHARE: u64 = 10;
/// A variable that no expression can name.
const STEP: &str = "@step";

/// Why an expression has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CelError {
    #[error("{0}")]
    Compile(String),
    #[error("{0}")]
    Run(String),
    #[error("CEL evaluation budget exceeded")]
    Budget,
}

/// One live object to evaluate expressions over.
pub struct Subject {
    object: CelValue,
    steps_of_one_max: u64,
    steps_left: AtomicU64,
}

/// Counts loop steps: the loops of an expression ask for a variable at each step.
struct Steps {
    left: AtomicU64,
}

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    for extension in [extensions::strings, extensions::lists, super::cel_lists::extension] {
        // An error says that the crate itself now has the functions.
        let _already_there = env.add_extension(extension);
    }
    env.set_error_on_duplicate_map_keys(false);
    Arc::new(env)
});

impl VariableResolver for Steps {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        if variable != STEP {
            return None;
        }
        let spend = |left: u64| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).ok()?;
        Some(CowVal::owned(CelBool::from(true)))
    }
}

impl Subject {
    pub fn new(object: &Value) -> Self {
        let steps = (COPIES_OF_ONE_MAX / count_values(object).max(1)).max(STEPS_OF_ONE_MIN);
        Self {
            object: convert(object),
            steps_of_one_max: steps,
            steps_left: AtomicU64::new(steps * SHARE),
        }
    }

    /// Evaluates a condition.
    ///
    /// # Errors
    /// What does not compile, run, come to a boolean, or end in time.
    pub fn test(&self, expression: &str) -> Result<bool, CelError> {
        match self.evaluate(expression, &[])? {
            CelValue::Bool(result) => Ok(result),
            other => Err(CelError::Run(format!("expected bool result, got {}", type_name(&other)))),
        }
    }

    /// Evaluates a message, which may look at the condition's result.
    ///
    /// # Errors
    /// As [`Subject::test`]; of an error of compilation, the first line.
    pub fn message(&self, expression: &str, result: bool) -> Result<String, CelError> {
        let value = self.evaluate(expression, &[("result", CelValue::Bool(result))]);
        match value {
            Ok(CelValue::String(message)) => Ok(message.to_string()),
            Ok(other) => Err(CelError::Run(format!(
                "expected message expression to have a string result, got {}",
                type_name(&other)
            ))),
            Err(CelError::Compile(text)) => {
                Err(CelError::Compile(text.lines().next().unwrap_or_default().to_owned()))
            }
            Err(error) => Err(error),
        }
    }

    fn evaluate(
        &self,
        expression: &str,
        variables: &[(&str, CelValue)],
    ) -> Result<CelValue, CelError> {
        let names: Vec<&str> =
            std::iter::once("object").chain(variables.iter().map(|(name, _)| *name)).collect();
        check(expression, &names)
            .map_err(|error| CelError::Compile(format!("ERROR: <input>:{error}")))?;
        let program: Program = ENV
            .compile(expression)
            .map_err(|error| CelError::Compile(format!("ERROR: <input>: {error}")))?;
        let mut tree = program.expression().clone();
        count_steps(&mut tree);
        let total = self.steps_left.load(Ordering::Relaxed);
        let granted = total.min(self.steps_of_one_max);
        let steps = Steps { left: AtomicU64::new(granted) };
        let outcome = {
            let mut context = Context::with_env(ENV.clone());
            context.set_variable_resolver(&steps);
            context.add_variable_from_value("object", self.object.clone());
            for (name, value) in variables {
                context.add_variable_from_value(*name, value.clone());
            }
            let declared = context.add_function("hasConditions", has_conditions);
            declared.map_err(|error| CelError::Run(error.to_string()))?;
            context.resolve(&tree)
        };
        let left = steps.left.load(Ordering::Relaxed);
        self.steps_left.store(total - granted + left, Ordering::Relaxed);
        match outcome {
            Err(_) if left == 0 => Err(CelError::Budget),
            Err(error) => Err(CelError::Run(run_error(&error))),
            Ok(value) => Ok(value),
        }
    }
}

/// OCM's function: whether a status has conditions.
fn has_conditions(value: CelValue) -> bool {
    let CelValue::Map(map) = value else { return false };
    matches!(map.get(&Key::from("conditions")), Some(CelValue::List(items)) if !items.is_empty())
}

/// cel-go's words, without values of the object: it may be a Secret.
fn run_error(error: &cel::ExecutionError) -> String {
    use cel::ExecutionError as E;
    match error {
        E::NoSuchKey(key) => format!("no such key: {key}"),
        E::NoSuchOverload(_) => format!("no such overload: {error}"),
        E::UndeclaredReference(name) => format!("undeclared reference to '{name}'"),
        E::DivisionByZero(_) => "division by zero".into(),
        E::RemainderByZero(_) => "modulus by zero".into(),
        E::IndexOutOfBounds(_) => "index out of bounds".into(),
        E::Overflow(..) => "integer overflow".into(),
        E::UnexpectedType { got, want } => format!("expected {want}, got {got}"),
        E::InvalidArgumentCount { expected, actual } => {
            format!("expected {expected} arguments, got {actual}")
        }
        E::FunctionError { function, .. } => format!("the function {function} failed"),
        _ => "the values do not fit the operation".into(),
    }
}

fn type_name(value: &CelValue) -> &'static str {
    match value {
        CelValue::List(_) => "list",
        CelValue::Map(_) | CelValue::Struct(_) => "map",
        CelValue::Int(_) => "int",
        CelValue::UInt(_) => "uint",
        CelValue::Float(_) => "double",
        CelValue::String(_) => "string",
        CelValue::Bytes(_) => "bytes",
        CelValue::Bool(_) => "bool",
        CelValue::Null => "null_type",
        _ => "dyn",
    }
}

/// The crate would make unsigned numbers of whole ones, which equal no literal.
fn convert(value: &Value) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(flag) => CelValue::Bool(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => CelValue::Int(integer),
            None => CelValue::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => CelValue::String(Arc::new(text.clone())),
        Value::Array(items) => CelValue::List(Arc::new(items.iter().map(convert).collect())),
        Value::Object(fields) => {
            let map: HashMap<Key, CelValue> = fields
                .iter()
                .map(|(key, value)| (Key::from(key.as_str()), convert(value)))
                .collect();
            CelValue::Map(Map { map: Arc::new(map) })
        }
    }
}

fn count_values(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(count_values).sum::<u64>(),
        Value::Object(fields) => 1 + fields.values().map(count_values).sum::<u64>(),
        _ => 1,
    }
}

/// Makes every loop ask for [`STEP`]. The depth is bounded by the check before.
fn count_steps(node: &mut IdedExpr) {
    distinct_as_loop(node);
    match &mut node.expr {
        Expr::Comprehension(all) => {
            for part in [
                &mut all.iter_range,
                &mut all.accu_init,
                &mut all.loop_cond,
                &mut all.loop_step,
                &mut all.result,
            ] {
                count_steps(part);
            }
            let condition = std::mem::take(&mut all.loop_cond);
            let id = condition.id;
            let step = IdedExpr { id, expr: Expr::Ident(STEP.into()) };
            all.loop_cond = IdedExpr {
                id,
                expr: Expr::Call(CallExpr {
                    func_name: operators::LOGICAL_AND.into(),
                    target: None,
                    args: vec![step, condition],
                }),
            };
        }
        Expr::Call(call) => {
            call.target.iter_mut().for_each(|target| count_steps(target));
            call.args.iter_mut().for_each(count_steps);
        }
        Expr::Select(select) => count_steps(&mut select.operand),
        Expr::List(list) => list.elements.iter_mut().for_each(count_steps),
        Expr::Map(map) => map.entries.iter_mut().for_each(|entry| count_entry(&mut entry.expr)),
        Expr::Struct(all) => all.entries.iter_mut().for_each(|entry| count_entry(&mut entry.expr)),
        _ => {}
    }
}

/// Makes a loop of `list.distinct()`, whose steps count: it compares each element with all before it, which takes
/// minutes on a list as long as an object can hold.
fn distinct_as_loop(node: &mut IdedExpr) {
    let Expr::Call(call) = &mut node.expr else { return };
    if call.func_name != "distinct" || !call.args.is_empty() {
        return;
    }
    let Some(list) = call.target.take() else { return };
    let id = node.id;
    let new = |expr| IdedExpr { id, expr };
    let name = |name: &str| new(Expr::Ident(name.into()));
    let function =
        |name: &str, args| new(Expr::Call(CallExpr { func_name: name.into(), target: None, args }));
    let list_of = |items| new(Expr::List(ListExpr::new(items)));
    let (item, found) = (|| name("@item"), || name("@found"));
    let is_known = function(operators::IN, vec![item(), found()]);
    let added = function(operators::ADD, vec![found(), list_of(vec![item()])]);
    node.expr = Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: *list,
        iter_var: "@item".into(),
        iter_var2: None,
        accu_var: "@found".into(),
        accu_init: list_of(vec![]),
        loop_cond: new(Expr::Literal(LiteralValue::Boolean(CelBool::from(true)))),
        loop_step: function(operators::CONDITIONAL, vec![is_known, found(), added]),
        result: found(),
    }));
}

fn count_entry(entry: &mut EntryExpr) {
    match entry {
        EntryExpr::StructField(field) => count_steps(&mut field.value),
        EntryExpr::MapEntry(entry) => {
            count_steps(&mut entry.key);
            count_steps(&mut entry.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn subject() -> Subject {
        Subject::new(&json!({"spec": {"replicas": 3}, "status": {"replicas": 3, "conditions":
            [{"type": "Ready", "status": "True"}]}, "items": (0..300).collect::<Vec<_>>()}))
    }

    #[test]
    fn the_behaviour_table() {
        let subject = subject();
        for (expression, expected) in [
            ("object.status.replicas == 3", Ok(true)),
            (
                "object.status.replicas == object.spec.replicas && object.spec.replicas > 1",
                Ok(true),
            ),
            ("object.status.replicas == 3.0", Ok(true)),
            ("object.status.replicas + 1 == 4", Ok(true)),
            ("has(object.status.missing)", Ok(false)),
            ("object.?status.?missing.orValue(0) == 0", Ok(true)),
            ("hasConditions(object.status)", Ok(true)),
            ("hasConditions(object.spec)", Ok(false)),
            (
                "object.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
                Ok(true),
            ),
            ("object.status.conditions.all(c, c.type == 'Other')", Ok(false)),
            ("object.status.conditions.filter(c, c.status == 'True').size() == 1", Ok(true)),
            ("'Ready'.lowerAscii() == 'ready'", Ok(true)),
            ("object.items.map(i, i * 2)[299] == 598", Ok(true)),
            ("type(object.spec.replicas) == int", Ok(true)),
            // Of Kubernetes' libraries only those for lists are there.
            ("object.items.isSorted() && ![2, 1].isSorted() && [].isSorted()", Ok(true)),
            ("object.items.sum() == 44850 && [1.5, 2.0].sum() == 3.5 && [].sum() == 0", Ok(true)),
            ("object.items.min() == 0 && object.items.max() == 299", Ok(true)),
            ("['b', 'a', 'b'].min() == 'a' && ['b', 'a', 'b'].max() == 'b'", Ok(true)),
            ("[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2", Ok(true)),
            ("[1].indexOf(3) == -1 && 'abcb'.indexOf('b') == 1", Ok(true)),
            ("'abcb'.lastIndexOf('b') == 3", Ok(true)),
            ("[1, 2, 1, 3, 2].distinct() == [1, 2, 3] && [].distinct() == []", Ok(true)),
            ("[[1], [1, 1].distinct()].distinct() == [[1]]", Ok(true)),
            ("[].min() == 0", Err("the function min failed")),
            ("['a'].sum() == 'a'", Err("the function sum failed")),
            ("[1, 'a'].isSorted()", Err("values")),
            ("quantity('1Gi').isGreaterThan(quantity('1Mi'))", Err("quantity")),
            ("object.missing == 1", Err("no such key: missing")),
            ("1 / 0 == 1", Err("division by zero")),
            ("'text'", Err("expected bool result, got string")),
            ("1 +", Err("ERROR: <input>")),
            ("badcel", Err("badcel")),
            ("result", Err("result")),
        ] {
            match (subject.test(expression), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{expression}"),
                (Err(error), Err(text)) => {
                    assert!(error.to_string().contains(text), "{expression}: {error}");
                }
                (found, _) => panic!("{expression}: {found:?}"),
            }
        }
    }

    #[test]
    fn loops_end() {
        let subject = subject();
        let nested =
            "object.items.all(a, object.items.all(b, object.items.all(c, a + b + c >= 0)))";
        assert_eq!(subject.test(nested), Err(CelError::Budget));
        assert_eq!(subject.test("object.items.map(a, a).size() == 300"), Ok(true));
        for _ in 0..12 {
            let _spent = subject.test(nested);
        }
        assert_eq!(
            subject.test("object.items.all(a, a >= 0)"),
            Err(CelError::Budget),
            "the rules share a budget"
        );
        assert_eq!(subject.test("object.spec.replicas == 3"), Ok(true));
    }

    #[test]
    fn distinct_is_bounded() {
        let items: Vec<u32> = (0..200_000).collect();
        let subject = Subject::new(&json!({ "items": items }));
        assert_eq!(subject.test("object.items.distinct().size() > 0"), Err(CelError::Budget));
        assert_eq!(subject.test("[object.items.distinct()].size() > 0"), Err(CelError::Budget));
    }

    #[test]
    fn messages() {
        let subject = subject();
        assert_eq!(subject.message("result ? 'yes' : 'no'", true), Ok("yes".into()));
        let error = subject.message("1", true).unwrap_err().to_string();
        assert_eq!(error, "expected message expression to have a string result, got int");
    }
}
