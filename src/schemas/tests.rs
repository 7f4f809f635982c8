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

/// A Deployment with one change, by a JSON pointer.
fn deployment(pointer: &str, value: Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [{"name": "web", "image": "web:1"}],
                    "volumes": [{"name": "data", "emptyDir": {}}],
                },
            },
        },
    });
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    parent.insert(name.to_owned(), value);
    object
}

const CONTAINER: &str = "/spec/template/spec/containers/0";

#[test]
fn fields_and_types_of_a_workload() {
    for (pointer, value, expected) in [
        (
            "/spec/replica".to_owned(),
            json!(2),
            "/spec/replica: DeploymentSpec has no field `replica`; did you mean `replicas`?",
        ),
        (
            "/spec/containers".to_owned(),
            json!([]),
            "/spec/containers: DeploymentSpec has no field `containers`; it belongs in \
             `template.spec`",
        ),
        (
            "/spec/replicas".to_owned(),
            json!("2"),
            "/spec/replicas: `replicas` must be a whole number, not the text \"2\"; remove the \
             quotes",
        ),
        (
            "/spec/replicas".to_owned(),
            json!("two"),
            "/spec/replicas: `replicas` must be a whole number, not the text \"two\"",
        ),
        (
            "/spec/replicas".to_owned(),
            json!(5_000_000_000_i64),
            "/spec/replicas: `replicas` must be a whole number between -2147483648 and \
             2147483647, not 5000000000",
        ),
        (
            "/spec/replicas".to_owned(),
            json!(1.5),
            "/spec/replicas: `replicas` must be a whole number, not 1.5",
        ),
        (
            "/spec/paused".to_owned(),
            json!("true"),
            "/spec/paused: `paused` must be true or false, not the text \"true\"; remove the \
             quotes",
        ),
    ] {
        assert_eq!(found(&deployment(&pointer, value)), [expected]);
    }
}

#[test]
fn types_in_the_containers_of_a_workload() {
    let at = |name: &str| format!("{CONTAINER}/{name}");
    for (pointer, value, expected) in [
        (
            at("env"),
            json!([{"name": "A", "value": 1}]),
            "/spec/template/spec/containers/0/env/0/value: `value` must be text, not the number 1; \
             quote it",
        ),
        (
            at("ports"),
            json!([{"containerPort": "80"}]),
            "/spec/template/spec/containers/0/ports/0/containerPort: `containerPort` must be a \
             whole number, not the text \"80\"; remove the quotes",
        ),
        (
            at("ports"),
            json!([{"containerPort": 70_000}]),
            "/spec/template/spec/containers/0/ports/0/containerPort: `containerPort` is 70000, and \
             must be between 1 and 65535",
        ),
    ] {
        assert_eq!(found(&deployment(&pointer, value)), [expected]);
    }
}

#[test]
fn values_and_references_of_a_workload() {
    let at = |name: &str| format!("{CONTAINER}/{name}");
    for (pointer, value, expected) in [
        (
            at("imagePullPolicy"),
            json!("always"),
            "/spec/template/spec/containers/0/imagePullPolicy: `imagePullPolicy` is \"always\", \
             and must be one of Always, Never, IfNotPresent; did you mean \
             \"Always\"?",
        ),
        (
            at("resources"),
            json!({"limits": {"memory": "1gb"}}),
            "/spec/template/spec/containers/0/resources/limits/memory: `memory` must be a \
             quantity, such as 500m or 1Gi, not \"1gb\"",
        ),
        (
            at("volumeMounts"),
            json!([{"name": "dat", "mountPath": "/data"}]),
            "/spec/template/spec/containers/0/volumeMounts/0/name: the pod has no volume \"dat\"; \
             did you mean \"data\"?",
        ),
        (
            "/spec/selector".to_owned(),
            json!({"matchLabels": {"app": "api"}}),
            "/spec/selector: `selector` has `app: api`, which the labels of `template` do not \
             match",
        ),
    ] {
        assert_eq!(found(&deployment(&pointer, value)), [expected]);
    }
}

/// Templates of claims are volumes of the pods of a StatefulSet.
#[test]
fn claims_of_a_stateful_set_can_be_mounted() {
    let object = |mounted: &str| {
        let mounts = json!([{"name": mounted, "mountPath": "/data"}]);
        let mut object = deployment(&format!("{CONTAINER}/volumeMounts"), mounts);
        object["kind"] = json!("StatefulSet");
        object["spec"]["volumeClaimTemplates"] = json!([{
            "metadata": {"name": "claim"},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            },
        }]);
        found(&object)
    };
    for mounted in ["claim", "data"] {
        assert_eq!(object(mounted), Vec::<String>::new());
    }
    let expected = format!(
        "{CONTAINER}/volumeMounts/0/name: the pod has no volume \"clam\"; did you mean \"claim\"?"
    );
    assert_eq!(object("clam"), [expected]);
}

