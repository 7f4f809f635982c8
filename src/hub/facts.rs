//! The facts of the hub: what it says of ManagedClusters, Placements and PlacementDecisions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use gitwork_api::cluster::{CONDITION_AVAILABLE, ManagedClusterStatus};
use gitwork_api::names::check_label_value;
use gitwork_api::placement::{LABEL_PLACEMENT, PlacementDecisionStatus, PlacementStatus};
use jiff::Timestamp;
use kube::Client;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::fleet_error::FleetError;
use crate::fleet_resource::Resource;
use crate::limits;
use crate::resource_watch::ResourceEvent;
use gitwork_core::model::facts::{
    ClusterFacts, DecisionGroupFacts, Facts, PlacementFacts, PlacementKey,
};
use gitwork_core::model::name::ClusterName;
use gitwork_sync::observed_facts::{
    DecisionFacts, DecisionKey, FactsEvent, ObjectEvent, ObservedFacts,
};

/// The part of a cluster's object that facts need.
#[derive(Deserialize)]
struct Object<S> {
    metadata: Metadata,
    status: Option<S>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    deletion_timestamp: Option<String>,
}

/// The facts at `time` of the day, from one list of each kind. It does not show whether clusters
/// have left a Placement a short time ago.
///
/// # Errors
/// One of the kinds cannot be listed.
pub async fn list(client: &Client, time: Timestamp) -> Result<Facts, FleetError> {
    let clusters = Resource::clusters(client);
    let placements = Resource::placements(client);
    let decisions = Resource::placement_decisions(client);
    let (clusters, placements, decisions) = tokio::join!(
        clusters.list(None, cluster),
        placements.list(None, placement),
        decisions.list(None, decision),
    );
    let mut observed = ObservedFacts::new(Duration::ZERO);
    observe_list(clusters?, FactsEvent::Cluster, &mut observed);
    observe_list(placements?, FactsEvent::Placement, &mut observed);
    observe_list(decisions?, FactsEvent::Decision, &mut observed);
    if let Some(version) = version(client).await {
        observed.set_hub_version(version);
    }
    Ok(observed.listed(time))
}

fn observe_list<K, V>(
    list: Vec<Option<(K, V)>>,
    of_kind: fn(ObjectEvent<K, V>) -> FactsEvent,
    observed: &mut ObservedFacts,
) {
    let all = list.into_iter().flatten().map(|(key, facts)| ObjectEvent::Listed(key, facts));
    let all = all.chain([ObjectEvent::ListCompleted]);
    all.for_each(|event| observed.observe(of_kind(event)));
}

/// The Kubernetes version of the hub; `None` if it does not say.
pub async fn version(client: &Client) -> Option<String> {
    let found = timeout(limits::HUB_CALL, client.apiserver_version()).await.ok()?;
    found.ok().map(|found| found.git_version)
}

/// Follows all three kinds, without end. After an error the watch of a kind restarts with
/// exponential backoff; the error comes before the `Interrupted` event.
pub fn watch(client: &Client) -> BoxStream<'static, Result<FactsEvent, FleetError>> {
    let clusters = follow(Resource::clusters(client), cluster, FactsEvent::Cluster);
    let placements = follow(Resource::placements(client), placement, FactsEvent::Placement);
    let decisions = follow(Resource::placement_decisions(client), decision, FactsEvent::Decision);
    stream::select(clusters, stream::select(placements, decisions)).boxed()
}

