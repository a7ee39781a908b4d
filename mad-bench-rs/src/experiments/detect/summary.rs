//! What the figures say about the two promises: 1.5 times the kernel's own wake-up with every core computing, and
//! the same reaction whatever the number of threads.

use std::collections::BTreeMap;

use crate::harness::line::Line;
use crate::quantity::figure;

/// An event reaches its thread within this many bare wake-ups, every core computing.
const RATIO: f64 = 1.5;
/// How far reactions under different numbers of threads may be from their middle.
const SPREAD: f64 = 0.20;

/// The sentences below the table.
pub(crate) fn summary(lines: &[Line]) -> String {
    ratios(lines) + &spreads(lines)
}

fn described(line: &Line) -> String {
    let text = |key| line.config.text(key);
    format!("policy {}, source {}, method {}", text("policy"), text("source"), text("method"))
}

fn full(line: &Line) -> bool {
    line.config.text("library") == "pioman"
        && line.config.number("threads") >= line.config.number("vps")
}

fn ratios(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines.iter().filter(|line| line.metric == "detect_ratio" && full(line)) {
        let ratio = line.median;
        text.push_str(&format!(
            "every core computing ({} threads, {} VPs), {}: {ratio:.2} bare kernel wake-ups{}\n",
            line.config.number("threads"),
            line.config.number("vps"),
            described(line),
            if ratio > RATIO { format!(" (MORE than {RATIO})") } else { String::new() },
        ));
    }
    text
}

/// How far the fastest and the slowest median are from the middle of the two.
fn spread(times: &[f64]) -> f64 {
    let low = times.iter().copied().fold(f64::INFINITY, f64::min);
    let high = times.iter().copied().fold(0.0, f64::max);
    (high - low) / (high + low)
}

fn spreads(lines: &[Line]) -> String {
    let mut groups: BTreeMap<String, Vec<(u64, f64)>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.metric == "detect_time") {
        let threads = line.config.number("threads");
        if line.config.text("library") == "pioman" && threads > 0 {
            let key = format!("{}, {} VPs", described(line), line.config.number("vps"));
            groups.entry(key).or_default().push((threads, line.median));
        }
    }
    let mut text = String::new();
    for (key, times) in groups.iter().filter(|(_, times)| times.len() > 1) {
        let shown: Vec<String> = times
            .iter()
            .map(|(threads, time)| format!("{threads}: {} µs", figure(*time)))
            .collect();
        let times: Vec<f64> = times.iter().map(|(_, time)| *time).collect();
        let spread = spread(&times);
        text.push_str(&format!(
            "by number of computing threads, {key}: {}; ±{:.0} %{}\n",
            shown.join(", "),
            spread * 100.0,
            if spread > SPREAD { " (MORE than ±20 %)" } else { "" },
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::line;

    fn line(metric: &'static str, threads: u64, figure: f64) -> Line {
        let threads = threads.to_string();
        let keys = [
            ("policy", "auto"),
            ("vps", "2"),
            ("source", "shm"),
            ("method", "auto"),
            ("library", "pioman"),
            ("threads", &threads),
        ];
        line::tests::line(metric, &keys, figure)
    }

    #[test]
    fn good_and_bad_figures_are_told_apart() {
        let lines = [line("detect_ratio", 2, 1.4), line("detect_ratio", 0, 9.0)];
        let text = summary(&lines);
        assert!(text.contains("1.40") && !text.contains("MORE") && !text.contains("9.0"), "{text}");
        assert!(summary(&[line("detect_ratio", 8, 1.6)]).contains("MORE"));
    }

    #[test]
    fn the_spread_is_that_of_the_loads() {
        let even = [line("detect_time", 2, 4.0), line("detect_time", 2000, 6.0)];
        let text = summary(&even);
        assert!(text.contains("±20 %") && !text.contains("MORE"), "{text}");
        let uneven = [line("detect_time", 2, 4.0), line("detect_time", 2000, 6.2)];
        assert!(summary(&uneven).contains("MORE"));
        assert_eq!(summary(&[line("detect_time", 0, 1.0), line("detect_time", 2, 4.0)]), "");
    }
}
