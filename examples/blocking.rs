//! Calls that block in the kernel (files, a pipe, a child process), made by some green threads while others compute.
//!
//! `cargo run --release --example blocking`, and with `-- --plain` the same calls without `marcel::blocking`. With
//! `MARCEL_NVP=1` the difference is plain: there is one virtual processor, and a plain call takes it away.

use std::io::{self, Read, Write};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// How often calls are made, at most, until something was computed meanwhile: on a loaded machine the kernel may give no
/// core to the computation for as long as they take.
const ATTEMPTS: u32 = 5;

/// Makes calls, and says how long each took and how much was computed meanwhile.
struct Calls {
    computed: Arc<AtomicU64>,
    /// Units that were computed during calls.
    meanwhile: Arc<AtomicU64>,
    plain: bool,
}

impl Calls {
    fn make<T: Send>(&self, what: &str, f: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let (start, before) = (Instant::now(), self.computed.load(Relaxed));
        let result = match self.plain {
            true => f()?,
            false => marcel::blocking(f)?,
        };
        let (took, units) = (start.elapsed(), self.computed.load(Relaxed) - before);
        println!(
            "{what:<28} {:6.1} ms, meanwhile {units} units computed",
            took.as_secs_f64() * 1e3
        );
        self.meanwhile.fetch_add(units, Relaxed);
        Ok(result)
    }
}

fn file(calls: &Calls) -> io::Result<()> {
    let name = std::env::temp_dir().join(format!("marcel-blocking-{}", std::process::id()));
    let data = vec![7; 8 << 20];
    calls.make("write and sync 8 MB", || {
        let mut file = std::fs::File::create(&name)?;
        file.write_all(&data)?;
        file.sync_all()
    })?;
    let read = calls.make("read them", || std::fs::read(&name));
    calls.make("remove the file", || std::fs::remove_file(&name))?;
    match read? == data {
        true => Ok(()),
        false => Err(io::Error::other("what was read is not what was written")),
    }
}

/// The reader blocks until the child writes.
fn pipe(calls: &Calls) -> io::Result<()> {
    let (mut reader, writer) = io::pipe()?;
    let mut child = Command::new("sh")
        .args(["-c", "for i in 1 2 3; do sleep 0.1; echo $i; done"])
        .stdout(writer)
        .spawn()?;
    let mut line = [0; 2];
    for _ in 0..3 {
        calls.make("read a line from a pipe", || reader.read_exact(&mut line))?;
    }
    calls.make("wait for its writer", || child.wait())?;
    Ok(())
}

fn process(calls: &Calls) -> io::Result<()> {
    let output = calls.make("run sh -c 'sleep 0.3; date'", || {
        Command::new("sh").args(["-c", "sleep 0.3; date"]).output()
    })?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

/// Computes in units of some tens of microseconds until `stop`.
fn compute(computed: &AtomicU64, stop: &AtomicBool) {
    let mut x = 1u64;
    while !stop.load(Relaxed) {
        for i in 0..20_000 {
            x = std::hint::black_box(x.wrapping_mul(6364136223846793005).wrapping_add(i));
        }
        computed.fetch_add(1, Relaxed);
        marcel::yield_now();
    }
}

/// Whether something has to be computed during calls of this kind: those of pipes and of processes take 0.3 s each, and a unit some
/// tens of microseconds; files may be quick.
fn is_judged(kind: &str) -> bool {
    kind != "files"
}

fn all(plain: bool) -> io::Result<()> {
    let computed = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let computing: Vec<_> = (0..4)
        .map(|_| {
            let (computed, stop) = (computed.clone(), stop.clone());
            marcel::spawn(move || compute(&computed, &stop))
        })
        .collect();
    type Kind = fn(&Calls) -> io::Result<()>;
    let kinds: [(&str, Kind); 3] = [("files", file), ("pipes", pipe), ("processes", process)];
    let calling: Vec<_> = kinds
        .into_iter()
        .map(|(kind, call)| {
            let meanwhile = Arc::new(AtomicU64::new(0));
            let calls = Calls { computed: computed.clone(), meanwhile: meanwhile.clone(), plain };
            let attempt = move || -> io::Result<()> {
                call(&calls)?;
                for _ in 1..ATTEMPTS {
                    if !is_judged(kind) || calls.meanwhile.load(Relaxed) > 0 {
                        break;
                    }
                    call(&calls)?;
                }
                Ok(())
            };
            (kind, meanwhile, marcel::spawn(attempt))
        })
        .collect();
    let results: Vec<_> = calling
        .into_iter()
        .map(|(kind, meanwhile, thread)| (kind, meanwhile, thread.join().unwrap()))
        .collect();
    stop.store(true, Relaxed);
    computing.into_iter().for_each(|thread| thread.join().unwrap());
    println!("{} units computed in all", computed.load(Relaxed));
    for (kind, meanwhile, result) in results {
        result?;
        if is_judged(kind) && meanwhile.load(Relaxed) == 0 {
            let why = format!("the computation stood still during all calls for {kind}");
            return Err(io::Error::other(why));
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let plain = std::env::args().any(|argument| argument == "--plain");
    let result = match marcel::Runtime::builder().build() {
        Ok(runtime) => runtime.run(|| all(plain)).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("blocking: {error}");
            ExitCode::FAILURE
        }
    }
}
