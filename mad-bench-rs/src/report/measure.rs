//! Measures what a report consists of.
//!
//! Each round goes through all experiments, so that the rounds of each are spread over the whole time: what the
//! machine does for a minute is in one round of each experiment, and its interval shows it. (One experiment after the
//! other, each with all its rounds in a row, had narrow intervals: of the next run's medians 29 in 100 lay outside,
//! on a busy machine; now 14, and 6 on a quiet one.)

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::harness::line::{Conditions, Line};
use crate::harness::present::{Noise, machine};
use crate::report::sections::{Measurement, SECTIONS, Section};

use crate::campaign::{Ready, ready_for_report};
use crate::harness::drive::{self, Campaign};
use crate::harness::experiment::Effort;
use crate::out::{Exit, INTERRUPTED, complain};

/// Most time for one job: an experiment that hangs costs the report this much.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The same for an MPI library, beyond ten times what newmad took.
const PATIENCE: Duration = Duration::from_secs(20);

/// How a report is measured.
pub(super) struct Plan {
    pub(super) rounds: u64,
    /// Where MPI libraries that came as wheels are.
    pub(super) peers_dir: Option<PathBuf>,
    /// Where the lines go.
    pub(super) lines: PathBuf,
    /// What else the machine does meanwhile.
    pub(super) noise: Noise,
    pub(super) begun: Instant,
}

impl Plan {
    /// Where and how so many rounds were measured until now.
    fn conditions(&self, rounds: u64) -> String {
        format!(
            "{}; {}. Measured in {}, {}.",
            machine(),
            self.noise.words(),
            count(self.begun.elapsed().as_secs_f64() / 60.0, "minute"),
            count(rounds as f64, "round"),
        )
    }
}

fn count(n: f64, what: &str) -> String {
    let n = n.ceil();
    format!("{n:.0} {what}{}", if n == 1.0 { "" } else { "s" })
}

/// A section under way.
struct Part {
    section: &'static Section,
    /// Or why it cannot be measured here.
    ready: Result<Ready<'static>, String>,
}

impl Part {
    fn new(section: &'static Section, plan: &Plan) -> Result<Part, Exit> {
        let effort = Effort {
            iters: section.iters,
            rounds: plan.rounds,
            timeout: TIMEOUT,
            timeout_option: None,
            patience: PATIENCE,
            peers_dir: plan.peers_dir.clone(),
        };
        let ready = match ready_for_report(section.bench, section.given, effort) {
            Ok(ready) => Ok(ready),
            Err(Exit::Failed(why) | Exit::Usage(why)) => Err(why),
            Err(Exit::Code(code)) => Err(format!("it ended with status {code}")),
            Err(Exit::BrokenPipe) => return Err(Exit::BrokenPipe),
        };
        Ok(Part { section, ready })
    }

    fn interrupted(&self) -> bool {
        let stopped = self.ready.as_ref().ok().and_then(|ready| ready.campaign.stopped());
        matches!(stopped, Some(Exit::Code(INTERRUPTED)))
    }

    fn done(&self, rounds: u64) -> Measurement {
        let (lines, failed) = match &self.ready {
            Ok(ready) => lines_of(&ready.campaign),
            Err(why) => (Vec::new(), Some(Exit::Failed(why.clone()))),
        };
        let failed = failed.map(|exit| match exit {
            Exit::Code(INTERRUPTED) => "the rest of it (interrupted)".to_owned(),
            Exit::Failed(why) if lines.is_empty() => why,
            _ => "the rest of it (it failed)".to_owned(),
        });
        Measurement {
            section: self.section,
            lines,
            command: Some(command(self.section, rounds)),
            failed,
        }
    }
}

/// What a report consists of.
pub(super) struct Measured {
    pub(super) done: Vec<Measurement>,
    /// As they stand beside the lines in the file.
    pub(super) conditions: String,
    pub(super) interrupted: bool,
}

/// Measures the sections that are wanted. After each round what was measured until then is in the file beside the page.
///
/// # Blocking
/// Until everything is measured or has failed, or the user's signal comes.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn measure(plan: &Plan, wanted: impl Fn(&&Section) -> bool) -> Result<Measured, Exit> {
    let path = &plan.lines;
    let mut conditions = plan.conditions(0);
    let part = |section| Part::new(section, plan);
    let mut parts: Vec<Part> =
        SECTIONS.iter().filter(wanted).map(part).collect::<Result<_, Exit>>()?;
    let steps = parts.iter().filter_map(|part| Some(part.ready.as_ref().ok()?.campaign.steps()));
    let bar = drive::bar(steps.sum());
    // Between two jobs, too, a signal ends the measuring and not this process.
    let signals = drive::catch()?;
    let mut interrupted = false;
    for round in 0..plan.rounds as usize {
        if bar.is_hidden() {
            let minutes = plan.begun.elapsed().as_secs_f64() / 60.0;
            complain(&format!(
                "mad report: round {} of {}, {minutes:.1} min",
                round + 1,
                plan.rounds
            ));
        }
        for part in &mut parts {
            if let Ok(ready) = &mut part.ready {
                ready.campaign.round(round, &bar);
            }
            interrupted |= part.interrupted() || signals.asks_to_stop();
            if interrupted {
                break;
            }
        }
        let lines: Vec<Line> = parts.iter().flat_map(|part| part.done(plan.rounds).lines).collect();
        conditions = plan.conditions(round as u64 + u64::from(!interrupted));
        // Until there is a line, those of an earlier report stay.
        if !lines.is_empty() {
            write(path, &conditions, &lines)?;
        }
        if interrupted {
            break;
        }
    }
    bar.finish_and_clear();
    let done = parts.iter().map(|part| part.done(plan.rounds)).collect();
    Ok(Measured { done, conditions, interrupted })
}

/// The lines of what was measured until now, and why that is not all.
fn lines_of(campaign: &Campaign<'_>) -> (Vec<Line>, Option<Exit>) {
    let (bench, results) = (campaign.bench(), campaign.results());
    (results.lines(bench.name, bench.metrics), results.stopped)
}

/// Where lines are written before they take the place of `lines`.
pub(super) fn part(lines: &Path) -> PathBuf {
    lines.with_extension("jsonl.part")
}

/// Writes the lines, so that a reader never sees half of them.
fn write(path: &Path, conditions: &str, lines: &[Line]) -> Result<(), Exit> {
    let said = |e: std::io::Error| Exit::Failed(format!("report: {}: {e}", path.display()));
    let failed = |e: serde_json::Error| Exit::Failed(format!("report: {e}"));
    let conditions = Conditions { conditions: conditions.to_owned() };
    let mut text = serde_json::to_string(&conditions).map_err(failed)? + "\n";
    for line in lines {
        text += &serde_json::to_string(line).map_err(failed)?;
        text.push('\n');
    }
    let part = part(path);
    std::fs::write(&part, text).map_err(said)?;
    std::fs::rename(&part, path).map_err(said)
}

/// The command that does the same.
fn command(section: &Section, rounds: u64) -> String {
    let options: String =
        section.given.iter().map(|(key, value)| format!(" --{key} {value}")).collect();
    format!("mad bench {}{options} --iters {} --rounds {rounds}", section.bench, section.iters)
}
