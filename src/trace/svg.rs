//! A picture of a moment as one SVG file: a row for each virtual processor and kernel thread, and an arrow for each
//! message. It needs nothing but itself and follows the reader's choice of light or dark.
//!
//! What is shorter than a fraction of a pixel is drawn together with its neighbours of the same kind, so a picture of
//! millions of records stays small.

use std::fmt::Write;

use super::arrow::{self, Arrow};
use super::message::Message;
use super::read::{Trace, start};
use super::walk::{self, Doing, Step, Track, What};
use mad_bench::quantity;

const WIDTH: f64 = 960.0;
/// Where time begins: to the left of it are the names of the rows.
const LEFT: f64 = 150.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 40.0;
const ROW: f64 = 26.0;
const BAR: f64 = 16.0;
/// Between two processes.
const GAP: f64 = 34.0;
/// Narrower bars are drawn so wide.
const LEAST: f64 = 0.7;
/// Kinds of bars, as classes of the style sheet, with what the legend says.
const KINDS: [(Doing, &str, &str); 4] = [
    (Doing::Computing, "r", "runs a thread"),
    (Doing::Polling, "p", "polls, moves messages"),
    (Doing::Scheduling, "l", "looks for work"),
    (Doing::Sleeping, "s", "sleeps in the kernel"),
];

const STYLE: &str = "\
:root{--bg:#fff;--fg:#24292f;--dim:#6e7781;--line:#d8dee4;--r:#4878b8;--p:#e08a1e;--l:#d9c9a8;--s:#c9d1d9;--m:#b3261e}
@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--dim:#8b949e;--line:#30363d;--r:#5b8fd6;--p:#f0a040;\
--l:#6b5d3f;--s:#484f58;--m:#ff7b72}}
text{font:12px system-ui,sans-serif;fill:var(--fg)}.d{fill:var(--dim);font-size:11px}.h{font-weight:600}
.r{fill:var(--r)}.p{fill:var(--p)}.l{fill:var(--l)}.s{fill:var(--s)}.bg{fill:var(--bg)}
.g{stroke:var(--line)}.m{stroke:var(--m);stroke-width:1.3;fill:none}.a{stroke-dasharray:3 3}.t{fill:var(--m)}
.n{fill:var(--m);font-size:11px;paint-order:stroke;stroke:var(--bg);stroke-width:3px}";

/// What a track did from when to when.
#[derive(Clone, Debug, PartialEq)]
struct Bar {
    from: i64,
    to: i64,
    kind: Doing,
    name: String,
}

/// The part of the time that is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

impl Window {
    /// All of it, or the part between these, in milliseconds since the beginning.
    pub(crate) fn of(traces: &[Trace], from_ms: Option<f64>, to_ms: Option<f64>) -> Window {
        let start = start(traces);
        let events = traces.iter().flat_map(|trace| &trace.rings).flat_map(|ring| &ring.events);
        let end = events.map(|event| event.at).max().unwrap_or(start);
        let at = |ms: f64| start.saturating_add((ms * 1e6) as i64);
        let from = from_ms.map_or(start, at);
        Window { from, to: to_ms.map_or(end, at).max(from.saturating_add(1)) }
    }

    fn x(self, at: i64) -> f64 {
        let part = at.saturating_sub(self.from) as f64 / self.to.saturating_sub(self.from) as f64;
        LEFT + part * (WIDTH - LEFT - RIGHT)
    }

    fn has(self, at: i64) -> bool {
        (self.from..=self.to).contains(&at)
    }
}

/// What a track did, without overlaps, the innermost of what was going on.
fn bars(track: &Track, window: Window) -> Vec<Bar> {
    let mut bars = Vec::new();
    let mut open: Vec<(Doing, &str)> = Vec::new();
    let mut last = i64::MIN;
    // Between two sleeps in the watch its thread treats events.
    let mut watches = false;
    let mut until = |to: i64, open: &[(Doing, &str)], watches: bool| {
        let going_on = match open.last() {
            None if watches => Some((Doing::Polling, "treats events")),
            other => other.copied(),
        };
        let (from, end) = (last.max(window.from), to.min(window.to));
        if let Some((kind, name)) = going_on
            && from < end
        {
            bars.push(Bar { from, to: end, kind, name: name.to_owned() });
        }
        last = to;
    };
    for step in &track.steps {
        match step {
            Step::Begin { at, what, name, .. } => {
                until(*at, &open, watches);
                watches |= *what == What::Block && open.is_empty();
                open.push((what.doing(), name));
            }
            Step::End { at, .. } => {
                until(*at, &open, watches);
                open.pop();
            }
            Step::Mark { .. } | Step::Message { .. } => {}
        }
    }
    bars
}

/// Neighbours of one kind that are not even `near` apart are one.
fn merged(bars: Vec<Bar>, near: i64) -> Vec<Bar> {
    let mut merged: Vec<Bar> = Vec::new();
    for bar in bars {
        let short = |bar: &Bar| bar.to - bar.from < near;
        match merged.iter_mut().rev().take(3).find(|before| before.kind == bar.kind) {
            Some(before)
                if bar.from - before.to < near
                    && (short(before) || short(&bar) || before.name == bar.name) =>
            {
                before.to = bar.to;
            }
            _ => merged.push(bar),
        }
    }
    merged
}

