//! Which policy is best at what, and whether the adaptive policy keeps its promise.

use crate::experiments::policies::score::{BURNT, FIXED, LOST, WAITING};
use crate::harness::line::{Line, find, values};
use crate::out;
use crate::quantity::figure;

/// The geometric mean of the others.
pub(super) const ALL: &str = "all";

/// How much worse than the best fixed policy the adaptive one may be on one workload.
const WITHIN: f64 = 1.10;
const ADAPTIVE: &str = "adaptive";

/// The table of scores and the sentences below it.
pub(super) fn summary(lines: &[Line]) -> String {
    let of = |metric: &str, policy: &str, workload: &str| {
        let keys = [("policy", policy), ("workload", workload)];
        find(lines, metric, &keys).map(|line| line.median)
    };
    let (policies, workloads) = (values(lines, "policy"), values(lines, "workload"));
    let mut header = vec!["policy"];
    header.extend(workloads.iter().map(String::as_str));
    let mut table = out::table(&header);
    for policy in &policies {
        let mut row = vec![policy.clone()];
        for workload in &workloads {
            let ratio = of("score_ratio", policy, workload);
            let ratio = ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
            row.push(match of("score", policy, workload) {
                Some(score) => format!("{} µs ({ratio})", figure(score)),
                None => ratio,
            });
        }
        table.add_row(row);
    }
    let weights = format!(
        "score of an event = {WAITING} × detect_time (mean) + {LOST} × lost_time + {BURNT} × burnt_time; in brackets the \
         ratio to the best fixed policy ({}) (medians)\n",
        FIXED.join(", ")
    );
    format!("{weights}{}\n{}", table.trim_fmt(), claim(&policies, &workloads, of))
}

fn claim(
    policies: &[String],
    workloads: &[String],
    of: impl Fn(&str, &str, &str) -> Option<f64>,
) -> String {
    let mut text = String::new();
    if !policies.iter().any(|policy| policy == ADAPTIVE) {
        return text;
    }
    for workload in workloads.iter().filter(|workload| *workload != ALL) {
        let Some(ratio) = of("score_ratio", ADAPTIVE, workload) else { continue };
        text.push_str(&format!(
            "{workload}: adaptive is at {ratio:.2} of the best fixed policy{}\n",
            if ratio > WITHIN { " (MORE than 1.10)" } else { "" },
        ));
    }
    let Some(own) = of("score_ratio", ADAPTIVE, ALL) else { return text };
    let others = policies.iter().filter(|policy| FIXED.contains(&policy.as_str()));
    let best = others.filter_map(|policy| Some((of("score_ratio", policy, ALL)?, policy)));
    let best = best.min_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((ratio, policy)) = best {
        text.push_str(&format!(
            "over all: adaptive {own:.2}, best fixed policy {policy} {ratio:.2}: adaptive is {}\n",
            if own < ratio {
                "better than every fixed one"
            } else {
                "NOT better than every fixed one"
            },
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::policies::WORKLOAD;
    use crate::experiments::policies::workload::Workload;
    use crate::harness::key::Takes;
    use crate::harness::line;

    fn line(policy: &str, workload: &str, ratio: f64) -> Line {
        line::tests::line("score_ratio", &[("policy", policy), ("workload", workload)], ratio)
    }

    #[test]
    fn every_workload_is_one() {
        let Takes::Words(words) = WORKLOAD.takes else { panic!() };
        for word in words.iter().filter(|word| **word != ALL) {
            assert!(Workload::named(word).is_some(), "{word}");
        }
        assert!(Workload::named(ALL).is_none());
    }

    #[test]
    fn a_promise_that_is_broken_is_said() {
        let mut lines = vec![
            line("always-block", "bursts", 1.0),
            line("always-block", ALL, 1.5),
            line(ADAPTIVE, "bursts", 1.09),
            line(ADAPTIVE, ALL, 1.2),
        ];
        let text = summary(&lines);
        assert!(!text.contains("MORE") && text.contains("is better than every"), "{text}");
        lines[2].median = 1.11;
        lines[3].median = 1.6;
        let text = summary(&lines);
        assert!(text.contains("MORE than 1.10") && text.contains("NOT better"), "{text}");
    }
}
