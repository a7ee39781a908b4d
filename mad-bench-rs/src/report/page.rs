//! The page: what matters first, then a section for each experiment with its question, its results, its plots and all
//! its figures.

use std::fmt::Write as _;

use crate::config::{distinct, for_people};
use crate::harness::line::Line;
use crate::quantity::{self, figure};
use crate::report::html;
use crate::report::html::escape;
use crate::report::names;
use crate::report::plot;
use crate::report::plot::{Middle, Series};
use crate::report::saying::{Finding, Verdict, times};
use crate::report::sections::{Measurement, Picture};
use crate::report::series::{groups, label};
use crate::report::sources::WORKS;
use crate::report::summary::{Part, RATIO, Ranked, Summary, parts};

/// How many plots a row of a wide screen has.
const PLOTS: usize = 4;

/// The whole of it; `conditions`: where and how it was measured.
pub(super) fn page(done: &[Measurement], conditions: &[String]) -> String {
    let parts = parts(done);
    let mut body =
        String::from("<header><h1>Threads and messages in one runtime: what was measured</h1>");
    body.push_str(&summary(&parts, conditions));
    body.push_str("<nav aria-label='Experiments'>");
    for (index, part) in parts.iter().enumerate() {
        let _ = write!(body, "<a href='#e{index}'>{}</a>", escape(part.done.section.title));
    }
    body.push_str(
        "</nav><p class='dim'>Curves show medians, or means where the title says so; a whisker goes from the tenth to the \
         ninetieth percentile, the mark above it is the ninety-ninth where it fits. An axis whose labels grow by factors is \
         logarithmic. VP: virtual processor, a kernel thread that runs green threads. Intervals in the tables are those in \
         which the median of another run is to be expected.</p></header><main>",
    );
    for (index, part) in parts.iter().enumerate() {
        body.push_str(&section(index, part));
    }
    body.push_str("</main>");
    body.push_str(&works(&body));
    html::page("mad report", &body)
}

