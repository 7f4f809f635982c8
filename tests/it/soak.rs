//! The arithmetic of the soak's report. The soak itself takes an hour: `cargo bench --bench soak`.

#[path = "../../benches/soak/plot.rs"]
mod plot;
#[path = "../../benches/soak/report.rs"]
mod report;

use report::{Bounds, Event, Folder, Row, Sample, Usage};

const BOUNDS: Bounds = Bounds {
    rss_mib: [100.0; 3],
    rss_growth: (0.1, 4.0),
    handles_growth: 10.0,
    packs: 200.0,
    mirror: (3.0, 16.0),
    metrics: 10_000.0,
};

fn names() -> Vec<String> {
    vec!["gitwork".to_owned()]
}

/// A look every five seconds. `of` gives RSS in MiB and open files, or none where the program is
/// away.
fn samples(
    count: usize,
    of: impl Fn(usize) -> Option<(u64, u64)>,
    life: impl Fn(usize) -> usize,
) -> Vec<Sample> {
    let sample = |number: usize| {
        let usage = of(number).map(|(rss_mib, handles)| Usage {
            life: life(number),
            rss_kib: rss_mib * 1024,
            handles: handles + 7,
            packs: 7,
            threads: 4,
            ..Usage::default()
        });
        let mirror = Folder { bytes: 2 << 20, files: 10, packs: 3 };
        Sample {
            seconds: 5.0 * number as f64,
            metrics_bytes: 9_000,
            mirror,
            programs: vec![usage],
            ..Sample::default()
        }
    };
    (0..count).map(sample).collect()
}

/// The series that exceed their bounds.
fn broken(rows: &[Row]) -> Vec<String> {
    let over = rows.iter().filter(|row| row.bound.as_ref().is_some_and(|(_, kept)| !kept));
    over.map(|row| row.what.clone()).collect()
}

#[test]
fn growing_series_exceed_their_bounds_and_flat_ones_do_not() {
    // Forty minutes: flat; a leak of 20 MiB; a leak of files; a high start that the warm-up leaves
    // out.
    type Grows = fn(usize) -> (u64, u64);
    let cases: [(Grows, &[&str]); 4] = [
        (|_| (50, 20), &[]),
        (|number| (50 + number as u64 / 24, 20), &["gitwork, process 1, 2395 s: RSS, MiB"]),
        (
            |number| (50, 20 + number as u64 / 24),
            &["gitwork, process 1, 2395 s: open files besides packs"],
        ),
        (|number| (if number < 24 { 10 } else { 50 }, 20), &[]),
    ];
    for (grows, wanted) in cases {
        let samples = samples(480, |number| Some(grows(number)), |_| 1);
        assert_eq!(broken(&report::of_processes(&samples, &names(), &BOUNDS)), wanted);
    }
}

#[test]
fn samples_are_grouped_by_process_and_short_ones_are_skipped() {
    // Away for a minute at a third; the second process is the larger one.
    let there = |number: usize| match number {
        0..160 => Some((40, 20)),
        160..172 => None,
        _ => Some((60, 20)),
    };
    let samples = samples(480, there, |number| 1 + number / 160);
    let rows = report::of_processes(&samples, &names(), &BOUNDS);
    let whats: Vec<&str> = rows.iter().map(|row| row.what.as_str()).collect();
    assert_eq!(whats.len(), 9, "{whats:?}");
    assert!(whats[3].starts_with("gitwork, process 2, 735 s"), "{whats:?}");
    assert_eq!((rows[3].first, rows[3].last, rows[3].most), (60.0, 60.0, 60.0));
    assert_eq!(broken(&rows), [""; 0]);
    let lives = report::lives(&samples, 0);
    assert_eq!(lives.iter().map(|life| life.number).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(report::of_processes(&samples[..100], &names(), &BOUNDS).is_empty());
}

#[test]
fn run_is_judged_by_its_maximum_and_by_a_fresh_clone() {
    let of = |rss: u64| {
        samples(100, move |number| Some((if number == 50 { rss } else { 40 }, 20)), |_| 1)
    };
    assert_eq!(broken(&report::of_run(&of(100), &names(), 1 << 20, &BOUNDS)), [""; 0]);
    assert_eq!(
        broken(&report::of_run(&of(101), &names(), 1 << 20, &BOUNDS)),
        ["gitwork: RSS, MiB"]
    );
    let mut grown = of(40);
    let (three_clones_and_more, a_little_less) = ((3 << 20) + (17 << 20), (3 << 20) + (15 << 20));
    for (bytes, wanted) in
        [(a_little_less, &[][..]), (three_clones_and_more, &["mirror on disk, MiB"])]
    {
        grown.iter_mut().for_each(|sample| sample.mirror.bytes = bytes);
        assert_eq!(broken(&report::of_run(&grown, &names(), 1 << 20, &BOUNDS)), wanted);
    }
    grown.iter_mut().for_each(|sample| sample.mirror = Folder { packs: 201, ..Folder::default() });
    grown[99].metrics_bytes = 10_001;
    let rows = report::of_run(&grown, &names(), 1 << 20, &BOUNDS);
    assert_eq!(broken(&rows), ["mirror: packs", "size of /metrics, bytes"]);
    assert!(
        report::markdown(&rows)
            .contains("| mirror: packs | 201.0 | 201.0 | 201.0 | most <= 200.0 | **no** |")
    );
}

#[test]
fn samples_and_processes_are_drawn_as_lines() {
    let samples = samples(20, |number| (number != 7).then_some((40, 20)), |number| 1 + number / 8);
    let csv = report::csv(&samples, &names());
    let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(columns, [20; 21]);
    let event = Event { seconds: 35.0, kind: "restart", text: "gitwork is killed".into() };
    assert_eq!(event.to_string(), "    35.0 restart  gitwork is killed\n");
    let svg = plot::svg(&samples, &[event], &names());
    // A gap where the program was away: the line begins twice.
    let first = svg.split("<path d=\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!((first.matches('M').count(), first.matches('L').count()), (2, 17));
    assert_eq!(svg.matches("<path").count(), 10);
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}
