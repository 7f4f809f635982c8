//! The names of the files of imported objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Characters of a file's name before its ending. File systems allow 255 bytes.
const STEM_CHARS_MAX: usize = 120;

/// The stem of the file of each object, as in `deployment-web`. No two are equal, also where the
/// file system ignores case. In the order of paths the files are in the order of the objects, as
/// far as gitwork keeps that: Namespaces and CRDs come first.
pub(super) fn stems(objects: &[Value]) -> Vec<String> {
    let short: Vec<String> = objects.iter().map(|object| stem(object, false)).collect();
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for stem in &short {
        *uses.entry(stem).or_default() += 1;
    }
    let mut taken = BTreeSet::new();
    let mut stems = Vec::new();
    for (object, short) in objects.iter().zip(&short) {
        let is_unique = uses.get(short.as_str()).is_some_and(|uses| *uses == 1);
        let wanted = if is_unique { short.clone() } else { stem(object, true) };
        stems.push(not_taken(&wanted, &mut taken));
    }
    if is_rendered_in_order(objects, &stems) {
        return stems;
    }
    let digits = objects.len().to_string().len();
    let numbered = stems.iter().enumerate();
    let numbered: Vec<String> =
        numbered.map(|(index, stem)| format!("{:0digits$}-{stem}", index + 1)).collect();
    // Without the order there is no use in the numbers.
    if is_rendered_in_order(objects, &numbered) { numbered } else { stems }
}

/// The name, with a number if it is taken.
fn not_taken(wanted: &str, taken: &mut BTreeSet<String>) -> String {
    let mut name = wanted.to_owned();
    let mut number = 1;
    while !taken.insert(name.clone()) {
        number += 1;
        name = format!("{wanted}-{number}");
    }
    name
}

/// Whether gitwork renders the objects of these files in this order.
fn is_rendered_in_order(objects: &[Value], stems: &[String]) -> bool {
    let rank = |object: &Value| match object.get("kind").and_then(Value::as_str) {
        Some("Namespace") => 0,
        Some("CustomResourceDefinition") => 1,
        _ => 2,
    };
    let file = |stem: &String| format!("{stem}.yaml");
    let places = objects.iter().zip(stems).map(|(object, stem)| (rank(object), file(stem)));
    places.is_sorted()
}

/// The name for an object: kind and name, with the namespace between them if `is_long`.
fn stem(object: &Value, is_long: bool) -> String {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let mut parts = vec![text("/kind")];
    parts.extend(is_long.then(|| text("/metadata/namespace")));
    parts.push(text("/metadata/name"));
    parts.retain(|part| !part.is_empty());
    let name = parts.join("-").to_lowercase();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let name = name.chars().map(|c| if is_plain(c) { c } else { '-' }).take(STEM_CHARS_MAX);
    let name: String = name.collect();
    // `<file>.config.yaml` is a sidecar, and hidden files are skipped.
    let name = name.trim_matches(['.', '-']);
    match name.strip_suffix(".config") {
        Some(start) => format!("{start}-config"),
        None if name.is_empty() => "object".to_owned(),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(kind: &str, namespace: &str, name: &str) -> Value {
        json!({"kind": kind, "metadata": {"namespace": namespace, "name": name}})
    }

    #[test]
    fn stems_are_different_for_every_file_system_and_no_sidecars() {
        let names = |objects: &[Value]| stems(objects).join(" ");
        let cm = |namespace, name| object("ConfigMap", namespace, name);
        assert_eq!(names(&[cm("a", "web"), cm("a", "web2")]), "configmap-web configmap-web2");
        assert_eq!(names(&[cm("a", "web"), cm("b", "web")]), "configmap-a-web configmap-b-web");
        let role = |name| object("ClusterRole", "", name);
        assert_eq!(
            names(&[role("a:web"), role("a:Web"), role("a-web")]),
            "1-clusterrole-a-web 2-clusterrole-a-web-2 3-clusterrole-a-web-3"
        );
        assert_eq!(names(&[cm("a", "app.config")]), "configmap-app-config");
        let long = "a".repeat(253);
        assert!(stems(&[role(&long)])[0].len() <= STEM_CHARS_MAX);
    }

    #[test]
    fn files_are_numbered_if_their_names_are_in_another_order() {
        let ns = object("Namespace", "", "shop");
        let (a, b) = (object("Secret", "shop", "a"), object("ConfigMap", "shop", "b"));
        assert_eq!(
            stems(&[ns.clone(), b.clone(), a.clone()]),
            ["namespace-shop", "configmap-b", "secret-a"]
        );
        assert_eq!(
            stems(&[ns.clone(), a.clone(), b.clone()]),
            ["1-namespace-shop", "2-secret-a", "3-configmap-b"]
        );
        // gitwork renders the Namespace first in any case.
        assert_eq!(stems(&[a, ns]), ["secret-a", "namespace-shop"]);
    }
}
