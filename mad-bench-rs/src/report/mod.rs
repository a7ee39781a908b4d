//! `mad report`: all experiments in one self-contained page.
//!
//! `sections`: the experiments; `measure`: measuring them; `data`: what was measured; `plot`: pictures; `words`,
//! `peers` and `saying`: what the figures say; `page` and `html`: the page; `markdown`: the page as text; `compare`:
//! two runs. The lines are written beside the page after every round, so that what was measured is there whatever
//! happens, and a page can be made again from them.

mod compare;
mod html;
mod markdown;
mod measure;
mod page;
mod peers;
mod plot;
mod saying;
mod sections;
mod series;
mod words;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;

pub(crate) use compare::compare;

use crate::across;
use crate::config::Config;
use crate::experiments::find;
use crate::harness::line::{Line, read};
use crate::harness::present::{Noise, machine};
use crate::out::{Exit, INTERRUPTED, Outcome, complain, print};
use measure::Plan;
use sections::{Measurement, SECTIONS, Section};

/// Options of `mad report`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  mad report -o report.html                   measure everything (some ten minutes), write report.html and report.jsonl
  mad report --only overlap,latency           measure some experiments
  mad report --rounds 1                       a first look: two minutes
  mad report --from report.jsonl -o new.html  make the page again, without measuring
  mad report --from report.jsonl -o new.md    the same as Markdown: tables of medians instead of plots
  mad report -o new.html --compare old.jsonl  measure, and say how far an earlier report's figures are met

Exit status: 0 success, 1 an experiment failed (the page says which), 2 wrong usage, 130 interrupted (the page has what
was measured).")]
pub struct ReportArgs {
    /// Where the page goes, as Markdown if it ends in .md; the lines go beside it, with the ending .jsonl
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

/// Measures, or reads, and writes the page.
pub fn run(args: &ReportArgs) -> Outcome {
    if let Some(name) = args.only.iter().find(|name| find(name).is_none()) {
        let known: Vec<&str> = SECTIONS.iter().map(|section| section.bench).collect();
        return Err(Exit::Usage(format!(
            "there is no experiment '{name}': there are {}",
            known.join(", ")
        )));
    }
    let wanted = |section: &&Section| {
        args.only.is_empty() || args.only.iter().any(|name| name == section.bench)
    };
    // Known to be there and understood before anything is measured.
    args.compare.as_deref().map(read).transpose().map_err(Exit::Usage)?;
    let begun = Instant::now();
    let mut interrupted = false;
    let (done, conditions) = if args.from.is_empty() {
        across::refuse("mad report")?;
        let noise = Noise::start("");
        let plan = Plan {
            rounds: args.rounds,
            peers_dir: args.peers_dir.clone(),
            lines: args.output.with_extension("jsonl"),
        };
        let (done, ended_early) = measure::measure(&plan, wanted)?;
        interrupted = ended_early;
        let words = format!(
            "{}; {}. Measured in {:.0} minutes.",
            machine(),
            noise.words(),
            begun.elapsed().as_secs_f64() / 60.0
        );
        (done, words)
    } else {
        let mut lines = Vec::new();
        for path in &args.from {
            lines.extend(read(path).map_err(Exit::Usage)?);
        }
        let names: Vec<String> = args.from.iter().map(|path| path.display().to_string()).collect();
        (from_lines(lines, wanted), format!("Made from {}.", names.join(", ")))
    };
    let text = match args.output.extension().is_some_and(|ending| ending == "md") {
        true => markdown::page(&done, &conditions),
        false => page::page(&done, &conditions),
    };
    std::fs::write(&args.output, text)
        .map_err(|e| Exit::Failed(format!("report: {}: {e}", args.output.display())))?;
    print(&format!("{} is written", args.output.display()))?;
    if let Some(old) = &args.compare {
        let lines: Vec<Line> = done.iter().flat_map(|done| done.lines.clone()).collect();
        print(&compare(old, &lines).map_err(Exit::Usage)?.table())?;
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

/// Gives lines to the sections that they are of: the first whose pictures or words they fit.
fn from_lines(lines: Vec<Line>, wanted: impl Fn(&&Section) -> bool) -> Vec<Measurement> {
    SECTIONS
        .iter()
        .filter(wanted)
        .filter_map(|section| {
            let fits = |line: &&Line| line.bench == section.bench && has(section, &line.config);
            let lines: Vec<Line> = lines.iter().filter(fits).cloned().collect();
            (!lines.is_empty()).then_some(Measurement {
                section,
                lines,
                command: None,
                failed: None,
            })
        })
        .collect()
}

/// Whether a point is one of the section's: its values are among those that are asked for. References (no
/// computation, no rank computes) belong to all.
fn has(section: &Section, config: &Config) -> bool {
    section.given.iter().all(|(key, values)| {
        let Some(value) = config.get(&key.replace('-', "_")) else { return true };
        let value = crate::config::shown(value);
        values.contains('x')
            || values.split(',').any(|one| one == value)
            || ["0", "none"].contains(&&*value)
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
        let page = page::page(&done, "a test's <machine>");
        assert!(page.contains("<svg") && page.contains("a test&#39;s &lt;machine&gt;"));
        assert_eq!(page.matches("<section").count(), page.matches("</section>").count());
    }
}
