//! The names that a part of an expression can use.

use std::rc::Rc;

use jaq_core::load::parse::{Def, Term};

use super::value::JqValue;

/// What a name stands for.
enum Entry<'a> {
    Variable(&'a str, JqValue),
    Function(&'a Def<&'a str>),
    /// An argument of a function, with the names where it was written.
    Argument(&'a str, &'a Term<&'a str>, NameScope<'a>),
    Label(&'a str, u64),
}

struct Link<'a> {
    entry: Entry<'a>,
    outer: NameScope<'a>,
}

/// The names, the latest first. Copies are cheap.
#[derive(Clone, Default)]
pub struct NameScope<'a>(Option<Rc<Link<'a>>>);

/// A function that a call names.
pub enum Function<'a> {
    /// A definition, with the names that it can use, itself included.
    Defined(&'a Def<&'a str>, NameScope<'a>),
    /// An argument of the function around the call.
    Argument(&'a Term<&'a str>, NameScope<'a>),
}

impl<'a> NameScope<'a> {
    fn with(&self, entry: Entry<'a>) -> Self {
        Self(Some(Rc::new(Link { entry, outer: self.clone() })))
    }

    pub fn with_variable(&self, name: &'a str, value: JqValue) -> Self {
        self.with(Entry::Variable(name, value))
    }

    pub fn with_function(&self, function: &'a Def<&'a str>) -> Self {
        self.with(Entry::Function(function))
    }

    pub fn with_argument(&self, name: &'a str, term: &'a Term<&'a str>, scope: &Self) -> Self {
        self.with(Entry::Argument(name, term, scope.clone()))
    }

    pub fn with_label(&self, name: &'a str, id: u64) -> Self {
        self.with(Entry::Label(name, id))
    }

    /// All entries with the names that were there before them.
    fn find<T>(&self, matches: impl Fn(&Entry<'a>, &Self) -> Option<T>) -> Option<T> {
        let mut scope = self;
        while let Some(link) = &scope.0 {
            if let Some(found) = matches(&link.entry, scope) {
                return Some(found);
            }
            scope = &link.outer;
        }
        None
    }

    pub fn variable(&self, wanted: &str) -> Option<JqValue> {
        self.find(|entry, _| match entry {
            Entry::Variable(name, value) if *name == wanted => Some(value.clone()),
            _ => None,
        })
    }

    pub fn label(&self, wanted: &str) -> Option<u64> {
        self.find(|entry, _| match entry {
            Entry::Label(name, id) if *name == wanted => Some(*id),
            _ => None,
        })
    }

    pub fn function(&self, wanted: &str, arguments: usize) -> Option<Function<'a>> {
        self.find(|entry, scope| match entry {
            Entry::Function(def) if def.name == wanted && def.args.len() == arguments => {
                Some(Function::Defined(def, scope.clone()))
            }
            Entry::Argument(name, term, scope) if *name == wanted && arguments == 0 => {
                Some(Function::Argument(term, scope.clone()))
            }
            _ => None,
        })
    }
}
