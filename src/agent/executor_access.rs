//! What a work asks of its executor's permissions, and the answers that end in the status.

use gitwork_agent_core::manifest::ResourceMapping;
use gitwork_agent_core::object::Object;
use gitwork_api::work::{ExecutorSubjectType, ManifestResourceMeta, ManifestWorkExecutor};

use super::server::ApiError;

/// Why a manifest is not applied on behalf of an executor.
#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    /// The executor lacks a permission on the object.
    #[error(
        "not allowed to apply the resource {group} {resource}, {namespace} {name}{detail}, \
         will try again in 1m0s; {account} needs {need}"
    )]
    NotAllowed {
        group: String,
        resource: String,
        namespace: String,
        name: String,
        /// More about the denial, with a leading comma; may be empty.
        detail: &'static str,
        /// The user name of the service account.
        account: String,
        /// The missing permission.
        need: String,
    },
    /// The executor may not read the object, so the status says nothing about it.
    #[error(
        "not allowed to get the resource {group} {resource}, {namespace} {name}; {account} needs \
         a role with the rule {{apiGroups: [\"{group}\"], resources: [\"{resource}\"], \
         verbs: [\"get\"]}}"
    )]
    NotAllowedToRead {
        group: String,
        resource: String,
        namespace: String,
        name: String,
        /// The user name of the service account.
        account: String,
    },
    /// The executor is no service account.
    #[error("only support ServiceAccount type for the executor")]
    Kind,
    /// The executor names no service account.
    #[error("the executor service account is nil")]
    NoAccount,
    /// The API server did not answer the question.
    #[error("{0}")]
    Api(#[from] ApiError),
}

impl ExecutorError {
    /// Whether the API server denied the permission, rather than failed to respond.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::NotAllowed { .. })
    }
}

/// The executor's service account.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServiceAccount {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ServiceAccount {
    /// The service account of an executor.
    pub fn of(executor: &ManifestWorkExecutor) -> Result<Self, Box<ExecutorError>> {
        let subject = executor
            .subject
            .as_ref()
            .filter(|subject| subject.type_ == ExecutorSubjectType::ServiceAccount)
            .ok_or_else(|| Box::new(ExecutorError::Kind))?;
        let account = subject.service_account.as_ref();
        let account = account.ok_or_else(|| Box::new(ExecutorError::NoAccount))?;
        Ok(Self { namespace: account.namespace.clone(), name: account.name.clone() })
    }

    /// Its user name.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

/// What a work asks to apply on behalf of its executor.
pub struct AccessRequest<'a> {
    /// The executor in the work's spec.
    pub executor: &'a ManifestWorkExecutor,
    /// The resource of the object.
    pub mapping: &'a ResourceMapping,
    /// The namespace and name of the object, among others.
    pub meta: &'a ManifestResourceMeta,
    /// Whether the object is deleted with the work.
    pub owned: bool,
    /// The manifest.
    pub object: &'a Object,
}

impl AccessRequest<'_> {
    /// The error for a missing permission, which is `need`. `detail`: see
    /// [`ExecutorError::NotAllowed`].
    pub fn denied(
        &self,
        account: &ServiceAccount,
        detail: &'static str,
        need: String,
    ) -> ExecutorError {
        let Self { mapping, meta, .. } = self;
        ExecutorError::NotAllowed {
            group: mapping.group.clone(),
            resource: mapping.resource.clone(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            detail,
            account: account.user(),
            need,
        }
    }
}

/// An object that a work's status reports on, on behalf of the work's executor.
pub struct ReadRequest<'a> {
    /// The executor in the work's spec.
    pub executor: &'a ManifestWorkExecutor,
    /// The resource of the object.
    pub mapping: &'a ResourceMapping,
    /// The namespace and name of the object, among others.
    pub meta: &'a ManifestResourceMeta,
}

impl ReadRequest<'_> {
    /// The error for the missing permission.
    pub fn denied(&self, account: &ServiceAccount) -> ExecutorError {
        let Self { mapping, meta, .. } = self;
        ExecutorError::NotAllowedToRead {
            group: mapping.group.clone(),
            resource: mapping.resource.clone(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            account: account.user(),
        }
    }
}

/// What an executor wants to do with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Report on it.
    Read,
    /// Write it.
    Apply,
    /// Write it, and delete it with the work.
    ApplyAndDelete,
}

/// What was asked: who, for which object, and to do what.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Question {
    /// Who.
    pub account: ServiceAccount,
    /// The resource of the object.
    pub mapping: ResourceMapping,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What for.
    pub access: Access,
}

impl Question {
    /// Whether an account may read an object.
    pub fn read(
        account: &ServiceAccount,
        mapping: &ResourceMapping,
        meta: &ManifestResourceMeta,
    ) -> Self {
        Self {
            account: account.clone(),
            mapping: mapping.clone(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            access: Access::Read,
        }
    }
}
