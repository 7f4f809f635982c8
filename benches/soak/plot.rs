//! The samples as a picture: panels over time, one below the other.

use std::fmt::Write as _;

use super::report::{Event, MIB, Sample, Usage};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 14.0;
const HEIGHT: f64 = 96.0;
const GAP: f64 = 44.0;
const TOP: f64 = 34.0;
const COLOURS: [&str; 3] = ["#2563eb", "#d97706", "#059669"];

/// A name and, for each sample, a value or `None`.
type Series = (String, Vec<Option<f64>>);

struct Panel {
    title: &'static str,
    series: Vec<Series>,
}

/// An SVG of a run.
pub fn svg(samples: &[Sample], events: &[Event], names: &[String]) -> String {
    let panels = panels(samples, names);
    let end = samples.last().map_or(1.0, |sample| sample.seconds).max(1.0);
    let height = TOP + panels.len() as f64 * (HEIGHT + GAP);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    let at = |seconds: f64| LEFT + (WIDTH - LEFT - RIGHT) * seconds / end;
    for event in events {
        let (colour, width) = match event.kind {
            "restart" => ("#dc2626", 0.8),
            "fault" => ("#9ca3af", 0.5),
            _ => continue,
        };
        let x = at(event.seconds);
        let _ = writeln!(
            text,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.0}\" \
             stroke=\"{colour}\" stroke-width=\"{width}\" stroke-dasharray=\"2 3\"/>",
            height - GAP
        );
    }
    let _ = writeln!(
        text,
        "<text x=\"{LEFT}\" y=\"14\" fill=\"#6b7280\">minutes; red: a program was ended or \
         killed, grey: another fault</text>"
    );
    for (number, panel) in panels.iter().enumerate() {
        let top = TOP + number as f64 * (HEIGHT + GAP);
        draw(&mut text, panel, samples, top, end);
    }
    text.push_str("</svg>\n");
    text
}

fn draw(text: &mut String, panel: &Panel, samples: &[Sample], top: f64, end: f64) {
    let values = || panel.series.iter().flat_map(|(_, values)| values.iter().flatten());
    let most = ceiling(values().copied().fold(0.0, f64::max));
    let x = |seconds: f64| LEFT + (WIDTH - LEFT - RIGHT) * seconds / end;
    let y = |value: f64| top + HEIGHT * (1.0 - value / most);
    let right = WIDTH - RIGHT;
    let _ = writeln!(
        text,
        "<text x=\"{LEFT}\" y=\"{:.0}\" font-weight=\"bold\">{}</text>",
        top - 6.0,
        panel.title
    );
    for part in 0..=2 {
        let value = most * f64::from(part) / 2.0;
        let _ = writeln!(
            text,
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{0:.1}\" y2=\"{0:.1}\" \
             stroke=\"#e5e7eb\"/><text x=\"{1}\" \
             y=\"{2:.1}\" text-anchor=\"end\" fill=\"#6b7280\">{value}</text>",
            y(value),
            LEFT - 6.0,
            y(value) + 4.0
        );
    }
    let step = if end > 1_200.0 { 10.0 } else { 1.0 };
    let mut minute = 0.0;
    while minute * 60.0 <= end {
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#6b7280\">{minute}</text>",
            x(minute * 60.0),
            top + HEIGHT + 14.0
        );
        minute += step;
    }
    for (number, (name, values)) in panel.series.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let mut path = String::new();
        let mut is_on = false;
        for (sample, value) in samples.iter().zip(values) {
            let Some(value) = value else {
                is_on = false;
                continue;
            };
            let command = if is_on { 'L' } else { 'M' };
            let _ = write!(path, "{command}{:.1} {:.1}", x(sample.seconds), y(*value));
            is_on = true;
        }
        let _ = writeln!(
            text,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.3\"/>\
             <text x=\"{right}\" y=\"{:.0}\" dx=\"{}\" text-anchor=\"end\" \
             fill=\"{colour}\">{name}</text>",
            top - 6.0,
            -150 * i32::try_from(panel.series.len() - 1 - number).unwrap_or_default()
        );
    }
}

/// The next round number.
fn ceiling(value: f64) -> f64 {
    let scale = 10_f64.powf(value.max(1.0).log10().floor());
    [1.0, 2.0, 4.0, 6.0, 10.0]
        .into_iter()
        .map(|step| step * scale)
        .find(|top| *top >= value)
        .unwrap_or(value)
}

fn panels(samples: &[Sample], names: &[String]) -> Vec<Panel> {
    let of_programs = |of: fn(&Usage) -> f64| -> Vec<Series> {
        let series = |(number, name): (usize, &String)| {
            let value =
                |sample: &Sample| sample.programs.get(number).copied().flatten().map(|u| of(&u));
            (name.clone(), samples.iter().map(value).collect())
        };
        names.iter().enumerate().map(series).collect()
    };
    let of_samples = |name: &str, of: fn(&Sample) -> f64| -> Series {
        (name.to_owned(), samples.iter().map(|sample| Some(of(sample))).collect())
    };
    vec![
        Panel { title: "RSS, MiB", series: of_programs(|usage| usage.rss_kib as f64 / 1024.0) },
        Panel {
            title: "open files besides packs",
            series: of_programs(|usage| (usage.handles - usage.packs) as f64),
        },
        Panel { title: "threads", series: of_programs(|usage| usage.threads as f64) },
        Panel {
            title: "on disk, MiB",
            series: vec![
                of_samples("mirror", |sample| sample.mirror.bytes as f64 / MIB),
                of_samples("status branch", |sample| sample.status.bytes as f64 / MIB),
            ],
        },
        Panel {
            title: "packs of the mirror",
            series: vec![of_samples("on disk", |sample| sample.mirror.packs as f64)],
        },
        Panel {
            title: "works behind Git",
            series: vec![
                of_samples("hub", |sample| sample.behind_hub as f64),
                of_samples("clusters", |sample| sample.behind_clusters as f64),
            ],
        },
        Panel {
            title: "writes of works in 5 s",
            series: vec![
                of_samples("daemon", |sample| sample.daemon_writes as f64),
                of_samples("agents", |sample| sample.agent_writes as f64),
            ],
        },
    ]
}
