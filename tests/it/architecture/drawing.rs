//! The drawing of the crates in docs/architecture.md.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

/// What the page draws.
#[derive(Debug, Default)]
pub struct Drawing {
    /// The crates from top to bottom, each with the crates in parentheses.
    pub crates: Vec<(String, BTreeSet<String>)>,
    /// The crates without IO.
    pub pure: Vec<String>,
    /// The layers inside the core, from top to bottom.
    pub core_layers: Vec<String>,
}

impl Drawing {
    /// Reads the drawing of a page: the first block of text after its heading.
    pub fn read(page: &str) -> Self {
        let section = page.split("\n## Crates and layers\n").nth(1).unwrap();
        let block = section.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
        let row = Regex::new(r"^ (pure|IO|) +(\|  )?([a-z-]+) +.*?(?: \(([a-z, -]+)\))?$").unwrap();
        let (mut drawing, mut is_pure) = (Self::default(), false);
        for line in block.lines() {
            let parts = row.captures(line).unwrap_or_else(|| panic!("no row: {line}"));
            let name = parts[3].to_owned();
            if parts.get(2).is_some() {
                drawing.core_layers.push(name);
                continue;
            }
            is_pure = if parts[1].is_empty() { is_pure } else { &parts[1] == "pure" };
            if is_pure {
                drawing.pure.push(name.clone());
            }
            let drawn = parts.get(4).map_or("", |names| names.as_str());
            let drawn = drawn.split(", ").filter(|name| !name.is_empty()).map(str::to_owned);
            drawing.crates.push((name, drawn.collect()));
        }
        drawing
    }
}

/// The dependencies of each crate without those that it also gets through another one.
pub fn reduced(
    dependencies: &BTreeMap<String, BTreeSet<String>>,
) -> BTreeMap<String, BTreeSet<String>> {
    let reduce = |own: &BTreeSet<String>| {
        let through: BTreeSet<&String> =
            own.iter().flat_map(|name| reached(name, dependencies)).collect();
        own.iter().filter(|name| !through.contains(name)).cloned().collect()
    };
    dependencies.iter().map(|(name, own)| (name.clone(), reduce(own))).collect()
}

/// What a crate depends on, directly or not.
fn reached<'a>(
    name: &str,
    dependencies: &'a BTreeMap<String, BTreeSet<String>>,
) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut open = vec![name];
    while let Some(next) = open.pop() {
        for dependency in dependencies.get(next).into_iter().flatten() {
            if found.insert(dependency) {
                open.push(dependency);
            }
        }
    }
    found
}
