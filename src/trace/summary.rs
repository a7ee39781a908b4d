//! Where each virtual processor's time went, what the sources had, and how long woken threads waited for their turn.

use std::collections::BTreeMap;

use marcel::trace::Kind;

use super::arrow;
use super::read::{Trace, start};
use super::walk::{self, Doing, Step, Track, What};
use mad_bench::{out, quantity};

const PLACES: [(Doing, &str); 4] = [
    (Doing::Computing, "computing"),
    (Doing::Scheduling, "scheduling"),
    (Doing::Polling, "polling"),
    (Doing::Sleeping, "sleeping"),
];

/// What a track's kernel thread did to wake others, and how often it was woken for nothing.
const SIGNALS: [(Kind, &str); 3] =
    [(Kind::Vain, "woken in vain"), (Kind::Ring, "peers rung"), (Kind::SelfWake, "self-wakes")];

/// What one track did.
#[derive(Debug, Default, PartialEq)]
struct Times {
    ns: [i64; 4],
    resumed: u64,
    slept: u64,
}

fn times(track: &Track) -> Times {
    let mut times = Times::default();
    let mut open: Vec<What> = Vec::new();
    let mut last = None;
    for step in &track.steps {
        let at = step.at();
        let now = match (open.last(), step) {
            (Some(what), _) => what.doing(),
            // Threads came and went too fast to be recorded.
            (None, Step::Begin { what: What::Thread, skipped: 1.., .. }) => Doing::Computing,
            (None, _) => Doing::Scheduling,
        };
        times.ns[now as usize] += at - last.unwrap_or(at);
        last = Some(at);
        match step {
            Step::Begin { what, skipped, .. } => {
                open.push(*what);
                times.resumed += u64::from(*what == What::Thread) * (1 + u64::from(*skipped));
                times.slept += u64::from(what.doing() == Doing::Sleeping);
            }
            Step::End { .. } => _ = open.pop(),
            Step::Mark { .. } | Step::Message { .. } => {}
        }
    }
    times
}

/// The tables, as text.
pub(crate) fn table(traces: &[Trace]) -> String {
    let mut text = String::new();
    // As in the picture.
    let start = start(traces);
    let tracks: Vec<_> = traces.iter().map(walk::tracks).collect();
    for (trace, tracks) in traces.iter().zip(&tracks) {
        // (Damaged files have any number.)
        let written =
            trace.rings.iter().fold(trace.lost, |sum, ring| sum.saturating_add(ring.lost));
        let overwritten = match written {
            0 => String::new(),
            lost => format!("; {lost} older records were overwritten (MARCEL_TRACE_RECORDS)"),
        };
        text += &format!("{}{overwritten}\n{}\n", trace.label(), per_track(tracks));
        text += &sources(trace, tracks);
        text += &wakes(trace, tracks, start);
    }
    text + &messages(&tracks)
}

/// How long messages were under way, of which both ends are known.
fn messages(tracks: &[Vec<Track>]) -> String {
    let mut pairs: BTreeMap<(u32, u32), Vec<i64>> = BTreeMap::new();
    for arrow in arrow::arrows(tracks.iter().map(Vec::as_slice)) {
        let (left, at) = arrow.left;
        if let Step::Message { message, .. } = &tracks[at.process][at.track].steps[at.step] {
            pairs.entry(message.ranks).or_default().push(arrow.received.0 - left);
        }
    }
    if pairs.is_empty() {
        return String::new();
    }
    let mut table = out::table(&["messages", "number", "median", "99 %", "longest"]);
    for ((from, to), mut times) in pairs {
        times.sort_unstable();
        let us = |share: f64| quantity::time(times[place(times.len(), share)] as f64);
        let name = format!("rank {from} to {to}");
        table.add_row([name, times.len().to_string(), us(0.5), us(0.99), us(1.0)]);
    }
    format!("from leaving to receipt\n{}\n", aligned(table))
}

/// Where the smallest of so many sorted values is within which this share of them lies. Values in between, which the benches
/// interpolate, would be too small for that.
fn place(count: usize, share: f64) -> usize {
    ((count as f64 * share).ceil() as usize).min(count).saturating_sub(1)
}

