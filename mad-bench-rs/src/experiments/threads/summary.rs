//! The medians of all libraries in one small table, which is what people look for first.

use comfy_table::CellAlignment;

use crate::config::distinct;
use crate::experiments::threads::peers;
use crate::harness::line::{Line, values};
use crate::out;
use crate::quantity::figure;

pub(super) const OURS: &str = "marcel";

/// The best of the other libraries for the same thing as a line.
pub(super) fn best_peer(lines: &[Line], index: usize) -> Option<&Line> {
    let line = &lines[index];
    let threads = |line: &Line| match line.config.text("library") {
        "kernel" => None, // they may be fewer
        _ => line.config.get("threads").cloned(),
    };
    let same = |other: &&Line| {
        ["op", "workers"].iter().all(|key| other.config.get(key) == line.config.get(key))
            && (threads(other) == threads(line)
                || threads(other).is_none()
                || threads(line).is_none())
    };
    let peers = lines.iter().filter(same).filter(|other| other.config.text("library") != OURS);
    peers.min_by(|a, b| a.median.total_cmp(&b.median))
}

/// A row for each operation and number of workers, a column for each library, then ours over the best of the others.
pub(crate) fn summary(lines: &[Line]) -> String {
    let libraries = values(lines, "library");
    let row = |line: &Line| [line.key("op"), line.key("workers")];
    let rows = distinct(lines.iter().map(row));
    let mut header = vec!["median", "workers"];
    header.extend(libraries.iter().map(String::as_str));
    header.extend(["best peer", "marcel to it"]);
    let mut table = out::table(&header);
    table.set_content_arrangement(comfy_table::ContentArrangement::Disabled);
    for wanted in rows {
        let of = |library: &str| {
            lines.iter().position(|line| row(line) == wanted && line.key("library") == library)
        };
        let unit = lines.iter().find(|line| row(line) == wanted).map_or("", |line| &line.unit);
        let mut cells = vec![format!("{} {unit}", wanted[0]), wanted[1].clone()];
        cells.extend(
            libraries.iter().map(|library| {
                of(library).map_or("–".into(), |index| figure(lines[index].median))
            }),
        );
        let best = of(OURS).and_then(|index| Some((index, best_peer(lines, index)?)));
        let dash = || "–".to_owned();
        cells.extend(match best {
            Some((index, best)) => {
                [best.key("library"), format!("{:.2}", lines[index].median / best.median)]
            }
            None => [dash(), dash()],
        });
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let versions: Vec<String> =
        libraries.iter().filter_map(|library| peers::version(library)).collect();
    format!("{}\n{}\n", versions.join(", "), table.trim_fmt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::threads::tests::line;

    #[test]
    fn libraries_are_columns_and_what_is_missing_is_a_dash() {
        let lines = [
            line("marcel", "yield", 20.0),
            line("kernel", "yield", 800.0),
            line("marcel", "fib", 120.0),
        ];
        let text = summary(&lines);
        let cells = |row: &str| -> Vec<String> {
            let line = text.lines().find(|line| line.trim().starts_with(row)).expect(row);
            line.split_whitespace().map(str::to_owned).collect()
        };
        assert_eq!(cells("yield"), ["yield", "ns", "1", "20.00", "800.0", "kernel", "0.03"]);
        assert_eq!(cells("fib"), ["fib", "ns", "1", "120.0", "–", "–", "–"]);
    }
}
