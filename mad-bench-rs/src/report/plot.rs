//! Plots as SVG. Colours come from the page's style sheet, so that one picture serves light and dark.
//!
//! A curve shows medians, or means ([`Middle`]); the whisker at a point goes from the tenth to the ninetieth
//! percentile, and the small mark above it is the ninety-ninth.

use std::fmt::Write;

use crate::harness::line::Line;
use crate::harness::present::figure;
use crate::report::html::escape;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 44.0;
/// Colours of the style sheet, `--c0` and so on.
const COLOURS: usize = 8;
/// What tells curves of one colour apart.
const DASHES: [&str; 4] = ["none", "7 4", "2 4", "10 4 2 4"];

/// Which figure of a line is drawn.
#[derive(Clone, Copy)]
pub(crate) enum Middle {
    Median,
    /// Where medians hide what counts.
    Mean,
}

impl Middle {
    fn of(self, line: &Line) -> f64 {
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
    /// Logarithmic if all figures are positive and far apart.
    fn of(figures: &[f64], from_zero: bool) -> Axis {
        let low = figures.iter().copied().fold(f64::INFINITY, f64::min);
        let high = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let log = low > 0.0 && high / low > 30.0;
        let (low, high) = match (log, from_zero) {
            (true, _) => (low / 1.3, high * 1.3),
            (false, true) => (low.min(0.0), high.max(0.0) * 1.08),
            (false, false) => (low, high),
        };
        Axis { low, high: if high > low { high } else { low + 1.0 }, log }
    }

    /// Where a figure is, from 0 to 1.
    fn place(&self, x: f64) -> f64 {
        let part = match self.log {
            true => (x / self.low).ln() / (self.high / self.low).ln(),
            false => (x - self.low) / (self.high - self.low),
        };
        part.clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let (from, to) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
            let step = ((to - from) / 6).max(1);
            let all = (from..=to).step_by(step as usize).map(|power| 10f64.powi(power));
            return all.filter(|&tick| tick >= self.low && tick <= self.high).collect();
        }
        let raw = (self.high - self.low) / 5.0;
        let unit = 10f64.powf(raw.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|k| k * unit).into_iter().find(|&s| s >= raw).unwrap_or(raw);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|k| k as f64 * step).collect()
    }
}

/// A number for an axis.
fn short(x: f64) -> String {
    let (scaled, unit) = match x.abs() {
        a if a >= 1e9 => (x / 1e9, "G"),
        a if a >= 1e6 => (x / 1e6, "M"),
        a if a >= 1e4 => (x / 1e3, "k"),
        _ => (x, ""),
    };
    let text = format!("{scaled:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{unit}")
}

/// A size in bytes for an axis.
fn bytes(x: f64) -> String {
    match x {
        x if x >= 1048576.0 => format!("{}M", short(x / 1048576.0)),
        x if x >= 1024.0 => format!("{}K", short(x / 1024.0)),
        x => short(x),
    }
}