fn ms(ns: i64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

fn per_track(tracks: &[Track]) -> String {
    let mut header = vec!["", "seen"];
    header.extend(PLACES.iter().map(|(_, name)| *name));
    header.extend(["threads resumed", "times asleep"]);
    header.extend(SIGNALS.iter().map(|(_, name)| *name));
    let mut table = out::table(&header);
    for track in tracks {
        let times = times(track);
        let all: i64 = times.ns.iter().sum();
        let share = |ns: i64| format!("{:.1} %", 100.0 * ns as f64 / all.max(1) as f64);
        let mut row = vec![track.owner.label(), quantity::time(all as f64)];
        row.extend(PLACES.iter().map(|(place, _)| share(times.ns[*place as usize])));
        row.extend([times.resumed.to_string(), times.slept.to_string()]);
        let count = |kind: Kind| {
            let of_kind =
                |step: &&Step| matches!(step, Step::Mark { event, .. } if event.kind == kind);
            track.steps.iter().filter(of_kind).count()
        };
        row.extend(SIGNALS.iter().map(|(kind, _)| count(*kind).to_string()));
        table.add_row(row);
    }
    aligned(table)
}

fn aligned(mut table: comfy_table::Table) -> String {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(comfy_table::CellAlignment::Right);
    }
    format!("{}\n", table.trim_fmt())
}

fn marks(tracks: &[Track]) -> impl Iterator<Item = &super::read::Event> {
    tracks.iter().flat_map(|track| &track.steps).filter_map(|step| match step {
        Step::Mark { event, .. } => Some(event),
        _ => None,
    })
}

/// Looks that found something, by source and point.
fn sources(trace: &Trace, tracks: &[Track]) -> String {
    let mut found: BTreeMap<(u32, u8), (u64, u64)> = BTreeMap::new();
    for event in marks(tracks).filter(|event| event.kind == Kind::Hit) {
        let (hits, vain) = found.entry((event.a as u32, event.b as u8)).or_default();
        *hits += 1;
        *vain = vain.saturating_add(event.b >> 8);
    }
    if found.is_empty() {
        return String::new();
    }
    let mut rows: Vec<_> = found.into_iter().collect();
    rows.sort_by_key(|(_, (hits, _))| std::cmp::Reverse(*hits));
    let mut table = out::table(&["source", "found at", "times", "looks before"]);
    for ((source, point), (hits, vain)) in rows {
        let name = trace.name(source).unwrap_or("?").to_owned();
        table.add_row(vec![name, walk::point(point), hits.to_string(), vain.to_string()]);
    }
    aligned(table)
}

/// From the wake-up to the run; and the slowest of all, with the place where to look for them.
fn wakes(trace: &Trace, tracks: &[Track], start: i64) -> String {
    let mut wakes = walk::wakes(tracks);
    if wakes.is_empty() {
        return String::new();
    }
    wakes.sort_by_key(|wake| wake.ran - wake.at);
    let at = |share: f64| &wakes[place(wakes.len(), share)];
    let us = |wake: &walk::Wake| quantity::time((wake.ran - wake.at) as f64);
    let mut text = format!(
        "from wake-up to run: {} of them; median {}, 99 % within {}, longest {}\n",
        wakes.len(),
        us(at(0.5)),
        us(at(0.99)),
        us(at(1.0))
    );
    for wake in wakes.iter().rev().take(3) {
        text += &format!(
            "  {} after {}: woken on {} at {} ms, ran on {}\n",
            trace.thread(wake.thread, 0),
            us(wake),
            tracks[wake.from].owner.label(),
            ms(wake.at - start),
            tracks[wake.to].owner.label(),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::read::{read, tests::file};
    use super::*;

    #[test]
    fn time_is_shared_out_among_what_is_innermost() {
        let of = |at: u64, kind: Kind, a: u64| [1000 + 2 * at, kind as u64, a, 0];
        let records = vec![
            of(0, Kind::Resume, 5),
            of(100, Kind::Tick, 0),
            of(110, Kind::TickEnd, 0),
            of(200, Kind::Left, 5),
            of(220, Kind::Rest, 0),
            of(300, Kind::Sleep, 0),
            of(1000, Kind::Wake, 0),
            of(1010, Kind::RestEnd, 0),
            of(1020, Kind::Resume, 6),
        ];
        let trace = read(&file(&[], &[(12, 1, records)])).unwrap();
        let expected = Times { ns: [190, 120, 10, 700], resumed: 2, slept: 1 };
        assert_eq!(times(&walk::tracks(&trace)[0]), expected);
        assert!(table(&[trace]).contains("vp0"));
    }

    #[test]
    fn a_share_of_the_values_lies_within_the_one_that_is_named_and_within_none_before() {
        for count in 1..=1000 {
            for hundredths in [1, 50, 99, 100] {
                let place = place(count, hundredths as f64 / 100.0);
                assert!(100 * (place + 1) >= hundredths * count, "{hundredths} % of {count}");
                assert!(100 * place < hundredths * count, "{hundredths} % of {count}");
            }
        }
    }

    #[test]
    fn numbers_of_a_damaged_file_are_added_up() {
        let mut trace = read(&file(&[], &[(12, 1, Vec::new()), (13, 0, Vec::new())])).unwrap();
        trace.lost = u64::MAX;
        trace.rings.iter_mut().for_each(|ring| ring.lost = u64::MAX);
        assert!(table(&[trace]).contains(&u64::MAX.to_string()));
    }
}