/// What matters, in ten lines at the most.
fn summary(parts: &[Part<'_>], conditions: &[String]) -> String {
    let found = Summary::of(parts);
    let mut out = String::from("<section id='summary'><h2>What matters</h2><ul>");
    let machine = match conditions {
        [] => "not known: the lines do not say where they were measured.".to_owned(),
        all => all.join(" And: "),
    };
    let _ = write!(
        out,
        "<li><b>Machine:</b> {} Page by mad {}.</li>",
        escape(&machine),
        env!("CARGO_PKG_VERSION")
    );
    let chip = |verdict: Verdict, count: usize| {
        format!("<span class='chip {0}'>{count} {0}</span> ", verdict.word())
    };
    let _ = write!(
        out,
        "<li><b>Results:</b> {}{}{}{}.</li>",
        chip(Verdict::Met, found.met),
        chip(Verdict::Open, found.open),
        chip(Verdict::Missed, found.missed),
        escape(&found.asked())
    );
    let mut named = |word: &str, all: &[Ranked<'_>]| {
        for one in all {
            let _ = write!(
                out,
                "<li><b>{word}:</b> <span class='chip {}'>{}</span> <a href='#e{}'>{}</a>, {}.</li>",
                one.target.verdict.word(),
                escape(&times(one.ratio)),
                one.index,
                escape(one.title()),
                escape(&one.words())
            );
        }
    };
    named("Best", &found.best);
    named("Worst", &found.worst);
    let _ = write!(out, "<li class='dim'>{RATIO}</li>");
    out.push_str(
        "<li id='colours'><b>Colours:</b> <span class='chip met'>met</span> what is asked for is reached; \
         <span class='chip open'>open</span> the interval of the median leaves it open; \
         <span class='chip missed'>missed</span> it is not reached; \
         <span class='own'>blue</span> newmad, and links; the legend of a plot names its other colours.</li></ul></section>",
    );
    out
}

fn section(index: usize, Part { done, findings }: &Part<'_>) -> String {
    let Measurement { section, lines, command, failed } = done;
    let mut out = format!(
        "<section id='e{index}'><h2>{}</h2><p>{}</p><p class='dim'>{}</p>",
        escape(section.title),
        escape(section.asks),
        cited(section.found)
    );
    if let Some(why) = failed {
        let _ = write!(out, "<p><span class='chip missed'>not measured</span> {}</p>", escape(why));
    }
    let plots: Vec<String> =
        section.pictures.iter().flat_map(|picture| draw(picture, lines)).collect();
    // A single plot stands beside the table.
    let class = if plots.len() == 1 { "beside" } else { "above" };
    let _ = write!(out, "<div class='{class}'>{}<div class='plots'>", results(findings));
    for row in rows(&plots) {
        let _ = write!(out, "<div class='row'>{}</div>", row.concat());
    }
    out.push_str("</div></div>");
    if let Some(command) = command {
        let _ = write!(
            out,
            "<details><summary>The command that measures it</summary><p><code>{}</code></p></details>",
            escape(command)
        );
    }
    if !lines.is_empty() {
        out.push_str(&table(lines));
    }
    out + "</section>"
}

/// Text with a link from each source's key to the work.
fn cited(text: &str) -> String {
    let mut out = escape(text);
    for (key, _) in WORKS {
        out = out.replace(&format!("[{key}]"), &format!("<a href='#{key}'>[{key}]</a>"));
    }
    out
}

/// The works that the page cites.
fn works(page: &str) -> String {
    let mut out = String::from("<footer><h2>Sources</h2><ul>");
    for (key, work) in WORKS.iter().filter(|(key, _)| page.contains(&format!("'#{key}'"))) {
        let _ = write!(out, "<li id='{key}'>[{key}] {}</li>", escape(work));
    }
    out + "</ul></footer>"
}

/// Rows of plots of nearly the same length, so that no plot is alone in the last one.
fn rows(plots: &[String]) -> Vec<&[String]> {
    let count = plots.len().div_ceil(PLOTS);
    let mut rows = Vec::new();
    let mut rest = plots;
    for row in 0..count {
        let (these, others) = rest.split_at(rest.len().div_ceil(count - row));
        rows.push(these);
        rest = others;
    }
    rows
}

/// The results of a section: a row for each, a column for each figure that one of them has.
fn results(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let names = findings.iter().flat_map(|finding| &finding.figures).map(|(name, _)| name.as_str());
    let columns = distinct(names);
    let asked = findings.iter().any(|finding| finding.target.is_some());
    let mut out = String::from("<div class='scroll'><table class='results'><thead><tr><th></th>");
    for column in columns
        .iter()
        .chain(asked.then_some(&["asked for", "ratio", "result"]).into_iter().flatten())
    {
        let _ = write!(out, "<th>{}</th>", escape(column));
    }
    out.push_str("</tr></thead><tbody>");
    for finding in findings {
        let verdict = finding.target.as_ref().map_or("", |target| target.verdict.word());
        let _ = write!(out, "<tr class='{verdict}'><th>{}</th>", escape(&finding.place));
        let mut cell = |name: &str, text: &str| {
            let _ = write!(out, "<td data-name='{}'>{text}</td>", escape(name));
        };
        for column in &columns {
            let found = finding.figures.iter().find(|(name, _)| name == column);
            cell(column, &found.map_or(String::new(), |(_, text)| escape(text)));
        }
        if let Some(target) = &finding.target {
            cell("asked for", &escape(&target.asked));
            cell("ratio", &target.ratio.map_or(String::new(), |ratio| escape(&times(ratio))));
            let doubt = match target.doubt.is_empty() {
                true => String::new(),
                false => format!(" median in {}", escape(&target.doubt)),
            };
            cell("result", &format!("<span class='chip {verdict}'>{verdict}</span>{doubt}"));
        } else if asked {
            for name in ["asked for", "ratio", "result"] {
                cell(name, "");
            }
        }
        out.push_str("</tr>");
    }
    out + "</tbody></table></div>"
}

/// A plot for each group of a picture.
fn draw(picture: &Picture, lines: &[Line]) -> Vec<String> {
    let (Picture::Curves { metric, apart, .. }
    | Picture::Bars { metric, apart, .. }
    | Picture::Heat { metric, apart, .. }) = picture;
    let mut all = Vec::new();
    for (name, group) in groups(lines, metric, apart) {
        let unit = group[0].unit.clone();
        let word = match picture {
            Picture::Curves { middle: Middle::Mean, .. } => ", mean",
            _ => "",
        };
        let colon = if name.is_empty() { "" } else { ": " };
        let title = format!("{}{word}{colon}{name}", names::metric(metric));
        all.extend(match picture {
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
                vec![plot::curves(&title, x, &unit, *middle, &series)]
            }
            Picture::Bars { untold, .. } => {
                let without = [*apart, *untold].concat();
                let bars: Vec<(String, &Line)> =
                    group.iter().map(|&line| (label(line, &group, &without), line)).collect();
                // As many in each picture, as far as that goes.
                let pictures = bars.len().div_ceil(plot::MOST_BARS);
                let title = |index: usize| match pictures {
                    1 => title.clone(),
                    all => format!("{title} ({} of {all})", index + 1),
                };
                let parts = bars.chunks(bars.len().div_ceil(pictures)).enumerate();
                parts.map(|(index, part)| plot::bars(&title(index), &unit, part)).collect()
            }
            Picture::Heat { x, y, .. } => {
                let sorted = |key: &str| {
                    let mut all: Vec<u64> =
                        group.iter().filter_map(|line| line.config.number_of(key)).collect();
                    all.sort_unstable();
                    all.dedup();
                    all
                };
                let value = |column: u64, row: u64| {
                    let is = |line: &&&Line| {
                        (line.config.number_of(x), line.config.number_of(y))
                            == (Some(column), Some(row))
                    };
                    group.iter().find(is).map(|line| line.median)
                };
                vec![plot::heat(&title, (x, &sorted(x)), (y, &sorted(y)), value)]
            }
        });
    }
    all.retain(|plot| !plot.is_empty());
    all
}

