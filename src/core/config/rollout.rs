//! `rollout` of group.yaml and gitwork.yaml: how a change of a group reaches its clusters.
//!
//! The fields of the three strategies have OCM's names and meaning, so that a rolloutStrategy can
//! be pasted.

use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::member_selector::{GroupProblem, MemberSelector, pattern_problem};
use super::window::ChangeWindows;

mod problems;
#[cfg(test)]
mod tests;

/// How a change of the group reaches its clusters: by one of OCM's strategies, or in `waves`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(deny_unknown_fields)]
pub struct RolloutSettings {
    /// OCM's strategy. Default without `waves`: `All`.
    #[serde(rename = "type")]
    pub kind: Option<RolloutType>,
    /// Settings of `All`.
    pub all: Option<StrategySettings>,
    /// Settings of `Progressive`.
    pub progressive: Option<StrategySettings>,
    /// Settings of `ProgressivePerGroup`.
    pub progressive_per_group: Option<StrategySettings>,
    /// The waves, first to last. Clusters in none of them come last, as a wave of their own.
    #[schemars(length(min = 1, max = 50))]
    pub waves: Option<Vec<WaveSettings>>,
    /// With `waves`: number or percentage of the clusters of a wave that may fail. More stop the
    /// rollout. Default: 0.
    pub max_failures: Option<Amount>,
    /// With `waves`: a cluster that is not done so long after it got the content has failed.
    /// Default: `5m`.
    pub progress_deadline: Option<DurationText>,
    /// What to do once more clusters have failed than `maxFailures` allows. Default: `hold`.
    pub on_failure: Option<OnFailure>,
}

/// OCM's strategies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum RolloutType {
    /// All clusters at once. Failures stop nothing.
    #[default]
    All,
    /// At most `maxConcurrency` clusters at a time.
    Progressive,
    /// One decision group of the Placement after the other.
    ProgressivePerGroup,
}

/// Settings of a strategy.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(deny_unknown_fields)]
pub struct StrategySettings {
    /// Of `Progressive` and `ProgressivePerGroup`: decision groups of the Placement that come
    /// first, one after the other. A failure in one of them stops the rollout.
    #[schemars(length(max = 100))]
    pub mandatory_decision_groups: Vec<MandatoryGroup>,
    /// Of `Progressive`: number or percentage of the clusters that may be in progress at a time.
    /// Default: all.
    pub max_concurrency: Option<Amount>,
    /// A cluster counts as done once it has been healthy for so long. Default: `0s`.
    pub min_success_time: Option<DurationText>,
    /// A cluster that is not done so long after it got the content has failed. Default: `5m`.
    pub progress_deadline: Option<DurationText>,
    /// Number or percentage of the clusters that may fail. More stop the rollout. Default: 0.
    pub max_failures: Option<Amount>,
}

/// A decision group of a Placement, by its name or its index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(deny_unknown_fields)]
pub struct MandatoryGroup {
    /// Name of the decision group. All groups of this name come first.
    pub group_name: Option<String>,
    /// Index of the decision group, from 0.
    pub group_index: Option<u32>,
}

/// One wave.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct WaveSettings {
    /// Name of the wave, as statuses and approvals have it.
    pub name: String,
    /// Names of clusters. `*` matches any sequence of characters.
    #[schemars(length(min = 1, max = 1000))]
    pub clusters: Option<Vec<String>>,
    /// Labels and claims of the clusters.
    pub selector: Option<MemberSelector>,
    /// Number or percentage of the clusters of the wave that may be in progress at a time.
    /// Default: all.
    pub max_concurrency: Option<Amount>,
    /// The next wave begins once each cluster has been healthy for so long. Default: `0s`.
    pub soak: Option<DurationText>,
    /// `required`: the wave begins once somebody has approved it.
    pub approval: Option<WaveApproval>,
    /// When clusters of the wave may get the content. Windows of the source apply as well.
    pub window: Option<ChangeWindows>,
}

/// Whether a wave needs an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WaveApproval {
    /// It does.
    Required,
}

/// What to do once too many clusters have failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnFailure {
    /// No further cluster gets the content.
    #[default]
    Hold,
    /// As `hold`, and the clusters that got the content get the last good one back.
    Return,
}

