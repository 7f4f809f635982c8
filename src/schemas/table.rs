//! The built-in kinds and their types: `kubernetes.txt`, with the rules of `rules.txt`.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::rules::{FieldRules, Rules};
use crate::shape::Shape;
use crate::version::KubernetesVersion;

/// A set of minors, one bit for each of [`Table::minors`].
pub(crate) type Minors = u8;

/// The built-in kinds and their types, of all minors.
pub(crate) struct Table {
    /// The minors that the table has, oldest first.
    pub(crate) minors: Vec<KubernetesVersion>,
    pub(crate) kinds: Vec<Kind>,
    /// The groups of the kinds.
    pub(crate) groups: HashSet<&'static str>,
    /// Indices of kinds, by their names.
    named: HashMap<&'static str, Vec<usize>>,
    pub(crate) types: Vec<Type>,
    /// `JSONSchemaProps`.
    pub(crate) json_schema: usize,
}

/// A kind in one version of its group.
pub(crate) struct Kind {
    /// Empty for the core group.
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) is_namespaced: bool,
    /// Index of its type.
    pub(crate) of: usize,
    pub(crate) at: Minors,
}

/// A type with fields.
pub(crate) struct Type {
    /// As in `core.v1.Container`.
    pub(crate) name: &'static str,
    /// Sorted by name. A field that differs between minors occurs several times.
    pub(crate) fields: Vec<Field>,
    /// Of the type as a whole.
    pub(crate) rules: FieldRules,
}

/// A field in some minors.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) at: Minors,
    pub(crate) rules: FieldRules,
}

impl Type {
    /// The name without its group and version, as in `Container`.
    pub(crate) fn short_name(&self) -> &'static str {
        self.name.rsplit_once('.').map_or(self.name, |(_, name)| name)
    }

    /// All forms of a field.
    pub(crate) fn forms(&self, name: &str) -> &[Field] {
        let start = self.fields.partition_point(|field| field.name < name);
        let rest = &self.fields[start..];
        &rest[..rest.iter().take_while(|field| field.name == name).count()]
    }

    /// A field in one of the wanted minors; of several, the newest.
    pub(crate) fn field(&self, name: &str, wanted: Minors) -> Option<&Field> {
        let forms = self.forms(name).iter().filter(|field| field.at & wanted != 0);
        forms.max_by_key(|field| field.at & wanted)
    }
}

/// The table, read once.
pub(crate) fn table() -> &'static Table {
    static TABLE: LazyLock<Table> =
        LazyLock::new(|| Table::parse(include_str!("kubernetes.txt"), include_str!("rules.txt")));
    &TABLE
}

/// The lines of one type, before its references are resolved.
struct TypeLines {
    name: &'static str,
    at: Minors,
    fields: Vec<&'static str>,
}

impl Table {
    /// Both texts are of this crate, and a test reads them: lines that mean nothing are left out.
    fn parse(text: &'static str, rules: &'static str) -> Self {
        let mut lines = text.lines().filter(|line| !line.starts_with('#')).peekable();
        let minors: Vec<_> = lines.next().into_iter().flat_map(|line| line.split(' ')).collect();
        let minors: Vec<_> = minors.into_iter().filter_map(KubernetesVersion::parse).collect();
        let all = Minors::MAX >> (8 - minors.len().min(8));
        let (mut kinds, mut types) = (Vec::new(), Vec::<TypeLines>::new());
        for line in lines {
            if let Some(rest) = line.strip_prefix("kind ") {
                kinds.push(set_at_end(rest, all));
            } else if let Some(rest) = line.strip_prefix("type ") {
                let (name, at) = set_at_end(rest, all);
                types.push(TypeLines { name, at, fields: Vec::new() });
            } else if let (Some(field), Some(last)) = (line.strip_prefix(' '), types.last_mut()) {
                last.fields.push(field);
            }
        }
        let names: HashMap<&str, usize> =
            types.iter().enumerate().map(|(index, one)| (one.name, index)).collect();
        let index = |name: &str| names.get(name).copied();
        let rules = Rules::parse(rules);
        let types: Vec<Type> = types.iter().map(|one| one.resolved(&index, &rules)).collect();
        let kinds = kinds.into_iter().filter_map(|(line, at)| Kind::parse(line, at, &index));
        let kinds: Vec<Kind> = kinds.collect();
        let mut named: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, one) in kinds.iter().enumerate() {
            named.entry(one.kind).or_default().push(index);
        }
        let groups = kinds.iter().map(|one| one.group).collect();
        let json_schema = index("apiextensions.v1.JSONSchemaProps").unwrap_or_default();
        Self { minors, kinds, groups, named, types, json_schema }
    }

    /// A kind of a group, in all versions that have it.
    pub(crate) fn versions(&self, group: &str, kind: &str) -> impl Iterator<Item = &Kind> {
        let named = self.named.get(kind).into_iter().flatten();
        named.filter_map(|index| self.kinds.get(*index)).filter(move |one| one.group == group)
    }
}

