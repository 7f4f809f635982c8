//! Condition rules for workloads of groups with `rollout`: by themselves, agents only report that
//! an object exists.
//!
//! A rule counts the status of an object only if its controller has seen the object as it is now
//! (`metadata.generation`).

use serde_json::{Value, json};

use crate::model::manifest::Identity;

/// Whether the controller has seen the object as it is now.
const SEEN: &str = "has(object.status) && has(object.status.observedGeneration) && \
                    object.status.observedGeneration >= object.metadata.generation";

const REPLICAS: &str = "(has(object.spec.replicas) ? object.spec.replicas : 1)";

/// The `conditionRules` for an object; `None` for kinds that are ready once they exist.
pub fn condition_rules(identity: &Identity) -> Option<Value> {
    let status = |field: &str| format!("(has(object.status.{field}) ? object.status.{field} : 0)");
    let has = |kind: &str, status: &str| {
        format!(
            "has(object.status) && has(object.status.conditions) && \
             object.status.conditions.exists(c, c.type == '{kind}' && c.status == '{status}')"
        )
    };
    let (done, failed) = match (identity.group.as_str(), identity.resource.as_str()) {
        ("apps", "deployments") => {
            let (updated, available) = (status("updatedReplicas"), status("availableReplicas"));
            let all = status("replicas");
            let done = format!(
                "{SEEN} && {updated} >= {REPLICAS} && {available} >= {REPLICAS} && \
                 {all} <= {updated}"
            );
            (done, Some(format!("{SEEN} && {}", has("Progressing", "False"))))
        }
        ("apps", "statefulsets") => {
            let (updated, ready) = (status("updatedReplicas"), status("readyReplicas"));
            let by_hand = "has(object.spec.updateStrategy) && \
                           has(object.spec.updateStrategy.type) && \
                           object.spec.updateStrategy.type == 'OnDelete'";
            let done = format!(
                "{SEEN} && {ready} >= {REPLICAS} && (({by_hand}) || {updated} >= {REPLICAS})"
            );
            (done, None)
        }
        ("apps", "daemonsets") => {
            let wanted = status("desiredNumberScheduled");
            let (updated, available) =
                (status("updatedNumberScheduled"), status("numberAvailable"));
            (format!("{SEEN} && {updated} >= {wanted} && {available} >= {wanted}"), None)
        }
        ("batch", "jobs") => {
            let (complete, failed) = (has("Complete", "True"), has("Failed", "True"));
            (format!("({complete}) || ({failed})"), Some(failed))
        }
        _ => return None,
    };
    let rule = |condition: &str, expression: String, message: &str| {
        json!({
            "type": "CEL", "condition": condition, "celExpressions": [expression],
            "message": message,
        })
    };
    let progressing = rule("Progressing", format!("!({done})"), "as the rule of gitwork says");
    let degraded = failed.map(|it| rule("Degraded", it, "as the rule of gitwork says"));
    Some([Some(progressing), degraded].into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use gitwork_rules::cel::CelEvaluator;

    use super::*;

    /// The conditions that are True of an object.
    fn conditions(group: &str, resource: &str, object: &Value) -> Vec<String> {
        let (group, resource) = (group.to_owned(), resource.to_owned());
        let identity = Identity { group, resource, namespace: "x".into(), name: "web".into() };
        let rules = condition_rules(&identity).unwrap();
        let evaluator = CelEvaluator::new(object);
        let is_true = |rule: &&Value| {
            assert_eq!(rule["type"], "CEL");
            evaluator.test(rule["celExpressions"][0].as_str().unwrap()).unwrap()
        };
        let found = rules.as_array().unwrap().iter().filter(is_true);
        found.map(|rule| rule["condition"].as_str().unwrap().to_owned()).collect()
    }

    fn object(spec: &Value, status: &Value) -> Value {
        json!({"metadata": {"generation": 3}, "spec": spec, "status": status})
    }

    #[test]
    fn deployments_are_done_once_all_replicas_are_new_and_available() {
        let of = |replicas: u32, status: Value| {
            conditions("apps", "deployments", &object(&json!({"replicas": replicas}), &status))
        };
        let status = |seen: u32, all: u32, updated: u32, available: u32| {
            json!({
                "observedGeneration": seen, "replicas": all, "updatedReplicas": updated,
                "availableReplicas": available,
            })
        };
        let busy = ["Progressing"];
        assert_eq!(of(2, status(3, 2, 2, 2)), Vec::<String>::new());
        assert_eq!(of(2, status(2, 2, 2, 2)), busy, "the controller has not seen it");
        assert_eq!(of(2, status(3, 3, 1, 2)), busy, "one replica is old");
        assert_eq!(of(2, status(3, 3, 2, 2)), busy, "an old replica is still there");
        assert_eq!(of(2, status(3, 2, 2, 1)), busy, "one replica is not available");
        assert_eq!(of(0, json!({"observedGeneration": 3})), Vec::<String>::new());
        assert_eq!(of(1, json!({})), busy);
        let mut late = status(3, 2, 1, 1);
        late["conditions"] = json!([{"type": "Progressing", "status": "False"}]);
        assert_eq!(of(2, late), ["Progressing", "Degraded"]);
        let bare = json!({"metadata": {"generation": 1}, "spec": {}});
        assert_eq!(conditions("apps", "deployments", &bare), busy);
    }

    #[test]
    fn other_workloads_are_done_as_their_controllers_say() {
        let sets = |spec: Value, updated: u32, ready: u32| {
            let status = json!({
                "observedGeneration": 3, "updatedReplicas": updated, "readyReplicas": ready,
            });
            conditions("apps", "statefulsets", &object(&spec, &status)).len()
        };
        let by_hand = json!({"replicas": 2, "updateStrategy": {"type": "OnDelete"}});
        assert_eq!(sets(json!({"replicas": 2}), 2, 2), 0);
        assert_eq!(sets(json!({"replicas": 2}), 1, 2), 1);
        assert_eq!(sets(by_hand.clone(), 0, 2), 0);
        assert_eq!(sets(by_hand, 0, 1), 1);
        let daemons = |updated: u32, available: u32| {
            let status = json!({
                "observedGeneration": 3, "desiredNumberScheduled": 2,
                "updatedNumberScheduled": updated, "numberAvailable": available,
            });
            conditions("apps", "daemonsets", &object(&json!({}), &status)).len()
        };
        assert_eq!([daemons(2, 2), daemons(1, 2), daemons(2, 1)], [0, 1, 1]);
        let job = |kind: &str| {
            let status = json!({"conditions": [{"type": kind, "status": "True"}]});
            conditions("batch", "jobs", &object(&json!({}), &status))
        };
        assert_eq!(job("Complete"), Vec::<String>::new());
        assert_eq!(job("Failed"), ["Degraded"]);
        assert_eq!(job("Suspended"), ["Progressing"]);
        let (group, resource) = (String::new(), "configmaps".to_owned());
        let map = Identity { group, resource, namespace: "x".into(), name: "a".into() };
        assert_eq!(condition_rules(&map), None);
    }
}