fn escaped(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A step of the time axis that makes about eight of them.
fn step_ns(span: i64) -> i64 {
    let mut step = 1i64;
    while span / step > 8 {
        step = match step.to_string().as_bytes()[0] {
            b'1' => step * 2,
            b'2' => step / 2 * 5,
            _ => step * 2,
        };
    }
    step
}

/// A moment on the axis: all of its labels have the unit of their step.
fn time(ns: i64, step: i64) -> String {
    match step {
        1_000_000.. => format!("{} ms", ns as f64 / 1e6),
        1_000.. => format!("{} µs", ns as f64 / 1e3),
        _ => format!("{ns} ns"),
    }
}

/// One row of the picture.
struct Row {
    process: usize,
    track: usize,
    y: f64,
    bars: Vec<Bar>,
}

/// The picture of these processes in that window.
pub(crate) fn svg(traces: &[Trace], window: Window) -> String {
    let all: Vec<_> = traces.iter().map(walk::tracks).collect();
    let mut arrows = arrow::arrows(all.iter().map(Vec::as_slice));
    arrows.retain(|arrow| window.has(arrow.left.0) && window.has(arrow.received.0));
    let near = (window.to.saturating_sub(window.from) as f64 * 0.5 / (WIDTH - LEFT)) as i64;
    let (mut rows, mut titles, mut y) = (Vec::new(), Vec::new(), TOP);
    for (process, tracks) in all.iter().enumerate() {
        titles.push((y, traces[process].label()));
        y += ROW - 4.0;
        for (number, track) in tracks.iter().enumerate() {
            let bars = bars(track, window);
            let ends = |arrow: &Arrow| {
                let mut ends = vec![arrow.left.1, arrow.received.1];
                ends.extend(arrow.arrived.map(|at| at.1));
                ends.iter().any(|end| (end.process, end.track) == (process, number))
            };
            if bars.iter().any(|bar| bar.kind != Doing::Sleeping) || arrows.iter().any(ends) {
                rows.push(Row { process, track: number, y, bars: merged(bars, near.max(1)) });
                y += ROW;
            }
        }
        y += GAP - ROW + 4.0;
    }
    let height = y + 30.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <style>{STYLE}</style>\n<defs><marker id=\"to\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" \
         markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path class=\"t\" d=\"M0 0L8 4L0 8z\"/></marker></defs>\n\
         <rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n"
    );
    legend(&mut out);
    axis(&mut out, window, y);
    for (y, label) in &titles {
        let _ = writeln!(
            out,
            "<text class=\"h\" x=\"8\" y=\"{:.0}\">{}</text>",
            y + 13.0,
            escaped(label)
        );
    }
    for row in &rows {
        let label = all[row.process][row.track].owner.label();
        let y = row.y + BAR - 4.0;
        let _ = writeln!(out, "<text class=\"d\" x=\"8\" y=\"{y:.0}\">{}</text>", escaped(&label));
        row.bars.iter().for_each(|bar| draw(&mut out, window, row.y, bar));
    }
    let told = |arrow: &Arrow| {
        let place = arrow.left.1;
        match all[place.process][place.track].steps.get(place.step) {
            Some(Step::Message { message, .. }) => Some(*message),
            _ => None,
        }
    };
    let longest = arrows
        .iter()
        .filter_map(told)
        .filter_map(|message| message.about)
        .map(|(_, len)| len)
        .max();
    for arrow in &arrows {
        if let Some(message) = told(arrow) {
            // Only the longest say how long they are: short ones are too close to each other.
            let named =
                message.about.is_some_and(|(_, len)| len > 0 && len >= longest.unwrap_or(0) / 2);
            draw_arrow(&mut out, window, &rows, arrow, &message, named);
        }
    }
    out + "</svg>\n"
}

fn legend(out: &mut String) {
    let mut x = LEFT;
    for (_, class, text) in KINDS {
        let _ = writeln!(
            out,
            "<rect class=\"{class}\" x=\"{x}\" y=\"12\" width=\"14\" height=\"10\"/>\
             <text class=\"d\" x=\"{}\" y=\"21\">{text}</text>",
            x + 19.0
        );
        x += 34.0 + text.len() as f64 * 6.2;
    }
    let _ = writeln!(
        out,
        "<path class=\"m\" marker-end=\"url(#to)\" d=\"M{x} 17h24\"/>\
         <text class=\"d\" x=\"{}\" y=\"21\">message, from leaving to receipt</text>",
        x + 30.0
    );
}

fn axis(out: &mut String, window: Window, bottom: f64) {
    let span = window.to.saturating_sub(window.from);
    let step = step_ns(span);
    for number in 0..=span / step {
        let x = window.x(window.from.saturating_add(number * step));
        let (y, text) = (bottom + 18.0, time(number * step, step));
        let _ = writeln!(
            out,
            "<path class=\"g\" d=\"M{x:.1} {TOP}V{bottom:.0}\"/>\
             <text class=\"d\" x=\"{x:.1}\" y=\"{y:.0}\" text-anchor=\"middle\">{text}</text>"
        );
    }
}

