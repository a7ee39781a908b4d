//! Runs a bench: starts workers, interleaves the configurations over several rounds, collects the samples.
//!
//! What decides how a process is built (driver, mode, progression) needs processes of its own; all other
//! points share a job, and its bench interleaves them. A round runs every job once; each round begins with
//! another one, so that a slow drift of the machine hits all of them alike.
//!
//! What ends a bench before its time (a worker that fails, the time limit, Ctrl-C) leaves what was measured until
//! then; the time limit has every process say first what its threads do. An MPI library that fails, or takes much
//! longer than newmad, is named and left out from then on.
//!
//! The points of a bench that wants them [apart](crate::harness::experiment::Apart) have a job each, and one that
//! fails is named and left out from then on instead of ending the bench.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::across::Hosts;
use crate::config::{Config, shown};
use crate::harness::experiment::{Bench, Effort};
use crate::harness::key::{AUTO, NONE};
use crate::harness::mpi;
use crate::harness::results::Results;
use crate::harness::worker::{Record, Spec};
use crate::out::{Exit, INTERRUPTED, complain};
use mad_launch::{Failure, Job, Signals, Stream, Words};

/// Keys that become environment variables of the workers.
const PROCESS_KEYS: [(&str, &str); 15] = [
    ("driver", "NMAD_DRIVER"),
    ("mode", "MARCEL_MODE"),
    ("progression", "PIOM_ENABLE_PROGRESSION"),
    ("policy", "PIOM_POLICY"),
    ("vps", "MARCEL_NVP"),
    ("offload", "NMAD_OFFLOAD"),
    ("lock", "NMAD_LOCK"),
    ("channels", "NMAD_VERBS_CHANNELS"),
    ("shape", "NMAD_VERBS_CHANNELS_SHAPE"),
    ("reshapes", "NMAD_VERBS_CHANNELS_RESHAPES"),
    ("shrink", "NMAD_VERBS_CHANNELS_SHRINK"),
    ("after", "NMAD_VERBS_CHANNELS_AFTER"),
    ("sampled", "NMAD_VERBS_CHANNELS_WINDOW"),
    ("virtual_rails", "NMAD_VERBS_VIRTUAL_RAILS"),
    ("virtual_window", "NMAD_VERBS_VIRTUAL_RAILS_WINDOW"),
];

/// Keys that decide for the worker itself how its process is built.
const OWN_KEYS: [&str; 4] = ["rails", "ranks", "way", "pattern"];

/// Steps of the progress bar per job.
const STEPS: u64 = 100;

/// How long a worker may go on after another has failed.
const GRACE: Duration = Duration::from_secs(2);

fn of_process(key: &str) -> bool {
    PROCESS_KEYS.iter().any(|(name, _)| *name == key) || OWN_KEYS.contains(&key)
}

/// A progress bar on standard error when that is a terminal; else nothing is drawn.
pub(crate) fn bar(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps); // draws nothing when standard error is not a terminal
    if let Ok(style) = ProgressStyle::with_template("{wide_msg} [{bar:30}] {percent:>3} % {eta:>4}")
    {
        bar.set_style(style.progress_chars("━╸ "));
    }
    bar
}

/// Points that share a process configuration, by number.
fn groups(bench: &Bench, points: &[Config]) -> Vec<(Config, Vec<usize>)> {
    if bench.apart.is_some() {
        return points.iter().cloned().zip((0..).map(|index| vec![index])).collect();
    }
    let mut groups: Vec<(Config, Vec<usize>)> = Vec::new();
    for (index, point) in points.iter().enumerate() {
        // An MPI library's points have processes of their own, too: those of each program, and of each number of them.
        let mut process = point.only(|key| of_process(key) || (key == "library" && mpi::is(point)));
        if let Some(program) = bench.mpi.filter(|_| mpi::is(point)).map(|with| with(point)) {
            process.set("program", program.name);
            process.set("ranks", program.ranks);
        }
        match groups.iter_mut().find(|(config, _)| *config == process) {
            Some((_, members)) => members.push(index),
            None => groups.push((process, vec![index])),
        }
    }
    groups
}