/// Read in the validation of six minors, as few repositories have them.
#[test]
fn rare_values_that_api_servers_accept() {
    let pod = "/spec/template/spec";
    for (pointer, value) in [
        (
            format!("{pod}/hostAliases"),
            json!([{"ip": "10.0.0.1", "hostnames": ["a"]}, {"ip": "10.0.0.1", "hostnames": ["b"]}]),
        ),
        (
            format!("{CONTAINER}/env"),
            json!([{"name": "A", "valueFrom": {"resourceFieldRef": {
                "resource": "limits.hugepages-2Mi",
            }}}]),
        ),
        (
            format!("{pod}/tolerations"),
            json!([{"operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": null}]),
        ),
    ] {
        assert_eq!(found(&deployment(&pointer, value)), Vec::<String>::new(), "{pointer}");
    }
    let service = |spec: Value| {
        let metadata = json!({"name": "a"});
        let spec =
            json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec});
        found(&spec)
    };
    let ports = json!([{"port": 80}]);
    for spec in [
        json!({"type": "ExternalName", "externalName": "example.com."}),
        json!({"ports": ports, "loadBalancerSourceRanges": [], "externalTrafficPolicy": null}),
        json!({
            "type": "LoadBalancer", "ports": ports, "loadBalancerSourceRanges": [" 10.0.0.0/8 "],
        }),
    ] {
        assert_eq!(service(spec.clone()), Vec::<String>::new(), "{spec}");
    }
    for spec in [
        json!({"type": "ExternalName", "externalName": "."}),
        json!({"type": "ExternalName", "externalName": "a_b."}),
        json!({"ports": ports, "loadBalancerSourceRanges": ["10.0.0.0/8"]}),
        json!({"type": "LoadBalancer", "ports": ports, "loadBalancerSourceRanges": ["10.0.0.0"]}),
    ] {
        assert_eq!(service(spec.clone()).len(), 1, "{spec}");
    }
}

#[test]
fn missing_fields_are_where_they_would_be_and_empty_ones_are_said_to_be_empty() {
    let claim = |spec: Value| {
        let metadata = json!({"name": "a"});
        let kind = "PersistentVolumeClaim";
        found(&json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}))
    };
    let size = json!({"requests": {"storage": "1Gi"}});
    let needed = "/spec/resources/requests/storage: a PersistentVolumeClaim needs \
                  `resources.requests.storage`";
    assert_eq!(claim(json!({"accessModes": ["ReadWriteOnce"]})), [needed]);
    let missing = "/spec/accessModes: the required field `accessModes` is missing";
    assert_eq!(claim(json!({"resources": size})), [missing]);
    for empty in [json!([]), json!(null)] {
        let spec = json!({"resources": size, "accessModes": empty});
        let expected = "/spec/accessModes: the required field `accessModes` is empty";
        assert_eq!(claim(spec), [expected]);
    }
    let without_image = deployment("/spec/template/spec/containers", json!([{"name": "web"}]));
    let expected = format!("{CONTAINER}/image: the required field `image` is missing");
    assert_eq!(found(&without_image), [expected]);
}

#[test]
fn keys_that_are_numbers_are_named_and_indexes_are_not() {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": [7]},
        "data": {"80": 8080}, "binaryData": {"80": "x"},
    });
    let expected = [
        "/binaryData/80: `80` must be base64, not \"x\"; put plain text under `data`",
        "/data/80: `80` must be text, not the number 8080; quote it",
        "/metadata/finalizers/0: `finalizers` must be text, not the number 7; quote it",
        "/binaryData/80: the key \"80\" is in `data` and in `binaryData`",
    ];
    let messages = found(&object);
    for one in expected {
        assert!(messages.contains(&one.to_owned()), "{one}: {messages:#?}");
    }
}

