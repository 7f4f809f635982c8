//! What informers deliver, and the keys that each controller's handlers add for it.

use serde_json::Value;

use super::OcmAgent;
use super::context::{Identity, WORK_FINALIZER};
use super::controller::Controller;
use super::informer::Event;
use super::json::{has_finalizer, name, text};

impl OcmAgent {
    pub(super) fn deliver_work(&mut self) {
        let event = self.works.deliver(&mut self.context.caches().works);
        let Some(event) = event else { return };
        self.expect_success();
        let work = name(event.object()).to_owned();
        let applied = self.applied_name(&work);
        for controller in [
            Controller::AddFinalizer,
            Controller::AvailableStatus,
            Controller::ManifestWorkFinalizer,
        ] {
            self.queue(controller).add(&work);
        }
        self.queue(Controller::Unmanaged).add(&applied);
        if applies(&event) {
            self.queue(Controller::ManifestWork).add(&work);
        }
    }

    pub(super) fn deliver_applied(&mut self) {
        let event = self.applied.deliver(&mut self.context.caches().applied);
        let Some(event) = event else { return };
        self.expect_success();
        let Identity { hub_hash, agent_id, .. } = self.context.identity.clone();
        let applied = name(event.object()).to_owned();
        if let Some(work) = applied.strip_prefix(&format!("{hub_hash}-")) {
            self.queue(Controller::ManifestWorkFinalizer).add(work);
        }
        if text(event.object(), "/spec/agentID") == agent_id {
            self.queue(Controller::AppliedManifestWorkFinalizer).add(&applied);
            self.queue(Controller::Unmanaged).add(&applied);
        }
    }

    fn expect_success(&mut self) {
        for queue in self.queues.values_mut() {
            queue.expect_success();
        }
    }
}

/// Whether the ManifestWork controller has to look at a changed work: the finalizer is new, or spec
/// or labels have changed. Its own changes of the status do not start it again.
fn applies(event: &Event) -> bool {
    let is_taken = |work: &Value| has_finalizer(work, WORK_FINALIZER);
    match event {
        Event::Added(work) => is_taken(work),
        Event::Updated { old, new } => {
            let labels = "/metadata/labels";
            let is_changed =
                old["spec"] != new["spec"] || old.pointer(labels) != new.pointer(labels);
            is_taken(new) && (is_changed || !is_taken(old))
        }
        Event::Deleted(_) => false,
    }
}