fn draw(out: &mut String, window: Window, y: f64, bar: &Bar) {
    let class =
        KINDS.iter().find(|(kind, ..)| *kind == bar.kind).map_or("r", |(_, class, _)| class);
    let (x, end) = (window.x(bar.from), window.x(bar.to));
    // A sleeping thread is a thin line.
    let (y, height) = match bar.kind {
        Doing::Sleeping => (y + BAR / 2.0 - 1.0, 2.0),
        _ => (y, BAR),
    };
    let _ = writeln!(
        out,
        "<rect class=\"{class}\" x=\"{x:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{height}\">\
         <title>{}, {}</title></rect>",
        (end - x).max(LEAST),
        escaped(&bar.name),
        quantity::time((bar.to - bar.from) as f64)
    );
}

fn draw_arrow(
    out: &mut String,
    window: Window,
    rows: &[Row],
    arrow: &Arrow,
    message: &Message,
    named: bool,
) {
    let row = |place: arrow::Place| {
        rows.iter().find(|row| (row.process, row.track) == (place.process, place.track))
    };
    let (Some(from), Some(to)) = (row(arrow.left.1), row(arrow.received.1)) else { return };
    let edge = |row: &Row, other: &Row| if row.y < other.y { row.y + BAR } else { row.y };
    let (x, y) = (window.x(arrow.left.0), edge(from, to));
    let (end, bottom) = (window.x(arrow.received.0), edge(to, from));
    if let Some((at, place)) = arrow.arrived
        && let Some(row) = row(place)
    {
        let (x2, y2) = (window.x(at), edge(row, from));
        let _ = writeln!(out, "<path class=\"m a\" d=\"M{x:.1} {y:.1}L{x2:.1} {y2:.1}\"/>");
    }
    let took = quantity::time((arrow.received.0 - arrow.left.0) as f64);
    let _ = writeln!(
        out,
        "<path class=\"m\" marker-end=\"url(#to)\" d=\"M{x:.1} {y:.1}L{end:.1} {bottom:.1}\">\
         <title>{}, {took}</title></path>",
        escaped(&message.text())
    );
    if named {
        let (x, y) = ((x + end) / 2.0 + 6.0, (y + bottom) / 2.0 + 4.0);
        let text = format!("{}, {took}", message.size());
        let _ = writeln!(out, "<text class=\"n\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>");
    }
}

#[cfg(test)]
mod tests {
    use super::super::read::{read, tests::file};
    use super::*;
    use marcel::trace::Kind as Told;

    fn of(at: u64, kind: Told, a: u64, b: u64) -> [u64; 4] {
        [1000 + 2 * at, kind as u64, a, b]
    }

    #[test]
    fn bars_are_the_innermost_and_within_the_window() {
        let records = vec![
            of(0, Told::Resume, 5, 2),
            of(100, Told::WaitPoll, 0, 0),
            of(150, Told::WaitPollEnd, 1, 0),
            of(200, Told::Left, 5, 0),
            of(200, Told::Rest, 0, 0),
            of(300, Told::Sleep, 0, 0),
        ];
        let trace = read(&file(&[(2, "a & b")], &[(12, 1, records)])).unwrap();
        let tracks = walk::tracks(&trace);
        let traces = [trace];
        let window = Window::of(&traces, Some(0.00005), Some(0.00025));
        let bars = bars(&tracks[0], window);
        let seen: Vec<_> = bars.iter().map(|bar| (bar.kind, bar.to - bar.from)).collect();
        let expected = [
            (Doing::Computing, 50),
            (Doing::Polling, 50),
            (Doing::Computing, 50),
            (Doing::Scheduling, 50),
        ];
        assert_eq!(seen, expected);
        let svg = svg(&traces, window);
        assert!(svg.contains("a &amp; b (5), 50 ns") && !svg.contains("a & b"), "{svg}");
    }

    #[test]
    fn short_neighbours_are_one() {
        let bar = |from, to, kind| Bar { from, to, kind, name: "x".into() };
        let bars = (0..100).map(|i| bar(i * 10, i * 10 + 5, Doing::Polling)).collect();
        assert_eq!(merged(bars, 20), [bar(0, 995, Doing::Polling)]);
        let apart = vec![bar(0, 10, Doing::Computing), bar(500, 600, Doing::Computing)];
        assert_eq!(merged(apart.clone(), 20), apart);
    }

    #[test]
    fn the_axis_has_few_round_steps() {
        for span in [1, 9, 17, 1000, 20_000_000, 123_456_789_012, i64::MAX] {
            let step = step_ns(span);
            assert!((0..=8).contains(&(span / step)) && (span < 8 || span / step >= 3), "{span}");
            let digits = step.to_string();
            assert!(digits.trim_end_matches('0').len() == 1, "{step}");
        }
        assert_eq!(time(2_500_000, 500_000), "2500 µs");
        assert_eq!(time(5_000_000, 5_000_000), "5 ms");
    }
}
