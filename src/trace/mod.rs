//! `mad trace`: makes pictures and tables of what `MARCEL_TRACE` has had recorded.

mod arrow;
mod chrome;
mod message;
mod ranks;
mod read;
mod summary;
mod svg;
mod walk;

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use marcel::trace::MAGIC;

use self::read::Trace;
use mad_bench::out::{self, Exit, Outcome};

/// Options of `mad trace`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  mad run -n 2 --trace /tmp/t ./ring && mad trace /tmp/t -o ring.json
  mad trace /tmp/t                                  the tables, on a terminal; into a pipe or a file, the picture
  mad trace --summary /tmp/t
  mad trace --svg --from 12 --to 20 /tmp/t -o ring.svg
  MARCEL_TRACE=one.trace ./program && mad trace one.trace > one.json

Open the JSON file at https://ui.perfetto.dev (it stays on your machine) or chrome://tracing: a process per rank, a
track per virtual processor and kernel thread (and per rank, where ranks share processes), arrows from a wake-up to the thread that was woken and from each message's
departure to its receipt. docs/tracing.md says what one sees.

Exit status: 1 when a file cannot be read or is not a trace, 2 wrong usage. A trace is never overwritten.")]
pub(crate) struct TraceArgs {
    /// Traces of one run, or directories that hold them
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Where the picture goes [default: standard output, if that is no terminal]
    #[arg(short, long, value_name = "FILE", conflicts_with = "summary")]
    output: Option<PathBuf>,
    /// Tables instead: where the time went, what the sources had, how long woken threads waited for their turn
    #[arg(long)]
    summary: bool,
    /// One SVG picture instead: what each virtual processor did, and an arrow for each message
    #[arg(long, conflicts_with = "summary")]
    svg: bool,
    /// Where that picture begins, in milliseconds since the first record
    #[arg(long, value_name = "MS", requires = "svg", value_parser = milliseconds)]
    from: Option<f64>,
    /// Where it ends
    #[arg(long, value_name = "MS", requires = "svg", value_parser = milliseconds)]
    to: Option<f64>,
}

fn milliseconds(text: &str) -> Result<f64, String> {
    let ms = text.parse().ok().filter(|ms: &f64| ms.is_finite() && *ms >= 0.0);
    ms.ok_or_else(|| "a number of milliseconds, 0 or more, is needed: 12.5".into())
}

/// Does what the command line says.
pub(crate) fn run(args: &TraceArgs) -> Outcome {
    if let Some(output) = args.output.as_deref().filter(|path| is_trace(path)) {
        return Err(Exit::Usage(format!(
            "trace: {}, which is a trace, would be overwritten: give the picture another name (-o FILE)",
            output.display()
        )));
    }
    let traces = load(&args.files)?;
    // A picture is megabytes of JSON: a terminal gets the tables.
    let reads = args.output.is_none() && !args.svg && std::io::stdout().is_terminal();
    if args.summary || reads {
        out::print(&summary::table(&traces))?;
        return match args.summary {
            true => Ok(()),
            false => {
                out::print("The picture, for https://ui.perfetto.dev: mad trace … -o FILE.json")
            }
        };
    }
    if let (Some(from), Some(to)) = (args.from, args.to)
        && from >= to
    {
        return Err(Exit::Usage(format!("trace: --from {from} is not before --to {to}")));
    }
    let picture = match args.svg {
        true => svg::svg(&traces, svg::Window::of(&traces, args.from, args.to)),
        false => chrome::json(&traces),
    };
    match &args.output {
        None => out::print(&picture),
        Some(path) => std::fs::write(path, picture).map_err(|error| failed(path, &error)),
    }
}

fn failed(path: &Path, why: &dyn std::fmt::Display) -> Exit {
    Exit::Failed(format!("trace: {}: {why}", path.display()))
}

/// Whether a trace is there. It need not be one that is read: a shell makes of `-o *.trace` that the first of them is
/// the output.
fn is_trace(path: &Path) -> bool {
    let mut first = [0; MAGIC.len()];
    // To open a pipe waits for its writer.
    path.is_file()
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut first).is_ok())
        && first == MAGIC
}

fn load(files: &[PathBuf]) -> Result<Vec<Trace>, Exit> {
    let mut paths = Vec::new();
    for path in files {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).map_err(|error| failed(path, &error))?;
            let inside = entries.flatten().map(|entry| entry.path());
            let before = paths.len();
            paths.extend(inside.filter(|path| path.extension().is_some_and(|e| e == "trace")));
            if paths.len() == before {
                return Err(failed(path, &"no file in it is called *.trace"));
            }
        } else {
            paths.push(path.clone());
        }
    }
    let mut traces = Vec::new();
    for path in &paths {
        let bytes = std::fs::read(path).map_err(|error| failed(path, &error))?;
        traces.push(read::read(&bytes).map_err(|why| failed(path, &why))?);
    }
    read::agree(&mut traces);
    traces.sort_by_key(|trace| (trace.rank, trace.process));
    Ok(traces)
}
