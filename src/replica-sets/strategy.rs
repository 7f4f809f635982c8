//! The `rolloutStrategy` of a reference to a Placement.

use std::fmt;
use std::time::Duration;

use gitwork_core::config::rollout::{Amount, Threshold};
use serde_json::Value;

use crate::go_duration;
use crate::semantics::RolloutSemantics;

/// A decision group that comes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MandatoryKey {
    /// All groups of this name.
    Name(String),
    /// The group with this index.
    Index(i64),
}

impl fmt::Display for MandatoryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "named {name:?}"),
            Self::Index(index) => write!(f, "with index {index}"),
        }
    }
}

/// The kind of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutKind {
    /// All clusters at once.
    All,
    /// A number of clusters at a time; `None` for all.
    Progressive(Option<Threshold>),
    /// One decision group at a time.
    ProgressivePerGroup,
}

impl RolloutKind {
    /// The field of `rolloutStrategy` that has its settings.
    pub(crate) fn field(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Progressive(_) => "progressive",
            Self::ProgressivePerGroup => "progressivePerGroup",
        }
    }
}

/// How a template reaches the clusters of one Placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetStrategy {
    pub kind: RolloutKind,
    /// Groups that come first.
    pub mandatory: Vec<MandatoryKey>,
    /// How many clusters may fail.
    pub max_failures: Threshold,
    /// How long a cluster must have succeeded.
    pub soak: Duration,
    /// How long a cluster may take; `None` for no end.
    pub deadline: Option<Duration>,
}

impl SetStrategy {
    /// Reads `rolloutStrategy`. The error says which field is invalid and how to write it.
    pub fn read(value: Option<&Value>, semantics: RolloutSemantics) -> Result<Self, String> {
        let kind = value.and_then(|value| value.get("type")).filter(|kind| !kind.is_null());
        let kind = kind.map_or(Ok("All"), |kind| kind.as_str().ok_or(kind));
        let kind = match kind {
            Ok("All") => RolloutKind::All,
            Ok("Progressive") => RolloutKind::Progressive(None),
            Ok("ProgressivePerGroup") => RolloutKind::ProgressivePerGroup,
            Ok(other) => return Err(bad_type(&format!("{other:?}"))),
            Err(other) => return Err(bad_type(&other.to_string())),
        };
        let field = kind.field();
        let config = value.and_then(|value| value.get(field)).unwrap_or(&Value::Null);
        let fields = ConfigFields { config, field, semantics };
        let mut strategy = Self {
            kind,
            mandatory: mandatory(config),
            max_failures: fields.amount("maxFailures")?.unwrap_or(Threshold::Count(0)),
            soak: fields.duration("minSuccessTime")?.unwrap_or_default(),
            deadline: fields.deadline()?,
        };
        match &mut strategy.kind {
            RolloutKind::All => strategy.soak = Duration::ZERO,
            RolloutKind::Progressive(most) => *most = fields.max_concurrency()?,
            RolloutKind::ProgressivePerGroup => {}
        }
        Ok(strategy)
    }
}

fn bad_type(found: &str) -> String {
    format!("type is {found}; write All, Progressive or ProgressivePerGroup")
}

fn mandatory(config: &Value) -> Vec<MandatoryKey> {
    let all = config.get("mandatoryDecisionGroups").and_then(Value::as_array);
    let read = |group: &Value| match group.get("groupName").and_then(Value::as_str) {
        Some(name) if !name.is_empty() => MandatoryKey::Name(name.to_owned()),
        _ => MandatoryKey::Index(group.get("groupIndex").and_then(Value::as_i64).unwrap_or(0)),
    };
    all.into_iter().flatten().map(read).collect()
}

/// The settings of one kind of rollout.
struct ConfigFields<'a> {
    config: &'a Value,
    field: &'static str,
    semantics: RolloutSemantics,
}

