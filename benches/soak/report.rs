//! The result of a soak: medians of the first and the last quarter, of each process and of the
//! whole run, and whether a value grew beyond its bound. It is pure, so that its arithmetic has
//! tests.

use std::fmt::{self, Write as _};

/// The warm-up of a process: caches, arenas of the allocator, connections.
const WARM_UP: f64 = 120.0;
/// A process is judged by its growth if it lives at least this long.
pub const LONG_LIFE: f64 = 600.0;

/// The resources of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// The number of the process among the program's processes, from 1 on.
    pub life: usize,
    pub rss_kib: u64,
    /// The part of it that is not backed by files.
    pub anon_kib: u64,
    pub threads: u64,
    pub handles: u64,
    /// The part of them that is Git's packs and their indices.
    pub packs: u64,
    /// Processor time since its start.
    pub cpu_ms: u64,
}

/// A folder on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Folder {
    pub bytes: u64,
    pub files: u64,
    pub packs: u64,
}

/// One sample of everything.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// Since the start.
    pub seconds: f64,
    pub pushes: usize,
    pub works: usize,
    pub behind_hub: usize,
    pub behind_clusters: usize,
    /// Since the sample before.
    pub daemon_writes: usize,
    pub agent_writes: usize,
    /// The size of `/metrics`; 0 if the daemon does not respond.
    pub metrics_bytes: u64,
    pub mirror: Folder,
    pub status: Folder,
    /// The daemon, then the agents; `None` while a program does not run.
    pub programs: Vec<Option<Usage>>,
}

/// An event of the run.
#[derive(Debug, Clone)]
pub struct Event {
    pub seconds: f64,
    /// `push`, `fault` or `restart`, for example.
    pub kind: &'static str,
    pub text: String,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:8.1} {:<8} {}", self.seconds, self.kind, self.text)
    }
}

/// The bounds.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// RSS of each program at any time.
    pub rss_mib: [f64; 3],
    /// The growth of a process's RSS from its first quarter after the warm-up to its last: a
    /// factor, and MiB.
    pub rss_growth: (f64, f64),
    /// The same for open files other than packs, and for threads.
    pub handles_growth: f64,
    /// The number of the mirror's packs at any time.
    pub packs: f64,
    /// The size of the mirror at the end: a factor of a fresh clone, and MiB.
    pub mirror: (f64, f64),
    /// The size of `/metrics` at any time, in bytes: no label has a name, so the number of lines is
    /// bounded.
    pub metrics: f64,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub what: String,
    pub first: f64,
    pub last: f64,
    pub most: f64,
    /// The bound, and whether it holds.
    pub bound: Option<(String, bool)>,
}

/// One process.
pub struct Life {
    pub number: usize,
    pub usage: Vec<(f64, Usage)>,
}

impl Life {
    pub fn seconds(&self) -> f64 {
        let at = |sample: Option<&(f64, Usage)>| sample.map_or(0.0, |(at, _)| *at);
        at(self.usage.last()) - at(self.usage.first())
    }

    /// Whether the process is judged.
    pub fn is_long(&self) -> bool {
        self.seconds() >= LONG_LIFE
    }

    fn row(&self, what: String, of: impl Fn(&Usage) -> f64) -> Row {
        let begun = self.usage.first().map_or(0.0, |(at, _)| *at);
        let warm = if self.is_long() { begun + WARM_UP } else { begun };
        let values: Vec<f64> =
            self.usage.iter().filter(|(at, _)| *at >= warm).map(|(_, usage)| of(usage)).collect();
        Row::of(what, &values)
    }
}

impl Row {
    fn of(what: String, values: &[f64]) -> Row {
        let (first, last) = quarters(values);
        let most = values.iter().copied().fold(0.0, f64::max);
        Row { what, first, last, most, bound: None }
    }

    /// Compares the last quarter with the bound that the first allows.
    fn grows_at_most(self, share: f64, plus: f64, unit: &str) -> Row {
        let limit = self.first * (1.0 + share) + plus;
        let kept = self.last <= limit;
        Row { bound: Some((format!("last <= {limit:.1}{unit}"), kept)), ..self }
    }

    fn at_most(self, limit: f64, unit: &str) -> Row {
        let kept = self.most <= limit;
        Row { bound: Some((format!("most <= {limit:.1}{unit}"), kept)), ..self }
    }

    fn ends_at_most(self, limit: f64, unit: &str) -> Row {
        let kept = self.last <= limit;
        Row { bound: Some((format!("last <= {limit:.1}{unit}"), kept)), ..self }
    }
}

/// The medians of the first and of the last quarter.
fn quarters(values: &[f64]) -> (f64, f64) {
    let quarter = values.len().div_ceil(4);
    (median(&values[..quarter]), median(&values[values.len() - quarter..]))
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    }
}

/// The processes of a program.
pub fn lives(samples: &[Sample], program: usize) -> Vec<Life> {
    let mut lives: Vec<Life> = Vec::new();
    for sample in samples {
        let Some(Some(usage)) = sample.programs.get(program) else { continue };
        if lives.last().is_none_or(|life| life.number != usage.life) {
            lives.push(Life { number: usage.life, usage: Vec::new() });
        }
        if let Some(life) = lives.last_mut() {
            life.usage.push((sample.seconds, *usage));
        }
    }
    lives
}

pub const MIB: f64 = 1024.0 * 1024.0;

