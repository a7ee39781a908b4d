//! The command line of `mad bench`: its options, and the list of what there is.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{BENCHES, alias};

/// Options of `mad bench`.
#[derive(Args, Debug)]
#[command(after_help = "\
Every option that describes a configuration takes a comma-separated list; all combinations are measured,
interleaved over several rounds. Which options a bench has, and what its metrics mean: `mad bench --list`.

Examples:
  mad bench --list
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
    /// Show every experiment with its options and metrics
    #[arg(long)]
    pub(super) list: bool,
    /// Driver between the processes: shm, tcp
    #[arg(long, value_name = "LIST")]
    driver: Option<String>,
    /// Mode of the thread runtime: no-thread, mono, smp
    #[arg(long, value_name = "LIST")]
    mode: Option<String>,
    /// Policy of detection: auto (the default one), always-poll, always-block, timer-only, dedicated, load-aware, adaptive
    #[arg(long, value_name = "LIST")]
    policy: Option<String>,
    /// Whether requests progress outside calls: 0, 1
    #[arg(long, value_name = "LIST")]
    progression: Option<String>,
    /// Who computes: receiver, sender, both, none
    #[arg(long, value_name = "LIST")]
    side: Option<String>,
    /// Networks between the processes: first, second, both
    #[arg(long, value_name = "LIST")]
    rails: Option<String>,
    /// Bytes of a message
    #[arg(long, value_name = "LIST")]
    size: Option<String>,
    /// Length of the computation in microseconds
    #[arg(long, value_name = "LIST")]
    compute_us: Option<String>,
    /// Green threads: computing ones of each process, or blocked ones
    #[arg(long, value_name = "LIST")]
    threads: Option<String>,
    /// Length of the wait in seconds
    #[arg(long, value_name = "LIST")]
    seconds: Option<String>,
    /// Who is measured: newmad, bare (a plain socket, a polled flag) or an MPI library; marcel, kernel or another thread library
    #[arg(long, value_name = "LIST")]
    library: Option<String>,
    /// How events are looked for: auto, poll, block, tick, dedicated; by whom: caller, wait, idle, task; how they are raised:
    /// signal, eventfd, pipe, futex, poll, uintr; what is empty: poll, task, block
    #[arg(long, value_name = "LIST")]
    method: Option<String>,
    /// What a thread does: createjoin, batch, yield, handoff, mutex, mutex4, channel, fib, memory
    #[arg(long, value_name = "LIST")]
    op: Option<String>,
    /// Who raises events: threads, processes
    #[arg(long, value_name = "LIST")]
    between: Option<String>,
    /// Where events come from: shm, eventfd and others
    #[arg(long, value_name = "LIST")]
    source: Option<String>,
    /// What happens: pingpong, bursts, silence, phases
    #[arg(long, value_name = "LIST")]
    workload: Option<String>,
    /// Whether idle cores submit what isend registers: auto, never, always
    #[arg(long, value_name = "LIST")]
    offload: Option<String>,
    /// How a session's engine is locked: auto, none, coarse, fine
    #[arg(long, value_name = "LIST")]
    lock: Option<String>,
    /// Compute virtual processors: a number, or Nx for N times the cores
    #[arg(long, value_name = "LIST")]
    vps: Option<String>,
    /// Cores that the threads run on: 1, all
    #[arg(long, value_name = "LIST")]
    workers: Option<String>,
    /// Messages under way at once
    #[arg(long, value_name = "LIST")]
    window: Option<String>,
    /// Processes of the group: 2,4
    #[arg(long, value_name = "LIST")]
    members: Option<String>,
    /// How a collective is done: auto, or an algorithm
    #[arg(long, value_name = "LIST")]
    algorithm: Option<String>,
    /// Where MPI libraries that came as Python wheels are, each in a virtual environment: openmpi5, mpich5, impi
    #[arg(long, value_name = "DIR")]
    pub(super) peers_dir: Option<PathBuf>,
    /// Beside every MPI library that is here, and madmpi: short for --library newmad,madmpi,… (for overlap, with their options
    /// for progress outside calls, too). bench threads: also build the programs of libraries that cargo has to fetch
    #[arg(long)]
    pub(super) peers: bool,
    /// Samples per point and round
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(super) iters: Option<u64>,
    /// Rounds; each runs every configuration once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(super) rounds: Option<u64>,
    /// Most time for one job (300, or 60 where every point is a job; for an MPI library 60 and ten times what newmad took)
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
    pub(super) fn given(&self) -> Vec<(&'static str, &str)> {
        let options = [
            ("driver", &self.driver),
            ("mode", &self.mode),
            ("policy", &self.policy),
            ("progression", &self.progression),
            ("side", &self.side),
            ("rails", &self.rails),
            ("size", &self.size),
            ("compute-us", &self.compute_us),
            ("threads", &self.threads),
            ("seconds", &self.seconds),
            ("library", &self.library),
            ("method", &self.method),
            ("between", &self.between),
            ("source", &self.source),
            ("offload", &self.offload),
            ("lock", &self.lock),
            ("workload", &self.workload),
            ("vps", &self.vps),
            ("op", &self.op),
            ("workers", &self.workers),
            ("window", &self.window),
            ("members", &self.members),
            ("algorithm", &self.algorithm),
        ];
        options.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }
}

/// What `--list` shows.
pub(super) fn list() -> String {
    let mut text = String::new();
    for bench in BENCHES {
        text.push_str(&format!("{}: {}\n  source: {}\n", bench.name, bench.about, bench.source));
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
            text.push_str(&format!("  {:<14} [{}] {}\n", metric.name, metric.unit, metric.help));
        }
        text.push('\n');
    }
    for alias in &alias::ALIASES {
        text.push_str(&format!("{alias}\n"));
    }
    text
}
