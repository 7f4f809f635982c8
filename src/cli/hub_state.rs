//! What a plan needs from the hub, read once.

use super::error::CommandError;
use super::hub::runtime;
use super::output;
use super::read_args::ConfiguredSource;
use super::source_args::HubArgs;
use gitwork_core::model::name::SourceId;
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_core::plan::directives::Directives;
use gitwork_core::plan::observed::ObservedWork;
use gitwork_hub::{Hub, KubeHub, RetryingHub, StoredRecord};
use gitwork_sync::verification_base::VerificationBase;

/// The hub's part of the inputs of a plan.
pub struct HubState {
    pub hub: RetryingHub<KubeHub>,
    pub works: Vec<ObservedWork>,
    /// The operators' directives; `None` if they could not be read.
    pub directives: Option<Directives>,
    /// The source's record; `None` if it could not be read.
    pub record: Option<Option<StoredRecord>>,
}

impl HubState {
    /// Reads the hub, and takes the id of the source from it if the arguments do not name it.
    pub fn ask(args: &HubArgs, configured: &mut ConfiguredSource) -> Result<Self, CommandError> {
        runtime()?.block_on(async {
            let client = super::hub::connect(args).await?;
            let hub = RetryingHub::new(KubeHub::new(client).in_namespace(args.namespace()));
            // All works: one without this source's label may have a name that Git wants.
            let works = hub.list(None).await?;
            configured.take_id_from_hub(&works, None);
            Ok(Self::read(&hub, &configured.config.id, works).await)
        })
    }

    pub async fn read(
        hub: &RetryingHub<KubeHub>,
        source: &SourceId,
        works: Vec<ObservedWork>,
    ) -> Self {
        let directives = hub.directives(source).await.inspect_err(|why| {
            output::note_failure("cannot read suspensions and approvals on the hub", why);
        });
        let record = hub.record(source).await.inspect_err(|why| {
            output::note_failure("cannot read the source's record on the hub", why);
        });
        Self { hub: hub.clone(), works, directives: directives.ok(), record: record.ok() }
    }

    /// What the hub proves about verified commits.
    pub fn verification_base(&self, source: &SourceId) -> Result<VerificationBase, CommandError> {
        let Some(record) = &self.record else { return Err(UnreadableRecordError.into()) };
        let has_works = self.works.iter().any(|work| work.is_ours(source));
        let approvals = self.directives.as_ref().map(|found| found.approvals.clone());
        let record = record.as_ref().map(|stored| &stored.record);
        Ok(VerificationBase::new(record, has_works, &approvals.unwrap_or_default()))
    }
}

/// Nothing can be verified without the source's record.
#[derive(Debug, thiserror::Error)]
#[error("the signatures cannot be checked without the source's record on the hub")]
struct UnreadableRecordError;

impl OperationError for UnreadableRecordError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "UnreadableRecord"
    }

    fn hints(&self) -> Vec<String> {
        let hint = "ask for the role gitwork-operator, or plan between two commits with --base";
        vec![hint.to_owned()]
    }
}