impl TypeLines {
    fn resolved(&self, index: &impl Fn(&str) -> Option<usize>, rules: &Rules) -> Type {
        let parse = |line: &&'static str| {
            let (line, at) = set_at_end(line, self.at);
            let (line, values) = line.split_once(" =").unwrap_or((line, ""));
            let (name, shape) = line.split_once(' ')?;
            let required = name.ends_with('!');
            let name = name.strip_suffix('!').unwrap_or(name);
            let mut of_field = rules.of(self.name, name);
            of_field.is_required |= required && !of_field.is_optional;
            if of_field.values.is_empty() && !values.is_empty() {
                of_field.values = values.split('|').collect();
            }
            Some(Field { name, shape: Shape::parse(shape, index)?, at, rules: of_field })
        };
        let mut fields: Vec<Field> = self.fields.iter().filter_map(parse).collect();
        fields.sort_by_key(|field| field.name);
        Type { name: self.name, fields, rules: rules.of(self.name, "*") }
    }
}

impl Kind {
    fn parse(
        line: &'static str,
        at: Minors,
        index: &impl Fn(&str) -> Option<usize>,
    ) -> Option<Self> {
        let mut words = line.split(' ');
        let mut next = || words.next();
        let (group, version) = next()?.split_once('/')?;
        let (kind, plural, scope, of) = (next()?, next()?, next()?, index(next()?)?);
        let is_namespaced = scope == "namespaced";
        Some(Self { group, version, kind, plural, is_namespaced, of, at })
    }
}

/// Splits `text @3e` into the text and the set, which is `all` if it is left out.
fn set_at_end(line: &'static str, all: Minors) -> (&'static str, Minors) {
    let (text, set) = line.rsplit_once(" @").unwrap_or((line, ""));
    (text, Minors::from_str_radix(set, 16).unwrap_or(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing of the texts is left out.
    #[test]
    fn every_line_is_read() {
        let text = include_str!("kubernetes.txt");
        let count = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
        let table = table();
        assert_eq!(table.kinds.len(), count("kind "));
        assert_eq!(table.types.len(), count("type "));
        let fields: usize = table.types.iter().map(|one| one.fields.len()).sum();
        assert_eq!(fields, count(" "));
        assert_eq!(table.minors.len(), 6);
        assert!(fields > 3_000 && table.kinds.len() > 100, "{fields}");
    }

    #[test]
    fn every_rule_is_about_a_field_that_exists() {
        let table = table();
        let rules = Rules::parse(include_str!("rules.txt"));
        for (name, field) in rules.names() {
            let of = table.types.iter().find(|one| one.name == name);
            let of = of.unwrap_or_else(|| panic!("no type {name}"));
            assert!(field == "*" || !of.forms(field).is_empty(), "{name} has no {field}");
        }
        assert_eq!(Rules::unread(include_str!("rules.txt")), Vec::<String>::new());
    }
}
