//! What `rollout` of a file asks for, as waves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::ocm::GroupKey;
use super::waves::Wave;
use crate::config::rollout::{
    Amount, DurationText, MandatoryGroup, OnFailure, RolloutSettings, RolloutType,
    StrategySettings, Threshold, WaveSettings,
};
use crate::config::window::ChangeWindows;
use crate::model::digest::Digest;
use crate::model::name::{ClusterName, WorkKey};

/// The name of the wave of all clusters that are in no other one. No wave in a file can have it.
pub const REST: &str = "*";

/// How long a cluster may take if nothing else is said.
const DEADLINE: Duration = Duration::from_secs(300);

/// The waves of a rollout, and how long a cluster may take.
#[derive(Debug, Clone, PartialEq)]
pub struct RolloutRules {
    /// `None` for no end.
    pub deadline: Option<Duration>,
    /// First to last; the last one is [`REST`].
    pub waves: Vec<WaveRules>,
    /// Once it is stopped, clusters that got the content get the last good one back.
    pub returns: bool,
}

/// One wave.
#[derive(Debug, Clone, PartialEq)]
pub struct WaveRules {
    /// Its name.
    pub name: String,
    /// How many clusters may be in progress at a time; `None` for all.
    pub max_concurrency: Option<Threshold>,
    /// How many clusters may fail.
    pub max_failures: Threshold,
    /// How long each cluster has to be healthy.
    pub soak: Duration,
    /// Somebody has to approve it.
    pub needs_approval: bool,
    /// When its clusters may get the content.
    pub window: ChangeWindows,
}

/// The rollout of a group's content at one commit.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupRollout {
    /// Identifies the content.
    pub content: Digest,
    /// The waves. Groups with equal settings share them.
    pub rules: Arc<RolloutRules>,
    /// The members of the group.
    pub members: BTreeMap<ClusterName, RolloutMember>,
}

/// A member of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RolloutMember {
    /// The position of its wave.
    pub wave: usize,
    /// Its works of the group that could be read, sorted.
    pub works: Arc<Vec<WorkKey>>,
    /// The content that these works are of, if it is another one than that of the group.
    pub earlier: Option<Digest>,
    /// A work of the group could not be read, or it is unknown whether the cluster is in the group
    /// or in which wave: it gets nothing, and is not done.
    pub is_blocked: bool,
}

impl RolloutRules {
    /// The waves of valid settings. What is not valid has its default.
    pub fn of(settings: &RolloutSettings) -> Self {
        let Some(waves) = &settings.waves else { return Self::of_strategy(settings) };
        let max_failures = amount(settings.max_failures.as_ref()).unwrap_or(Threshold::Count(0));
        let rest = WaveSettings { name: REST.to_owned(), ..WaveSettings::default() };
        let wave = |wave: &WaveSettings| WaveRules {
            name: wave.name.clone(),
            max_concurrency: amount(wave.max_concurrency.as_ref()),
            max_failures,
            soak: wait(wave.soak.as_ref()),
            needs_approval: wave.approval.is_some(),
            window: wave.window.clone().unwrap_or_default(),
        };
        Self {
            deadline: deadline(settings.progress_deadline.as_ref()),
            waves: waves.iter().chain([&rest]).map(wave).collect(),
            returns: returns(settings),
        }
    }

    fn of_strategy(settings: &RolloutSettings) -> Self {
        let kind = settings.kind.unwrap_or_default();
        let of_kind = match kind {
            RolloutType::All => &settings.all,
            RolloutType::Progressive => &settings.progressive,
            RolloutType::ProgressivePerGroup => &settings.progressive_per_group,
        };
        let default = StrategySettings::default();
        let found = of_kind.as_ref().unwrap_or(&default);
        let max_failures = amount(found.max_failures.as_ref()).unwrap_or(Threshold::Count(0));
        let is_all = kind == RolloutType::All;
        let wave = WaveRules {
            name: REST.to_owned(),
            max_concurrency: amount(found.max_concurrency.as_ref()),
            max_failures: if is_all { Threshold::Percent(100) } else { max_failures },
            soak: if is_all { Duration::ZERO } else { wait(found.min_success_time.as_ref()) },
            needs_approval: false,
            window: ChangeWindows::default(),
        };
        let deadline = deadline(found.progress_deadline.as_ref());
        Self { deadline, waves: vec![wave], returns: returns(settings) }
    }
}

/// The decision groups of a Placement that a strategy goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionGroupRules {
    /// Those that come first, one after the other. No cluster of them may fail.
    pub mandatory: Vec<GroupKey>,
    /// Whether the others come one after the other too. Else their clusters come together.
    pub is_per_group: bool,
}

