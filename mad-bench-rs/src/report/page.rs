//! The page: a section for each experiment, with its question, its sentences, its pictures and all its figures.

use std::fmt::Write as _;

use crate::config::distinct;
use crate::experiments::find;
use crate::harness::line::Line;
use crate::harness::present::figure;
use crate::report::html;
use crate::report::html::escape;
use crate::report::plot;
use crate::report::plot::{Middle, Series};
use crate::report::saying::Verdict;
use crate::report::sections::{Measurement, Picture};
use crate::report::series::{groups, label};

/// The whole of it; `conditions`: where and how it was measured.
pub(super) fn page(done: &[Measurement], conditions: &str) -> String {
    let mut body =
        String::from("<header><h1>Threads and messages in one runtime: what was measured</h1>");
    let _ = write!(
        body,
        "<p class='dim'>mad {}. {}</p><nav>",
        env!("CARGO_PKG_VERSION"),
        escape(conditions)
    );
    for (index, part) in done.iter().enumerate() {
        let _ = write!(body, "<a href='#e{index}'>{}</a>", escape(part.section.title));
    }
    body.push_str("</nav><p class='dim'>Curves show medians, or means where the title says so, whiskers the tenth to the \
                   ninetieth percentile, the mark above them the ninety-ninth where it fits. Intervals in the tables are those \
                   in which the median of another run is to be expected.</p></header><main>");
    for (index, part) in done.iter().enumerate() {
        body.push_str(&section(index, part));
    }
    body.push_str("</main>");
    html::page("mad report", &body)
}

fn section(index: usize, done: &Measurement) -> String {
    let Measurement { section, lines, command, failed } = done;
    let source = find(section.bench).map_or("", |bench| bench.source);
    let mut out = format!(
        "<section id='e{index}'><h2>{}</h2><p>{}</p><p class='dim'>Source: {}. {}</p>",
        escape(section.title),
        escape(section.asks),
        escape(source),
        escape(section.found)
    );
    if let Some(command) = command {
        let _ = write!(out, "<p class='dim'><code>{}</code></p>", escape(command));
    }
    if let Some(why) = failed {
        let _ = write!(out, "<p class='says missed'>Not measured: {}</p>", escape(why));
    }
    for saying in (section.says)(lines) {
        let class = match saying.verdict {
            Verdict::Good => "says",
            Verdict::Unsure => "says unsure",
            Verdict::Missed => "says missed",
        };
        let _ = write!(out, "<p class='{class}'>{}</p>", escape(&saying.text));
    }
    out.push_str("<div class='plots'>");
    for picture in section.pictures {
        out.push_str(&draw(picture, lines));
    }
    out.push_str("</div>");
    if !lines.is_empty() {
        out.push_str(&table(lines));
    }
    out + "</section>"
}

fn draw(picture: &Picture, lines: &[Line]) -> String {
    let (Picture::Curves { metric, apart, .. }
    | Picture::Bars { metric, apart }
    | Picture::Heat { metric, apart, .. }) = picture;
    let mut out = String::new();
    for (name, group) in groups(lines, metric, apart) {
        let unit = group[0].unit.clone();
        let word = match picture {
            Picture::Curves { middle: Middle::Mean, .. } => ", mean",
            _ => "",
        };
        let colon = if name.is_empty() { "" } else { ": " };
        let title = format!("{metric}{word}{colon}{name}");
        match picture {
            Picture::Curves { x, middle, .. } => {
                let without: Vec<&str> = apart.iter().copied().chain([*x]).collect();
                let mut series: Vec<Series<'_>> = Vec::new();
                for &line in &group {
                    let name = label(line, &group, &without);
                    let Some(place) = line.config.number_of(x) else { continue };
                    let point = (place as f64, line);
                    match series.iter_mut().find(|series| series.name == name) {
                        Some(series) => series.points.push(point),
                        None => series.push(Series {
                            name,
                            library: line.key("library"),
                            points: vec![point],
                        }),
                    }
                }
                for series in &mut series {
                    series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
                }
                out.push_str(&plot::curves(&title, x, &unit, *middle, &series));
            }
            Picture::Bars { .. } => {
                let bars: Vec<(String, &Line)> =
                    group.iter().map(|&line| (label(line, &group, apart), line)).collect();
                out.push_str(&plot::bars(&title, &unit, &bars));
            }
            Picture::Heat { x, y, .. } => {
                let sorted = |key: &str| {
                    let mut all: Vec<u64> =
                        group.iter().filter_map(|line| line.config.number_of(key)).collect();
                    all.sort_unstable();
                    all.dedup();
                    all.iter().map(u64::to_string).collect::<Vec<_>>()
                };
                let value = |column: &str, row: &str| {
                    let is = |line: &&&Line| line.key(x) == column && line.key(y) == row;
                    group.iter().find(is).map(|line| line.median)
                };
                out.push_str(&plot::heat(&title, (x, &sorted(x)), (y, &sorted(y)), value));
            }
        }
    }
    out
}

/// All figures of a section, folded up.
fn table(lines: &[Line]) -> String {
    let all = lines.iter().flat_map(|line| line.config.iter().map(|(key, _)| key));
    let differs = |key: &&str| lines.iter().any(|line| line.key(key) != lines[0].key(key));
    let keys: Vec<&str> = distinct(all).into_iter().filter(differs).collect();
    let mut out =
        String::from("<details><summary>All figures</summary><div class='scroll'><table><tr>");
    for key in keys.iter().copied().chain(["metric", "unit"]) {
        let _ = write!(out, "<th class='k'>{}</th>", escape(key));
    }
    for name in ["n", "median", "interval", "p10", "p90", "p99", "max", "mean"] {
        let _ = write!(out, "<th>{name}</th>");
    }
    out.push_str("</tr>");
    for line in lines {
        out.push_str("<tr>");
        for key in &keys {
            let _ = write!(out, "<td class='k'>{}</td>", escape(&line.key(key)));
        }
        let (low, high) = line.interval();
        let _ = write!(
            out,
            "<td class='k'>{}</td><td class='k'>{}</td><td>{}</td><td>{}</td><td>{} to {}</td>",
            escape(&line.metric),
            escape(&line.unit),
            line.n,
            figure(line.median),
            figure(low),
            figure(high)
        );
        for x in [line.p10, line.p90, line.p99, line.max, line.mean] {
            let _ = write!(out, "<td>{}</td>", figure(x));
        }
        out.push_str("</tr>");
    }
    out + "</table></div></details>"
}
