//! A library for a network card, the way one would write it for pioman: it says how to look at the card and how to
//! block on it, and its users wait for messages as they would anywhere.
//!
//! The card is a few pipes here, and each message four bytes: `cargo run --example event_server`

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use pioman_extras::server::{Group, NotTaken, Outcome, Pending, Server};

/// What one request is to this library: a thread waits for the next message of a port.
struct Receive {
    port: Arc<Mutex<PipeReader>>,
    message: OnceLock<u32>,
}

/// Which of these ports have something: `poll` of POSIX, for at most this time.
fn ready(group: &Group<'_, Receive>, timeout: Duration) -> Vec<Pending<Receive>> {
    let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let fd = |receive: &Pending<Receive>| receive.port.lock().unwrap().as_raw_fd();
    let mut fds: Vec<_> = group.iter().map(|receive| entry(fd(receive))).collect();
    // SAFETY: as many entries as are said.
    unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as u64, timeout.as_millis() as i32) };
    let both = group.iter().zip(&fds);
    both.filter(|(_, fd)| fd.revents != 0).map(|(receive, _)| receive.clone()).collect()
}

/// Takes the message of a port that has one, unless another callback was first.
fn take(receive: &Pending<Receive>) {
    let mut port = receive.port.lock().unwrap();
    let mut bytes = [0; 4];
    if receive.message.get().is_none() && port.read_exact(&mut bytes).is_ok() {
        let _ = receive.message.set(u32::from_ne_bytes(bytes));
        drop(port);
        receive.complete(4);
    }
}

struct Card {
    server: Server<Receive>,
    ports: Vec<Arc<Mutex<PipeReader>>>,
}

impl Card {
    fn open(ports: usize) -> std::io::Result<(Card, Vec<PipeWriter>)> {
        let manager = pioman::Manager::here().map_err(std::io::Error::other)?;
        let server = Server::builder(&manager, "card")
            .poll_any(|group| ready(group, Duration::ZERO).iter().for_each(take))
            .block_any_timeout(|group, time| ready(group, time).iter().for_each(take))
            .start()?;
        let wires = (0..ports).map(|_| pipe()).collect::<std::io::Result<Vec<_>>>()?;
        let (ports, wires): (Vec<_>, Vec<_>) = wires.into_iter().unzip();
        let ports = ports.into_iter().map(|port| Arc::new(Mutex::new(port))).collect();
        Ok((Card { server, ports }, wires))
    }

    /// The next message of a port. Blocks the calling green thread only, or the calling kernel thread.
    fn receive(&self, port: usize) -> Result<Option<u32>, NotTaken<Receive>> {
        let receive = Receive { port: self.ports[port].clone(), message: OnceLock::new() };
        let request = self.server.submit(receive)?;
        Ok(match request.wait() {
            Outcome::Completed(_) => request.message.get().copied(),
            _ => None,
        })
    }
}

/// Sends 0 to 24 on each wire, a moment apart.
fn send(mut wires: Vec<PipeWriter>) -> std::io::Result<Vec<PipeWriter>> {
    for n in 0..25u32 {
        std::thread::sleep(Duration::from_micros(200));
        wires.iter_mut().try_for_each(|wire| wire.write_all(&n.to_ne_bytes()))?;
    }
    Ok(wires)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = pioman::Runtime::new()?;
    let sum = runtime.run(|| -> std::io::Result<u32> {
        let (card, wires) = Card::open(4)?;
        let sending = std::thread::spawn(|| send(wires));
        let sum = marcel::scope(|scope| {
            let card = &card;
            let receive =
                |port| move || (0..25).filter_map(|_| card.receive(port).ok()?).sum::<u32>();
            let receiving: Vec<_> = (0..4).map(|port| scope.spawn(receive(port))).collect();
            receiving.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
        });
        drop(sending.join());
        println!("{:?}", card.server.counters());
        Ok(sum)
    })?;
    println!("4 green threads have received messages with the sum {sum}");
    if sum == 4 * (0..25).sum::<u32>() { Ok(()) } else { Err("messages are missing".into()) }
}
