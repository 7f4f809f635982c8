//! Who chooses what happens next.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

/// One thing that can happen next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Who acts: an informer, or a controller and its key. It stays the same between requests.
    pub actor: String,
    /// What happens, such as `ManifestWork web: GET /api/v1/namespaces/a/configmaps/b`.
    pub label: String,
}

/// Chooses the order in which informers deliver and controllers run.
pub struct OrderChooser {
    source: Source,
    restarts: Option<(u32, fastrand::Rng)>,
}

enum Source {
    /// One byte a choice, then always the first.
    Explicit(VecDeque<u8>),
    Uniform(fastrand::Rng),
    /// Each actor has a random priority, which changes now and then. This delays an actor for
    /// longer than equal chances do.
    Priorities {
        random: fastrand::Rng,
        epoch: u64,
    },
    Function(Choose),
}

/// Gives the index of one of the choices.
type Choose = Box<dyn FnMut(&[Choice]) -> usize + Send>;

/// Priorities change before one in this many choices.
const CHOICES_OF_AN_EPOCH: u32 = 8;

/// A timer elapses at one in this many choices. It must be rare: each starts a run of many
/// requests, and runs would otherwise never end.
const CHOICES_BETWEEN_TIMERS: u32 = 64;

impl OrderChooser {
    /// Each byte chooses one whole run or delivery, by its remainder. After the last byte, the
    /// first choice is taken: caches are filled first, and runs start in the order of their keys.
    pub fn explicit(bytes: impl IntoIterator<Item = u8>) -> Self {
        Self::of(Source::Explicit(bytes.into_iter().collect()))
    }

    /// Chooses by a seed. Runs of different controllers and keys are interleaved between any two
    /// requests, as those of upstream's workers. Timers elapse at any time.
    pub fn seeded(seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self::of(match seed % 2 {
            0 => Source::Priorities { random, epoch: 0 },
            _ => Source::Uniform(random),
        })
    }

    /// Chooses by a function of the choices, which returns an index.
    pub fn by(choose: impl FnMut(&[Choice]) -> usize + Send + 'static) -> Self {
        Self::of(Source::Function(Box::new(choose)))
    }

    fn of(source: Source) -> Self {
        Self { source, restarts: None }
    }

    /// Also kills and restarts the agent, at one in `choices` choices.
    pub fn with_restarts(self, choices: u32, seed: u64) -> Self {
        Self { restarts: Some((choices, fastrand::Rng::with_seed(seed))), ..self }
    }

    /// Whether runs are interleaved. If not, a run ends before anything else happens.
    pub(super) fn interleaves(&self) -> bool {
        !matches!(self.source, Source::Explicit(_))
    }

    /// Whether the agent is killed now.
    pub(super) fn kills(&mut self) -> bool {
        self.restarts.as_mut().is_some_and(|(choices, random)| random.u32(..*choices) == 0)
    }

    /// Whether a timer elapses now.
    pub(super) fn timer_elapses(&mut self) -> bool {
        match &mut self.source {
            Source::Uniform(random) | Source::Priorities { random, .. } => {
                random.u32(..CHOICES_BETWEEN_TIMERS) == 0
            }
            Source::Explicit(_) | Source::Function(_) => false,
        }
    }

    pub(super) fn choose(&mut self, choices: &[Choice]) -> usize {
        let count = choices.len();
        match &mut self.source {
            Source::Explicit(bytes) => usize::from(bytes.pop_front().unwrap_or(0)) % count,
            Source::Uniform(random) => random.usize(..count),
            Source::Priorities { random, epoch } => {
                if random.u32(..CHOICES_OF_AN_EPOCH) == 0 {
                    *epoch = random.u64(..);
                }
                let priority = |index: &usize| {
                    let mut hasher = DefaultHasher::new();
                    (*epoch, &choices[*index].actor).hash(&mut hasher);
                    hasher.finish()
                };
                (0..count).max_by_key(priority).unwrap_or(0)
            }
            Source::Function(choose) => choose(choices).min(count - 1),
        }
    }
}
