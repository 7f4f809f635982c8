//! Expressions in rules of ManifestWorks: client-go's JSONPath, CEL and jq.
//!
//! The agent evaluates them; validation checks them before a commit reaches a cluster. Both use the
//! same code.
//!
//! ```
//! use gitwork_rules::cel::CelEvaluator;
//! use gitwork_rules::jsonpath::JsonPathQuery;
//! use serde_json::json;
//!
//! let deployment = json!({ "spec": { "replicas": 3 }, "status": { "readyReplicas": 3 } });
//! let query = JsonPathQuery::parse(".status.readyReplicas").unwrap();
//! assert_eq!(query.find(&deployment).unwrap(), [&json!(3)]);
//! let rule = "object.status.readyReplicas == object.spec.replicas";
//! assert_eq!(CelEvaluator::new(&deployment).test(rule), Ok(true));
//! ```

pub mod cel;
pub mod ignored_fields;
pub mod jq;
pub mod jsonpath;
pub mod limits;
pub mod well_known;