/// A number of clusters, or a percentage as in `25%`. A number may be in quotes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Amount {
    /// Without quotes.
    Number(i64),
    /// With quotes, or with a percent sign.
    Text(String),
}

impl RolloutSettings {
    /// Whether the waves are decision groups of a Placement.
    pub fn uses_decision_groups(&self) -> bool {
        let kind = self.kind.filter(|_| self.waves.is_none());
        let mandatory = |settings: &Option<StrategySettings>| {
            settings.as_ref().is_some_and(|found| !found.mandatory_decision_groups.is_empty())
        };
        match kind.unwrap_or_default() {
            RolloutType::All => false,
            RolloutType::Progressive => mandatory(&self.progressive),
            RolloutType::ProgressivePerGroup => true,
        }
    }
}

impl JsonSchema for Amount {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number of clusters, or a percentage as in `25%`.",
            "type": ["integer", "string"],
        })
    }
}

/// A duration as in `1h30m`, or `None` for no end.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct DurationText(pub String);

/// A number of clusters, absolute or relative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threshold {
    /// So many clusters.
    Count(u32),
    /// A percentage of the clusters, rounded up.
    Percent(u32),
}

impl Threshold {
    /// How many of `total` clusters these are; at most all.
    pub fn of(self, total: usize) -> usize {
        self.unbounded(total).min(total)
    }

    /// How many clusters these are, also if there are fewer.
    pub fn unbounded(self, total: usize) -> usize {
        match self {
            Self::Count(count) => usize::try_from(count).unwrap_or(usize::MAX),
            Self::Percent(percent) => {
                let percent = usize::try_from(percent).unwrap_or(usize::MAX);
                total.saturating_mul(percent).div_ceil(100)
            }
        }
    }
}

impl Amount {
    /// What it says.
    ///
    /// # Errors
    /// What is wrong with it; reads after the field's name.
    pub fn parse(&self) -> Result<Threshold, String> {
        let count = |number: i64| {
            let found = u32::try_from(number).ok().map(Threshold::Count);
            found.ok_or_else(|| format!("is {number}; it must be between 0 and {}", u32::MAX))
        };
        let text = match self {
            Self::Number(number) => return count(*number),
            Self::Text(text) => text,
        };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let malformed =
            || format!("is {text:?}; write a number as in 3, or a percentage as in 25%");
        match text.strip_suffix('%') {
            Some(percent) if is_number(percent) => match percent.parse() {
                Ok(percent @ 0..=100) => Ok(Threshold::Percent(percent)),
                _ => Err(format!("is {text}; a percentage is at most 100%")),
            },
            None if is_number(text) => text.parse().map_err(|_| malformed()).and_then(count),
            _ => Err(malformed()),
        }
    }
}

impl DurationText {
    /// The duration; `None` for no end.
    ///
    /// # Errors
    /// What is wrong with it; reads after the field's name.
    pub fn parse(&self) -> Result<Option<Duration>, String> {
        let text = self.0.as_str();
        if text.is_empty() || text == "None" {
            return Ok(None);
        }
        let malformed =
            || format!("is {text:?}; write hours, minutes and seconds as in 1h30m, 10m or 45s");
        let (mut seconds, mut rest) = (0_u64, text);
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(malformed)?;
            let (number, after) = rest.split_at(digits);
            let unit = match after.as_bytes().first() {
                Some(b'h') => 3600,
                Some(b'm') => 60,
                Some(b's') => 1,
                _ => return Err(malformed()),
            };
            let number: u64 = number.parse().map_err(|_| malformed())?;
            let part = number.checked_mul(unit).ok_or_else(malformed)?;
            seconds = seconds.checked_add(part).ok_or_else(malformed)?;
            rest = after.get(1..).unwrap_or_default();
        }
        if seconds > DURATION_SECONDS_MAX {
            return Err(format!("is {text}; a year is the longest"));
        }
        Ok(Some(Duration::from_secs(seconds)))
    }
}

/// A year.
const DURATION_SECONDS_MAX: u64 = 366 * 24 * 3600;
