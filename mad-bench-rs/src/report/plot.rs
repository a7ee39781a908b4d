//! Plots as SVG, all of one size. Colours come from the page's style sheet, so that one picture serves light and dark.
//!
//! A curve shows medians, or means ([`Middle`]); the whisker at a point goes from the tenth to the ninetieth
//! percentile, and the small mark above it is the ninety-ninth.

use std::fmt::Write;

use crate::harness::line::Line;
use crate::quantity::measured;
use crate::report::html::{COLOURS, escape};
use crate::report::names;

const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 42.0;
/// Width of a letter, not too narrow: what is measured with it does not overlap.
const LETTER: f64 = 7.4;
/// What tells curves of one colour apart.
const DASHES: [&str; 4] = ["none", "7 4", "2 4", "10 4 2 4"];
/// Libraries with a colour of their own on the whole page; blue is the project's.
const LIBRARIES: [(&str, usize); 8] = [
    ("newmad", 0),
    ("pioman", 0),
    ("marcel", 0),
    ("openmpi", 1),
    ("mpich", 2),
    ("madmpi", 3),
    ("bare", 6),
    ("kernel", 6),
];
/// The colours of the others.
const OTHERS: [usize; 4] = [4, 5, 7, 1];

/// Which figure of a line is drawn.
#[derive(Clone, Copy)]
pub(crate) enum Middle {
    Median,
    /// Where medians hide what counts.
    Mean,
}

impl Middle {
    pub(super) fn of(self, line: &Line) -> f64 {
        match self {
            Middle::Median => line.median,
            Middle::Mean => line.mean,
        }
    }
}

/// Points with a name.
pub(crate) struct Series<'a> {
    pub(crate) name: String,
    /// Those of one library have one colour; where there are no libraries, each has its own.
    pub(crate) library: String,
    /// Place on the axis, and the figures.
    pub(crate) points: Vec<(f64, &'a Line)>,
}

/// An axis: from figures to places.
struct Axis {
    low: f64,
    high: f64,
    log: bool,
}

impl Axis {
    /// Logarithmic if all figures are positive and far apart; else it has zero.
    fn of(figures: &[f64]) -> Axis {
        let low = figures.iter().copied().fold(f64::INFINITY, f64::min);
        let high = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let log = low > 0.0 && high / low > 30.0;
        let (low, high) = match log {
            true => (low / 1.3, high * 1.3),
            false => (low.min(0.0) * 1.08, high.max(0.0) * 1.08),
        };
        Axis { low, high: if high > low { high } else { low + 1.0 }, log }
    }

    /// From a power of ten to a power of ten if it is logarithmic: labels at powers are far apart.
    fn snapped(self) -> Axis {
        match self.log {
            true => Axis {
                low: 10f64.powi((self.low * 1.3).log10().floor() as i32),
                high: 10f64.powi((self.high / 1.3).log10().ceil() as i32),
                ..self
            },
            false => self,
        }
    }

    /// Where a figure is, from 0 to 1.
    fn place(&self, x: f64) -> f64 {
        let part = match self.log {
            true => (x / self.low).ln() / (self.high / self.low).ln(),
            false => (x - self.low) / (self.high - self.low),
        };
        part.clamp(0.0, 1.0)
    }

    /// Where labels go: at least three on a logarithmic axis, about `most` at the most.
    fn ticks(&self, most: usize) -> Vec<f64> {
        if self.log {
            let (from, to) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
            let inside = |tick: &f64| *tick >= self.low && *tick <= self.high;
            let power = |power: i32| 10f64.powi(power);
            let mut marks: Vec<f64> = (from..=to).map(power).filter(inside).collect();
            if marks.len() < 3 {
                // The axis spans a factor of 50 or more, so three of these are on it.
                let thirds = (from..=to).flat_map(|n| [power(n), 3.0 * power(n)]);
                marks = thirds.filter(inside).collect();
            }
            // Every n-th, with three left.
            let step = marks.len().div_ceil(most).min((marks.len() - 1) / 2).max(1);
            return marks.into_iter().step_by(step).collect();
        }
        let raw = (self.high - self.low) / most.saturating_sub(1).max(1) as f64;
        let unit = 10f64.powf(raw.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|k| k * unit).into_iter().find(|&s| s >= raw).unwrap_or(raw);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|k| k as f64 * step).collect()
    }

    /// Attributes of a picture that has this axis, for `ci/report.sh`.
    fn scale(&self) -> &'static str {
        if self.log { " data-scale='log'" } else { " data-scale='linear'" }
    }
}