/// A curve for each series. `x` names the axis; sizes are shown in powers of two.
pub(crate) fn curves(
    title: &str,
    x: &str,
    unit: &str,
    middle: Middle,
    series: &[Series<'_>],
) -> String {
    let places: Vec<f64> =
        series.iter().flat_map(|series| series.points.iter().map(|point| point.0)).collect();
    let figures: Vec<f64> = series
        .iter()
        .flat_map(|series| {
            series.points.iter().flat_map(|(_, line)| [middle.of(line), line.p10, line.p90])
        })
        .collect();
    if places.is_empty() {
        return String::new();
    }
    let mut distinct = places.clone();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    // Places by rank: every measured one can be read, whatever lies between them.
    let slot = |place: f64| {
        let rank = distinct.iter().position(|&other| other == place).unwrap_or(0) as f64;
        LEFT + (rank + 0.5) / distinct.len() as f64 * (WIDTH - LEFT - RIGHT)
    };
    let axis = Axis::of(&figures, true);
    let height = |figure: f64| HEIGHT - BOTTOM - axis.place(figure) * (HEIGHT - TOP - BOTTOM);
    let mut out = frame(title, unit, &axis, &height);
    let skip = distinct.len().div_ceil(9);
    for &place in distinct.iter().step_by(skip) {
        let text = if x == "size" { bytes(place) } else { short(place) };
        let _ = write!(
            out,
            "<text x='{:.1}' y='{:.1}' text-anchor='middle'>{text}</text>",
            slot(place),
            HEIGHT - BOTTOM + 16.0
        );
    }
    let name = if x == "size" { "bytes of a message" } else { x };
    let _ = write!(
        out,
        "<text x='{:.1}' y='{:.1}' text-anchor='middle' class='dim'>{}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - BOTTOM + 32.0,
        escape(name)
    );
    let styles = styles(series);
    for (series, Style { colour, dash }) in series.iter().zip(&styles) {
        let mut path = String::new();
        for (number, (place, line)) in series.points.iter().enumerate() {
            let (x, y) = (slot(*place), height(middle.of(line)));
            let _ = write!(path, "{}{x:.1} {y:.1}", if number == 0 { "M" } else { "L" });
            let (low, high) = (height(line.p10), height(line.p90));
            let _ = write!(
                out,
                "<g class='s{colour}'><path class='whisker' d='M{x:.1} {low:.1}V{high:.1}'/>\
                 <circle cx='{x:.1}' cy='{y:.1}' r='3'><title>{}: {} {} (p10 {}, p90 {}, p99 {})</title></circle>",
                escape(&series.name),
                figure(middle.of(line)),
                escape(unit),
                figure(line.p10),
                figure(line.p90),
                figure(line.p99)
            );
            if line.p99 <= axis.high && line.p99 > line.p90 {
                let top = height(line.p99);
                let _ = write!(out, "<path class='whisker' d='M{:.1} {top:.1}h6'/>", x - 3.0);
            }
            out.push_str("</g>");
        }
        let _ = write!(out, "<path class='curve s{colour}' stroke-dasharray='{dash}' d='{path}'/>");
    }
    out.push_str("</svg>");
    format!("<figure>{out}{}</figure>", legend(series, &styles))
}

/// How a curve is drawn.
struct Style {
    colour: usize,
    dash: &'static str,
}

fn styles(series: &[Series<'_>]) -> Vec<Style> {
    // Each library, and how many of its curves have come.
    let mut libraries: Vec<(&str, usize)> = Vec::new();
    let mut styles = Vec::new();
    for (index, Series { library, .. }) in series.iter().enumerate() {
        let known = libraries.iter().position(|(name, _)| name == library);
        let (colour, before) = match known {
            _ if library.is_empty() => (index, index / COLOURS),
            Some(known) => {
                libraries[known].1 += 1;
                (known, libraries[known].1)
            }
            None => {
                libraries.push((library, 0));
                (libraries.len() - 1, 0)
            }
        };
        styles.push(Style { colour: colour % COLOURS, dash: DASHES[before % DASHES.len()] });
    }
    styles
}

/// A bar for each line, with its label.
pub(crate) fn bars(title: &str, unit: &str, bars: &[(String, &Line)]) -> String {
    if bars.is_empty() {
        return String::new();
    }
    let row = 24.0;
    let height = TOP + row * bars.len() as f64 + 26.0;
    let left = 150.0;
    let figures: Vec<f64> = bars.iter().flat_map(|(_, line)| [line.median, line.p90]).collect();
    let axis = Axis::of(&figures, true);
    let place = |figure: f64| left + axis.place(figure) * (WIDTH - left - 60.0);
    let mut out = head(title, height);
    for tick in axis.ticks() {
        let x = place(tick);
        let _ = write!(
            out,
            "<path class='grid' d='M{x:.1} {TOP}V{:.1}'/><text class='dim' x='{x:.1}' y='{:.1}' text-anchor='middle'>{}</text>",
            height - 24.0,
            height - 8.0,
            short(tick)
        );
    }
    let zero = if axis.log { left } else { place(0.0) };
    for (index, (label, line)) in bars.iter().enumerate() {
        let y = TOP + row * index as f64;
        let end = place(line.median);
        let (from, width) = (zero.min(end), (zero - end).abs().max(1.0));
        let (p10, p90) = (place(line.p10), place(line.p90));
        let _ = write!(
            out,
            "<text x='{:.1}' y='{:.1}' text-anchor='end'>{}</text>\
             <rect class='s0' x='{from:.1}' y='{:.1}' width='{width:.1}' height='14'><title>{} {}</title></rect>\
             <path class='whisker over' d='M{p10:.1} {:.1}H{p90:.1}'/>\
             <text x='{:.1}' y='{:.1}'>{}</text>",
            left - 6.0,
            y + 15.0,
            escape(label),
            y + 4.0,
            figure(line.median),
            escape(unit),
            y + 11.0,
            end.max(p90).max(zero) + 5.0,
            y + 15.0,
            short((line.median * 1000.0).round() / 1000.0)
        );
    }
    let _ = write!(
        out,
        "<text class='dim' x='4' y='{:.1}'>{}</text></svg>",
        height - 8.0,
        escape(unit)
    );
    format!("<figure>{out}</figure>")
}

/// A map of ratios: rows and columns by value, darker is closer to 1.
pub(crate) fn heat(
    title: &str,
    (x, columns): (&str, &[String]),
    (y, rows): (&str, &[String]),
    value: impl Fn(&str, &str) -> Option<f64>,
) -> String {
    let (left, cell) = (84.0, 30.0);
    let wide = (WIDTH - left - RIGHT) / columns.len().max(1) as f64;
    let height = TOP + cell * rows.len() as f64 + 44.0;
    let mut out = head(title, height);
    let label = |key: &str, value: &str| match (key, value.parse::<f64>()) {
        ("size", Ok(number)) => bytes(number),
        (_, Ok(number)) => short(number),
        _ => value.to_owned(),
    };
    for (row, row_value) in rows.iter().enumerate() {
        let top = TOP + cell * row as f64;
        let _ = write!(
            out,
            "<text x='{:.1}' y='{:.1}' text-anchor='end'>{}</text>",
            left - 6.0,
            top + 19.0,
            escape(&label(y, row_value))
        );
        for (column, column_value) in columns.iter().enumerate() {
            let at = left + wide * column as f64;
            let Some(ratio) = value(column_value, row_value) else { continue };
            let strength = ratio.clamp(0.0, 1.0);
            let class = if strength > 0.55 { "hot" } else { "cold" };
            let _ = write!(
                out,
                "<rect class='heat' style='fill-opacity:{strength:.2}' x='{at:.1}' y='{top:.1}' width='{:.1}' height='{:.1}'/>\
                 <text class='{class}' x='{:.1}' y='{:.1}' text-anchor='middle'>{ratio:.2}</text>",
                wide - 2.0,
                cell - 2.0,
                at + wide / 2.0,
                top + 19.0
            );
        }
    }
    for (column, value) in columns.iter().enumerate() {
        let _ = write!(
            out,
            "<text x='{:.1}' y='{:.1}' text-anchor='middle'>{}</text>",
            left + wide * (column as f64 + 0.5),
            height - 26.0,
            escape(&label(x, value))
        );
    }
    let _ = write!(
        out,
        "<text class='dim' x='{:.1}' y='{:.1}' text-anchor='middle'>{}</text><text class='dim' x='4' y='{:.1}'>{}</text></svg>",
        (left + WIDTH) / 2.0,
        height - 8.0,
        escape(if x == "size" { "bytes of a message" } else { x }),
        TOP - 8.0,
        escape(y)
    );
    format!("<figure>{out}</figure>")
}

fn head(title: &str, height: f64) -> String {
    format!(
        "<svg viewBox='0 0 {WIDTH} {height:.0}' role='img' aria-label='{0}'>\
         <text class='title' x='{1:.1}' y='15' text-anchor='middle'>{0}</text>",
        escape(title),
        WIDTH / 2.0
    )
}

/// Title, axis and grid of a plot.
fn frame(title: &str, unit: &str, axis: &Axis, height: &impl Fn(f64) -> f64) -> String {
    let mut out = head(title, HEIGHT);
    for tick in axis.ticks() {
        let y = height(tick);
        let _ = write!(
            out,
            "<path class='grid' d='M{LEFT} {y:.1}H{:.1}'/><text x='{:.1}' y='{:.1}' text-anchor='end'>{}</text>",
            WIDTH - RIGHT,
            LEFT - 5.0,
            y + 4.0,
            short(tick)
        );
    }
    let _ = write!(out, "<text class='dim' x='4' y='{:.1}'>{}</text>", TOP - 8.0, escape(unit));
    out
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
    fn numbers_on_axes_are_short() {
        assert_eq!([0.115, 20_000.0, 3e9, 2.5].map(short), ["0.115", "20k", "3G", "2.5"]);
        assert_eq!([4.0, 65_536.0, 1048576.0].map(bytes), ["4", "64K", "1M"]);
    }

    #[test]
    fn no_two_curves_look_the_same() {
        let named = |library: &str| Series {
            name: String::new(),
            library: library.into(),
            points: Vec::new(),
        };
        let looks = |series: &[Series<'_>]| {
            let styles = styles(series);
            styles.iter().map(|style| (style.colour, style.dash)).collect::<Vec<_>>()
        };
        let with = [named("newmad"), named("mpich"), named("newmad")];
        assert_eq!(looks(&with), [(0, "none"), (1, "none"), (0, "7 4")]);
        let without: Vec<Series<'_>> = (0..20).map(|_| named("")).collect();
        let mut all = looks(&without);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 20);
    }

    proptest! {
        #[test]
        fn every_figure_is_inside_the_picture(
            figures in proptest::collection::vec(-1e9f64..1e9, 1..20),
            positive: bool,
        ) {
            let figures: Vec<f64> =
                figures.iter().map(|x| if positive { x.abs() + 1e-6 } else { *x }).collect();
            let axis = Axis::of(&figures, true);
            for figure in &figures {
                let place = axis.place(*figure);
                prop_assert!((0.0..=1.0).contains(&place), "{figure}: {place}");
            }
            let ticks = axis.ticks();
            prop_assert!(ticks.len() < 20);
            prop_assert!(ticks.iter().all(|tick| tick.is_finite()));
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
