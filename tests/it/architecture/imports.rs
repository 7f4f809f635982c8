//! Which module of a crate imports which, read from the source with `syn`. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemUse, Macro, UseTree, Visibility};

/// A module's path inside its crate; empty for the root.
type ModulePath = Vec<String>;

/// One file: what it imports, what it re-exports, and the public types that it defines.
#[derive(Default)]
struct Module {
    file: PathBuf,
    /// Paths as written, from `crate`, `self` or `super`.
    paths: Vec<Vec<String>>,
    /// `pub use`: the name that others see, and the path behind it.
    reexports: BTreeMap<String, Vec<String>>,
    types: Vec<String>,
}

/// The modules of one crate.
pub struct CrateModules {
    modules: BTreeMap<ModulePath, Module>,
}

impl CrateModules {
    /// Reads every file below the crate's folder.
    pub fn read(folder: &Path) -> Self {
        let mut modules = BTreeMap::new();
        read_folder(folder, &mut Vec::new(), &mut modules);
        assert!(!modules.is_empty(), "no module in {}", folder.display());
        Self { modules }
    }

    /// The imports between the modules, re-exports followed to where an item is defined.
    pub fn graph(&self) -> Graph {
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (path, module) in &self.modules {
            let imports = edges.entry(path.join("::")).or_default();
            for written in &module.paths {
                let Some(target) = self.resolve(path, written, 0) else { continue };
                if target != *path {
                    imports.insert(target.join("::"));
                }
            }
        }
        Graph { edges }
    }

    /// Every public type, with its file.
    pub fn public_types(&self) -> impl Iterator<Item = (String, PathBuf)> + '_ {
        let all = self.modules.values();
        all.flat_map(|module| module.types.iter().map(|name| (name.clone(), module.file.clone())))
    }

    /// The module that defines what `written` names in the module `at`.
    fn resolve(&self, at: &[String], written: &[String], depth: usize) -> Option<ModulePath> {
        assert!(depth < 20, "re-exports in a circle: {written:?} in {at:?}");
        let mut path = match written.first()?.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => at.to_vec(),
            // A child of the module itself.
            first if self.modules.contains_key(&child(at, first)) => {
                let mut whole = vec!["self".to_owned()];
                whole.extend(written.iter().cloned());
                return self.resolve(at, &whole, depth + 1);
            }
            _ => return None,
        };
        let mut rest = written;
        while let Some((first, after)) = rest.split_first() {
            match first.as_str() {
                "crate" | "self" => {}
                "super" => drop(path.pop()),
                name => {
                    let inner = child(&path, name);
                    if self.modules.contains_key(&inner) {
                        path = inner;
                    } else if let Some(behind) = self.modules.get(&path)?.reexports.get(name) {
                        return self.resolve(&path, behind, depth + 1);
                    } else {
                        break;
                    }
                }
            }
            rest = after;
        }
        Some(path)
    }
}

fn child(path: &[String], name: &str) -> ModulePath {
    let mut path = path.to_vec();
    path.push(name.to_owned());
    path
}

fn read_folder(folder: &Path, path: &mut ModulePath, modules: &mut BTreeMap<ModulePath, Module>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap().path();
        let stem = entry.file_stem().unwrap().to_str().unwrap().to_owned();
        // Unit tests in files of their own.
        let is_test = stem == "tests" || stem.ends_with("_tests") || stem.ends_with("_test");
        if is_test {
            continue;
        }
        if entry.is_dir() {
            path.push(stem);
            read_folder(&entry, path, modules);
            path.pop();
        } else if entry.extension().is_some_and(|end| end == "rs") {
            let own = match stem.as_str() {
                "lib" | "mod" => path.clone(),
                "main" => continue,
                _ => child(path, &stem),
            };
            modules.insert(own, read_file(&entry));
        }
    }
}

