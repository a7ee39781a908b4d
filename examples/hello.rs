//! Two processes say hello to each other, then compute on green threads.
//!
//! `cargo build --release --examples && mad run -n 2 target/release/examples/hello`

use std::process::ExitCode;

fn hello(session: &newmad::Session) -> Result<(), newmad::Error> {
    let (me, all) = (session.rank(), session.size());
    if all >= 2 && me < 2 {
        let greeting = session.isend(1 - me, 7, format!("hello from rank {me}"))?;
        let mut text = [0; 64];
        let status = session.recv(1 - me, 7, &mut text)?;
        greeting.wait()?;
        println!("rank {me} got: {}", String::from_utf8_lossy(&text[..status.len]));
    }
    let threads: Vec<_> = (1..=10u64).map(|i| marcel::spawn(move || i * i)).collect();
    let sum: u64 = threads.into_iter().filter_map(|thread| thread.join().ok()).sum();
    println!("rank {me} of {all}: ten green threads make {sum}");
    session.barrier()
}

fn main() -> ExitCode {
    match newmad::run(hello).and_then(|result| result) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hello: {error}");
            ExitCode::FAILURE
        }
    }
}
