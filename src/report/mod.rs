//! `mad report`: all experiments in one self-contained page.
//!
//! `sections`: the experiments; `data`: what was measured; `plot`: pictures; `words`: what the figures say; `html`: the
//! page. The lines are written beside the page as they come, so that what was measured is there whatever happens, and
//! a page can be made again from them.

mod data;
mod html;
mod plot;
mod sections;
mod words;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

pub(crate) use data::{Line, read};

use crate::bench::config::Config;
use crate::bench::present::{Noise, figure, machine};
use crate::bench::{self, Effort};
use crate::out::{Exit, INTERRUPTED, Outcome, complain, print};
use html::escape;
use plot::Series;
use sections::{Picture, SECTIONS, Section};

/// Options of `mad report`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  mad report -o report.html                   measure everything (some ten minutes), write report.html and report.jsonl
  mad report --only overlap,latency           measure some experiments
  mad report --from report.jsonl -o new.html  make the page again, without measuring

Exit status: 0 success, 1 an experiment failed (the page says which), 2 wrong usage.")]
pub(crate) struct ReportArgs {
    /// Where the page goes; the lines go beside it, with the ending .jsonl
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Lines of `mad bench --json` or of an earlier report, instead of measuring
    #[arg(long, value_name = "FILE", num_args = 1..)]
    from: Vec<PathBuf>,
    /// Only these experiments
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    only: Vec<String>,
    /// Where MPI libraries that came as Python wheels are, each in a virtual environment
    #[arg(long, value_name = "DIR")]
    peers_dir: Option<PathBuf>,
}

/// What became of a section.
struct Done {
    section: &'static Section,
    lines: Vec<Line>,
    /// How it was run; absent when the lines came from a file.
    command: Option<String>,
    /// Why there is nothing.
    failed: Option<String>,
}

/// Measures, or reads, and writes the page.
pub(crate) fn run(args: &ReportArgs) -> Outcome {
    if let Some(name) = args.only.iter().find(|name| bench::find(name).is_none()) {
        let known: Vec<&str> = SECTIONS.iter().map(|section| section.bench).collect();
        return Err(Exit::Usage(format!(
            "there is no experiment '{name}': there are {}",
            known.join(", ")
        )));
    }
    let wanted = |section: &&Section| {
        args.only.is_empty() || args.only.iter().any(|name| name == section.bench)
    };
    let begun = Instant::now();
    let (done, conditions) = if args.from.is_empty() {
        let noise = Noise::start();
        let done = measure(args, wanted)?;
        let words = format!(
            "{}; {}. Measured in {} minutes.",
            machine(),
            noise.words(),
            begun.elapsed().as_secs() / 60 + 1
        );
        (done, words)
    } else {
        let mut lines = Vec::new();
        for path in &args.from {
            lines.extend(read(path).map_err(Exit::Usage)?);
        }
        let names: Vec<String> = args.from.iter().map(|path| path.display().to_string()).collect();
        (from_lines(lines, wanted), format!("Made from {}.", names.join(", ")))
    };
    let page = page(&done, &conditions);
    std::fs::write(&args.output, page)
        .map_err(|e| Exit::Failed(format!("report: {}: {e}", args.output.display())))?;
    print(&format!("{} is written", args.output.display()))?;
    match done.iter().any(|done| done.failed.is_some()) {
        true => Err(Exit::Code(1)),
        false => Ok(()),
    }
}

fn measure(args: &ReportArgs, wanted: impl Fn(&&Section) -> bool) -> Result<Vec<Done>, Exit> {
    let path = args.output.with_extension("jsonl");
    let said = |e| Exit::Failed(format!("report: {}: {e}", path.display()));
    let mut file = std::fs::File::create(&path).map_err(said)?;
    let mut all = Vec::new();
    let mut interrupted = false;
    for section in SECTIONS.iter().filter(wanted) {
        let command = command(section);
        complain(&format!("mad report: {command}"));
        let effort = Effort {
            iters: section.iters,
            rounds: section.rounds,
            timeout: Duration::from_secs(120),
            peers_dir: args.peers_dir.clone(),
        };
        let (lines, failed) = match bench::measure_for_report(section.bench, section.given, &effort)
        {
            Ok((measured, None)) => (measured, None),
            Ok((measured, Some(exit))) => {
                interrupted = matches!(exit, Exit::Code(INTERRUPTED));
                let why = if interrupted { "interrupted" } else { "it failed" };
                (measured, Some(format!("the rest of it ({why})")))
            }
            Err(Exit::Code(code)) => (Vec::new(), Some(format!("it ended with status {code}"))),
            Err(Exit::Failed(why) | Exit::Usage(why)) => (Vec::new(), Some(why)),
            Err(other) => return Err(other),
        };
        for line in &lines {
            let text =
                serde_json::to_string(line).map_err(|e| Exit::Failed(format!("report: {e}")))?;
            writeln!(file, "{text}").map_err(said)?;
        }
        all.push(Done { section, lines, command: Some(command), failed });
        if interrupted {
            break;
        }
    }
    Ok(all)
}

