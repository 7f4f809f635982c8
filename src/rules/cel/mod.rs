//! Evaluates CEL over one live object. Steps and memory are bounded, so that a rule of a
//! ManifestWork cannot exhaust the agent.

mod addresses;
mod bounded;
pub mod check;
mod format;
mod lists;
mod meter;
mod quantity;
mod semver;
mod url;
mod values;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString,
};
use cel::common::value::Val;
use cel::{Context, Env, Program, Value as CelValue, extensions};
use serde_json::Value;

use self::check::check;
use self::meter::{Meter, Variables, metered};
use crate::limits::{
    CEL_OBJECT_EXPRESSIONS, CEL_STEPS_MAX, CEL_TREE_DEPTH_MAX, CEL_VALUE_BYTES_MAX,
};

/// Why an expression has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CelEvaluationError {
    /// The expression does not compile; the message as OCM's agent reports it.
    #[error("{0}")]
    Compile(String),
    /// The evaluation failed, or its result has the wrong type. Has no values of the object.
    #[error("{0}")]
    Run(String),
    /// The expression, or all of the manifest together, took too many steps or bytes.
    #[error("CEL evaluation budget exceeded")]
    Budget,
}

/// Evaluates expressions over one live object. All expressions of one evaluator share a budget.
pub struct CelEvaluator {
    object: Box<dyn Val>,
    steps_left: AtomicU64,
    bytes_left: AtomicU64,
}

/// The environment, with exactly the functions of OCM's work agent. [`check`] has their names.
static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    for extension in [
        extensions::strings,
        lists::extension,
        quantity::extension,
        url::extension,
        addresses::extension,
        semver::extension,
        format::extension,
        bounded::extension,
    ] {
        // An error says that the crate itself now has the functions.
        let _already_there = env.add_extension(extension);
    }
    env.set_error_on_duplicate_map_keys(false);
    Arc::new(env)
});

impl CelEvaluator {
    /// Prepares an object for evaluation, with a fresh budget.
    pub fn new(object: &Value) -> Self {
        Self {
            object: convert(object),
            steps_left: AtomicU64::new(CEL_STEPS_MAX * CEL_OBJECT_EXPRESSIONS),
            bytes_left: AtomicU64::new(CEL_VALUE_BYTES_MAX * CEL_OBJECT_EXPRESSIONS),
        }
    }

    /// Evaluates a condition.
    ///
    /// # Errors
    /// Fails if the expression does not compile, fails, is not a boolean, or exceeds the budget.
    pub fn test(&self, expression: &str) -> Result<bool, CelEvaluationError> {
        self.evaluate(expression, None, |value| match value.downcast_ref::<CelBool>() {
            Some(result) => Ok(*result.inner()),
            None => Err(CelEvaluationError::Run(format!(
                "expected bool result, got {}",
                value.get_type().name()
            ))),
        })
    }

    /// Evaluates a message expression, which may use the condition's result.
    ///
    /// # Errors
    /// As [`CelEvaluator::test`]. Of a compilation error, only the first line.
    pub fn message(&self, expression: &str, result: bool) -> Result<String, CelEvaluationError> {
        let message = self.evaluate(expression, Some(result), |value| {
            match value.downcast_ref::<CelString<'_>>() {
                Some(message) => Ok(message.inner().to_owned()),
                None => Err(CelEvaluationError::Run(format!(
                    "expected message expression to have a string result, got {}",
                    value.get_type().name()
                ))),
            }
        });
        message.map_err(|error| match error {
            CelEvaluationError::Compile(text) => {
                CelEvaluationError::Compile(text.lines().next().unwrap_or_default().to_owned())
            }
            other => other,
        })
    }

    fn evaluate<T>(
        &self,
        expression: &str,
        result: Option<bool>,
        read: impl Fn(&dyn Val) -> Result<T, CelEvaluationError>,
    ) -> Result<T, CelEvaluationError> {
        let names: &[&str] = if result.is_some() { &["object", "result"] } else { &["object"] };
        check(expression, names)
            .map_err(|error| CelEvaluationError::Compile(format!("ERROR: <input>:{error}")))?;
        let program: Program = ENV
            .compile(expression)
            .map_err(|error| CelEvaluationError::Compile(format!("ERROR: <input>: {error}")))?;
        let mut tree = program.expression().clone();
        metered(&mut tree, CEL_TREE_DEPTH_MAX).map_err(|_| {
            let problem =
                format!("operators and calls nest deeper than {CEL_TREE_DEPTH_MAX} levels");
            CelEvaluationError::Compile(format!("ERROR: <input>: {problem}"))
        })?;
        let total =
            (self.steps_left.load(Ordering::Relaxed), self.bytes_left.load(Ordering::Relaxed));
        let granted = (total.0.min(CEL_STEPS_MAX), total.1.min(CEL_VALUE_BYTES_MAX));
        let meter = Meter::new(granted.0, granted.1);
        let variables = Variables { object: self.object.as_ref(), meter: meter.clone() };
        let outcome = {
            let mut context = Context::with_env(ENV.clone());
            context.set_variable_resolver(&variables);
            if let Some(result) = result {
                context.add_variable_as_val("result", Box::new(CelBool::from(result)));
            }
            CelValue::resolve_val(&tree, &context).map(|value| read(value.as_ref()))
        };
        let left = meter.left();
        self.steps_left.store(total.0 - granted.0 + left.0, Ordering::Relaxed);
        self.bytes_left.store(total.1 - granted.1 + left.1, Ordering::Relaxed);
        match outcome {
            Err(_) if meter.is_empty() => Err(CelEvaluationError::Budget),
            Err(error) => Err(CelEvaluationError::Run(run_error(&error))),
            Ok(outcome) => outcome,
        }
    }
}

/// Formats an error as cel-go does, without values of the object, which may be a Secret.
fn run_error(error: &cel::ExecutionError) -> String {
    use cel::ExecutionError as E;
    match error {
        E::NoSuchKey(key) => format!("no such key: {key}"),
        // Functions of ours stand in for some, under a name of their own and with an argument more.
        E::NoSuchOverload(_) => {
            let text = error.to_string().replace("@meter, ", "").replace('@', "");
            format!("no such overload: {text}")
        }
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

/// Converts JSON to CEL. Integers become signed integers, like literals.
fn convert(value: &Value) -> Box<dyn Val> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(flag) => Box::new(CelBool::from(*flag)),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Box::new(CelInt::from(integer)),
            None => Box::new(CelDouble::from(number.as_f64().unwrap_or_default())),
        },
        Value::String(text) => Box::new(CelString::from(text.clone())),
        Value::Array(items) => {
            Box::new(CelList::from(items.iter().map(convert).collect::<Vec<_>>()))
        }
        Value::Object(fields) => {
            let entry =
                |(key, value): (&String, &Value)| (CelMapKey::from(key.clone()), convert(value));
            Box::new(CelMap::from(fields.iter().map(entry).collect::<HashMap<_, _>>()))
        }
    }
}

#[cfg(test)]
mod tests;