#[test]
fn lists_with_one_item_and_schedules_with_one_field() {
    let metadata = json!({"name": "a"});
    let object = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata,
        "spec": {"schedule": "daily", "jobTemplate": {"spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}],
        }}}}},
    });
    let expected = "/spec/schedule: `schedule` is \"daily\", which has 1 field; a cron schedule \
                    has 5";
    assert_eq!(found(&object), [expected]);
    for (length, bounds, expected) in [
        (1, (2, 3), Some("has 1 item; at least 2 are needed")),
        (0, (1, 3), Some("has 0 items; at least 1 is needed")),
        (2, (0, 1), Some("has 2 items; at most 1 is allowed")),
        (2, (2, 2), None),
    ] {
        assert_eq!(finding::length_problem(length, bounds, "item").as_deref(), expected);
    }
}

/// The advice for a field that the type does not have.
fn advice(object: &Value, cluster: &Cluster) -> String {
    let found = check(object, cluster);
    let unknown = found.into_iter().find(|one| one.problem == Problem::UnknownField);
    let message = unknown.map(|one| one.message).unwrap_or_default();
    message.split_once('`').unwrap().1.split_once('`').unwrap().1.to_owned()
}

#[test]
fn misplaced_fields_are_looked_for_near_their_place() {
    let any = Cluster::default();
    let of_cron_job = |name: &str| {
        json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a"},
            "spec": {"schedule": "@daily", name: []},
        })
    };
    for (object, expected) in [
        (deployment("/replicas", json!(2)), "; it belongs in `spec`"),
        (deployment("/spec/containers", json!([])), "; it belongs in `template.spec`"),
        (deployment("/containers", json!([])), "; it belongs in `spec.template.spec`"),
        (deployment("/spec/matchLabels", json!({})), "; it belongs in `selector`"),
        (deployment("/spec/template/replicas", json!(2)), "; it belongs in DeploymentSpec"),
        (of_cron_job("containers"), "; it belongs in `jobTemplate.spec.template.spec`"),
        // Several lists have containers of this type.
        (
            deployment("/spec/template/spec/livenessProbe", json!({})),
            "; it may belong in `containers`",
        ),
        // The metadata of the pods are not those of the Deployment.
        (deployment("/spec/generateName", json!("a-")), ""),
        (deployment("/spec/nonsense", json!(1)), ""),
    ] {
        assert_eq!(advice(&object, &any), expected, "{object}");
    }
}

/// A search costs no more for an object with many unknown fields.
#[test]
fn search_for_places_is_bounded() {
    let mut object = deployment("/spec/paused", json!(false));
    let spec = object["spec"].as_object_mut().unwrap();
    for n in 0..100_000 {
        spec.insert(format!("n{n}"), json!(n));
    }
    let table = table::table();
    let mut checker = checker::Checker::new(table, u8::MAX, semantics::check);
    let of = table.types.iter().position(|one| one.name == "apps.v1.DeploymentSpec").unwrap();
    checker.value(&object["spec"], &shape::Shape::Type(of), &rules::FieldRules::default());
    assert_eq!(checker.found.len(), limits::FINDINGS_MAX);
    assert_eq!(checker.search_steps, limits::SEARCH_STEPS_MAX);
    assert!(checker.found.iter().all(|one| one.message.starts_with("DeploymentSpec has no field")));
}

#[test]
fn warnings_for_a_minor_that_gitwork_does_not_know_say_so() {
    let edge = |version: &str| Cluster {
        name: "edge-7".into(),
        version: KubernetesVersion::parse(version),
    };
    let why = " (edge-7 runs 1.99, which gitwork does not know)";
    let object = deployment("/spec/containers", json!([]));
    let expected = format!("{why}; it belongs in `template.spec`");
    assert_eq!(advice(&object, &edge("1.99")), expected);
    assert_eq!(advice(&object, &edge("1.33")), "; it belongs in `template.spec`");
    for (api_version, kind, expected) in [
        (
            "apps/v1",
            "Deploymnt",
            "no such kind \"Deploymnt\" in apps/v1{why}; did you mean \"Deployment\"?",
        ),
        ("v1", "Deployment", "v1 has no kind Deployment{why}; it is in apps/v1"),
        ("apps/v3", "Deployment", "apps/v3 has no kind Deployment{why}; use apps/v1"),
        ("fleet/v1", "Any", "no such API group in \"fleet/v1\"{why}"),
        (
            "batch/v1beta1",
            "CronJob",
            "batch/v1beta1 CronJob was removed in 1.25{why}; use batch/v1",
        ),
    ] {
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
        let found = check(&object, &edge("1.99"));
        assert!(found[0].is_uncertain, "{found:?}");
        assert_eq!(found[0].message, expected.replace("{why}", why));
    }
}