/// The command that does the same.
fn command(section: &Section) -> String {
    let options: String =
        section.given.iter().map(|(key, value)| format!(" --{key} {value}")).collect();
    format!(
        "mad bench {}{options} --iters {} --rounds {}",
        section.bench, section.iters, section.rounds
    )
}

/// Gives lines to the sections that they are of: the first whose pictures or words they fit.
fn from_lines(lines: Vec<Line>, wanted: impl Fn(&&Section) -> bool) -> Vec<Done> {
    SECTIONS
        .iter()
        .filter(wanted)
        .filter_map(|section| {
            let fits = |line: &&Line| line.bench == section.bench && has(section, &line.config);
            let lines: Vec<Line> = lines.iter().filter(fits).cloned().collect();
            (!lines.is_empty()).then_some(Done { section, lines, command: None, failed: None })
        })
        .collect()
}

/// Whether a point is one of the section's: its values are among those that are asked for. References (no computation, nobody
/// computes) belong to all.
fn has(section: &Section, config: &Config) -> bool {
    section.given.iter().all(|(key, values)| {
        let Some(value) = config.get(&key.replace('-', "_")) else { return true };
        let value = bench::config::shown(value);
        values.contains('x')
            || values.split(',').any(|one| one == value)
            || ["0", "none"].contains(&&*value)
    })
}

fn page(done: &[Done], conditions: &str) -> String {
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
    body.push_str("</nav><p class='dim'>Curves show medians, whiskers the tenth to the ninetieth percentile, the mark above \
                   them the ninety-ninth where it fits. Intervals in the tables are those in which the median of another run \
                   is to be expected.</p></header><main>");
    for (index, part) in done.iter().enumerate() {
        body.push_str(&section(index, part));
    }
    body.push_str("</main>");
    html::page("mad report", &body)
}

fn section(index: usize, done: &Done) -> String {
    let Done { section, lines, command, failed } = done;
    let source = bench::find(section.bench).map_or("", |bench| bench.source);
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
        let class = if saying.missed { "says missed" } else { "says" };
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

/// Lines with the metric, in groups that agree in the keys.
fn groups<'a>(lines: &'a [Line], metric: &str, apart: &[&str]) -> Vec<(String, Vec<&'a Line>)> {
    let mut groups: Vec<(String, Vec<&Line>)> = Vec::new();
    for line in lines.iter().filter(|line| line.metric == metric) {
        let words: Vec<String> =
            apart.iter().map(|key| line.key(key)).filter(|word| !word.is_empty()).collect();
        let name = words.join(", ");
        match groups.iter_mut().find(|(other, _)| *other == name) {
            Some((_, members)) => members.push(line),
            None => groups.push((name, vec![line])),
        }
    }
    groups
}

/// What tells a line from the others of its group.
fn label(line: &Line, group: &[&Line], without: &[&str]) -> String {
    let words: Vec<String> = line
        .config
        .iter()
        .filter(|(key, _)| !without.contains(key))
        .filter(|(key, _)| group.iter().any(|other| other.key(key) != line.key(key)))
        .map(|(key, value)| match value.is_number() {
            true => format!("{key} {value}"),
            false => bench::config::shown(value),
        })
        .collect();
    words.join(", ")
}

