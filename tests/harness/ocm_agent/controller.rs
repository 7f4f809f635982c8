//! The controllers.

use super::context::{Context, RunOutcome};
use super::gate::{Gate, Run};
use super::{availability, finalizers, unmanaged, work_controller};

/// Upstream's controllers. Each has a queue, and all share the informers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    AddFinalizer,
    ManifestWork,
    AvailableStatus,
    ManifestWorkFinalizer,
    AppliedManifestWorkFinalizer,
    Unmanaged,
}

impl Controller {
    /// How many keys it works on at once.
    pub fn workers(self) -> usize {
        if matches!(self, Self::AddFinalizer | Self::Unmanaged) { 1 } else { 10 }
    }

    /// A run on one key, which has not begun.
    pub fn run(self, key: &str, context: &Context) -> Run<RunOutcome> {
        let (gate, key) = (Gate::default(), key.to_owned());
        let context = context.gated(&gate);
        let future = async move {
            let key = key.as_str();
            match self {
                Self::AddFinalizer => finalizers::add_finalizer(&context, key).await,
                Self::ManifestWork => work_controller::sync(&context, key).await,
                Self::AvailableStatus => availability::sync(&context, key).await,
                Self::ManifestWorkFinalizer => finalizers::finalize_work(&context, key).await,
                Self::AppliedManifestWorkFinalizer => {
                    finalizers::finalize_applied(&context, key).await
                }
                Self::Unmanaged => unmanaged::sync(&context, key).await,
            }
        };
        Run::new(gate, future)
    }
}