fn config_map(metadata: &Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    object["metadata"]["name"] = json!("a");
    object
}

#[test]
fn metadata() {
    let long = "a".repeat(64);
    let pointers = |metadata: Value| -> Vec<String> {
        let found = check(&config_map(&metadata), &Cluster::default());
        found.into_iter().map(|one| format!("{:?} {}", one.problem, one.pointer)).collect()
    };
    for (metadata, expected) in [
        (json!({"labels": {"a b": "c"}}), &["InvalidMetadata /metadata/labels/a b"][..]),
        (json!({"labels": {"a": "b c"}}), &["InvalidMetadata /metadata/labels/a"]),
        (json!({"labels": {"a": long}}), &["InvalidMetadata /metadata/labels/a"]),
        (json!({"labels": {"x.io/a": "b"}, "annotations": {"X.io/A": "b c"}}), &[]),
        (json!({"annotations": {"a/b/c": ""}}), &["InvalidMetadata /metadata/annotations/a~1b~1c"]),
        (json!({"annotations": {"a": true}}), &["WrongType /metadata/annotations/a"]),
        (json!({"finalizers": ["mine"]}), &["InvalidMetadata /metadata/finalizers/0"]),
        (json!({"resourceVersion": "1"}), &["InvalidMetadata /metadata/resourceVersion"]),
        (json!({"uid": "1"}), &["ServerField /metadata/uid"]),
        (json!({"creationTimestamp": null}), &[]),
        (
            json!({"creationTimestamp": "today"}),
            &["WrongType /metadata/creationTimestamp", "ServerField /metadata/creationTimestamp"],
        ),
        (
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a"}]}),
            &["MissingField /metadata/ownerReferences/0/uid"],
        ),
    ] {
        assert_eq!(pointers(metadata.clone()), expected, "{metadata}");
    }
}

#[test]
fn messages_of_metadata() {
    let messages = |metadata: Value| found(&config_map(&metadata));
    for (metadata, expected) in [
        (
            json!({"labels": {"owner": "team a"}}),
            "/metadata/labels/owner: the value \"team a\" of the label \"owner\" must be at most \
             63 letters, digits, '-', '_' or '.', with a letter or digit at both ends",
        ),
        (
            json!({"resourceVersion": "1"}),
            "/metadata/resourceVersion: remove `metadata.resourceVersion`: the API server refuses \
             to create an object that has it",
        ),
    ] {
        assert_eq!(messages(metadata), [expected]);
    }
    let found = check(&config_map(&json!({"resourceVersion": "1"})), &Cluster::default());
    assert!(found[0].help.is_some_and(|help| help.starts_with("Remove the field.")), "{found:?}");
}

#[test]
fn names_by_kind() {
    for (version, kind, name, is_good) in [
        ("v1", "ConfigMap", "a.b", true),
        ("v1", "ConfigMap", "a_b", false),
        ("v1", "Namespace", "a.b", false),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "System:a_b", true),
        ("networking.k8s.io/v1", "NetworkPolicy", "A", false),
    ] {
        let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
        let found = check(&object, &Cluster::default());
        let bad = found.iter().any(|one| one.pointer == "/metadata/name");
        assert_eq!(!bad, is_good, "{kind} {name}: {found:?}");
    }
}

#[test]
fn kinds_and_versions() {
    let edge = |version: &str| Cluster {
        name: "edge-7".into(),
        version: KubernetesVersion::parse(version),
    };
    let message = |api_version: &str, kind: &str, cluster: &Cluster| {
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
        let found = check(&object, cluster);
        found.into_iter().next().map(|one| one.message).unwrap_or_default()
    };
    let any = Cluster::default();
    for (api_version, kind, cluster, expected) in [
        (
            "apps/v1",
            "Deploymnt",
            &any,
            "no such kind \"Deploymnt\" in apps/v1; did you mean \"Deployment\"?",
        ),
        (
            "batch/v1beta1",
            "CronJob",
            &edge("1.31"),
            "batch/v1beta1 CronJob was removed in 1.25 (edge-7 runs 1.31); use batch/v1",
        ),
        ("v1", "Deployment", &any, "v1 has no kind Deployment; it is in apps/v1"),
        ("apps/v2", "Deployment", &any, "apps/v2 has no kind Deployment; use apps/v1"),
        (
            "app/v1",
            "Deployment",
            &any,
            "no such API group in \"app/v1\"; did you mean \"apps/v1\"?",
        ),
        (
            "flowcontrol.apiserver.k8s.io/v1beta3",
            "FlowSchema",
            &edge("1.33"),
            "flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema was removed in 1.32 (edge-7 runs \
             1.33); use flowcontrol.apiserver.k8s.io/v1",
        ),
        (
            "flowcontrol.apiserver.k8s.io/v1beta3",
            "FlowSchema",
            &edge("1.31"),
            "flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema will be removed in 1.32 (edge-7 runs \
             1.31); use flowcontrol.apiserver.k8s.io/v1",
        ),
        (
            "flowcontrol.apiserver.k8s.io/v1beta3",
            "FlowSchema",
            &any,
            "flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema is removed in 1.32; use \
             flowcontrol.apiserver.k8s.io/v1",
        ),
        ("example.com/v1", "Anything", &any, ""),
    ] {
        assert_eq!(message(api_version, kind, cluster), expected);
    }
}

