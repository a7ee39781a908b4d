//! `mad report`: all experiments in one self-contained page.
//!
//! `sections`: the experiments; `measure`: measuring them; `plot`: pictures; `names`: metrics and keys in words; `words`,
//! `peers` and `saying`: what the figures show, and what is asked for; `summary`: what matters of that; `page` and
//! `html`: the page; `markdown`: the page as text; `sources`: the works that it cites; `compare`: two runs.
//! The lines are written beside the page after every round, so that what was measured is there whatever happens, and a
//! page can be made again from them.

mod compare;
mod html;
mod markdown;
mod measure;
mod names;
mod page;
mod peers;
mod plot;
mod programs;
mod saying;
mod sections;
mod series;
mod sources;
mod summary;
mod words;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;

pub(crate) use compare::compare;

use crate::across;
use crate::config::{Config, distinct};
use crate::experiments::find;
use crate::harness::key::Takes;
use crate::harness::line::{Line, read, read_all};
use crate::harness::present::Noise;
use crate::out::{Exit, INTERRUPTED, Outcome, complain, print, try_file};
use measure::Plan;
use sections::{Measurement, SECTIONS, Section};

/// Options of `mad report`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  mad report -o report.html                   some ten minutes; writes report.html and report.jsonl
  mad report --only overlap,latency           measure some experiments
  mad report --rounds 1                       a first look: two minutes
  mad report --from report.jsonl -o new.html  make the page again, without measuring
  mad report --from report.jsonl -o new.md    the same as Markdown: tables of medians instead of plots
  mad report -o new.html --compare old.jsonl  measure, and say how far an earlier report's figures are met

A report has all experiments of `mad bench --list` but control-messages, eager-channels and virtual-rails.

Exit status: 0 success, 1 an experiment failed (the page says which), 2 wrong usage, 130 interrupted (the page has what
was measured).")]
pub struct ReportArgs {
    /// Where the page goes, as Markdown if it ends in .md; the lines go beside it, with the ending .jsonl. A file that is
    /// read (--from, --compare) is never overwritten
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Lines of `mad bench --json` or of an earlier report, instead of measuring
    #[arg(long, value_name = "FILE", num_args = 1..)]
    from: Vec<PathBuf>,
    /// Only these experiments
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    only: Vec<String>,
    /// Where MPI libraries that came as Python wheels are, each in a virtual environment
    #[arg(long, value_name = "DIR")]
    peers_dir: Option<PathBuf>,
    /// How often each experiment is measured; with fewer than five the intervals promise less
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// Say, by experiment, how far the figures are those of an earlier report
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
}

impl ReportArgs {
    /// Where the lines go of what is measured.
    fn lines(&self) -> PathBuf {
        self.output.with_extension("jsonl")
    }
}

/// Refuses an output that would overwrite what is read, or the lines of this report.
fn spare_what_is_read(args: &ReportArgs) -> Outcome {
    let (page, lines) = (&args.output, args.lines());
    if *page == lines {
        return Err(Exit::Usage(format!(
            "-o {}: a page ends in .html or .md; what is measured goes beside it, with the ending .jsonl",
            page.display()
        )));
    }
    let measured = args.from.is_empty().then_some(&lines);
    let read = || args.compare.iter().chain(&args.from);
    for written in std::iter::once(page).chain(measured) {
        if let Some(read) = read().find(|read| is_same(read, written)) {
            return Err(Exit::Usage(format!(
                "{}, which is to be read, would be overwritten: give the page another name (-o FILE)",
                read.display()
            )));
        }
    }
    Ok(())
}

/// Whether both are there and one file, under whatever names.
fn is_same(one: &Path, other: &Path) -> bool {
    let number = |path: &Path| path.metadata().map(|file| (file.dev(), file.ino())).ok();
    number(one).is_some_and(|one| number(other) == Some(one))
}

