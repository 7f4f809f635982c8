//! The result of `gitwork explain`.

use schemars::JsonSchema;
use serde::Serialize;

use super::conclusion::Conclusion;
use super::git_side::GitSide;
use crate::status::tree::{ObjectStatus, WorkTree};
use gitwork_core::model::name::RepoPath;

/// The result of `gitwork explain`, with the fields of its JSON output.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The managed cluster, and so the namespace on the hub.
    pub cluster: String,
    /// The name of the ManifestWork.
    pub work: String,
    /// The object, as in `Deployment shop/web`; absent for the whole work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Why it is on the cluster, or why it is not.
    pub answer: Conclusion,
    /// Its files and settings in Git.
    pub git: GitSide,
    /// Absent if the hub could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hub: Option<HubSide>,
    /// Why the hub could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hub_unknown: Option<String>,
    /// How many settings and objects are left out because of the size of the output.
    #[serde(skip_serializing_if = "is_zero")]
    pub omitted: usize,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The state on the hub.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HubSide {
    /// The ManifestWork without its objects; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkTree>,
    /// The object in question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectStatus>,
}

impl Explanation {
    /// Makes every path relative to the repository's root. `path` is the source's folder.
    pub fn prefix_paths(&mut self, path: &RepoPath) {
        let git = &mut self.git;
        git.folder = git.folder.take().map(|folder| path.join_path(&folder));
        let settings = git.settings.iter_mut();
        let places = settings.flat_map(|one| one.set_by.iter_mut().chain(&mut one.overrides));
        let objects = git.objects.iter_mut().map(|one| &mut one.place);
        let problems = git.problems.iter_mut().map(|one| &mut one.place);
        places.chain(objects).chain(problems).chain(&mut git.place).for_each(|one| one.below(path));
    }
}
