//! Which works have an object.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::model::name::{ClusterName, WorkKey};
use crate::model::object_digest::ObjectDigest;
use crate::plan::effect::Effect;
use crate::plan::inputs::PlanInputs;
use crate::plan::observed::ObservedWork;
use crate::plan::step::Plan;
use crate::plan::work_spec::WorkSpec;
use crate::render::desired::FrozenWork;

/// Which works have an object, in Git and on the hub: those of the clusters that the plan writes
/// to. It is made when the first step asks.
pub(super) struct ObjectIndex<'a> {
    plan: &'a Plan,
    inputs: PlanInputs<'a>,
    works: OnceCell<WorksByObject<'a>>,
}

type Key<'a> = (&'a ClusterName, ObjectDigest);

#[derive(Default)]
pub(super) struct WorksByObject<'a> {
    pub(super) in_git: BTreeMap<Key<'a>, Vec<&'a WorkKey>>,
    pub(super) on_hub: BTreeMap<Key<'a>, Vec<&'a ObservedWork>>,
    /// The works whose agents report objects that they are to remove.
    pub(super) leaving: BTreeMap<Key<'a>, Vec<&'a WorkKey>>,
    pub(super) frozen: BTreeMap<&'a ClusterName, Vec<FrozenWork<'a>>>,
}

impl<'a> ObjectIndex<'a> {
    pub(super) fn new(plan: &'a Plan, inputs: PlanInputs<'a>) -> Self {
        Self { plan, inputs, works: OnceCell::new() }
    }

    /// Whether the work owns the object after this plan, too.
    pub(super) fn goes_on_owning(&self, work: &ObservedWork, digest: ObjectDigest) -> bool {
        let step = self.plan.steps.get(&work.key);
        let Some(effect) = step.and_then(|step| step.effect.as_ref()) else { return true };
        if let Effect::SetDeleteOption { delete_option, .. } = effect {
            return !delete_option.orphans_more_than(&work.delete_option);
        }
        let Some(body) = effect.body() else { return matches!(effect, Effect::Release { .. }) };
        let spec = WorkSpec::of(body.spec.value());
        spec.manifest(digest).is_some() && !spec.may_disown(digest)
    }

    pub(super) fn works(&self) -> &WorksByObject<'a> {
        self.works.get_or_init(|| {
            let PlanInputs { desired, observed, .. } = self.inputs;
            let effects = self.plan.effects();
            let clusters: BTreeSet<_> = effects.map(|(step, _)| &step.key.cluster).collect();
            let mut all = WorksByObject::default();
            let in_git = clusters.iter().flat_map(|cluster| desired.works.of_cluster(cluster));
            for (_, work) in in_git {
                for object in &*work.objects {
                    let key = (&work.key.cluster, object.digest);
                    all.in_git.entry(key).or_default().push(&work.key);
                }
            }
            let on_hub = clusters.iter().flat_map(|cluster| observed.works.of_cluster(cluster));
            for (_, work) in on_hub {
                for object in &work.objects {
                    let key = (&work.key.cluster, object.digest);
                    all.on_hub.entry(key).or_default().push(work);
                }
                let deleted = work.objects.iter().filter(|_| work.deleting);
                for object in work.left.iter().copied().chain(deleted.map(|one| one.digest)) {
                    let key = (&work.key.cluster, object);
                    all.leaving.entry(key).or_default().push(&work.key);
                }
            }
            all.frozen = desired.frozen.objects_by_cluster();
            all
        })
    }
}