fn follow<K: Send + 'static, V: Send + 'static>(
    resource: Resource,
    reduce: fn(Value) -> Option<(K, V)>,
    of_kind: fn(ObjectEvent<K, V>) -> FactsEvent,
) -> BoxStream<'static, Result<FactsEvent, FleetError>> {
    let events = resource.watch(None, reduce).flat_map(move |event| {
        let event = match event {
            Ok(ResourceEvent::ListStarted) => Some(ObjectEvent::ListStarted),
            Ok(ResourceEvent::ListCompleted) => Some(ObjectEvent::ListCompleted),
            Ok(ResourceEvent::Listed(found)) => {
                found.map(|(key, facts)| ObjectEvent::Listed(key, facts))
            }
            Ok(ResourceEvent::Changed(found)) => {
                found.map(|(key, facts)| ObjectEvent::Changed(key, facts))
            }
            Ok(ResourceEvent::Gone(found)) => found.map(|(key, _)| ObjectEvent::Gone(key)),
            Err(error) => {
                let both = [Err(error), Ok(of_kind(ObjectEvent::Interrupted))];
                return stream::iter(both).left_stream();
            }
        };
        stream::iter(event.map(|event| Ok(of_kind(event)))).right_stream()
    });
    events.boxed()
}

/// A ManagedCluster. Of one whose status cannot be read, or with more labels and claims than the
/// limit, the claims are unknown, not absent. `None` without a valid name.
pub fn cluster(object: Value) -> Option<(ClusterName, Arc<ClusterFacts>)> {
    let Object { metadata, status } = Object::<Value>::deserialize(object).ok()?;
    let name = ClusterName::parse(&metadata.name).ok()?;
    let read: Option<ManagedClusterStatus> =
        serde_json::from_value(status.unwrap_or_else(|| Value::Object(Map::new()))).ok();
    let mut facts = ClusterFacts { labels: metadata.labels, ..ClusterFacts::default() };
    facts.is_stale = read.is_none();
    facts.is_deleting = metadata.deletion_timestamp.is_some();
    let status = read.unwrap_or_default();
    let available = status.conditions.iter().find(|one| one.type_ == CONDITION_AVAILABLE);
    facts.is_unreachable = available.is_some_and(|one| one.status != "True");
    let version = status.version.map(|version| version.kubernetes);
    facts.version = version.filter(|version| !version.is_empty());
    facts.claims = status.cluster_claims.into_iter().map(|one| (one.name, one.value)).collect();
    if facts.is_too_large() {
        let ClusterFacts { is_deleting, is_unreachable, .. } = facts;
        let none = ClusterFacts::default();
        facts = ClusterFacts { is_stale: true, is_deleting, is_unreachable, ..none };
    }
    Some((name, Arc::new(facts)))
}

/// A Placement, without its decisions. `None` if its status cannot be read.
pub fn placement(object: Value) -> Option<(PlacementKey, PlacementFacts)> {
    let Object { metadata, status } = Object::<PlacementStatus>::deserialize(object).ok()?;
    let key = PlacementKey { namespace: metadata.namespace, name: metadata.name };
    let status = status.unwrap_or_default();
    let count = |number: Option<i32>| number.and_then(|number| usize::try_from(number).ok());
    let mut groups = status.decision_groups;
    groups.sort_by_key(|group| group.decision_group_index);
    let groups = groups.into_iter().map(|group| DecisionGroupFacts {
        // OCM has it as a label, too.
        name: Some(group.decision_group_name)
            .filter(|name| check_label_value(name).is_none())
            .unwrap_or_default(),
        decisions: group.decisions,
        cluster_count: count(group.cluster_count).unwrap_or_default(),
    });
    let facts = PlacementFacts {
        number_of_selected_clusters: count(status.number_of_selected_clusters),
        decision_groups: groups.collect(),
        ..PlacementFacts::default()
    };
    Some((key, facts))
}

/// A PlacementDecision of a Placement in its namespace. `None` if its status cannot be read.
pub fn decision(object: Value) -> Option<(DecisionKey, DecisionFacts)> {
    let Object { mut metadata, status } =
        Object::<PlacementDecisionStatus>::deserialize(object).ok()?;
    let name = metadata.labels.remove(LABEL_PLACEMENT).unwrap_or_default();
    let placement = PlacementKey { namespace: metadata.namespace.clone(), name };
    let decisions = status.map(|status| status.decisions).unwrap_or_default();
    let clusters = decisions.iter().filter_map(|one| ClusterName::parse(&one.cluster_name).ok());
    let facts = DecisionFacts { placement, clusters: clusters.collect() };
    Some(((metadata.namespace, metadata.name), facts))
}
