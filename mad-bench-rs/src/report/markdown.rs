//! The page as Markdown: a section for each experiment, with its question, its command, its sentences, and a table of
//! medians where the HTML page has a plot.

use std::fmt::Write as _;

use crate::config::distinct;
use crate::harness::line::Line;
use crate::harness::present::figure;
use crate::report::plot::Middle;
use crate::report::saying::Verdict;
use crate::report::sections::{Measurement, Picture};
use crate::report::series::{groups, label};

/// The whole page; `conditions` says where and how the figures were measured.
pub(super) fn page(done: &[Measurement], conditions: &str) -> String {
    let mut out = format!(
        "# Performance\n\n`mad report -o FILE.md` makes this page; do not edit it. mad {}. {}\n\n\
         Tables show medians, or means where the title says so. `mad report -o FILE.html` also shows percentiles and intervals.\n",
        env!("CARGO_PKG_VERSION"),
        escape(conditions)
    );
    for part in done {
        section(part, &mut out);
    }
    out
}

fn section(done: &Measurement, out: &mut String) {
    let Measurement { section, lines, command, failed } = done;
    let _ = write!(out, "\n## {}\n\n{}\n", escape(section.title), escape(section.asks));
    if let Some(command) = command {
        let _ = write!(out, "\n```\n{command}\n```\n");
    }
    let _ = write!(out, "\nThe source: {}\n", escape(section.found));
    if let Some(why) = failed {
        let _ = write!(out, "\n**Not measured**: {}\n", escape(why));
    }
    let sayings = (section.says)(lines);
    if !sayings.is_empty() {
        out.push('\n');
    }
    for saying in sayings {
        let mark = match saying.verdict {
            Verdict::Good => "",
            Verdict::Unsure => "**Open.** ",
            Verdict::Missed => "**Missed.** ",
        };
        let _ = writeln!(out, "- {mark}{}", escape(&saying.text));
    }
    for picture in section.pictures {
        tables(picture, lines, out);
    }
}

/// A table for each plot of a picture.
fn tables(picture: &Picture, lines: &[Line], out: &mut String) {
    let (Picture::Curves { metric, apart, .. }
    | Picture::Bars { metric, apart }
    | Picture::Heat { metric, apart, .. }) = picture;
    for (name, group) in groups(lines, metric, apart) {
        let word = match picture {
            Picture::Curves { middle: Middle::Mean, .. } => ", mean",
            _ => "",
        };
        let colon = if name.is_empty() { "" } else { ": " };
        let unit = match group[0].unit.as_str() {
            "" | "1" => String::new(),
            unit => format!(" ({unit})"),
        };
        let _ = write!(out, "\n**{metric}{word}{unit}{colon}{}**\n\n", escape(&name));
        match picture {
            Picture::Curves { x, middle, .. } => {
                let without: Vec<&str> = apart.iter().copied().chain([*x]).collect();
                let value = |line: &Line| match middle {
                    Middle::Median => line.median,
                    Middle::Mean => line.mean,
                };
                table(&group, x, |line| label(line, &group, &without), value, out);
            }
            Picture::Heat { x, y, .. } => {
                table(&group, x, |line| format!("{y} {}", line.key(y)), |line| line.median, out)
            }
            Picture::Bars { .. } => {
                out.push_str("| | |\n|---|---:|\n");
                for line in &group {
                    let _ = writeln!(
                        out,
                        "| {} | {} |",
                        escape(&label(line, &group, apart)),
                        figure(line.median)
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
    let _ = writeln!(out, "| {x} | {} |", columns.join(" | "));
    let _ = writeln!(out, "|---|{}", "---:|".repeat(columns.len()));
    for row in distinct(group.iter().map(|line| name(line))) {
        let _ = write!(out, "| {} |", escape(&row));
        for column in &columns {
            let found = group.iter().find(|line| line.key(x) == *column && name(line) == row);
            let _ = write!(out, " {} |", found.map_or(String::new(), |line| figure(value(line))));
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
                "| size | 4 | 1024 |",
                "|---|---:|---:|",
                "| newmad | 1.000 | 2.000 |",
                "| mpich | 3.000 |  |"
            ]
        );
    }

    #[test]
    fn markup_in_words_is_escaped() {
        assert_eq!(escape("a|b *c*"), "a\\|b \\*c\\*");
    }
}