/// A figure with its unit at an axis or a bar; zero without, and what is counted in words too long for it, which the title
/// says.
fn label(x: f64, unit: &str) -> String {
    let unit = if unit == "hops" { "" } else { unit };
    if x == 0.0 { "0".into() } else { measured(x, unit) }
}

fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

fn longest<'a>(texts: impl IntoIterator<Item = &'a str>) -> f64 {
    texts.into_iter().map(width).fold(0.0, f64::max)
}

/// A text beside an axis.
fn tick(out: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let _ = write!(
        out,
        "<text class='tick' x='{x:.1}' y='{y:.1}' text-anchor='{anchor}'>{}</text>",
        escape(text)
    );
}

/// The name of the axis below.
fn name(out: &mut String, from: f64, text: &str) {
    let _ = write!(
        out,
        "<text x='{:.1}' y='{:.1}' text-anchor='middle' class='dim'>{}</text>",
        (from + WIDTH - RIGHT) / 2.0,
        HEIGHT - 6.0,
        escape(text)
    );
}

/// A picture with its title above and, if there is one, its legend below.
fn figure(title: &str, scale: &str, drawing: &str, legend: &str) -> String {
    format!(
        "<figure><figcaption>{0}</figcaption>\
         <svg class='plot' viewBox='0 0 {WIDTH} {HEIGHT}' role='img' aria-label='{0}'{scale}>{drawing}</svg>{legend}</figure>",
        escape(title)
    )
}

/// A curve for each series over the key `x`.
pub(crate) fn curves(
    title: &str,
    x: &str,
    unit: &str,
    middle: Middle,
    series: &[Series<'_>],
) -> String {
    let figures: Vec<f64> = series
        .iter()
        .flat_map(|series| {
            series.points.iter().flat_map(|(_, line)| [middle.of(line), line.p10, line.p90])
        })
        .collect();
    let mut places: Vec<f64> =
        series.iter().flat_map(|series| series.points.iter().map(|point| point.0)).collect();
    if places.is_empty() {
        return String::new();
    }
    places.sort_by(f64::total_cmp);
    places.dedup();
    // Places by rank: every measured one can be read, whatever lies between them.
    let room = (WIDTH - LEFT - RIGHT) / places.len() as f64;
    let slot = |place: f64| {
        let rank = places.iter().position(|&other| other == place).unwrap_or(0) as f64;
        LEFT + (rank + 0.5) * room
    };
    let axis = Axis::of(&figures);
    let height = |figure: f64| HEIGHT - BOTTOM - axis.place(figure) * (HEIGHT - TOP - BOTTOM);
    let mut out = String::new();
    for mark in axis.ticks(6) {
        let y = height(mark);
        let _ = write!(out, "<path class='grid' d='M{LEFT} {y:.1}H{:.1}'/>", WIDTH - RIGHT);
        tick(&mut out, (LEFT - 6.0, y + 4.0), "end", &label(mark, unit));
    }
    let texts: Vec<String> = places.iter().map(|&place| names::tick(x, place as u64)).collect();
    let wide = longest(texts.iter().map(String::as_str)) + 6.0;
    let skip = (wide / room).ceil().max(1.0) as usize;
    for (place, text) in places.iter().zip(&texts).step_by(skip) {
        tick(&mut out, (slot(*place), HEIGHT - BOTTOM + 17.0), "middle", text);
    }
    name(&mut out, LEFT, names::axis(x));
    let styles = styles(series.iter().map(|series| series.library.as_str()));
    for (series, Style { colour, dash }) in series.iter().zip(&styles) {
        let mut path = String::new();
        for (number, (place, line)) in series.points.iter().enumerate() {
            let (x, y) = (slot(*place), height(middle.of(line)));
            let _ = write!(path, "{}{x:.1} {y:.1}", if number == 0 { "M" } else { "L" });
            let (low, high) = (height(line.p10), height(line.p90));
            let [at, p10, p90, p99] = [middle.of(line), line.p10, line.p90, line.p99]
                .map(|figure| escape(&measured(figure, unit)));
            let _ = write!(
                out,
                "<g class='s{colour}'><path class='whisker' d='M{x:.1} {low:.1}V{high:.1}'/>\
                 <circle cx='{x:.1}' cy='{y:.1}' r='3'><title>{}: {at} (p10 {p10}, p90 {p90}, p99 {p99})</title></circle>",
                escape(&series.name),
            );
            if line.p99 <= axis.high && line.p99 > line.p90 {
                let top = height(line.p99);
                let _ = write!(out, "<path class='whisker' d='M{:.1} {top:.1}h6'/>", x - 3.0);
            }
            out.push_str("</g>");
        }
        let _ = write!(out, "<path class='curve s{colour}' stroke-dasharray='{dash}' d='{path}'/>");
    }
    figure(title, axis.scale(), &out, &legend(series, &styles))
}

/// How a curve is drawn.
struct Style {
    colour: usize,
    dash: &'static str,
}

/// A style for each series, by its library: one that the page knows has its colour everywhere.
fn styles<'a>(libraries: impl Iterator<Item = &'a str>) -> Vec<Style> {
    // Each library, its colour, and how many of its curves have come.
    let mut known: Vec<(&str, usize, usize)> = Vec::new();
    let mut others = OTHERS.into_iter().cycle();
    let mut styles = Vec::new();
    for (index, library) in libraries.enumerate() {
        let (colour, before) = match known.iter_mut().find(|(name, ..)| *name == library) {
            _ if library.is_empty() => (index % COLOURS, index / COLOURS),
            Some((_, colour, count)) => {
                *count += 1;
                (*colour, *count)
            }
            None => {
                let own = LIBRARIES.iter().find(|(name, _)| *name == library);
                let colour = own.map(|(_, colour)| *colour).or_else(|| others.next()).unwrap_or(0);
                known.push((library, colour, 0));
                (colour, 0)
            }
        };
        styles.push(Style { colour, dash: DASHES[before % DASHES.len()] });
    }
    styles
}

