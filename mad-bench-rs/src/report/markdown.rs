//! The page as Markdown: a section for each experiment, with its question, its command, its sentences, and a table of
//! medians where the HTML page has a plot.

use std::fmt::Write as _;

use crate::config::distinct;
use crate::harness::line::Line;
use crate::quantity::measured;
use crate::report::names;
use crate::report::plot::Middle;
use crate::report::saying::{Finding, times};
use crate::report::sections::{Measurement, Picture};
use crate::report::series::{groups, label};
use crate::report::summary::{Part, RATIO, Summary, parts};

/// The whole page; `conditions` says where and how the figures were measured.
pub(super) fn page(done: &[Measurement], conditions: &[String]) -> String {
    let parts = parts(done);
    let mut out = format!(
        "# Performance\n\n`mad report -o FILE.md` makes this page; do not edit it. mad {}. {}\n\n\
         Tables show medians, or means where the title says so. `mad report -o FILE.html` also shows percentiles and intervals.\n",
        env!("CARGO_PKG_VERSION"),
        escape(&conditions.join(" "))
    );
    summary(&parts, &mut out);
    for part in &parts {
        section(part, &mut out);
    }
    out
}

fn summary(parts: &[Part<'_>], out: &mut String) {
    let found = Summary::of(parts);
    let Summary { met, open, missed, .. } = found;
    let asked = found.asked();
    let _ = writeln!(out, "\n**{met} met, {open} open, {missed} missed**, {asked}. {RATIO}\n");
    for (word, all) in [("Best", &found.best), ("Worst", &found.worst)] {
        for one in all {
            let words = format!("{}, {}", one.title(), one.words());
            let _ = writeln!(out, "- {word}: **{}** {}.", times(one.ratio), escape(&words));
        }
    }
}

fn section(Part { done, findings }: &Part<'_>, out: &mut String) {
    let Measurement { section, command, failed, .. } = done;
    let _ = write!(out, "\n## {}\n\n{}\n", escape(section.title), escape(section.asks));
    if let Some(command) = command {
        let _ = write!(out, "\n```\n{command}\n```\n");
    }
    let _ = write!(out, "\nThe source: {}\n", escape(section.found));
    if let Some(why) = failed {
        let _ = write!(out, "\n**Not measured**: {}\n", escape(why));
    }
    results(findings, out);
    for picture in section.pictures {
        tables(picture, &done.lines, out);
    }
}

/// The results of a section, a row for each.
fn results(findings: &[Finding], out: &mut String) {
    if findings.is_empty() {
        return;
    }
    let names = findings.iter().flat_map(|finding| &finding.figures).map(|(name, _)| name.as_str());
    let columns = distinct(names);
    let head: Vec<String> = columns.iter().map(|column| escape(column)).collect();
    let _ = writeln!(out, "\n| | {} | asked for | ratio | result |", head.join(" | "));
    let _ = writeln!(out, "|---|{}---|---:|---|", "---:|".repeat(columns.len()));
    for finding in findings {
        let _ = write!(out, "| {} |", escape(&finding.place));
        for column in &columns {
            let found = finding.figures.iter().find(|(name, _)| name == column);
            let _ = write!(out, " {} |", found.map_or(String::new(), |(_, text)| escape(text)));
        }
        match &finding.target {
            None => out.push_str(" | | |\n"),
            Some(target) => {
                let doubt = match target.doubt.is_empty() {
                    true => String::new(),
                    false => format!(", median in {}", target.doubt),
                };
                let _ = writeln!(
                    out,
                    " {} | {} | **{}**{doubt} |",
                    escape(&target.asked),
                    target.ratio.map_or(String::new(), times),
                    target.verdict.word()
                );
            }
        }
    }
}

/// A table for each plot of a picture.
fn tables(picture: &Picture, lines: &[Line], out: &mut String) {
    let (Picture::Curves { metric, apart, .. }
    | Picture::Bars { metric, apart, .. }
    | Picture::Heat { metric, apart, .. }) = picture;
    for (name, group) in groups(lines, metric, apart) {
        let word = match picture {
            Picture::Curves { middle: Middle::Mean, .. } => ", mean",
            _ => "",
        };
        let colon = if name.is_empty() { "" } else { ": " };
        let title = names::metric(metric);
        let _ = write!(out, "\n**{}{word}{colon}{}**\n\n", escape(title), escape(&name));
        match picture {
            Picture::Curves { x, middle, .. } => {
                let without: Vec<&str> = apart.iter().copied().chain([*x]).collect();
                table(&group, x, |line| label(line, &group, &without), |line| middle.of(line), out);
            }
            Picture::Heat { x, y, .. } => {
                table(&group, x, |line| names::of(line, y), |line| line.median, out)
            }
            Picture::Bars { .. } => {
                out.push_str("| | |\n|---|---:|\n");
                for line in &group {
                    let _ = writeln!(
                        out,
                        "| {} | {} |",
                        escape(&label(line, &group, apart)),
                        measured(line.median, &line.unit)
                    );
                }
            }
        }
    }
}

/// A row for each name, a column for each value of the key `x`, in the order in which they come (numbers in theirs).
fn table(
    group: &[&Line],
    x: &str,
    name: impl Fn(&Line) -> String,
    value: impl Fn(&Line) -> f64,
    out: &mut String,
) {
    let mut columns = distinct(group.iter().map(|line| line.key(x)));
    columns.sort_by_key(|column| column.parse::<u64>().unwrap_or(u64::MAX));
    let tick = |column: &String| column.parse().map_or(column.clone(), |n| names::tick(x, n));
    let head: Vec<String> = columns.iter().map(tick).collect();
    let _ = writeln!(out, "| {} | {} |", names::axis(x), head.join(" | "));
    let _ = writeln!(out, "|---|{}", "---:|".repeat(columns.len()));
    for row in distinct(group.iter().map(|line| name(line))) {
        let _ = write!(out, "| {} |", escape(&row));
        for column in &columns {
            let found = group.iter().find(|line| line.key(x) == *column && name(line) == row);
            let shown = |line: &&Line| measured(value(line), &line.unit);
            let _ = write!(out, " {} |", found.map_or(String::new(), shown));
        }
        out.push('\n');
    }
}

/// What would be markup is text.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '|' | '*' | '_' | '`' | '<' | '>' | '[' | ']' | '\\') {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::line::tests::line;

    #[test]
    fn a_curve_is_a_row_and_a_missing_point_an_empty_cell() {
        let of = |library, size, median| {
            line("send_time", &[("library", library), ("size", size)], median)
        };
        let lines = [of("newmad", "1024", 2.0), of("newmad", "4", 1.0), of("mpich", "4", 3.0)];
        let mut out = String::new();
        let picture =
            Picture::Curves { metric: "send_time", x: "size", apart: &[], middle: Middle::Median };
        tables(&picture, &lines, &mut out);
        let rows: Vec<&str> = out.lines().filter(|row| row.starts_with('|')).collect();
        assert_eq!(
            rows,
            [
                "| size of a message | 4 B | 1 KB |",
                "|---|---:|---:|",
                "| newmad | 1 µs | 2 µs |",
                "| mpich | 3 µs |  |"
            ]
        );
    }

    #[test]
    fn markup_in_words_is_escaped() {
        assert_eq!(escape("a|b *c*"), "a\\|b \\*c\\*");
    }
}
