//! api
pub mod work {
    pub fn manifest_work_spec_schema() -> serde_json::Value {
        serde_json::json!({})
    }
}