fn draw(picture: &Picture, lines: &[Line]) -> String {
    let (Picture::Curves { metric, apart, .. }
    | Picture::Bars { metric, apart }
    | Picture::Heat { metric, apart, .. }) = picture;
    let mut out = String::new();
    for (name, group) in groups(lines, metric, apart) {
        let unit = group[0].unit.clone();
        let title =
            if name.is_empty() { (*metric).to_owned() } else { format!("{metric}: {name}") };
        match picture {
            Picture::Curves { x, .. } => {
                let without: Vec<&str> = apart.iter().copied().chain([*x]).collect();
                let mut series: Vec<Series<'_>> = Vec::new();
                for &line in &group {
                    let name = label(line, &group, &without);
                    let point = (line.config.number(x) as f64, line);
                    match series.iter_mut().find(|series| series.name == name) {
                        Some(series) => series.points.push(point),
                        None => series.push(Series { name, points: vec![point] }),
                    }
                }
                for series in &mut series {
                    series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
                }
                out.push_str(&plot::curves(&title, x, &unit, &series));
            }
            Picture::Bars { .. } => {
                let bars: Vec<(String, &Line)> =
                    group.iter().map(|&line| (label(line, &group, apart), line)).collect();
                out.push_str(&plot::bars(&title, &unit, &bars));
            }
            Picture::Heat { x, y, .. } => {
                let sorted = |key: &str| {
                    let mut all: Vec<u64> =
                        group.iter().map(|line| line.config.number(key)).collect();
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
    let mut keys: Vec<&str> = Vec::new();
    for line in lines {
        for (key, _) in line.config.iter() {
            let differs = || lines.iter().any(|other| other.key(key) != line.key(key));
            if !keys.contains(&key) && differs() {
                keys.push(key);
            }
        }
    }
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

/// Compares a run with an earlier one: what is better, worse or the same by the intervals of the medians.
pub(crate) fn compare(old: &Path, new: &[Line]) -> Result<Comparison, String> {
    let old = read(old)?;
    let mut comparison = Comparison::default();
    for line in new {
        let same = |other: &&Line| {
            other.bench == line.bench
                && other.metric == line.metric
                && other.config.same(&line.config)
        };
        let Some(before) = old.iter().find(same) else {
            comparison.unknown += 1;
            continue;
        };
        let ((low, high), (old_low, old_high)) = (line.interval(), before.interval());
        if high >= old_low && old_high >= low {
            comparison.same += 1;
            continue;
        }
        let more = more_is_better(&line.unit, &line.metric);
        let better = (line.median > before.median) == more;
        let keys: Vec<String> = line
            .config
            .iter()
            .map(|(key, value)| format!("{key} {}", bench::config::shown(value)))
            .collect();
        let text = format!(
            "{} {} ({}): {} {unit} [{}, {}], before {} [{}, {}]",
            line.bench,
            line.metric,
            keys.join(", "),
            figure(line.median),
            figure(low),
            figure(high),
            figure(before.median),
            figure(old_low),
            figure(old_high),
            unit = line.unit,
        );
        if better { comparison.better.push(text) } else { comparison.worse.push(text) }
    }
    Ok(comparison)
}

/// What a comparison found.
#[derive(Default)]
pub(crate) struct Comparison {
    pub(crate) better: Vec<String>,
    pub(crate) worse: Vec<String>,
    /// Intervals overlap.
    pub(crate) same: usize,
    /// The earlier run has no such point.
    pub(crate) unknown: usize,
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (word, lines) in [("worse", &self.worse), ("better", &self.better)] {
            for line in lines {
                writeln!(f, "{word}: {line}")?;
            }
        }
        write!(
            f,
            "{} worse, {} better, {} the same within their intervals, {} not in the earlier run",
            self.worse.len(),
            self.better.len(),
            self.same,
            self.unknown
        )
    }
}

/// Whether a larger figure is a better one.
fn more_is_better(unit: &str, metric: &str) -> bool {
    ["MB/s", "M/s", "k/s"].contains(&unit)
        || ["overlap_ratio", "of_the_sum", "of_the_best"].contains(&metric)
}

#[cfg(test)]
mod tests {
    use super::data::tests::line;
    use super::*;

    #[test]
    fn every_section_has_its_bench_and_its_grid() {
        for section in SECTIONS {
            let bench = bench::find(section.bench).expect(section.bench);
            bench::key::grid(bench.name, bench.keys, section.given)
                .unwrap_or_else(|why| panic!("{}: {why}", section.title));
            for picture in section.pictures {
                let (Picture::Curves { metric, .. }
                | Picture::Bars { metric, .. }
                | Picture::Heat { metric, .. }) = picture;
                assert!(
                    bench.metrics.iter().any(|known| known.name == *metric),
                    "{}: {metric}",
                    section.title
                );
            }
        }
    }

    #[test]
    fn a_page_is_made_of_lines() {
        let lines: Vec<Line> = ["1", "1024"]
            .iter()
            .flat_map(|size| {
                ["newmad", "mpich"].map(|library| {
                    line(
                        "half_round_trip",
                        &[("driver", "shm"), ("size", size), ("library", library)],
                        0.5,
                    )
                })
            })
            .collect();
        let done = from_lines(lines, |section| section.bench == "latency");
        assert_eq!(done.len(), 1);
        let page = page(&done, "a test's <machine>");
        assert!(page.contains("<svg") && page.contains("a test&#39;s &lt;machine&gt;"));
        assert_eq!(page.matches("<section").count(), page.matches("</section>").count());
    }

    #[test]
    fn a_regression_is_told_from_noise() {
        let folder = std::env::temp_dir().join(format!("mad-compare-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("old.jsonl");
        let old = [
            line("half_round_trip", &[("size", "1")], 1.0),
            line("half_round_trip", &[("size", "2")], 1.0),
        ];
        let text: String =
            old.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
        std::fs::write(&path, text).unwrap();
        let new = [
            line("half_round_trip", &[("size", "1")], 1.01),
            line("half_round_trip", &[("size", "2")], 2.0),
            line("half_round_trip", &[("size", "3")], 2.0),
        ];
        let comparison = compare(&path, &new).unwrap();
        assert_eq!(
            (comparison.worse.len(), comparison.same, comparison.unknown),
            (1, 1, 1),
            "{comparison}"
        );
        let back = compare(&path, &[line("half_round_trip", &[("size", "2")], 0.5)]).unwrap();
        assert_eq!(back.better.len(), 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