/// The waves of decision groups.
#[derive(Debug, Clone, PartialEq)]
pub struct DecisionGroupWaves {
    /// The waves.
    pub rules: Arc<RolloutRules>,
    /// The position of the wave of each decision group.
    pub waves: Vec<usize>,
}

impl DecisionGroupWaves {
    /// The waves with their clusters. `groups`: the clusters of each decision group.
    pub fn with_clusters<'a>(
        &self,
        groups: impl Iterator<Item = &'a BTreeSet<ClusterName>>,
    ) -> Vec<Wave> {
        let mut clusters = vec![BTreeSet::new(); self.rules.waves.len()];
        for (group, wave) in groups.zip(&self.waves) {
            if let Some(of_wave) = clusters.get_mut(*wave) {
                of_wave.extend(group.iter().cloned());
            }
        }
        let waves = self.rules.waves.iter().zip(clusters);
        waves.map(|(rules, clusters)| rules.wave(clusters)).collect()
    }
}

impl DecisionGroupRules {
    /// Those of valid settings; `None` if they do not go by decision groups.
    pub fn of(settings: &RolloutSettings) -> Option<Self> {
        if !settings.uses_decision_groups() {
            return None;
        }
        let is_per_group = settings.kind == Some(RolloutType::ProgressivePerGroup);
        let of_group = &settings.progressive_per_group;
        let found = if is_per_group { of_group } else { &settings.progressive };
        let mandatory = found.iter().flat_map(|found| &found.mandatory_decision_groups);
        Some(Self { mandatory: mandatory.filter_map(key).collect(), is_per_group })
    }

    /// The waves of a Placement with decision groups of these names. `rules`: those without
    /// decision groups. `None` if it lacks a mandatory group: nobody knows which clusters come
    /// first.
    pub fn waves(&self, names: &[&str], rules: &RolloutRules) -> Option<DecisionGroupWaves> {
        let mut first = vec![false; names.len()];
        for key in &self.mandatory {
            let mut is_there = false;
            for (index, (name, first)) in names.iter().zip(&mut first).enumerate() {
                let is_wanted = key.is_of(index, name);
                (*first, is_there) = (*first || is_wanted, is_there || is_wanted);
            }
            if !is_there {
                return None;
            }
        }
        let rest = rules.waves.last()?;
        let (mut waves, mut of_groups) = (Vec::new(), vec![0; names.len()]);
        for is_mandatory in [true, false] {
            for (index, name) in
                names.iter().enumerate().filter(|(at, _)| first[*at] == is_mandatory)
            {
                of_groups[index] = waves.len();
                if is_mandatory || self.is_per_group {
                    waves.push(WaveRules::of_group(index, name, is_mandatory, rest));
                }
            }
        }
        waves.push(rest.clone());
        let rules = RolloutRules { waves, ..rules.clone() };
        Some(DecisionGroupWaves { rules: Arc::new(rules), waves: of_groups })
    }
}

fn key(group: &MandatoryGroup) -> Option<GroupKey> {
    let by_index = || group.group_index.and_then(|index| usize::try_from(index).ok());
    let by_name = group.group_name.clone().map(GroupKey::Name);
    by_name.or_else(|| by_index().map(GroupKey::Index))
}

impl WaveRules {
    /// The wave of these clusters, which wait for nothing but the waves before.
    pub fn wave(&self, clusters: BTreeSet<ClusterName>) -> Wave {
        Wave {
            name: self.name.clone(),
            clusters,
            max_concurrency: self.max_concurrency,
            max_failures: self.max_failures,
            soak: self.soak,
            gate: None,
        }
    }

    /// The wave of one decision group.
    fn of_group(index: usize, name: &str, is_mandatory: bool, rest: &Self) -> Self {
        let dash = if name.is_empty() { "" } else { "-" };
        Self {
            // Names of groups need not differ.
            name: format!("group-{index}{dash}{name}"),
            max_concurrency: None,
            max_failures: if is_mandatory { Threshold::Count(0) } else { rest.max_failures },
            ..rest.clone()
        }
    }
}

fn returns(settings: &RolloutSettings) -> bool {
    settings.on_failure == Some(OnFailure::Return)
}

fn amount(amount: Option<&Amount>) -> Option<Threshold> {
    amount.and_then(|amount| amount.parse().ok())
}

fn wait(text: Option<&DurationText>) -> Duration {
    text.and_then(|text| text.parse().ok().flatten()).unwrap_or_default()
}

fn deadline(text: Option<&DurationText>) -> Option<Duration> {
    match text.map(DurationText::parse) {
        Some(Ok(deadline)) => deadline,
        Some(Err(_)) | None => Some(DEADLINE),
    }
}
