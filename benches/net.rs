//! A byte to and fro over a loopback connection and a pair of pipes, between two green threads and between two of
//! `std`'s: `cargo bench --bench net`.
//!
//! What is measured is the round trip: two writes, two waits for the other thread, two reads.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use marcel::Mode;
use pioman::{Manager, Runtime};

/// Sends back what it gets.
fn echo(mut from: impl Read, mut to: impl Write) {
    let mut byte = [0];
    while from.read(&mut byte).is_ok_and(|n| n == 1) && to.write_all(&byte).is_ok() {}
}

fn rounds(n: u64, mut from: impl Read, mut to: impl Write) -> io::Result<Duration> {
    let mut byte = [0];
    to.write_all(&byte)?; // both threads are there
    from.read_exact(&mut byte)?;
    let start = Instant::now();
    for _ in 0..n {
        to.write_all(&byte)?;
        from.read_exact(&mut byte)?;
    }
    Ok(start.elapsed())
}

/// The caller is the main thread, which is reactive, so this one is.
fn spawn(f: impl FnOnce() + Send + 'static) -> io::Result<marcel::JoinHandle<()>> {
    marcel::Builder::new().reactive(true).spawn(f)
}

fn green_tcp(n: u64) -> io::Result<Duration> {
    use pioman::net::{TcpListener, TcpStream};
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let stream = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    other.set_nodelay(true)?;
    let echo = spawn(move || echo(&other, &other))?;
    let took = rounds(n, &stream, &stream);
    drop(stream);
    let _ = echo.join();
    took
}

fn green_pipes(n: u64) -> io::Result<Duration> {
    let ((here, to_here), (there, to_there)) = (pioman::pipe::pipe()?, pioman::pipe::pipe()?);
    let echo = spawn(move || echo(there, to_here))?;
    let took = rounds(n, here, to_there);
    let _ = echo.join();
    took
}

fn kernel_tcp(n: u64) -> io::Result<Duration> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let stream = std::net::TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    other.set_nodelay(true)?;
    let echo = std::thread::spawn(move || echo(&other, &other));
    let took = rounds(n, &stream, &stream);
    drop(stream);
    let _ = echo.join();
    took
}

fn kernel_pipes(n: u64) -> io::Result<Duration> {
    let ((here, to_here), (there, to_there)) = (io::pipe()?, io::pipe()?);
    let echo = std::thread::spawn(move || echo(there, to_here));
    let took = rounds(n, here, to_there);
    let _ = echo.join();
    took
}

fn net(c: &mut Criterion) {
    let mut group = c.benchmark_group("round trip");
    for (name, mode, vps) in [("mono", Mode::Mono, 1), ("smp, 2 VPs", Mode::Smp, 2)] {
        let runtime =
            Runtime::build(Manager::builder().mode(mode), marcel::Runtime::builder().vps(vps));
        let runtime = runtime.expect("a runtime");
        let mut bench = |what: &str, f: fn(u64) -> io::Result<Duration>| {
            group.bench_function(format!("{what}, green threads, {name}"), |b| {
                b.iter_custom(|n| runtime.run(|| f(n)).expect("it can be measured"));
            });
        };
        bench("TCP", green_tcp);
        bench("pipes", green_pipes);
    }
    let mut bench = |what: &str, f: fn(u64) -> io::Result<Duration>| {
        group.bench_function(format!("{what}, kernel threads"), |b| {
            b.iter_custom(|n| f(n).expect("it can be measured"));
        });
    };
    bench("TCP", kernel_tcp);
    bench("pipes", kernel_pipes);
    group.finish();
}

criterion_group!(benches, net);
criterion_main!(benches);
