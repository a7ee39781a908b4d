//! What was measured: the lines that `mad bench --json` prints, and that are read again.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::{Config, distinct, shown};
use crate::harness::stats::{Interval, Stats, rounded};

/// One line: a metric of a point, summarised over all rounds.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Line {
    pub(crate) bench: String,
    pub(crate) config: Config,
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) n: usize,
    pub(crate) mean: f64,
    pub(crate) min: f64,
    pub(crate) p10: f64,
    pub(crate) median: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
    /// Where the median lies, very likely: absent in files of older versions.
    #[serde(default)]
    pub(crate) ci_low: Option<f64>,
    #[serde(default)]
    pub(crate) ci_high: Option<f64>,
}

impl Line {
    /// The summary of a metric's samples by round, each figure rounded; `None` without samples.
    pub(crate) fn of(
        bench: &str,
        config: &Config,
        [metric, unit]: [&str; 2],
        rounds: &[&[f64]],
    ) -> Option<Line> {
        let (stats, interval) = (Stats::of(&rounds.concat())?, Interval::of(rounds));
        Some(Line {
            bench: bench.to_owned(),
            config: config.clone(),
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            n: stats.n,
            mean: rounded(stats.mean),
            min: rounded(stats.min),
            p10: rounded(stats.p10),
            median: rounded(stats.median),
            p90: rounded(stats.p90),
            p99: rounded(stats.p99),
            max: rounded(stats.max),
            ci_low: Some(rounded(interval.low)),
            ci_high: Some(rounded(interval.high)),
        })
    }

    /// All of them.
    fn figures(&self) -> impl Iterator<Item = f64> {
        let Line { mean, min, p10, median, p90, p99, max, ci_low, ci_high, .. } = self;
        [*mean, *min, *p10, *median, *p90, *p99, *max].into_iter().chain(*ci_low).chain(*ci_high)
    }

    /// The interval of the median; the median itself where none is known.
    pub(crate) fn interval(&self) -> (f64, f64) {
        (self.ci_low.unwrap_or(self.median), self.ci_high.unwrap_or(self.median))
    }

    /// Whether the interval is so wide that the median says little: more than a fifth of it.
    pub(crate) fn is_wide(&self) -> bool {
        let (low, high) = self.interval();
        high - low > 0.2 * self.median.abs()
    }

    /// The value of a key as text; empty if it has none.
    pub(crate) fn key(&self, key: &str) -> String {
        self.config.get(key).map_or(String::new(), shown)
    }

    /// Whether it has this metric, and these values.
    pub(crate) fn is(&self, metric: &str, keys: &[(&str, &str)]) -> bool {
        self.metric == metric && keys.iter().all(|(key, value)| self.key(key) == *value)
    }
}

/// Where and how the lines of a file were measured: the first line of those that a report writes.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Conditions {
    pub(crate) conditions: String,
}

impl Conditions {
    fn of(line: &str) -> Option<Conditions> {
        serde_json::from_str(line).ok()
    }
}

/// Reads a file of such lines.
///
/// # Errors
/// It cannot be read, or a line is none of ours; which, in words.
pub(crate) fn read(path: &Path) -> Result<Vec<Line>, String> {
    Ok(read_all(path)?.0)
}

/// Reads a file of such lines, and where they were measured if the file says so.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_all(path: &Path) -> Result<(Vec<Line>, Option<String>), String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let lines = parse(&text).map_err(|why| format!("{}: {why}", path.display()))?;
    let conditions = text.lines().find_map(Conditions::of).map(|found| found.conditions);
    Ok((lines, conditions))
}

/// Whether a figure is of a size that metrics have, in whatever unit. Others, of a file that was written by hand, would
/// make axes that have no end.
fn can_be_measured(figure: f64) -> bool {
    figure == 0.0 || (1e-30..=1e30).contains(&figure.abs())
}

fn parse(text: &str) -> Result<Vec<Line>, String> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty() && Conditions::of(line).is_none())
        .map(|(number, line)| {
            let parsed: Line = serde_json::from_str(line)
                .map_err(|e| format!("line {}: not a line of mad bench --json: {e}", number + 1))?;
            let wrong = parsed.figures().find(|figure| !can_be_measured(*figure));
            match wrong {
                None => Ok(parsed),
                Some(figure) => {
                    Err(format!("line {}: {figure:e} is no figure that is measured", number + 1))
                }
            }
        })
        .collect()
}

/// The first line with this metric and these values.
pub(crate) fn find<'a>(lines: &'a [Line], metric: &str, keys: &[(&str, &str)]) -> Option<&'a Line> {
    lines.iter().find(|line| line.is(metric, keys))
}

/// The values of a key, in the order in which they first come.
pub(crate) fn values(lines: &[Line], key: &str) -> Vec<String> {
    distinct(lines.iter().map(|line| line.key(key)).filter(|value| !value.is_empty()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn line(metric: &str, keys: &[(&str, &str)], median: f64) -> Line {
        let mut config = Config::default();
        for (key, value) in keys {
            match value.parse::<u64>() {
                Ok(number) => config.set(key, number),
                Err(_) => config.set(key, *value),
            }
        }
        Line {
            bench: "latency".into(),
            config,
            metric: metric.into(),
            unit: "us".into(),
            n: 10,
            mean: median,
            min: median / 2.0,
            p10: median * 0.9,
            median,
            p90: median * 1.5,
            p99: median * 3.0,
            max: median * 9.0,
            ci_low: Some(median * 0.98),
            ci_high: Some(median * 1.02),
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let lines = [line("op_time", &[("size", "4"), ("driver", "shm")], 1.5)];
        let text: String =
            lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
        let back = parse(&text).unwrap();
        assert!(find(&back, "op_time", &[("size", "4"), ("driver", "shm")]).is_some());
        assert!(find(&back, "op_time", &[("size", "8")]).is_none());
        assert_eq!(values(&back, "driver"), ["shm"]);
    }

    #[test]
    fn a_line_that_is_none_of_ours_is_named() {
        assert!(parse("\n{\"bench\":1}\n").unwrap_err().starts_with("line 2"));
        assert!(parse("").unwrap().is_empty());
        let text = |median| serde_json::to_string(&line("op_time", &[], median)).unwrap();
        for sound in [0.0, -1.5, 1e-20, 1e20] {
            assert_eq!(parse(&text(sound)).unwrap()[0].median, sound);
        }
        for wrong in [1e300, -1e31, 1e-40] {
            let error = parse(&format!("{}\n{}", text(1.0), text(wrong))).unwrap_err();
            assert!(error.starts_with("line 2"), "{error}");
        }
    }
}
