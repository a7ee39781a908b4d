//! The command line of `mad bench`: its options, and the list of what there is.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use crate::command::alias;
use crate::experiments::{BENCHES, find};
use crate::harness::worker::MOST_ITERS;
use crate::quantity;

/// Options of `mad bench`.
#[derive(Args, Debug)]
#[command(after_help = "\
Every option that describes a configuration takes a comma-separated list; all combinations are measured,
interleaved over several rounds. Which options a bench has, and what its metrics mean: `mad bench --list NAME`.

Examples:
  mad bench --list
  mad bench --list overlap
  mad bench apps --peers
  mad bench overlap --driver shm --size 64K,1M --compute-us 20000
  mad bench overlap --mode mono,smp --progression 0,1 --side receiver,sender
  mad bench reactivity --threads 2,8,32 --json
  mad bench latency --driver tcp --size 1 --iters 10000
  mad bench bandwidth --driver shm --library newmad,openmpi,mpich --size 64K,1M
  mad bench waiting --peers                       as mt_latency --workload turns, beside the MPI libraries that are here
  mad bench events --between processes
  mad bench idle --seconds 5
  mad bench overhead --mode smp
  mad bench threads --op yield,fib --workers 1 --library marcel,go
  mpiexec.hydra -hosts a,b -n 2 mad bench latency --driver tcp        on two machines; so with prterun, srun, mad run

With --json: one object per measured point and metric on standard output, and nothing else:
  {\"bench\":…,\"config\":{…},\"metric\":…,\"unit\":…,\"n\":…,\"mean\":…,\"min\":…,\"p10\":…,\"median\":…,\"p90\":…,\"p99\":…,\"max\":…,\"ci_low\":…,\"ci_high\":…}
ci_low and ci_high: the interval into which the median of another run falls with a probability of about 95 %.

A job that does not end within --timeout is ended, after its processes have said what their threads do. Whatever ends a bench
before its time, what was measured until then is printed.

Exit status: 0 success, 1 a run failed, 2 wrong usage, 130 interrupted (Ctrl-C).")]
pub struct BenchArgs {
    /// Which experiment
    #[arg(value_name = "NAME", required_unless_present = "list")]
    pub(super) name: Option<String>,
    /// Show every experiment in a line; with a NAME, its options, metrics and source
    #[arg(long)]
    pub(super) list: bool,
    #[command(flatten)]
    given: Given,
    /// Where MPI libraries that came as Python wheels are, each in a virtual environment: openmpi5, mpich5, impi
    #[arg(long, value_name = "DIR")]
    pub(super) peers_dir: Option<PathBuf>,
    /// Beside every MPI library that is here, and madmpi: short for --library newmad,madmpi,… (for overlap,
    /// submit, reactivity, idle, collaborative, onesided and files with their options for progress outside calls, too).
    /// bench threads: also build the programs of libraries that cargo has to fetch
    #[arg(long)]
    pub(super) peers: bool,
    /// Samples per point and round
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_ITERS))]
    pub(super) iters: Option<u64>,
    /// Rounds; each runs every configuration once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(super) rounds: Option<u64>,
    /// Most time for one job (300, or 60 where every point is a job; for an MPI library 60 and ten times what newmad
    /// took)
    #[arg(long, value_name = "SECONDS", value_parser = crate::out::seconds)]
    pub(super) timeout: Option<Duration>,
    /// JSON lines instead of a table
    #[arg(long)]
    pub(super) json: bool,
    /// Compare with the JSON lines of an earlier run; exit status 1 if something is worse than its interval allows
    #[arg(long, value_name = "FILE")]
    pub(super) compare: Option<PathBuf>,
}

impl BenchArgs {
    /// The configuration's options that were given.
    pub(super) fn given(&self) -> Vec<(&str, &str)> {
        self.given.0.iter().map(|(option, value)| (option.as_str(), value.as_str())).collect()
    }
}

/// The options that describe a configuration. The keys of the experiments are their only declaration.
#[derive(Debug)]
struct Given(Vec<(String, String)>);

/// Every option that a key of an experiment stands for, with its help.
fn key_options() -> Vec<(String, String)> {
    /// A help text and the experiments that have it.
    type Meaning = (&'static str, Vec<&'static str>);
    let mut options: Vec<(String, Vec<Meaning>)> = Vec::new();
    for bench in BENCHES {
        for key in bench.keys {
            let at = options.iter().position(|(option, _)| *option == key.option()).unwrap_or_else(
                || {
                    options.push((key.option(), Vec::new()));
                    options.len() - 1
                },
            );
            let meanings = &mut options[at].1;
            match meanings.iter_mut().find(|(help, _)| *help == key.help) {
                Some((_, benches)) => benches.push(bench.name),
                None => meanings.push((key.help, vec![bench.name])),
            }
        }
    }
    let help = |meanings: Vec<Meaning>| match &meanings[..] {
        [(help, _)] => (*help).to_owned(),
        several => {
            let each =
                several.iter().map(|(help, benches)| format!("{help} ({})", benches.join(", ")));
            each.collect::<Vec<_>>().join("; ")
        }
    };
    options.into_iter().map(|(option, meanings)| (option, help(meanings))).collect()
}

impl Args for Given {
    fn augment_args(command: Command) -> Command {
        key_options().into_iter().fold(command, |command, (option, help)| {
            command.arg(Arg::new(option.clone()).long(option).value_name("LIST").help(help))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let value = |(option, _): (String, String)| {
            let value = matches.get_one::<String>(&option)?.clone();
            Some((option, value))
        };
        Ok(Self(key_options().into_iter().filter_map(value).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What `--list` shows: a line for each experiment.
pub(super) fn list() -> String {
    let benches = BENCHES.iter().map(|bench| (bench.name, bench.about));
    let aliases = alias::ALIASES.iter().map(|alias| (alias.name, alias.about));
    let all: Vec<(&str, &str)> = benches.chain(aliases).collect();
    let width = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, about) in all {
        text.push_str(&format!("{name:width$}  {about}\n"));
    }
    text + "\nThe options, metrics and source of one: mad bench --list NAME"
}

/// What `--list NAME` shows: all about one experiment. `None` if there is none of that name.
pub(super) fn details(name: &str) -> Option<String> {
    if let Some(alias) = alias::find(name) {
        return Some(alias.to_string());
    }
    let bench = find(name)?;
    let mut text = format!("{}: {}\n  source: {}\n", bench.name, bench.about, bench.source);
    for key in bench.keys {
        text.push_str(&format!(
            "  --{:<12} {} ({}; default {})\n",
            key.option(),
            key.help,
            key.accepts(),
            key.default
        ));
    }
    text.push_str(&format!(
        "  default: {} samples a round, {} rounds\n",
        bench.iters, bench.rounds
    ));
    for metric in bench.metrics {
        let unit = quantity::unit(metric.unit);
        text.push_str(&format!("  {:<14} [{unit}] {}\n", metric.name, metric.help));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_a_line_for_each_name_and_details_for_every_line() {
        let list = list();
        let names: Vec<&str> = list
            .lines()
            .take_while(|line| !line.is_empty())
            .map(|line| line.split_whitespace().next().unwrap())
            .collect();
        assert_eq!(names.len(), BENCHES.len() + alias::ALIASES.len());
        for name in names {
            assert!(details(name).unwrap().starts_with(&format!("{name}: ")), "{name}");
        }
        assert!(list.lines().all(|line| line.chars().count() <= 120), "{list}");
        assert!(details("nothing").is_none());
    }
}
