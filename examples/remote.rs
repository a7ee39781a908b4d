//! Remote calls: services, replies as futures, threads on other processes, and calls back to the caller.
//!
//! `cargo build --release --examples && mad run -n 2 target/release/examples/remote`

use std::process::ExitCode;

use newmad::{CallError, Priority, Rpc, Session};

/// Numbers below this are looked at.
const LIMIT: u32 = 100_000;
/// Threads that look at them, all over the session.
const THREADS: u32 = 8;

fn is_prime(number: u32) -> bool {
    number > 1 && (2..).take_while(|d| d * d <= number).all(|d| !number.is_multiple_of(d))
}

/// What every process offers to the others.
fn offer(rpc: &Rpc) -> Result<(), CallError> {
    let me = rpc.session().rank();
    // Answers at once: no thread is needed for it.
    rpc.service("greet").inline().typed(move |context, name: String| {
        format!("hello {name}, rank {me} is here for rank {}", context.source())
    })?;
    // A call that computes is a remote thread, and its answer is the handle to join it by.
    rpc.service("primes").compute().typed(|_, (from, to): (u32, u32)| -> u32 {
        (from..to).filter(|&number| is_prime(number)).count() as u32
    })?;
    // Calls its caller back, and everything that goes wrong there or here is an error at the caller.
    rpc.service("echo back").fallible(|context, name: String| -> Result<String, CallError> {
        let greeting = context.client().call::<_, String>(context.source(), "greet", &name)?;
        Ok(format!("they say: {}", greeting.wait()?))
    })
}

fn remote(session: &Session) -> Result<(), CallError> {
    let rpc = session.rpc()?;
    offer(&rpc)?;
    session.barrier()?; // from here on every rank offers it
    if session.rank() == 0 {
        let last = session.size() - 1;
        let greeting = rpc.call::<_, String>(last, "greet", "world")?;
        println!("{}", greeting.wait()?);
        println!("{}", rpc.call::<_, String>(last, "echo back", "again")?.wait()?);

        let threads = (0..THREADS)
            .map(|n| {
                let range = (LIMIT / THREADS * n, LIMIT / THREADS * (n + 1));
                rpc.call::<_, u32>(n % session.size(), "primes", &range)
            })
            .collect::<Result<Vec<_>, _>>()?;
        // An urgent call does not wait for those that compute.
        rpc.call_at::<_, String>(Priority::Urgent, last, "greet", "quick")?.wait()?;
        let counts = threads.into_iter().map(|thread| thread.wait());
        let sum = counts.sum::<Result<u32, _>>()?;
        println!(
            "{THREADS} threads on {} processes found {sum} primes below {LIMIT}",
            session.size()
        );

        match rpc.call::<_, ()>(last, "nothing", &())?.wait() {
            Err(error) => println!("as expected: {error}"),
            Ok(()) => println!("there is a service called nothing"),
        }
    }
    session.barrier()?; // until then every rank is served
    Ok(())
}

fn main() -> ExitCode {
    match newmad::run(remote) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("remote: {error}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("remote: {error}");
            ExitCode::FAILURE
        }
    }
}