#[test]
fn fields_of_other_minors() {
    let with = |version: Option<&str>| {
        let rules = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]);
        let object = deployment(&format!("{CONTAINER}/restartPolicyRules"), rules);
        let version = version.and_then(KubernetesVersion::parse);
        check(&object, &Cluster { name: "edge-7".into(), version })
    };
    assert_eq!(with(None), []);
    assert_eq!(with(Some("1.34")), []);
    let found = with(Some("1.31"));
    assert!(found[0].message.ends_with("from 1.34 (edge-7 runs 1.31)"), "{found:?}");
    assert!(found[0].help.is_some_and(|help| help.contains("run a version")), "{found:?}");
    assert!(!found[0].is_uncertain);
    assert!(with(Some("1.30"))[0].is_uncertain, "the table does not have 1.30");
}

#[test]
fn values_of_secrets_stay_out_of_messages() {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"},
        "data": {"password": "canary!", "number": 4711}, "stringData": {"pin": 815, "yes": true},
    });
    let messages = found(&secret);
    let expected = [
        "/data/number: `number` must be base64, not a number; put plain text under `stringData`",
        "/data/password: `password` must be base64; put plain text under `stringData`",
        "/stringData/pin: `pin` must be text, not a number; quote it",
        "/stringData/yes: `yes` must be text, not a boolean; quote it",
    ];
    assert_eq!(messages, expected);
    let all = messages.join("\n");
    assert!(!["canary", "4711", "815", "true"].iter().any(|one| all.contains(one)), "{all}");
}

fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "backups.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Backup", "plural": "backups"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {
                        "type": "object",
                        "required": ["schedule", "keep"],
                        "properties": {
                            "schedule": {"type": "string", "pattern": "^@[a-z]+$"},
                            "keep": {
                                "type": "integer", "format": "int32", "minimum": 1, "default": 3,
                            },
                            "target": {"type": "string", "enum": ["disk", "s3"]},
                            "port": {"x-kubernetes-int-or-string": true},
                            "note": {"type": "string", "nullable": true},
                            "tags": {
                                "type": "array", "items": {"type": "string"}, "minItems": 1,
                                "x-kubernetes-list-type": "set",
                            },
                            "any": {
                                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                                "properties": {"known": {"type": "boolean"}},
                            },
                            "template": {
                                "type": "object", "x-kubernetes-embedded-resource": true,
                                "x-kubernetes-preserve-unknown-fields": true,
                            },
                            "either": {
                                "type": "object",
                                "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                                "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
                            },
                        },
                    }},
                }},
            }],
        },
    })
}

#[test]
fn crd_with_a_structural_schema_is_valid() {
    assert_eq!(found(&crd()), Vec::<String>::new());
}

/// The first finding in an object of the CRD with this value in its spec.
fn found_in_backup(schemas: &CrdSchemas, name: &str, value: Value) -> Option<String> {
    let mut object = json!({
        "apiVersion": "example.com/v1", "kind": "Backup", "metadata": {"name": "a"},
        "spec": {"schedule": "@daily"},
    });
    object["spec"][name] = value;
    let found = check_custom(&object, schemas);
    found.into_iter().map(|one| format!("{}: {}", one.pointer, one.message)).next()
}

