//! How results are shown to people.

use super::Bench;
use super::config::{Config, shown};
use super::results::Measured;
use crate::out;

/// What the figures were taken on: they mean nothing without it.
pub(crate) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find(|line| line.starts_with("model name"))
        .and_then(|line| line.split_once(':'))
        .map_or("unknown processor", |(_, model)| model.trim());
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let build = if cfg!(debug_assertions) {
        "DEBUG BUILD: these figures say nothing, use cargo run --release"
    } else {
        "release build"
    };
    format!(
        "{model}, {} of its cores, Linux {}, {build}, load before the run {}",
        marcel::topology::allowed_cpus().len(),
        kernel.trim(),
        load.split(' ').next().unwrap_or("unknown"),
    )
}

/// A figure with as many digits as mean something.
pub(crate) fn figure(x: f64) -> String {
    match x.abs() {
        a if a >= 1000.0 => format!("{x:.0}"),
        a if a >= 100.0 => format!("{x:.1}"),
        a if a >= 10.0 => format!("{x:.2}"),
        _ => format!("{x:.3}"),
    }
}

/// The table of a bench: one row per point and metric. Keys that are the same everywhere go above it.
pub(crate) fn table(bench: &Bench, points: &[Config], measured: &[Measured]) -> String {
    let same = |key: &str| {
        let mut values = points.iter().map(|point| point.get(key));
        let first = values.next().flatten();
        values.all(|value| value == first)
    };
    let common: Vec<String> = points.first().map_or(Vec::new(), |point| {
        point
            .iter()
            .filter(|(key, _)| same(key))
            .map(|(key, value)| format!("{key} {}", shown(value)))
            .collect()
    });
    let varying: Vec<&str> = points.first().map_or(Vec::new(), |point| {
        point.iter().map(|(key, _)| key).filter(|key| !same(key)).collect()
    });
    let mut header = varying.clone();
    header.extend(["metric", "unit", "n", "min", "median", "p90", "p99", "max", "mean"]);
    let mut table = out::table(&header);
    // Figures broken over two lines cannot be read: rather wider than the terminal.
    table.set_content_arrangement(comfy_table::ContentArrangement::Disabled);
    let mut before = String::new();
    for line in measured {
        let keys: Vec<String> =
            varying.iter().map(|key| line.config.get(key).map_or(String::new(), shown)).collect();
        let key = keys.join(" ");
        let mut row = if key == before { vec![String::new(); keys.len()] } else { keys };
        before = key;
        let s = &line.stats;
        row.extend([line.metric.into(), line.unit.into(), s.n.to_string()]);
        row.extend([s.min, s.median, s.p90, s.p99, s.max, s.mean].map(figure));
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(varying.len() + 2) {
        column.set_cell_alignment(comfy_table::CellAlignment::Right);
    }
    let mut text = format!("{}: {}\n", bench.name, bench.about);
    if !common.is_empty() {
        text.push_str(&format!("{}\n", common.join(", ")));
    }
    format!("{text}{}\n{}\n", machine(), table.trim_fmt())
}
