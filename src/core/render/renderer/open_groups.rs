//! Groups that may have members that neither the facts nor Git name.

use std::collections::BTreeSet;

use super::Fleet;
use crate::model::name::{ClusterName, GroupName, WorkName};
use crate::render::desired::OpenGroups;
use crate::render::layout;

impl Fleet {
    /// What groups that may have unknown members may have for these. `compared`: the clusters that
    /// were compared with them.
    pub(super) fn open_groups(
        &self,
        open: &BTreeSet<GroupName>,
        compared: BTreeSet<ClusterName>,
    ) -> OpenGroups {
        let mut found = OpenGroups { compared, ..OpenGroups::default() };
        for group in &self.groups {
            let path = layout::group_path(&group.name);
            let names = group.folder.works.keys().chain(group.folder.blocked.keys());
            found.folders.extend(names.clone().map(|name| path.join(name)));
            if open.contains(&group.name) {
                found.works.extend(names.filter_map(|name| WorkName::parse(name).ok()));
            }
        }
        // A work.yaml may give another name.
        let folders = self.clusters.values().flat_map(|cluster| &cluster.works);
        let of_open = folders
            .filter(|(path, _)| layout::group_of(path).is_some_and(|group| open.contains(&group)));
        let keys = of_open.filter_map(|(_, folder)| folder.rendered.key.as_ref());
        found.works.extend(keys.map(|key| key.work.clone()));
        found
    }
}
