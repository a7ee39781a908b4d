//! What the figures show at one place, and how that compares with what is asked for.

use crate::harness::line::Line;
use crate::quantity::{brief, figure};

/// How a result compares with what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    /// The median says one thing, an end of its interval the other: another run may well find otherwise.
    Open,
    Missed,
}

impl Verdict {
    /// The word in tables, which is the name of its class in the style sheet too.
    pub(super) fn word(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Open => "open",
            Verdict::Missed => "missed",
        }
    }
}

/// What is asked for, and how the result compares with that.
pub(crate) struct Target {
    /// What is asked for, in words.
    pub(crate) asked: String,
    /// How many times as good as asked for; 1 is just enough. `None` where no figure says so.
    pub(crate) ratio: Option<f64>,
    pub(crate) verdict: Verdict,
    /// Where the medians lie that leave the verdict open; empty if none does.
    pub(crate) doubt: String,
}

/// A result: a row of a section's table.
pub(crate) struct Finding {
    /// Where it was measured, in words.
    pub(crate) place: String,
    /// Figures in words, each with the name of its column.
    pub(crate) figures: Vec<(String, String)>,
    /// Absent where nothing is asked for.
    pub(crate) target: Option<Target>,
}

impl Finding {
    /// A result of which nothing is asked.
    pub(super) fn shown(place: impl Into<String>, figures: Vec<(String, String)>) -> Finding {
        Finding { place: place.into(), figures, target: None }
    }

    /// Something is asked for, of a figure that has no interval.
    pub(super) fn judged(
        self,
        asked: impl Into<String>,
        ratio: Option<f64>,
        is_met: bool,
    ) -> Finding {
        let verdict = if is_met { Verdict::Met } else { Verdict::Missed };
        let target = Target { asked: asked.into(), ratio, verdict, doubt: String::new() };
        Finding { target: Some(target), ..self }
    }

    /// Something is asked for of these figures, all of them.
    pub(super) fn weighed(
        self,
        asked: impl Into<String>,
        lines: &[&Line],
        bound: Bound,
    ) -> Finding {
        let (verdict, doubt) = weigh(lines, bound);
        let ratio = bound.worst(lines).and_then(|line| bound.ratio(line.median));
        let target = Target { asked: asked.into(), ratio, verdict, doubt };
        Finding { target: Some(target), ..self }
    }
}

/// A ratio in words.
pub(super) fn times(ratio: f64) -> String {
    format!("{} ×", brief(ratio))
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

    /// How many times as good as asked for a figure is.
    pub(super) fn ratio(self, figure: f64) -> Option<f64> {
        match self {
            Bound::AtLeast(bound) => (bound > 0.0).then(|| figure / bound),
            Bound::AtMost(bound) => (figure > 0.0).then(|| bound / figure),
        }
    }

    /// The one of these lines that is farthest from what is asked for.
    pub(super) fn worst<'a>(self, lines: &[&'a Line]) -> Option<&'a Line> {
        let order = |a: &&&Line, b: &&&Line| match self {
            Bound::AtLeast(_) => b.median.total_cmp(&a.median),
            Bound::AtMost(_) => a.median.total_cmp(&b.median),
        };
        lines.iter().max_by(order).copied()
    }
}

/// The verdict on these figures, all of them, and the intervals that leave it open.
fn weigh(lines: &[&Line], bound: Bound) -> (Verdict, String) {
    let asked = |figure| bound.is_reached(figure);
    let ends = |line: &Line| {
        let (low, high) = line.interval();
        [low, high]
    };
    let surely_missed = |line: &&Line| !asked(line.median) && !ends(line).into_iter().any(asked);
    let unsure =
        |line: &&&Line| ends(line).into_iter().any(asked) && !ends(line).into_iter().all(asked);
    if lines.iter().any(surely_missed) {
        return (Verdict::Missed, String::new());
    }
    let intervals: Vec<String> = lines
        .iter()
        .filter(unsure)
        .map(|line| {
            let [low, high] = ends(line);
            format!("{} to {}", figure(low), figure(high))
        })
        .collect();
    match intervals.is_empty() {
        true => (Verdict::Met, String::new()),
        false => (Verdict::Open, intervals.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::Bound::{AtLeast, AtMost};
    use super::*;
    use crate::harness::line::tests::line;

    fn target(medians: &[f64], bound: Bound) -> Target {
        // Their intervals are two percent to both sides.
        let lines: Vec<Line> = medians.iter().map(|&median| line("x", &[], median)).collect();
        let lines: Vec<&Line> = lines.iter().collect();
        Finding::shown("here", Vec::new()).weighed("enough", &lines, bound).target.unwrap()
    }

    #[test]
    fn what_an_interval_leaves_open_is_not_judged() {
        assert_eq!(target(&[1.0, 2.0], AtLeast(0.9)).verdict, Verdict::Met);
        assert_eq!(target(&[1.0, 0.5], AtLeast(0.9)).verdict, Verdict::Missed);
        assert_eq!(target(&[1.0, 5.0], AtLeast(0.99)).verdict, Verdict::Open);
        let open = target(&[1.0, 5.0], AtLeast(1.01));
        assert_eq!((open.verdict, &*open.doubt), (Verdict::Open, "0.980 to 1.020"));
        assert_eq!(target(&[1.0], AtMost(0.5)).verdict, Verdict::Missed);
    }

    #[test]
    fn the_ratio_is_of_the_worst_figure_and_above_one_is_better() {
        assert_eq!(target(&[2.0, 1.0, 3.0], AtLeast(0.5)).ratio, Some(2.0));
        assert_eq!(target(&[2.0, 1.0, 3.0], AtMost(6.0)).ratio, Some(2.0));
        assert_eq!(target(&[-1.0], AtLeast(0.5)).ratio, Some(-2.0));
        // What takes less than no time has no ratio.
        assert_eq!(target(&[-1.0], AtMost(0.5)).ratio, None);
    }
}