/// All figures of a section, folded up.
fn table(lines: &[Line]) -> String {
    let all = lines.iter().flat_map(|line| line.config.iter().map(|(key, _)| key));
    let differs = |key: &&str| lines.iter().any(|line| line.key(key) != lines[0].key(key));
    let keys: Vec<&str> = distinct(all).into_iter().filter(differs).collect();
    let mut out = String::from(
        "<details><summary>All figures</summary><div class='scroll'><table class='figures'><tr>",
    );
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
            let text = line.config.get(key).map_or(String::new(), |value| for_people(key, value));
            let _ = write!(out, "<td class='k'>{}</td>", escape(&text));
        }
        let (low, high) = line.interval();
        let _ = write!(
            out,
            "<td class='k'>{}</td><td class='k'>{}</td><td>{}</td><td>{}</td><td>{} to {}</td>",
            escape(&line.metric),
            escape(quantity::unit(&line.unit)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::line::tests::line;
    use crate::report::sections::SECTIONS;

    fn latency() -> Vec<Measurement> {
        let of = |library, driver, ours| {
            let keys = [("driver", driver), ("size", "1"), ("library", library)];
            line("half_round_trip", &keys, ours)
        };
        let lines = vec![
            of("newmad", "shm", 0.2),
            of("mpich", "shm", 0.3),
            of("newmad", "tcp", 9.0),
            of("mpich", "tcp", 3.0),
        ];
        let section = SECTIONS.iter().find(|section| section.bench == "latency").unwrap();
        vec![Measurement { section, lines, command: None, failed: None }]
    }

    #[test]
    fn the_summary_comes_first_and_has_ten_lines_at_the_most() {
        let page = page(&latency(), &["a machine.".into()]);
        let summary = page.find("id='summary'").unwrap();
        assert!(
            ["<nav", "<main", "<svg class='plot'"]
                .iter()
                .all(|later| page.find(later).unwrap() > summary)
        );
        let summary = &page[summary..page.find("</section>").unwrap()];
        assert!(summary.matches("<li").count() <= 10, "{summary}");
        assert!(
            summary.contains("1 met</span>") && summary.contains("1 missed</span>"),
            "{summary}"
        );
        assert!(summary.contains("1.5 ×") && summary.contains("0.333 ×"), "{summary}");
        assert!(summary.contains("a machine.") && summary.contains("id='colours'"), "{summary}");
    }

    #[test]
    fn a_work_is_listed_once_if_it_is_cited() {
        let page = page(&latency(), &[]);
        assert_eq!(page.matches("id='Trahay09'").count(), 1);
        assert!(!page.contains("Didelot"));
    }

    #[test]
    fn no_plot_is_alone_in_a_row() {
        for count in 0..40 {
            let plots = vec![String::new(); count];
            let rows = rows(&plots);
            assert_eq!(rows.iter().map(|row| row.len()).sum::<usize>(), count);
            assert!(rows.iter().all(|row| row.len() <= PLOTS && (row.len() > 1 || count == 1)));
        }
    }

    #[test]
    fn figures_of_one_name_are_in_one_column() {
        let cell = |name: &str| vec![(name.to_owned(), format!("figure of {name}"))];
        let all = [Finding::shown("here", cell("a")), Finding::shown("there", cell("b"))];
        let text = results(&all);
        assert_eq!(text.matches("<td").count(), 4);
        assert!(text.contains("<th>a</th><th>b</th></tr>") && !text.contains("asked for"));
    }
}