#[test]
fn custom_objects_against_their_crd() {
    let schemas = CrdSchemas::of(&crd()).unwrap();
    let with = |name: &str, value: Value| found_in_backup(&schemas, name, value);
    for (name, value) in [
        ("keep", json!(1)),
        ("target", json!("s3")),
        ("port", json!(80)),
        ("port", json!("http")),
        ("note", json!(null)),
        ("keep", json!(null)),
        ("any", json!({"known": true, "other": [1]})),
        ("template", json!({"apiVersion": "v1", "kind": "Pod", "spec": {}})),
        ("either", json!({"a": "x"})),
    ] {
        assert_eq!(with(name, value.clone()), None, "{name}: {value}");
    }
}

#[test]
fn problems_of_custom_objects_name_the_field() {
    let schemas = CrdSchemas::of(&crd()).unwrap();
    let with = |name: &str, value: Value| found_in_backup(&schemas, name, value);
    for (name, value, expected) in [
        (
            "schedul",
            json!(""),
            "/spec/schedul: `spec` has no field `schedul`; did you mean `schedule`?",
        ),
        (
            "schedule",
            json!("daily"),
            "/spec/schedule: `schedule` is \"daily\", which does not match the pattern ^@[a-z]+$",
        ),
        (
            "schedule",
            json!(1),
            "/spec/schedule: `schedule` must be text, not the number 1; quote it",
        ),
        ("keep", json!(0), "/spec/keep: `keep` is 0, and must be at least 1"),
        (
            "keep",
            json!(5_000_000_000_i64),
            "/spec/keep: `keep` is 5000000000, and must be between -2147483648 and 2147483647",
        ),
        (
            "keep",
            json!("3"),
            "/spec/keep: `keep` must be a whole number, not the text \"3\"; remove the quotes",
        ),
        (
            "target",
            json!("dsk"),
            "/spec/target: `target` is \"dsk\", and must be one of disk, s3; did you mean \
             \"disk\"?",
        ),
    ] {
        assert_eq!(with(name, value).as_deref(), Some(expected));
    }
}

#[test]
fn lists_forms_and_versions_of_custom_objects() {
    let schemas = CrdSchemas::of(&crd()).unwrap();
    let with = |name: &str, value: Value| found_in_backup(&schemas, name, value);
    for (name, value, expected) in [
        ("tags", json!(["a", "a"]), "/spec/tags/1: `tags` has this item twice"),
        ("tags", json!([]), "/spec/tags: `tags` has 0 items; at least 1 is needed"),
        ("tags", json!([1]), "/spec/tags/0: `tags` must be text, not the number 1; quote it"),
        (
            "any",
            json!({"known": 1}),
            "/spec/any/known: `known` must be true or false, not the number 1",
        ),
        (
            "template",
            json!({"kind": "Pod"}),
            "/spec/template/apiVersion: `template` is an object of its own, which needs \
             `apiVersion`",
        ),
        (
            "either",
            json!({"a": "x", "b": "x"}),
            "/spec/either: `either` fits 2 of the forms of `oneOf`; it must fit one",
        ),
        ("schedule", json!(null), "/spec/schedule: `schedule` must not be null; remove the field"),
    ] {
        assert_eq!(with(name, value).as_deref(), Some(expected));
    }
    let object = json!({"apiVersion": "example.com/v1", "kind": "Backup", "specs": {}});
    let found = check_custom(&object, &schemas);
    assert_eq!(found[0].message, "Backup has no field `specs`; did you mean `spec`?");
    let old = json!({"apiVersion": "example.com/v1alpha1", "kind": "Backup", "metadata": {}});
    let found = check_custom(&old, &schemas);
    assert_eq!(found[0].message, "the CRD of Backup has no version \"v1alpha1\"; it serves v1");
}

/// Any object is checked within bounds: here, each `anyOf` doubles the work.
#[test]
fn schemas_that_multiply_end() {
    let mut schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut value = json!({});
    for _ in 0..40 {
        schema = json!({
            "anyOf": [{"properties": {"a": schema}}, {"properties": {"a": schema}, "not": {}}],
        });
        value = json!({"a": value});
        if schema.to_string().len() > 1_000_000 {
            break;
        }
    }
    let mut crd = crd();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
    let schemas = CrdSchemas::of(&crd).unwrap();
    value["apiVersion"] = json!("example.com/v1");
    value["kind"] = json!("Backup");
    assert!(check_custom(&value, &schemas).len() <= limits::FINDINGS_MAX);
    let wide: Vec<Value> = (0..100_000).map(|n| json!({"unknown": n})).collect();
    let object = deployment("/spec/template/spec/containers", json!(wide));
    assert_eq!(check(&object, &Cluster::default()).len(), limits::FINDINGS_MAX);
}