/// Measures, or reads, and writes the page.
pub fn run(args: &ReportArgs) -> Outcome {
    let known = distinct(SECTIONS.iter().map(|section| section.bench));
    if let Some(name) = args.only.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(Exit::Usage(format!(
            "a report has no experiment '{name}': it has {}",
            known.join(", ")
        )));
    }
    let wanted = |section: &&Section| {
        args.only.is_empty() || args.only.iter().any(|name| name == section.bench)
    };
    spare_what_is_read(args)?;
    // Known to be there and understood before anything is measured.
    let earlier = args.compare.as_deref().map(read).transpose().map_err(Exit::Usage)?;
    let mut interrupted = false;
    let (done, conditions) = if args.from.is_empty() {
        across::refuse("mad report")?;
        let lines = args.lines();
        let failed = |file: &Path, e| Exit::Failed(format!("report: {}: {e}", file.display()));
        for file in [&args.output, &measure::part(&lines)] {
            try_file(file).map_err(|e| failed(file, e))?;
        }
        // The lines take the place of what is there: of a file that may only be read too, of a folder never.
        if lines.symlink_metadata().is_ok_and(|about| about.is_dir()) {
            return Err(failed(&lines, std::io::ErrorKind::IsADirectory.into()));
        }
        let plan = Plan {
            rounds: args.rounds,
            peers_dir: args.peers_dir.clone(),
            lines,
            noise: Noise::start(""),
            begun: Instant::now(),
        };
        let measured = measure::measure(&plan, wanted)?;
        interrupted = measured.interrupted;
        (measured.done, vec![measured.conditions])
    } else {
        let (mut lines, mut conditions) = (Vec::new(), Vec::new());
        for path in &args.from {
            let (these, where_measured) = read_all(path).map_err(Exit::Usage)?;
            lines.extend(these);
            conditions.extend(where_measured);
        }
        let (all, left_out) = (lines.len(), unknown(&lines));
        let done = from_lines(lines, wanted);
        if done.is_empty() {
            return Err(Exit::Usage(format!(
                "--from: of {all} lines none is of an experiment that is wanted: a report has {}",
                known.join(", ")
            )));
        }
        if left_out > 0 {
            complain(&format!(
                "mad report: {left_out} of {all} lines are of no experiment that a report has, and are left out"
            ));
        }
        (done, distinct(conditions))
    };
    let text = match args.output.extension().is_some_and(|ending| ending == "md") {
        true => markdown::page(&done, &conditions),
        false => page::page(&done, &conditions),
    };
    std::fs::write(&args.output, text).map_err(|e| {
        let measured = args.from.is_empty() && done.iter().any(|done| !done.lines.is_empty());
        let again = match measured {
            true => {
                format!("; once it is mended: mad report --from {} -o FILE", args.lines().display())
            }
            false => String::new(),
        };
        Exit::Failed(format!("report: {}: {e}{again}", args.output.display()))
    })?;
    print(&format!("{} is written", args.output.display()))?;
    if let Some(earlier) = &earlier {
        let lines: Vec<Line> = done.iter().flat_map(|done| done.lines.clone()).collect();
        print(&compare(earlier, &lines).table())?;
    }
    if interrupted {
        complain("mad report: interrupted: the page has what was measured until then");
        return Err(Exit::Code(INTERRUPTED));
    }
    match done.iter().any(|done| done.failed.is_some()) {
        true => Err(Exit::Code(1)),
        false => Ok(()),
    }
}

/// How many lines are of no section.
fn unknown(lines: &[Line]) -> usize {
    lines.iter().filter(|line| sections_of(line).is_empty()).count()
}

/// Gives lines to the sections that they are of. A report writes its lines section by section, so of lines of one point
/// that several sections measure, the first is the first section's.
fn from_lines(lines: Vec<Line>, wanted: impl Fn(&&Section) -> bool) -> Vec<Measurement> {
    let homes: Vec<Vec<usize>> = lines.iter().map(sections_of).collect();
    let is_of = |at: usize, section: usize| {
        let Some(rank) = homes[at].iter().position(|&home| home == section) else { return false };
        let line = &lines[at];
        let same = |other: &&Line| {
            other.bench == line.bench && other.metric == line.metric && other.config == line.config
        };
        let before = lines[..at].iter().filter(same).count();
        let all = before + lines[at..].iter().filter(same).count();
        match all < homes[at].len() {
            true => before == rank.min(all - 1),
            false => before % homes[at].len() == rank,
        }
    };
    SECTIONS
        .iter()
        .enumerate()
        .filter(|(_, section)| wanted(section))
        .filter_map(|(index, section)| {
            let these = (0..lines.len()).filter(|&at| is_of(at, index));
            let lines: Vec<Line> = these.map(|at| lines[at].clone()).collect();
            (!lines.is_empty()).then_some(Measurement {
                section,
                lines,
                command: None,
                failed: None,
            })
        })
        .collect()
}

/// The sections that a line can be of, by number: those that measure its point, else those whose pictures it fits, else
/// the first of its experiment.
fn sections_of(line: &Line) -> Vec<usize> {
    let those = |exact: bool| -> Vec<usize> {
        let fits =
            |section: &Section| section.bench == line.bench && has(section, &line.config, exact);
        (0..SECTIONS.len()).filter(|&index| fits(&SECTIONS[index])).collect()
    };
    let any = || SECTIONS.iter().position(|section| section.bench == line.bench);
    [those(true), those(false)]
        .into_iter()
        .find(|fit| !fit.is_empty())
        .unwrap_or_else(|| any().into_iter().collect())
}

