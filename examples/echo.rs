//! An echo server with a green thread for each connection, and a client that measures it. Both read as if written for
//! `std::net` and `std::thread`; with `--kernel-threads` they run on those.
//!
//! ```text
//! cargo build --release --example echo
//! target/release/examples/echo serve
//! target/release/examples/echo ask 127.0.0.1:7007 --connections 1000
//! ```

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use marcel::JoinHandle;
use pioman::net::{TcpListener, TcpStream};

/// An echo server with a green thread for each connection, and a client that measures it.
#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    role: Role,
    /// Use std's sockets and threads instead.
    #[arg(long, global = true)]
    kernel_threads: bool,
}

#[derive(Subcommand)]
enum Role {
    /// Sends back what it gets, until it is killed.
    Serve {
        /// Where to listen; port 0: anywhere. The address is printed.
        #[arg(default_value = "127.0.0.1:7007")]
        address: String,
    },
    /// Asks a server, and prints requests per second and how long answers take.
    Ask {
        /// Where the server listens.
        #[arg(default_value = "127.0.0.1:7007")]
        address: String,
        /// How many connections ask at once, each in its own thread.
        #[arg(long, default_value_t = 100)]
        connections: usize,
        /// How many requests each makes, one after the other.
        #[arg(long, default_value_t = 1000)]
        requests: usize,
        /// Bytes of a request.
        #[arg(long, default_value_t = 64)]
        size: usize,
        /// Seconds to do nothing afterwards, all connections open; prints the processor time that this takes.
        #[arg(long, default_value_t = 0.0)]
        idle: f64,
    },
}

/// What a connection's thread does, whatever the kind of both.
fn echo(mut stream: impl Read + Write) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            n => stream.write_all(&buffer[..n])?,
        }
    }
}

/// Makes requests; how long each took.
fn ask(
    stream: &mut (impl Read + Write),
    requests: usize,
    size: usize,
) -> io::Result<Vec<Duration>> {
    let question: Vec<u8> = (0..size).map(|i| i as u8).collect();
    let mut answer = vec![0; size];
    let mut times = Vec::with_capacity(requests);
    for _ in 0..requests {
        let start = Instant::now();
        stream.write_all(&question)?;
        stream.read_exact(&mut answer)?;
        times.push(start.elapsed());
        if answer != question {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is another one"));
        }
    }
    Ok(times)
}

/// Starts a green thread. Those that do little but wait and answer are *reactive*: an event wakes them without a
/// detour, and they run at once although every core computes.
fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    marcel::Builder::new().reactive(true).spawn(f)
}

fn serve(address: &str) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        match listener.accept() {
            Ok((stream, peer)) => {
                spawn(move || report(peer, stream.set_nodelay(true).and_then(|()| echo(stream))))?;
            }
            Err(error) => {
                eprintln!("echo: {error}");
                marcel::sleep(Duration::from_millis(10)); // for lack of descriptors, say
            }
        }
    }
}

fn serve_with_kernel_threads(address: &str) -> io::Result<()> {
    let listener = std::net::TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        match listener.accept() {
            Ok((stream, peer)) => {
                std::thread::spawn(move || {
                    report(peer, stream.set_nodelay(true).and_then(|()| echo(stream)));
                });
            }
            Err(error) => {
                eprintln!("echo: {error}");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

fn report(peer: SocketAddr, end: io::Result<()>) {
    if let Err(error) = end {
        eprintln!("echo: {peer}: {error}");
    }
}

/// What a connection's thread of the client comes back with: the stream is closed when all are done.
type Answered<S> = (S, io::Result<Vec<Duration>>);

fn summary<S>(all: &[Answered<S>], took: Duration) -> Result<(), Box<dyn Error>> {
    let mut times: Vec<Duration> =
        all.iter().flat_map(|(_, times)| times).flatten().copied().collect();
    times.sort_unstable();
    if let Some(last) = times.len().checked_sub(1) {
        println!(
            "{:.0} requests/s ({} in {took:.2?})",
            times.len() as f64 / took.as_secs_f64(),
            times.len()
        );
        let of = |share: f64| times[(last as f64 * share) as usize];
        let (median, p90, p99) = (of(0.5), of(0.9), of(0.99));
        println!("median {median:.1?}  p90 {p90:.1?}  p99 {p99:.1?}  max {:.1?}", times[last]);
    }
    let mut errors = all.iter().filter_map(|(_, times)| times.as_ref().err());
    match errors.next() {
        Some(first) => {
            Err(format!("{} connections failed, one with: {first}", 1 + errors.count()).into())
        }
        None => Ok(()),
    }
}

/// Processor time of this process so far.
fn cpu_time() -> Duration {
    // SAFETY: all zeroes is a value of the type; `usage` is writable.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

fn idle(seconds: f64, sleep: fn(Duration)) {
    if seconds > 0.0 {
        let before = cpu_time();
        sleep(Duration::from_secs_f64(seconds));
        println!("{seconds} s idle took {:.1?} of processor time", cpu_time() - before);
    }
}

fn run(options: Options) -> Result<(), Box<dyn Error>> {
    let green = |f: &(dyn Fn() -> Result<(), Box<dyn Error>> + Sync)| {
        // What goes out of a runtime is `Send`; an error's text is.
        let end = pioman::Runtime::new()?.run(|| f().map_err(|error| error.to_string()));
        end.map_err(Into::into)
    };
    match (options.role, options.kernel_threads) {
        (Role::Serve { address }, false) => green(&|| Ok(serve(&address)?)),
        (Role::Serve { address }, true) => Ok(serve_with_kernel_threads(&address)?),
        (Role::Ask { address, connections, requests, size, idle: seconds }, false) => {
            green(&|| {
                let mut streams = Vec::new();
                for _ in 0..connections {
                    let stream = TcpStream::connect(&address)?;
                    stream.set_nodelay(true)?;
                    streams.push(stream);
                }
                let start = Instant::now();
                let threads = streams.into_iter().map(|mut stream| {
                    spawn(move || {
                        let times = ask(&mut stream, requests, size);
                        (stream, times)
                    })
                });
                let threads = threads.collect::<io::Result<Vec<_>>>()?;
                let all: Vec<_> =
                    threads.into_iter().map(|t| t.join().expect("it does not panic")).collect();
                summary(&all, start.elapsed())?;
                idle(seconds, marcel::sleep);
                Ok(())
            })
        }
        (Role::Ask { address, connections, requests, size, idle: seconds }, true) => {
            let mut streams = Vec::new();
            for _ in 0..connections {
                let stream = std::net::TcpStream::connect(&address)?;
                stream.set_nodelay(true)?;
                streams.push(stream);
            }
            let start = Instant::now();
            let threads = streams.into_iter().map(|mut stream| {
                std::thread::spawn(move || {
                    let times = ask(&mut stream, requests, size);
                    (stream, times)
                })
            });
            let threads: Vec<_> = threads.collect();
            let all: Vec<_> =
                threads.into_iter().map(|t| t.join().expect("it does not panic")).collect();
            summary(&all, start.elapsed())?;
            idle(seconds, std::thread::sleep);
            Ok(())
        }
    }
}

fn main() -> ExitCode {
    match run(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("echo: {error}");
            ExitCode::FAILURE
        }
    }
}