/// A bench under way: what is measured round by round, and what was.
///
/// Rounds may be far apart: several campaigns take turns, so that what the machine does for a minute is in one
/// round of each and not in all rounds of one.
pub(crate) struct Campaign<'a> {
    bench: &'a Bench,
    effort: Effort,
    env: Vec<(OsString, OsString)>,
    /// The ranks that a process manager has started, among which the processes are shared out.
    hosts: Option<&'a Hosts>,
    groups: Vec<(Config, Vec<usize>)>,
    /// Groups that are left out from now on.
    failed: Vec<bool>,
    /// What the longest job has taken that was not an MPI library's.
    longest: Duration,
    results: Results,
}

impl<'a> Campaign<'a> {
    /// Nothing is measured yet. `env`: variables of the processes. `hosts`: the ranks among which they are shared out.
    pub(crate) fn new(
        bench: &'a Bench,
        points: Vec<Config>,
        effort: Effort,
        env: Vec<(OsString, OsString)>,
        hosts: Option<&'a Hosts>,
    ) -> Campaign<'a> {
        let groups = groups(bench, &points);
        Campaign {
            bench,
            failed: vec![false; groups.len()],
            groups,
            longest: Duration::ZERO,
            results: Results::new(points, effort.rounds as usize),
            effort,
            env,
            hosts,
        }
    }

    /// What is measured.
    pub(crate) fn bench(&self) -> &'a Bench {
        self.bench
    }

    /// How many steps of a progress bar all rounds take.
    pub(crate) fn steps(&self) -> u64 {
        self.groups.len() as u64 * self.effort.rounds * STEPS
    }

    /// Why it has ended before its time, if it has.
    pub(crate) fn stopped(&self) -> Option<&Exit> {
        self.results.stopped.as_ref()
    }

    /// Measures one of the rounds, all points, unless it has [stopped](Campaign::stopped). What stops it: a worker
    /// that fails or does not end in time, the user's signal; what was measured until then stays, and what the
    /// workers said has been passed on.
    ///
    /// # Blocking
    /// Until the round is over.
    pub(crate) fn round(&mut self, round: usize, bar: &ProgressBar) {
        let before = bar.position();
        for turn in 0..self.groups.len() {
            if self.stopped().is_some() {
                return;
            }
            let group = (turn + round) % self.groups.len();
            if !self.failed[group] {
                self.job(round, group, before + turn as u64 * STEPS, bar);
            }
            bar.set_position(before + (turn as u64 + 1) * STEPS);
        }
    }

    /// One job: the points of a group. `start`: where the bar is.
    fn job(&mut self, round: usize, group: usize, start: u64, bar: &ProgressBar) {
        let (bench, (process, members)) = (self.bench, &self.groups[group]);
        let described: Vec<String> =
            process.iter().map(|(key, value)| format!("{key} {}", shown(value))).collect();
        let what = described.join(", ");
        bar.set_message(format!("{} {what}", bench.name));
        let spec = Spec {
            bench: bench.name.into(),
            points: members.iter().map(|&m| (m, self.results.points[m].clone())).collect(),
            iters: self.effort.iters,
            peers_dir: self.effort.peers_dir.clone(),
        };
        // A worker starts the processes of an MPI library.
        let of_mpi = mpi::is(process);
        let ranks = if of_mpi { 1 } else { bench.ranks_of(process) };
        let mut env = environment(bench, process);
        env.extend(self.env.iter().cloned());
        // What the user has said about the process manager is not about the launcher of the workers.
        env.push(("NMAD_BOOTSTRAP".into(), "pmi1".into()));
        let places = self.hosts.map_or(Ok(Vec::new()), |hosts| hosts.places(ranks, &env));
        let prepared = mad_launch::own_program()
            .map_err(|e| format!("bench: the path of this program cannot be found: {e}"))
            .and_then(|program| {
                let spec = serde_json::to_string(&spec).map_err(|e| format!("bench: {e}"))?;
                Ok((program, spec, places.map_err(|why| format!("bench: {why}"))?))
            });
        let (program, spec, places) = match prepared {
            Ok(prepared) => prepared,
            Err(why) => {
                self.results.stopped = Some(Exit::Failed(why));
                return;
            }
        };
        let Effort { timeout, patience, .. } = self.effort;
        let job = Job {
            program: program.into(),
            args: vec!["worker".into(), spec.into()],
            ranks,
            unit: "rank",
            env,
            places,
            timeout: Some(if of_mpi { timeout.min(patience + 10 * self.longest) } else { timeout }),
            timeout_option: self.effort.timeout_option,
            dump_on_timeout: true,
            grace: GRACE,
            keep_going: false,
            name: "mad bench",
        };
        let begun = Instant::now();
        let ended = run_job(&job, bench, round, start, &mut self.results, bar);
        if !of_mpi {
            self.longest = self.longest.max(begun.elapsed());
        }
        match ended {
            Ok(()) => {}
            // It is left out, and the rest goes on.
            Err(JobFailure { fatal: false, .. }) if of_mpi || bench.apart.is_some() => {
                bar.suspend(|| complain(&format!("mad bench: left out: {what}")));
                self.failed[group] = true;
                self.results.lost |= bench.apart.is_none_or(|apart| (apart.vital)(process));
            }
            Err(ended) => self.results.stopped = Some(ended.exit),
        }
    }

    /// What was measured until now, and what follows from it.
    pub(crate) fn results(&self) -> Results {
        let mut results = self.results.clone();
        if let Some(derive) = self.bench.derive {
            derive(&mut results);
        }
        results
    }
}