/// Whether a point is one of the section's: its values are among those that are asked for; if `exact`, those of other
/// keys among the keys' defaults. References (no computation, no rank computes) belong to all, and so does what depends
/// on the machine's number of cores.
fn has(section: &Section, config: &Config, exact: bool) -> bool {
    let keys = find(section.bench).map_or(&[][..], |bench| bench.keys);
    keys.iter().all(|key| {
        let given = section.given.iter().find(|(option, _)| *option == key.option());
        let list = match given {
            Some((_, list)) => list,
            None if exact => key.default,
            None => return true,
        };
        let Some(value) = config.get(key.name) else { return true };
        matches!(key.takes, Takes::Cores(..))
            || (key.name != "progression" && ["0", "none"].contains(&&*crate::config::shown(value)))
            || key.parse(list).is_ok_and(|asked| asked.contains(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::line::tests::line;
    use crate::report::sections::Picture;

    #[test]
    fn every_section_has_its_bench_and_its_grid() {
        for section in SECTIONS {
            let bench = find(section.bench).expect(section.bench);
            crate::harness::key::grid(bench.name, bench.keys, section.given)
                .unwrap_or_else(|why| panic!("{}: {why}", section.title));
            for picture in section.pictures {
                let (Picture::Curves { metric, .. }
                | Picture::Bars { metric, .. }
                | Picture::Heat { metric, .. }) = picture;
                assert!(
                    bench.metrics.iter().any(|known| known.name == *metric),
                    "{}: {metric}",
                    section.title
                );
            }
        }
    }

    #[test]
    fn the_help_names_the_experiments_that_a_report_does_not_have() {
        let help = ReportArgs::augment_args(clap::Command::new("report"));
        let help = help.get_after_help().unwrap().to_string();
        for bench in crate::experiments::BENCHES {
            let lacks = !SECTIONS.iter().any(|section| section.bench == bench.name);
            let (_, without) = help.split_once("--list` but ").unwrap();
            let without = without.split_once('.').unwrap().0.replace(" and ", ", ");
            let named = without.split(", ").any(|name| name == bench.name);
            assert_eq!(named, lacks, "{}: {without}", bench.name);
        }
    }

    #[test]
    fn a_point_that_two_sections_measure_keeps_its_section() {
        let of = |side, progression, median| {
            let keys = [
                ("driver", "shm"),
                ("mode", "smp"),
                ("policy", "auto"),
                ("library", "newmad"),
                ("progression", progression),
                ("size", "1048576"),
                ("compute_us", "20000"),
                ("side", side),
            ];
            Line { bench: "overlap".into(), ..line("send_time", &keys, median) }
        };
        let twice =
            vec![of("receiver", "1", 1.0), of("sender", "1", 2.0), of("receiver", "1", 3.0)];
        let medians = |lines: Vec<Line>| -> Vec<Vec<f64>> {
            let done = from_lines(lines, |_| true);
            done.iter().map(|part| part.lines.iter().map(|line| line.median).collect()).collect()
        };
        assert_eq!(medians(twice), [vec![1.0, 2.0], vec![3.0]]);
        let without = vec![of("receiver", "1", 1.0), of("receiver", "0", 9.0)];
        assert_eq!(medians(without), [vec![1.0], vec![1.0, 9.0]]);
        // What was measured once is shown in both; what no section measures, where it fits.
        assert_eq!(medians(vec![of("receiver", "1", 1.0)]), [vec![1.0], vec![1.0]]);
        assert_eq!(medians(vec![of("both", "0", 4.0)]), [vec![4.0]]);
        let barrier = line("op_time", &[("op", "barrier"), ("size", "1")], 5.0);
        assert_eq!(medians(vec![Line { bench: "coll".into(), ..barrier }]), [vec![5.0]]);
    }

    #[test]
    fn a_page_is_made_of_lines() {
        let lines: Vec<Line> = ["1", "1024"]
            .iter()
            .flat_map(|size| {
                ["newmad", "mpich"].map(|library| {
                    line(
                        "half_round_trip",
                        &[("driver", "shm"), ("size", size), ("library", library)],
                        0.5,
                    )
                })
            })
            .collect();
        let done = from_lines(lines, |section| section.bench == "latency");
        assert_eq!(done.len(), 1);
        let page = page::page(&done, &["a test's <machine>".into()]);
        assert!(page.contains("<svg") && page.contains("a test&#39;s &lt;machine&gt;"));
        assert_eq!(page.matches("<section").count(), page.matches("</section>").count());
    }
}
