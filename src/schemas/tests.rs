use serde_json::{Value, json};

use super::*;

fn found(object: &Value) -> Vec<String> {
    let found = check(object, &Cluster::default());
    found.into_iter().map(|one| format!("{}: {}", one.pointer, one.message)).collect()
}

#[test]
fn a_good_deployment_has_no_problem() {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{
                    "name": "web", "image": "web:1",
                    "ports": [{"containerPort": 80, "name": "http"}],
                    "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": 1}},
                    "readinessProbe": {"httpGet": {"port": "http"}},
                }]},
            },
        },
    });
    assert_eq!(found(&object), Vec::<String>::new());
}
