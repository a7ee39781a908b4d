//! Ping-pong between ranks 0 and 1: half round trips by size. `mad run -n 2 target/release/examples/pingpong`.

use std::time::Instant;

fn main() -> Result<(), newmad::Error> {
    newmad::run(|session| {
        if session.size() < 2 {
            eprintln!(
                "start it as two processes: mad run -n 2 {}",
                std::env::args().next().unwrap_or_default()
            );
            return Ok(());
        }
        let sizes = [1usize, 64, 1024, 4096, 16384, 65536, 262_144, 1 << 20, 4 << 20];
        let mut buffer = vec![1u8; 4 << 20];
        for size in sizes {
            let rounds = if size <= 4096 { 20_000 } else { (200 << 20) / (size + (1 << 18)) };
            let mut times = Vec::with_capacity(rounds);
            for _ in 0..rounds {
                let start = Instant::now();
                match session.rank() {
                    0 => {
                        session.send(1, 1, &buffer[..size])?;
                        session.recv(1, 2, &mut buffer[..size])?;
                    }
                    1 => {
                        session.recv(0, 1, &mut buffer[..size])?;
                        session.send(0, 2, &buffer[..size])?;
                    }
                    _ => {}
                }
                times.push(start.elapsed().as_nanos() as f64 / 2000.0);
            }
            times.sort_by(f64::total_cmp);
            if session.rank() == 0 {
                let median = times[rounds / 2];
                println!(
                    "{size:8} B  median {median:9.3} µs  p99 {:9.3} µs  {:8.0} MB/s",
                    times[rounds * 99 / 100],
                    size as f64 / median
                );
            }
        }
        session.barrier()
    })?
}
