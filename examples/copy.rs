//! Copies a file with green threads: each reads a block and writes it, so several reads and writes are in flight, and
//! the code of each is that of a plain loop.
//!
//! ```text
//! cargo run --release --example copy -- --threads 16 --block 1048576 from to
//! PIOM_URING=0 cargo run --release --example copy -- from to    # without io_uring: by kernel threads that block
//! ```

use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use clap::Parser;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pioman::fs::{File, OpenOptions};

/// Copies a file: several blocks at once, each by a green thread.
#[derive(Parser, Debug)]
#[command(after_help = "\
The copy gets the permissions of the original, less the process's mask if it is new. When a copy fails, what has been
written stays, and the exit status is 1.")]
struct Options {
    /// File to copy
    from: PathBuf,
    /// Where to: a file, which is overwritten, or a folder
    to: PathBuf,
    /// Bytes per block
    #[arg(long, default_value_t = 256 << 10, value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    block: u64,
    /// Green threads, so blocks at once
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=4096))]
    threads: u64,
    /// Wait until the copy is on the disk
    #[arg(long)]
    sync: bool,
    /// Say nothing, unless it fails
    #[arg(long)]
    quiet: bool,
}

/// Why it fails, in words.
type Done<T> = Result<T, String>;

/// Says what was being done with which file.
fn at<'a>(doing: &'a str, path: &'a Path) -> impl Fn(io::Error) -> String + 'a {
    move |error| format!("cannot {doing} {}: {error}", path.display())
}

/// What the threads share.
struct Job {
    from: File,
    to: File,
    size: u64,
    block: u64,
    /// The next block that no thread copies yet.
    next: AtomicU64,
    /// One has failed: the others stop.
    failed: AtomicBool,
    bar: ProgressBar,
}

impl Job {
    /// One thread's share: block after block, whichever is next.
    fn share(&self, options: &Options) -> Done<()> {
        let mut buffer = vec![0; self.block.min(self.size) as usize];
        while !self.failed.load(Relaxed) {
            let start = self.next.fetch_add(self.block, Relaxed);
            if start >= self.size {
                return Ok(());
            }
            let block = &mut buffer[..self.block.min(self.size - start) as usize];
            self.from.read_exact_at(block, start).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    format!("{} has become shorter while it was copied", options.from.display())
                }
                _ => at("read", &options.from)(error),
            })?;
            self.to.write_all_at(block, start).map_err(at("write", &options.to))?;
            self.bar.inc(block.len() as u64);
        }
        Ok(())
    }
}

/// Opens both files; nothing of the target is lost before it is known that there is something to copy.
fn open(options: &Options) -> Done<Job> {
    let from = File::open(&options.from).map_err(at("open", &options.from))?;
    let original = from.metadata().map_err(at("look at", &options.from))?;
    if !original.is_file() {
        return Err(format!("{} is not a regular file", options.from.display()));
    }
    let to = OpenOptions::new()
        .write(true)
        .create(true)
        .mode(original.permissions().mode())
        .open(&options.to)
        .map_err(at("create", &options.to))?;
    let copy = to.metadata().map_err(at("look at", &options.to))?;
    if (copy.dev(), copy.ino()) == (original.dev(), original.ino()) {
        let (from, to) = (options.from.display(), options.to.display());
        return Err(format!("{from} and {to} are the same file"));
    }
    if copy.is_file() {
        to.set_len(0).map_err(at("empty", &options.to))?;
        to.set_permissions(original.permissions())
            .map_err(at("set the permissions of", &options.to))?;
    }
    let target = match options.quiet {
        true => ProgressDrawTarget::hidden(),
        false => ProgressDrawTarget::stderr(), // which draws on a terminal only
    };
    let bar = ProgressBar::with_draw_target(Some(original.len()), target);
    if let Ok(style) = ProgressStyle::with_template(
        "{bytes:>10} of {total_bytes} {wide_bar} {bytes_per_sec} {eta}",
    ) {
        bar.set_style(style);
    }
    Ok(Job {
        from,
        to,
        size: original.len(),
        block: options.block,
        next: AtomicU64::new(0),
        failed: AtomicBool::new(false),
        bar,
    })
}

fn copy(options: Options) -> Done<u64> {
    let job = Arc::new(open(&options)?);
    let options = Arc::new(options);
    let share = |_| {
        let (job, options) = (job.clone(), options.clone());
        move || {
            let result = job.share(&options);
            job.failed.fetch_or(result.is_err(), Relaxed);
            result
        }
    };
    let shares = (0..options.threads.min(job.size.div_ceil(job.block))).map(share);
    let result = match marcel::is_green() {
        true => {
            let threads: Vec<_> = shares.map(marcel::spawn).collect();
            let ends = threads.into_iter().map(|thread| thread.join());
            ends.map(|end| end.unwrap_or_else(|_| Err("a thread has panicked".into())))
                .fold(Ok(()), Result::and)
        }
        false => shares.map(|share| share()).fold(Ok(()), Result::and), // mode no-thread
    };
    job.bar.finish_and_clear();
    result?;
    if options.sync {
        job.to.sync_all().map_err(at("sync", &options.to))?;
    }
    Ok(job.size)
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    if options.to.is_dir()
        && let Some(name) = options.from.file_name()
    {
        options.to.push(name);
    }
    let (quiet, start) = (options.quiet, Instant::now());
    let copied = pioman::Runtime::new()
        .map_err(|error| error.to_string())
        .and_then(|runtime| runtime.run(|| copy(options)));
    match copied {
        Ok(size) => {
            let time = start.elapsed().as_secs_f64();
            if !quiet {
                println!(
                    "{size} bytes in {:.1} ms, {:.0} MB/s",
                    time * 1e3,
                    size as f64 / time / 1e6
                );
            }
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("copy: {why}");
            ExitCode::FAILURE
        }
    }
}