impl ConfigFields<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        self.config.get(name).filter(|value| !value.is_null())
    }

    fn problem(&self, name: &str, problem: &str) -> String {
        format!("{}.{name} {problem}", self.field)
    }

    fn amount(&self, name: &str) -> Result<Option<Threshold>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let amount = match (value.as_i64(), value.as_str()) {
            (Some(number), _) => Amount::Number(number),
            (None, Some(text)) => Amount::Text(text.to_owned()),
            (None, None) => {
                let problem = format!("is {value}; write a number or a percentage as in 25%");
                return Err(self.problem(name, &problem));
            }
        };
        // Upstream's handler rejects a number in quotes, which the CRD accepts.
        if let (RolloutSemantics::Upstream, Amount::Text(text)) = (self.semantics, &amount)
            && !text.ends_with('%')
        {
            let problem = format!("is {text:?}; write the number without quotes");
            return Err(self.problem(name, &problem));
        }
        amount.parse().map(Some).map_err(|problem| self.problem(name, &problem))
    }

    fn max_concurrency(&self) -> Result<Option<Threshold>, String> {
        let most = self.amount("maxConcurrency")?;
        let is_zero = matches!(most, Some(Threshold::Count(0) | Threshold::Percent(0)));
        if is_zero && self.semantics == RolloutSemantics::Gitwork {
            let problem = "is 0, so no cluster would ever get the template; write at least 1, or \
                           leave it out for all clusters at once";
            return Err(self.problem("maxConcurrency", problem));
        }
        Ok(most)
    }

    fn duration(&self, name: &str) -> Result<Option<Duration>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let text = value.as_str();
        if text == Some("") {
            return Ok(None);
        }
        text.and_then(go_duration::parse).map(Some).ok_or_else(|| {
            let problem = format!("is {value}; write a duration as in 1h30m, 5m or 45s");
            self.problem(name, &problem)
        })
    }

    fn deadline(&self) -> Result<Option<Duration>, String> {
        match self.get("progressDeadline").and_then(Value::as_str) {
            Some("None") => Ok(None),
            _ => self.duration("progressDeadline"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> Result<SetStrategy, String> {
        SetStrategy::read(Some(value), RolloutSemantics::Gitwork)
    }

    #[test]
    fn defaults_are_those_of_the_crd() {
        let all = SetStrategy {
            kind: RolloutKind::All,
            mandatory: Vec::new(),
            max_failures: Threshold::Count(0),
            soak: Duration::ZERO,
            deadline: None,
        };
        assert_eq!(SetStrategy::read(None, RolloutSemantics::Gitwork), Ok(all.clone()));
        for value in [json!({}), json!({"type": "All", "all": {"progressDeadline": "None"}})] {
            assert_eq!(read(&value), Ok(all.clone()), "{value}");
        }
        let progressive = json!({"type": "Progressive", "progressive": {
            "minSuccessTime": "0", "progressDeadline": "10s", "maxFailures": "10%",
            "maxConcurrency": 2, "mandatoryDecisionGroups": [{}, {"groupName": "a"},
                {"groupIndex": 3}],
        }});
        let expected = SetStrategy {
            kind: RolloutKind::Progressive(Some(Threshold::Count(2))),
            mandatory: vec![
                MandatoryKey::Index(0),
                MandatoryKey::Name("a".into()),
                MandatoryKey::Index(3),
            ],
            max_failures: Threshold::Percent(10),
            soak: Duration::ZERO,
            deadline: Some(Duration::from_secs(10)),
        };
        assert_eq!(read(&progressive), Ok(expected));
    }

    /// M9 and M13: what upstream rejects late, takes for something else, or cannot decode.
    #[test]
    fn invalid_fields_are_named_with_the_fix() {
        let progressive = |field: &str, value: Value| {
            let config = json!({ field: value });
            json!({"type": "Progressive", "progressive": config})
        };
        for (value, expected) in [
            (
                progressive("minSuccessTime", json!("5 minutes")),
                "progressive.minSuccessTime is \"5 minutes\"; write a duration as in 1h30m",
            ),
            (progressive("progressDeadline", json!("10")), "progressive.progressDeadline is"),
            (progressive("maxConcurrency", json!(0)), "progressive.maxConcurrency is 0"),
            (progressive("maxConcurrency", json!("0%")), "progressive.maxConcurrency is 0"),
            (progressive("maxFailures", json!("many")), "progressive.maxFailures is \"many\""),
            (progressive("maxFailures", json!([1])), "progressive.maxFailures is [1]"),
            (json!({"type": "Slow"}), "type is \"Slow\"; write All"),
            (json!({"type": 3}), "type is 3; write All"),
        ] {
            let problem = read(&value).unwrap_err();
            assert!(problem.starts_with(expected), "{problem}");
        }
        let quoted = progressive("maxFailures", json!("3"));
        assert_eq!(read(&quoted).unwrap().max_failures, Threshold::Count(3));
        let upstream = SetStrategy::read(Some(&quoted), RolloutSemantics::Upstream).unwrap_err();
        assert!(upstream.contains("without quotes"), "{upstream}");
    }
}
