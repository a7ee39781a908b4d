//! A sentence on what figures show, and whether what is asked for was reached.

use crate::harness::line::Line;
use crate::harness::present::figure;

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

/// What is asked for of a figure. Between two figures that reach a bound every figure reaches it, so the ends of an
/// interval stand for all of it.
#[derive(Clone, Copy)]
pub(super) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    fn is_reached(self, figure: f64) -> bool {
        match self {
            Bound::AtLeast(bound) => figure >= bound,
            Bound::AtMost(bound) => figure <= bound,
        }
    }

    /// The one of these lines that is farthest from what is asked for.
    fn worst<'a>(self, lines: &[&'a Line]) -> Option<&'a Line> {
        let order = |a: &&&Line, b: &&&Line| match self {
            Bound::AtLeast(_) => b.median.total_cmp(&a.median),
            Bound::AtMost(_) => a.median.total_cmp(&b.median),
        };
        lines.iter().max_by(order).copied()
    }
}

/// A sentence on the worst of these figures, of all of which something is asked for. `None` without figures.
pub(super) fn bounded<'a>(
    figures: impl IntoIterator<Item = &'a Line>,
    bound: Bound,
    text: impl FnOnce(&Line) -> String,
) -> Option<Sentence> {
    let figures: Vec<&Line> = figures.into_iter().collect();
    let worst = bound.worst(&figures)?;
    Some(weighed(text(worst), &figures, bound))
}

/// Something is asked for of these figures, all of them.
pub(super) fn weighed(text: String, figures: &[&Line], bound: Bound) -> Sentence {
    let asked = |figure| bound.is_reached(figure);
    let ends = |line: &Line| {
        let (low, high) = line.interval();
        [low, high]
    };
    let missed = |line: &&&Line| !asked(line.median);
    let surely_missed = |line: &&Line| !asked(line.median) && !ends(line).into_iter().any(asked);
    let unsure =
        |line: &&Line| ends(line).into_iter().any(asked) && !ends(line).into_iter().all(asked);
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
    use super::Bound::{AtLeast, AtMost};
    use super::*;
    use crate::harness::line::tests::line;

    fn verdict(medians: &[f64], bound: Bound) -> (Verdict, String) {
        // Their intervals are two percent to both sides.
        let lines: Vec<Line> = medians.iter().map(|&median| line("x", &[], median)).collect();
        let said = weighed("Text.".into(), &lines.iter().collect::<Vec<_>>(), bound);
        (said.verdict, said.text)
    }

    #[test]
    fn what_an_interval_leaves_open_is_not_judged() {
        assert_eq!(verdict(&[1.0, 2.0], AtLeast(0.9)).0, Verdict::Good);
        assert_eq!(verdict(&[1.0, 0.5], AtLeast(0.9)).0, Verdict::Missed);
        let (unsure, text) = verdict(&[1.0, 5.0], AtLeast(0.99));
        assert!(unsure == Verdict::Unsure && text.contains("is reached"), "{text}");
        let (unsure, text) = verdict(&[1.0, 5.0], AtLeast(1.01));
        assert!(unsure == Verdict::Unsure && text.contains("0.980 to 1.020"), "{text}");
        assert!(text.contains("not reached, but not for certain"), "{text}");
        assert_eq!(verdict(&[1.0], AtMost(0.5)).0, Verdict::Missed);
    }

    #[test]
    fn a_sentence_is_about_the_worst_figure() {
        let lines = [2.0, 1.0, 3.0].map(|median| line("x", &[], median));
        let said = |bound| bounded(&lines, bound, |worst| worst.median.to_string()).unwrap().text;
        assert!(said(AtLeast(0.5)).starts_with('1') && said(AtMost(4.0)).starts_with('3'));
        assert!(bounded([], AtLeast(0.0), |_| "nothing".into()).is_none());
    }
}
