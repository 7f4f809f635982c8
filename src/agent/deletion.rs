//! Which object a DELETE is about, and what its response says of the object.

use gitwork_agent_core::object::{Object, text};
use serde_json::{Value, json};

/// Which object a deletion is about. The API server rejects the request with 409 if another one has
/// the name, or if the object has another version.
#[derive(Debug, Clone, Copy)]
pub struct DeletionTarget<'a> {
    /// The uid of the object.
    pub uid: &'a str,
    /// Its resourceVersion; `None` for any.
    pub revision: Option<u64>,
}

/// What a deletion has come to.
#[derive(Debug, Clone, PartialEq)]
pub enum Deletion {
    /// The object does not exist any more.
    Gone,
    /// The object may exist still, such as for a finalizer. With the object, if the response has
    /// it.
    Begun(Option<Object>),
}

impl<'a> DeletionTarget<'a> {
    /// The object with this uid, in any version.
    pub fn uid(uid: &'a str) -> Self {
        Self { uid, revision: None }
    }

    /// The body of the request.
    pub fn options(&self) -> Value {
        let mut preconditions = json!({"uid": self.uid});
        if let Some(revision) = self.revision {
            preconditions["resourceVersion"] = revision.to_string().into();
        }
        json!({"kind": "DeleteOptions", "apiVersion": "v1",
            "propagationPolicy": "Background", "preconditions": preconditions})
    }

    /// Reads the body of a successful response. An API server names the uid in a `Status` to say
    /// that it has removed the object. Without the uid, the deletion has only begun.
    pub fn outcome(&self, body: Object) -> Deletion {
        let is = |path: &[&str], expected: &str| text(&body, path) == expected;
        if !is(&["kind"], "Status") {
            return Deletion::Begun(Some(body));
        }
        let is_gone = is(&["status"], "Success") && is(&["details", "uid"], self.uid);
        if is_gone && !self.uid.is_empty() { Deletion::Gone } else { Deletion::Begun(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(body: Value) -> Deletion {
        let Value::Object(body) = body else { panic!("{body} is no object") };
        DeletionTarget::uid("u").outcome(body)
    }

    #[test]
    fn only_a_status_with_the_uid_says_that_the_object_is_gone() {
        let status = |uid: Value| {
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": {"name": "a", "kind": "configmaps", "uid": uid}})
        };
        assert_eq!(outcome(status("u".into())), Deletion::Gone);
        assert_eq!(outcome(status("another".into())), Deletion::Begun(None));
        assert_eq!(outcome(status(Value::Null)), Deletion::Begun(None));
        assert_eq!(outcome(json!({"kind": "Status", "status": "Success"})), Deletion::Begun(None));
        let object = json!({"kind": "ConfigMap", "metadata": {"uid": "u"}});
        let Deletion::Begun(Some(found)) = outcome(object.clone()) else { panic!("it may exist") };
        assert_eq!(Value::Object(found), object);
        let nameless = DeletionTarget::uid("");
        let Value::Object(body) = status("".into()) else { panic!() };
        assert_eq!(nameless.outcome(body), Deletion::Begun(None));
    }

    #[test]
    fn version_is_a_precondition_only_if_it_is_known() {
        let preconditions = |target: DeletionTarget<'_>| target.options()["preconditions"].clone();
        assert_eq!(preconditions(DeletionTarget::uid("u")), json!({"uid": "u"}));
        let target = DeletionTarget { uid: "u", revision: Some(7) };
        assert_eq!(preconditions(target), json!({"uid": "u", "resourceVersion": "7"}));
    }
}