/// How many bars a picture has room for: the labels of more would overlap.
pub(crate) const MOST_BARS: usize = 12;

/// A bar for each line, with its label; [`MOST_BARS`] at the most.
pub(crate) fn bars(title: &str, unit: &str, bars: &[(String, &Line)]) -> String {
    debug_assert!(bars.len() <= MOST_BARS);
    if bars.is_empty() {
        return String::new();
    }
    let bottom = 26.0;
    let row = (HEIGHT - TOP - bottom) / bars.len() as f64;
    let figures: Vec<f64> =
        bars.iter().flat_map(|(_, line)| [line.median, line.p10, line.p90]).collect();
    let axis = Axis::of(&figures).snapped();
    let values: Vec<String> = bars.iter().map(|(_, line)| label(line.median, unit)).collect();
    let left = (longest(bars.iter().map(|(label, _)| label.as_str())) + 10.0).clamp(20.0, 175.0);
    let right = longest(values.iter().map(String::as_str)) + 8.0;
    let place = |figure: f64| left + axis.place(figure) * (WIDTH - left - right);
    let ends = |mark: f64| {
        let half = width(&label(mark, unit)) / 2.0;
        (place(mark) - half, place(mark) + half)
    };
    let apart = |before: f64, mark: f64, by: f64| ends(before).1 + by < ends(mark).0;
    let fits = |marks: &[f64]| {
        marks.windows(2).all(|two| apart(two[0], two[1], 5.0))
            && marks.iter().all(|&mark| ends(mark).1 <= WIDTH)
    };
    // As many labels as there is room for; where even steps leave too many, those that have room.
    let marks = (2..=6).rev().map(|most| axis.ticks(most)).find(|marks| fits(marks));
    let marks = marks.unwrap_or_else(|| {
        let mut marks = Vec::new();
        for mark in axis.ticks(2) {
            if ends(mark).1 <= WIDTH && marks.last().is_none_or(|&last| apart(last, mark, 1.0)) {
                marks.push(mark);
            }
        }
        marks
    });
    let mut out = String::new();
    for mark in marks {
        let x = place(mark);
        let _ = write!(out, "<path class='grid' d='M{x:.1} {TOP}V{:.1}'/>", HEIGHT - bottom + 4.0);
        tick(&mut out, (x, HEIGHT - 8.0), "middle", &label(mark, unit));
    }
    let zero = if axis.log { left } else { place(0.0) };
    let libraries: Vec<String> = bars.iter().map(|(_, line)| line.key("library")).collect();
    let styles = styles(libraries.iter().map(|name| if name.is_empty() { "newmad" } else { name }));
    for (index, ((name, line), value)) in bars.iter().zip(&values).enumerate() {
        let (middle, colour) = (TOP + row * (index as f64 + 0.5), styles[index].colour);
        let end = place(line.median);
        let (from, wide) = (zero.min(end), (zero - end).abs().max(1.0));
        let (p10, p90) = (place(line.p10), place(line.p90));
        let thick = (row * 0.6).min(22.0);
        let _ = write!(
            out,
            "<text x='{:.1}' y='{:.1}' text-anchor='end'>{}</text>\
             <rect class='s{colour}' x='{from:.1}' y='{:.1}' width='{wide:.1}' height='{thick:.1}'><title>{}</title></rect>\
             <path class='whisker over' d='M{p10:.1} {middle:.1}H{p90:.1}'/>\
             <text x='{:.1}' y='{:.1}'>{}</text>",
            left - 6.0,
            middle + 4.0,
            escape(name),
            middle - thick / 2.0,
            escape(value),
            end.max(p90).max(zero) + 5.0,
            middle + 4.0,
            escape(value),
        );
    }
    figure(title, axis.scale(), &out, "")
}