/// Measures all rounds, one after the other. What ends it before its time is in [`Results::stopped`].
///
/// # Blocking
/// Until all rounds are over.
///
/// # Errors
/// When nothing could be started.
pub(crate) fn measure(campaign: &mut Campaign<'_>, bar: &ProgressBar) -> Result<Results, Exit> {
    // Between two jobs, too, a signal ends the bench and not this process.
    let signals = catch()?;
    for round in 0..campaign.effort.rounds as usize {
        campaign.round(round, bar);
    }
    if signals.asks_to_stop() {
        campaign.results.stopped.get_or_insert(Exit::Code(INTERRUPTED));
    }
    Ok(campaign.results())
}

/// Catches the signals that ask to stop, from now on.
///
/// # Errors
/// When they cannot be caught.
pub(crate) fn catch() -> Result<Signals, Exit> {
    Signals::catch().map_err(|e| Exit::Failed(format!("bench: signals cannot be caught: {e}")))
}

fn environment(bench: &Bench, process: &Config) -> Vec<(OsString, OsString)> {
    let of_keys = PROCESS_KEYS.iter().filter_map(|(key, variable)| {
        // No lock is a choice, not the absence of one.
        let absent = |text: &str| text == AUTO || text == NONE && *key != "lock";
        let value = process.get(key).filter(|_| !absent(process.text(key)))?;
        Some((variable.into(), shown(value).into()))
    });
    let of_bench = bench.apart.map_or(&[][..], |apart| apart.knobs).iter();
    let unset = of_bench.filter(|(variable, _)| std::env::var_os(variable).is_none());
    of_keys.chain(unset.map(|(variable, value)| (variable.into(), value.into()))).collect()
}

/// How a job failed, and whether that ends the bench in any case.
struct JobFailure {
    exit: Exit,
    fatal: bool,
}