fn rss(usage: &Usage) -> f64 {
    usage.rss_kib as f64 / 1024.0
}

fn handles(usage: &Usage) -> f64 {
    (usage.handles - usage.packs) as f64
}

/// Every long-lived process with its result.
pub fn of_processes(samples: &[Sample], names: &[String], bounds: &Bounds) -> Vec<Row> {
    let mut rows = Vec::new();
    for (program, name) in names.iter().enumerate() {
        for life in lives(samples, program).iter().filter(|life| life.is_long()) {
            let what = format!("{name}, process {}, {:.0} s", life.number, life.seconds());
            let (share, plus) = bounds.rss_growth;
            rows.push(
                life.row(format!("{what}: RSS, MiB"), rss).grows_at_most(share, plus, " MiB"),
            );
            let row = life.row(format!("{what}: open files besides packs"), handles);
            rows.push(row.grows_at_most(0.0, bounds.handles_growth, ""));
            let row = life.row(format!("{what}: threads"), |usage| usage.threads as f64);
            rows.push(row.grows_at_most(0.0, bounds.handles_growth, ""));
        }
    }
    rows
}

/// The whole run with its results. `clone_bytes` is the size of a fresh clone of the repository's
/// branch.
pub fn of_run(samples: &[Sample], names: &[String], clone_bytes: u64, bounds: &Bounds) -> Vec<Row> {
    let mut rows = Vec::new();
    for (program, (name, limit)) in names.iter().zip(&bounds.rss_mib).enumerate() {
        let used: Vec<Usage> =
            samples.iter().filter_map(|sample| *sample.programs.get(program)?).collect();
        let values: Vec<f64> = used.iter().map(rss).collect();
        rows.push(Row::of(format!("{name}: RSS, MiB"), &values).at_most(*limit, " MiB"));
        let values: Vec<f64> = used.iter().map(handles).collect();
        rows.push(Row::of(format!("{name}: open files besides packs"), &values));
    }
    let all = |what: &str, of: &dyn Fn(&Sample) -> f64| {
        let values: Vec<f64> = samples.iter().map(of).collect();
        Row::of(what.to_owned(), &values)
    };
    let clone = clone_bytes as f64 / MIB;
    let limit = clone * bounds.mirror.0 + bounds.mirror.1;
    let row = all("mirror on disk, MiB", &|sample| sample.mirror.bytes as f64 / MIB);
    rows.push(row.ends_at_most(limit, " MiB"));
    let row = all("mirror: packs", &|sample| sample.mirror.packs as f64);
    rows.push(row.at_most(bounds.packs, ""));
    rows.push(all("status branch's repository, MiB", &|sample| sample.status.bytes as f64 / MIB));
    rows.push(all("status branch's repository: files", &|sample| sample.status.files as f64));
    let answered: Vec<f64> = samples
        .iter()
        .filter(|sample| sample.metrics_bytes > 0)
        .map(|sample| sample.metrics_bytes as f64)
        .collect();
    let row = Row::of("size of /metrics, bytes".to_owned(), &answered);
    rows.push(row.at_most(bounds.metrics, ""));
    rows.push(all("works on the hub behind Git", &|sample| sample.behind_hub as f64));
    rows.push(all("works on the clusters behind Git", &|sample| sample.behind_clusters as f64));
    rows
}

/// A table of rows.
pub fn markdown(rows: &[Row]) -> String {
    let mut text =
        "| what | first quarter | last quarter | most | bound | kept |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for Row { what, first, last, most, bound } in rows {
        let (bound, kept) = match bound {
            Some((bound, kept)) => (bound.as_str(), if *kept { "yes" } else { "**no**" }),
            None => ("", ""),
        };
        let _ =
            writeln!(text, "| {what} | {first:.1} | {last:.1} | {most:.1} | {bound} | {kept} |");
    }
    text
}

/// Every sample, one for each line.
pub fn csv(samples: &[Sample], names: &[String]) -> String {
    let mut text =
        "seconds,pushes,works,behind_hub,behind_clusters,daemon_writes,agent_writes,metrics_bytes,\
                    mirror_bytes,mirror_files,mirror_packs,status_bytes,status_files"
            .to_owned();
    for name in names {
        for column in
            ["life", "rss_kib", "anon_kib", "threads", "open_files", "open_packs", "cpu_ms"]
        {
            let _ = write!(text, ",{name}_{column}");
        }
    }
    text.push('\n');
    for sample in samples {
        let Sample { seconds, pushes, works, behind_hub, behind_clusters, .. } = sample;
        let Sample { daemon_writes, agent_writes, metrics_bytes, mirror, status, .. } = sample;
        let _ = write!(
            text,
            "{seconds:.1},{pushes},{works},{behind_hub},{behind_clusters},{daemon_writes},\
             {agent_writes},{metrics_bytes},\
             {},{},{},{},{}",
            mirror.bytes, mirror.files, mirror.packs, status.bytes, status.files
        );
        for usage in &sample.programs {
            match usage {
                Some(Usage { life, rss_kib, anon_kib, threads, handles, packs, cpu_ms }) => {
                    let _ = write!(
                        text,
                        ",{life},{rss_kib},{anon_kib},{threads},{handles},{packs},{cpu_ms}"
                    );
                }
                None => text.push_str(",,,,,,,"),
            }
        }
        text.push('\n');
    }
    text
}