fn read_file(path: &Path) -> Module {
    let text = fs::read_to_string(path).unwrap();
    let file = syn::parse_file(&text).unwrap();
    let mut module = Module { file: path.to_owned(), ..Module::default() };
    for item in &file.items {
        module.visit_item(item);
    }
    module
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        list.path.is_ident("cfg") && list.tokens.to_string().contains("test")
    })
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, public): (&[Attribute], _) = match item {
            Item::Mod(item) => (&item.attrs, None),
            Item::Use(item) => (&item.attrs, None),
            Item::Fn(item) => (&item.attrs, None),
            Item::Impl(item) => (&item.attrs, None),
            Item::Struct(item) => (&item.attrs, Some((&item.vis, &item.ident))),
            Item::Enum(item) => (&item.attrs, Some((&item.vis, &item.ident))),
            Item::Trait(item) => (&item.attrs, Some((&item.vis, &item.ident))),
            _ => (&[], None),
        };
        if is_test(attributes) {
            return;
        }
        if let Some((Visibility::Public(_), name)) = public {
            self.types.push(name.to_string());
        }
        visit::visit_item(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let mut leaves = Vec::new();
        leaves_of(&item.tree, &mut Vec::new(), &mut leaves);
        let is_reexport = !matches!(item.vis, Visibility::Inherited);
        for (path, name) in leaves {
            if is_reexport {
                self.reexports.insert(name, path.clone());
            }
            self.paths.push(path);
        }
    }

    /// The body of a macro is text to `syn`: everything in it that looks like a path counts.
    fn visit_macro(&mut self, item: &'ast Macro) {
        let tokens = item.tokens.to_string();
        let literal = Regex::new(r#""(?:\\.|[^"\\])*""#).unwrap();
        let written = Regex::new(r"[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)+").unwrap();
        let tokens = literal.replace_all(&tokens, "");
        for path in written.find_iter(&tokens) {
            self.paths.push(path.as_str().split("::").map(|part| part.trim().to_owned()).collect());
        }
        visit::visit_macro(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if parts.len() > 1 {
            self.paths.push(parts);
        }
        visit::visit_path(self, path);
    }
}

/// The paths that a `use` imports, each with the name that it is known by.
fn leaves_of(tree: &UseTree, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, String)>) {
    let mut add = |name: &str, alias: &str| {
        let mut whole = path.clone();
        if name != "self" {
            whole.push(name.to_owned());
        }
        found.push((whole, alias.to_owned()));
    };
    match tree {
        UseTree::Name(name) => add(&name.ident.to_string(), &name.ident.to_string()),
        UseTree::Rename(name) => add(&name.ident.to_string(), &name.rename.to_string()),
        UseTree::Glob(_) => add("self", "*"),
        UseTree::Path(inner) => {
            path.push(inner.ident.to_string());
            leaves_of(&inner.tree, path, found);
            path.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                leaves_of(tree, path, found);
            }
        }
    }
}

/// Imports between modules, by their paths.
pub struct Graph {
    edges: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Each module with the modules that it imports.
    pub fn edges(&self) -> impl Iterator<Item = (&str, &BTreeSet<String>)> {
        self.edges.iter().map(|(module, imports)| (module.as_str(), imports))
    }

    /// Groups of modules each of which reaches all others of its group.
    pub fn cycles(&self) -> Vec<Vec<&str>> {
        let mut found: Vec<Vec<&str>> = Vec::new();
        for module in self.edges.keys() {
            if found.iter().any(|cycle| cycle.contains(&module.as_str())) {
                continue;
            }
            let reached = self.reached_from(module);
            let both = reached.iter().filter(|other| self.reached_from(other).contains(&**module));
            let cycle: Vec<&str> = both.copied().collect();
            if !cycle.is_empty() {
                found.push(cycle);
            }
        }
        found
    }

    fn reached_from<'a>(&'a self, module: &str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&str> = self.edges[module].iter().map(String::as_str).collect();
        while let Some(next) = open.pop() {
            if reached.insert(next) {
                open.extend(self.edges.get(next).into_iter().flatten().map(String::as_str));
            }
        }
        reached
    }
}