fn run_job(
    job: &Job,
    bench: &Bench,
    round: usize,
    start: u64,
    results: &mut Results,
    bar: &ProgressBar,
) -> Result<(), JobFailure> {
    let say = |text: &str| bar.suspend(|| complain(text));
    let mut on_line = |rank: u32, stream: Stream, line: &[u8]| {
        let record = match (rank, stream) {
            (0, Stream::Out) => serde_json::from_slice(line).ok(),
            _ => None,
        };
        match record {
            Some(Record::Progress(part)) => {
                bar.set_position(start + (part.clamp(0.0, 1.0) * STEPS as f64) as u64);
            }
            Some(Record::Samples(point, metric, samples)) => {
                let known = bench.metrics.iter().find(|known| known.name == metric);
                match known.filter(|_| point < results.points.len()) {
                    Some(known) => results.add(point, known.name, round, &samples),
                    None => say(&format!("mad bench: unknown metric {metric} of point {point}")),
                }
            }
            // A worker that is killed may leave half a line of a thousand samples.
            None => say(&format!("[{rank}] {}", beginning(&String::from_utf8_lossy(line)))),
        }
        Ok(())
    };
    let words = Words::Given { line: &mut on_line, message: &mut |text| say(text) };
    match mad_launch::run(job, words) {
        Ok(()) => Ok(()),
        Err(Failure::Run { interrupted: true, .. }) => {
            Err(JobFailure { exit: Exit::Code(INTERRUPTED), fatal: true })
        }
        Err(Failure::Run { .. }) => Err(JobFailure { exit: Exit::Code(1), fatal: false }),
        Err(other) => {
            Err(JobFailure { exit: Exit::Failed(format!("bench: {other}")), fatal: true })
        }
    }
}

/// Of a line, as much as people read.
fn beginning(line: &str) -> String {
    const MOST: usize = 1000;
    match line.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}… ({} bytes)", &line[..at], line.len()),
        None => line.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_builds_a_process_needs_its_own() {
        let point =
            |driver: &str, size: u64| Config::default().with("driver", driver).with("size", size);
        let points = [point("shm", 4), point("tcp", 4), point("shm", 8)];
        let latency = crate::experiments::find("latency").unwrap();
        let groups = groups(latency, &points);
        assert_eq!(groups.len(), 2);
        assert_eq!(groups[0].1, [0, 2]);
        assert_eq!(environment(latency, &groups[1].0), [("NMAD_DRIVER".into(), "tcp".into())]);
        let policy = |name: &str| environment(latency, &Config::default().with("policy", name));
        assert_eq!(policy("adaptive"), [("PIOM_POLICY".into(), "adaptive".into())]);
        assert_eq!(policy(AUTO), []);
        assert_eq!(super::groups(crate::experiments::find("threads").unwrap(), &points).len(), 3);
    }

    #[test]
    fn programs_and_numbers_of_ranks_of_an_mpi_library_need_their_own() {
        let apps = crate::experiments::find("apps").unwrap();
        let chosen = [("library", "newmad,mpich"), ("workload", "halo,cg"), ("ranks", "2,4")];
        let grid = crate::harness::key::grid("apps", apps.keys, &chosen).unwrap();
        let points = (apps.points)(grid);
        let one_driver: Vec<Config> =
            points.into_iter().filter(|point| point.text("driver") == "shm").collect();
        let groups = groups(apps, &one_driver);
        let of_mpich = |(process, _): &&(Config, Vec<usize>)| mpi::is(process);
        let mut theirs: Vec<(&str, u32)> = groups
            .iter()
            .filter(of_mpich)
            .map(|(process, _)| (process.text("program"), apps.ranks_of(process)))
            .collect();
        theirs.sort_unstable();
        assert_eq!(theirs, [("cg", 2), ("cg", 4), ("halo", 2), ("halo", 4)]);
        let ours = groups.iter().filter(|(process, _)| !mpi::is(process));
        assert_eq!(ours.map(|(process, _)| apps.ranks_of(process)).collect::<Vec<_>>(), [2, 4]);
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        assert_eq!(beginning("a word"), "a word");
        let long = "é".repeat(2000);
        assert!(beginning(&long).ends_with("é… (4000 bytes)"), "{}", beginning(&long));
    }

    #[test]
    fn process_keys_are_knobs() {
        for (key, variable) in PROCESS_KEYS {
            assert!(crate::knobs::find(variable).is_some(), "{key}: {variable}");
        }
    }
}