/// A map of ratios: rows and columns by value, darker is closer to 1.
pub(crate) fn heat(
    title: &str,
    (x, columns): (&str, &[u64]),
    (y, rows): (&str, &[u64]),
    value: impl Fn(u64, u64) -> Option<f64>,
) -> String {
    let top = TOP + 16.0;
    let cell = (HEIGHT - top - BOTTOM) / rows.len().max(1) as f64;
    let wide = (WIDTH - LEFT - RIGHT) / columns.len().max(1) as f64;
    let mut out =
        format!("<text class='dim' x='4' y='{:.1}'>{}</text>", TOP + 6.0, escape(names::axis(y)));
    for (row, &row_value) in rows.iter().enumerate() {
        let at_y = top + cell * row as f64;
        tick(&mut out, (LEFT - 6.0, at_y + cell / 2.0 + 4.0), "end", &names::tick(y, row_value));
        for (column, &column_value) in columns.iter().enumerate() {
            let at = LEFT + wide * column as f64;
            let Some(ratio) = value(column_value, row_value) else { continue };
            let strength = ratio.clamp(0.0, 1.0);
            let class = if strength > 0.55 { "hot" } else { "cold" };
            let _ = write!(
                out,
                "<rect class='heat' style='fill-opacity:{strength:.2}' x='{at:.1}' y='{at_y:.1}' width='{:.1}' height='{:.1}'/>\
                 <text class='{class}' x='{:.1}' y='{:.1}' text-anchor='middle'>{ratio:.2}</text>",
                wide - 2.0,
                cell - 2.0,
                at + wide / 2.0,
                at_y + cell / 2.0 + 4.0
            );
        }
    }
    for (column, &value) in columns.iter().enumerate() {
        let at = LEFT + wide * (column as f64 + 0.5);
        tick(&mut out, (at, HEIGHT - BOTTOM + 17.0), "middle", &names::tick(x, value));
    }
    name(&mut out, LEFT, names::axis(x));
    figure(title, "", &out, "")
}

