//! The steps of an OCM hub after it has accepted a managed cluster, for a hub without OCM's own
//! controllers.

use std::path::PathBuf;
use std::time::Duration;

use gitwork_api::work::ManifestWork;
use kube::Client;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use super::apply::apply_all;
use super::cluster::{Cluster, config};
use super::wait::eventually;

/// The API server learns of new bindings from a watch, in milliseconds on an idle machine.
const RIGHTS: Duration = Duration::from_secs(300);

const WORK_ROLE: &str = "open-cluster-management:managedcluster:work";

impl Cluster {
    /// Creates an accepted ManagedCluster and its cluster namespace, if they do not exist. Returns
    /// the kubeconfig of its agent: a client certificate for the group of OCM's registration, with
    /// the rights that OCM binds to that group in this namespace. These do not include creating or
    /// deleting a ManifestWork, or reading a Secret.
    ///
    /// # Panics
    /// If this cluster is no hub.
    pub async fn accept(&self, cluster: &str) -> String {
        let objects = acceptance(cluster);
        apply_all(self.client(), &objects).await.unwrap();
        let group = group(cluster);
        let kubeconfig = self.kubeconfig_of(&format!("{group}:agent"), &group);
        let agent = Client::try_from(config(&kubeconfig).await.unwrap()).unwrap();
        let works: Api<ManifestWork> = Api::namespaced(agent, cluster);
        let none = ListParams::default().limit(1);
        let list = || async { works.list(&none).await.map(|_| ()).map_err(|e| e.to_string()) };
        eventually("the agent's rights to count", RIGHTS, list).await.unwrap();
        kubeconfig
    }

    /// Writes the result of [`Cluster::accept`] to a file.
    pub async fn accept_as_file(&self, cluster: &str) -> PathBuf {
        let text = self.accept(cluster).await;
        self.write_kubeconfig(&format!("{cluster}.agent"), &text)
    }
}

fn group(cluster: &str) -> String {
    format!("system:open-cluster-management:{cluster}")
}

fn acceptance(cluster: &str) -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io";
    let label = json!({"open-cluster-management.io/cluster-name": cluster});
    let works = "work.open-cluster-management.io";
    vec![
        json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": cluster}, "spec": {"hubAcceptsClient": true},
        }),
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": cluster, "labels": label},
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole",
            "metadata": {"name": WORK_ROLE},
            "rules": [
                {
                    "apiGroups": ["", "events.k8s.io"], "resources": ["events"],
                    "verbs": ["create", "patch", "update"],
                },
                {
                    "apiGroups": [works], "resources": ["manifestworks"],
                    "verbs": ["get", "list", "watch", "update", "patch"],
                },
                {
                    "apiGroups": [works], "resources": ["manifestworks/status"],
                    "verbs": ["patch", "update"],
                },
            ],
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding",
            "metadata": {
                "name": format!("open-cluster-management:managedcluster:{cluster}:work"),
                "namespace": cluster,
            },
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": WORK_ROLE},
            "subjects": [{"apiGroup": rbac, "kind": "Group", "name": group(cluster)}],
        }),
    ]
}
