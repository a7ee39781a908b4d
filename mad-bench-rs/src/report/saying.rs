//! A sentence on what figures show, and whether what is asked for was reached.

use crate::harness::present::figure;
use crate::report::data::Line;

/// What a sentence says of what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is there, or nothing is asked for.
    Good,
    /// The median says one thing, an end of its interval the other: another run may well find otherwise.
    Unsure,
    /// It was not reached.
    Missed,
}

/// A sentence.
pub(crate) struct Sentence {
    pub(crate) text: String,
    pub(crate) verdict: Verdict,
}

/// Nothing is asked for.
pub(super) fn good(text: String) -> Sentence {
    Sentence { text, verdict: Verdict::Good }
}

/// Something is asked for, of a figure that has no interval.
pub(super) fn judged(text: String, reached: bool) -> Sentence {
    match reached {
        true => good(text),
        false => {
            Sentence { text: format!("{text} That is not reached."), verdict: Verdict::Missed }
        }
    }
}

/// Something is asked for of these figures, all of them. (Whatever is asked for must be a bound: between two figures that
/// reach it there is none that does not.)
pub(super) fn weighed(text: String, figures: &[&Line], asked: impl Fn(f64) -> bool) -> Sentence {
    let ends = |line: &Line| {
        let (low, high) = line.interval();
        [low, high]
    };
    let missed = |line: &&&Line| !asked(line.median);
    let surely_missed = |line: &&Line| !asked(line.median) && !ends(line).into_iter().any(&asked);
    let unsure =
        |line: &&Line| ends(line).into_iter().any(&asked) && !ends(line).into_iter().all(&asked);
    if figures.iter().any(surely_missed) {
        return judged(text, false);
    }
    let mut doubtful = figures.iter().filter(|line| unsure(line)).peekable();
    if doubtful.peek().is_none() {
        return good(text);
    }
    let intervals: Vec<String> = doubtful
        .map(|line| {
            let [low, high] = ends(line);
            format!("{} to {}", figure(low), figure(high))
        })
        .collect();
    let reached = match figures.iter().any(|line| missed(&line)) {
        true => "That is not reached, but not for certain",
        false => "That is reached, but not for certain",
    };
    Sentence {
        text: format!(
            "{text} {reached}: where the median lies is known to {}.",
            intervals.join(", ")
        ),
        verdict: Verdict::Unsure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::data::tests::line;

    fn verdict(medians: &[f64], asked: impl Fn(f64) -> bool) -> (Verdict, String) {
        // Their intervals are two percent to both sides.
        let lines: Vec<Line> = medians.iter().map(|&median| line("x", &[], median)).collect();
        let said = weighed("Text.".into(), &lines.iter().collect::<Vec<_>>(), asked);
        (said.verdict, said.text)
    }

    #[test]
    fn what_an_interval_leaves_open_is_not_judged() {
        let least = |bound: f64| move |x: f64| x >= bound;
        assert_eq!(verdict(&[1.0, 2.0], least(0.9)).0, Verdict::Good);
        assert_eq!(verdict(&[1.0, 0.5], least(0.9)).0, Verdict::Missed);
        let (unsure, text) = verdict(&[1.0, 5.0], least(0.99));
        assert!(unsure == Verdict::Unsure && text.contains("is reached"), "{text}");
        let (unsure, text) = verdict(&[1.0, 5.0], least(1.01));
        assert!(unsure == Verdict::Unsure && text.contains("0.980 to 1.020"), "{text}");
        assert!(text.contains("not reached, but not for certain"), "{text}");
        assert_eq!(verdict(&[1.0], |x| x <= 0.5).0, Verdict::Missed);
    }
}
