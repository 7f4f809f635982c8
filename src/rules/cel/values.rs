//! Values of types that CEL itself does not have, and errors of functions.

use cel::ExecutionError;
use cel::common::types::{CelList, CelString};
use cel::common::value::Val;

/// Makes a Rust type a CEL value of the given type name, compared by `PartialEq`.
macro_rules! value_type {
    ($value:ty, $name:literal) => {
        impl cel::common::value::Val for $value {
            fn get_type(&self) -> &cel::common::types::Type {
                <Self as cel::common::value::Val>::cel_type()
            }
            fn cel_type() -> &'static cel::common::types::Type {
                static TYPE: cel::common::types::Type =
                    cel::common::types::Type::simple_type(cel::common::types::Kind::Opaque, $name);
                &TYPE
            }
            fn equals(&self, other: &dyn cel::common::value::Val) -> bool {
                other.downcast_ref::<Self>() == Some(self)
            }
            fn clone_as_boxed<'v>(&self) -> Box<dyn cel::common::value::Val + 'v>
            where
                Self: 'v,
            {
                Box::new(self.clone())
            }
            fn as_any(&self) -> Option<&dyn std::any::Any> {
                Some(self)
            }
        }
        impl cel::common::value::StaticVal for $value {}
    };
}
pub(super) use value_type;

/// Creates an error of a function. Users do not see `problem`, which may quote the object.
pub fn failed(function: &str, problem: &str) -> ExecutionError {
    ExecutionError::function_error(function, problem)
}

/// Converts texts to a list.
pub fn texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> CelList<'static> {
    let boxed = |text: &str| Box::new(CelString::from(text.to_owned())) as Box<dyn Val>;
    texts.into_iter().map(boxed).collect::<Vec<_>>().into()
}