fn legend(series: &[Series<'_>], styles: &[Style]) -> String {
    let item = |(series, Style { colour, dash }): (&Series<'_>, &Style)| {
        format!(
            "<li><svg class='key' viewBox='0 0 26 8'><path class='curve s{colour}' stroke-dasharray='{dash}' d='M0 4H26'/></svg>{}</li>",
            escape(&series.name)
        )
    };
    match series.len() {
        0 | 1 => String::new(),
        _ => format!(
            "<ul class='legend'>{}</ul>",
            series.iter().zip(styles).map(item).collect::<String>()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::line::tests::line;
    use proptest::prelude::*;

    #[test]
    fn no_two_curves_look_the_same() {
        let looks = |libraries: &[&str]| {
            let styles = styles(libraries.iter().copied());
            styles.iter().map(|style| (style.colour, style.dash)).collect::<Vec<_>>()
        };
        assert_eq!(looks(&["newmad", "mpich", "newmad"]), [(0, "none"), (2, "none"), (0, "7 4")]);
        for libraries in [vec![""; 20], vec!["mpich", "impi", "newmad", "madmpi", "bare", "mpich5"]]
        {
            let mut all = looks(&libraries);
            let drawn = all.len();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), drawn);
        }
    }

    #[test]
    fn a_library_has_its_colour_whatever_else_is_drawn() {
        let of = |libraries: &[&'static str]| styles(libraries.iter().copied())[0].colour;
        assert_eq!(of(&["mpich"]), of(&["mpich", "newmad", "openmpi"]));
        assert_eq!(of(&["newmad"]), 0);
    }

    #[test]
    fn every_picture_has_the_same_size() {
        let one = line("op_time", &[("size", "4")], 1.0);
        let bar = |n: usize| bars("t", "us", &vec![("a".to_owned(), &one); n]);
        let series =
            [Series { name: "x".into(), library: String::new(), points: vec![(4.0, &one)] }];
        let pictures = [
            bar(1),
            bar(MOST_BARS),
            curves("t", "size", "us", Middle::Median, &series),
            heat("t", ("size", &[1, 2]), ("compute_us", &[1, 2, 3, 4]), |_, _| Some(0.5)),
        ];
        for picture in pictures {
            assert!(picture.contains(&format!("viewBox='0 0 {WIDTH} {HEIGHT}'")), "{picture}");
        }
    }

    /// From 100 µs to 100 ms beside long names: four labels, which have no room, and whose every second would be two.
    #[test]
    fn labels_of_an_axis_never_overlap() {
        let lines = [137e3, 18e6].map(|time| line("access_time", &[("size", "8")], time));
        let named: Vec<(String, &Line)> =
            lines.iter().map(|line| ("openmpi, accumulate".to_owned(), line)).collect();
        let picture = bars("t", "ns", &named);
        let ends: Vec<(f64, f64)> = picture
            .split("class='tick'")
            .skip(1)
            .map(|text| {
                let x = text.split_once("x='").and_then(|(_, text)| text.split_once('\''));
                let x: f64 = x.expect("a place").0.parse().expect("a number");
                let inside = text.split_once('>').and_then(|(_, text)| text.split_once('<'));
                let half = width(inside.expect("a text").0) / 2.0;
                (x - half, x + half)
            })
            .collect();
        assert!(ends.len() >= 3, "{picture}");
        assert!(ends.windows(2).all(|two| two[0].1 < two[1].0), "{ends:?}");
    }

    proptest! {
        #[test]
        fn every_figure_is_inside_the_picture(
            figures in proptest::collection::vec(-1e9f64..1e9, 1..20),
            positive: bool,
        ) {
            let figures: Vec<f64> =
                figures.iter().map(|x| if positive { x.abs() + 1e-6 } else { *x }).collect();
            let axis = Axis::of(&figures);
            for figure in &figures {
                let place = axis.place(*figure);
                prop_assert!((0.0..=1.0).contains(&place), "{figure}: {place}");
            }
            let ticks = axis.ticks(6);
            prop_assert!(ticks.len() < 20);
            prop_assert!(ticks.iter().all(|tick| tick.is_finite()));
        }

        #[test]
        fn figures_of_any_size_that_is_read_make_a_picture(
            figures in proptest::collection::vec((-30f64..30.0, -1.0f64..1.0), 1..MOST_BARS),
            positive: bool,
        ) {
            let figure = |(power, sign): (f64, f64)| {
                10f64.powf(power) * if positive { 1.0 } else { sign.signum() }
            };
            let lines: Vec<Line> =
                figures.into_iter().map(|of| line("op_time", &[("size", "4")], figure(of))).collect();
            let named: Vec<(String, &Line)> =
                lines.iter().map(|line| ("a".to_owned(), line)).collect();
            let points = lines.iter().enumerate().map(|(x, line)| (x as f64, line)).collect();
            let series = [Series { name: "x".into(), library: String::new(), points }];
            for text in [
                bars("t", "us", &named),
                curves("t", "size", "us", Middle::Median, &series),
            ] {
                prop_assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
                prop_assert!(text.matches("class='tick'").count() < 40, "{text}");
            }
        }

        #[test]
        fn a_logarithmic_axis_has_three_labels(low in 1e-6f64..1e6, decades in 1.48f64..14.0, most in 3usize..8) {
            let axis = Axis::of(&[low, low * 10f64.powf(decades)]);
            prop_assert!(axis.log);
            for axis in [Axis { ..axis }, axis.snapped()] {
                let ticks = axis.ticks(most);
                prop_assert!((3..=12).contains(&ticks.len()), "{ticks:?}");
            }
        }

        #[test]
        fn curves_are_balanced_markup(medians in proptest::collection::vec(1e-3f64..1e6, 1..8)) {
            let lines: Vec<Line> =
                medians.iter().map(|&median| line("op_time", &[("size", "4")], median)).collect();
            let points = lines.iter().enumerate().map(|(x, line)| (x as f64, line)).collect();
            let text = curves(
                "a < b",
                "size",
                "us",
                Middle::Median,
                &[Series { name: "x & y".into(), library: String::new(), points }],
            );
            prop_assert_eq!(text.matches("<g ").count(), text.matches("</g>").count());
            prop_assert!(text.contains("a &lt; b") && !text.contains("NaN"));
        }
    }
}
