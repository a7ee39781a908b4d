//! What matters of a report: how many results are met, open and missed, and the best and the worst of them.

use crate::report::saying::{Finding, Target, Verdict};
use crate::report::sections::{Measurement, Section};

/// How many of the best, and of the worst, are named.
const NAMED: usize = 3;

/// A section with what its figures show.
pub(super) struct Part<'a> {
    pub(super) done: &'a Measurement,
    pub(super) findings: Vec<Finding>,
}

/// The sections with what their figures show.
pub(super) fn parts(done: &[Measurement]) -> Vec<Part<'_>> {
    done.iter().map(|done| Part { done, findings: (done.section.says)(&done.lines) }).collect()
}

/// A result with its ratio.
pub(super) struct Ranked<'a> {
    /// The number of its section in the report.
    pub(super) index: usize,
    pub(super) section: &'static Section,
    pub(super) finding: &'a Finding,
    pub(super) target: &'a Target,
    pub(super) ratio: f64,
}

impl Ranked<'_> {
    /// Where it was measured, and what was asked for.
    pub(super) fn words(&self) -> String {
        format!("{}. Asked for: {}", self.finding.place, self.target.asked)
    }

    /// The title of its section up to a colon.
    pub(super) fn title(&self) -> &'static str {
        self.section.title.split(':').next().unwrap_or_default()
    }
}

/// What matters.
pub(super) struct Summary<'a> {
    pub(super) met: usize,
    pub(super) open: usize,
    pub(super) missed: usize,
    /// Experiments that were not measured, or not all of them.
    pub(super) failed: usize,
    /// Best first.
    pub(super) best: Vec<Ranked<'a>>,
    /// Worst first; none of the best.
    pub(super) worst: Vec<Ranked<'a>>,
}

impl<'a> Summary<'a> {
    pub(super) fn of(parts: &'a [Part<'a>]) -> Summary<'a> {
        let targets = || {
            let findings = parts.iter().enumerate().flat_map(|(index, part)| {
                part.findings.iter().map(move |finding| (index, part.done.section, finding))
            });
            findings.filter_map(|(index, section, finding)| {
                Some((index, section, finding, finding.target.as_ref()?))
            })
        };
        let count = |verdict| targets().filter(|(.., target)| target.verdict == verdict).count();
        let mut best: Vec<Ranked<'a>> = targets()
            .filter_map(|(index, section, finding, target)| {
                let ratio = target.ratio?;
                Some(Ranked { index, section, finding, target, ratio })
            })
            .collect();
        best.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
        let named = NAMED.min(best.len().div_ceil(2));
        let rest = best.split_off(named);
        Summary {
            met: count(Verdict::Met),
            open: count(Verdict::Open),
            missed: count(Verdict::Missed),
            failed: parts.iter().filter(|part| part.done.failed.is_some()).count(),
            best,
            worst: rest.into_iter().rev().take(NAMED).collect(),
        }
    }

    /// How many results were asked for, in words.
    pub(super) fn asked(&self) -> String {
        let failed = match self.failed {
            0 => String::new(),
            1 => "; 1 experiment was not, or not all, measured".to_owned(),
            n => format!("; {n} experiments were not, or not all, measured"),
        };
        format!("of {} results that are asked for{failed}", self.met + self.open + self.missed)
    }
}

/// What a ratio is.
pub(super) const RATIO: &str = "Ratio: how many times as good as asked for; 1 × is just enough. Against a library it is the \
                                median over rounds in which both were measured one after the other, where that is known.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sections::SECTIONS;

    fn part(done: &Measurement, ratios: &[f64]) -> Vec<Finding> {
        assert!(done.lines.is_empty());
        let found = |ratio: &f64| {
            Finding::shown("here", Vec::new()).judged("enough", Some(*ratio), *ratio >= 1.0)
        };
        ratios.iter().map(found).collect()
    }

    fn with<T>(ratios: &[f64], look: impl FnOnce(&Summary<'_>) -> T) -> T {
        let done =
            Measurement { section: &SECTIONS[0], lines: Vec::new(), command: None, failed: None };
        let mut findings = part(&done, ratios);
        findings.push(Finding::shown("nothing is asked for", Vec::new()));
        look(&Summary::of(&[Part { done: &done, findings }]))
    }

    #[test]
    fn the_three_best_and_the_three_worst_are_named() {
        with(&[1.0, 5.0, 0.5, -2.0, 3.0, 0.9, 2.0], |summary| {
            let ratios = |all: &[Ranked<'_>]| all.iter().map(|one| one.ratio).collect::<Vec<_>>();
            assert_eq!(ratios(&summary.best), [5.0, 3.0, 2.0]);
            assert_eq!(ratios(&summary.worst), [-2.0, 0.5, 0.9]);
            assert_eq!((summary.met, summary.open, summary.missed), (4, 0, 3));
        });
    }

    #[test]
    fn no_result_is_among_the_best_and_among_the_worst() {
        for count in 0..8usize {
            let ratios: Vec<f64> = (0..count).map(|n| n as f64).collect();
            let named = with(&ratios, |summary| summary.best.len() + summary.worst.len());
            assert_eq!(named, count.min(6));
        }
    }
}
