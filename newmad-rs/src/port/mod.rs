//! Ports: how processes that no process manager has started together find each other.
//!
//! A process opens a port, and gives its *name* to others by means of its own: a file, an argument, a name service.
//! A process that has the name calls. Both then have a [`Channel`], on which they tell each other what they need to open
//! a session together ([`Builder::introduce`](crate::Builder::introduce)): how many they are, and their cards.
//!
//! ```text
//!   Port::open ─▶ name ─ ─ ─ (the program's means) ─ ─ ─▶ call(name)
//!   Port::accept ◀──── hello, challenge, proof ────────▶ call        crate::authentication
//!        │                                                 │
//!     Channel ◀── frames: cards, ranks ──▶ Channel                   secret: the same on both sides
//!        │                                                 │
//!   Builder::introduce(rank, size, secret)           Builder::introduce(rank, size, secret)
//! ```
//! The name holds the port's key: a process that has it may connect, one that has not is turned away. Callers that say
//! nothing, or the wrong thing, hold up nobody: greetings go on side by side, and each has two seconds. What travels on
//! the channel is neither encrypted nor signed, so the keys of the session's processes are not among it: both sides
//! derive them from the port's key and the two nonces of the greeting.
//!
//! Rejected: a Unix socket for processes of one machine (a second mechanism; a port on the loopback interface does as
//! well, since its key is asked for); a port without a key in its name (any process on the network could join).

mod channel;
mod failure;
mod greeting;
mod join;
mod name;
pub mod registry;

use std::fmt;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use marcel::plumbing::KernelMutex;
use rustix::event::{PollFd, PollFlags};

pub use channel::Channel;
pub use failure::Failure;
#[cfg(any(test, fuzzing))]
pub(crate) use greeting::hostile;
pub use join::join;
pub(crate) use name::Name;

use crate::authentication::KEY;
use crate::error::{Error, during};
use crate::knobs::{CONNECT_TIMEOUT, TCP_ADDRESS};
use crate::sys;
use greeting::{Called, Next, Stranger};

/// How long a caller may take to prove that it knows the name.
const PATIENCE: Duration = Duration::from_secs(2);
/// Greetings that go on at the same time.
const STRANGERS: usize = 64;

/// A place where other processes can call. It closes when it is dropped.
pub struct Port {
    listener: TcpListener,
    key: [u8; KEY],
    name: String,
    /// Callers whose greeting was not over when an accept ended, and when that was.
    greetings: KernelMutex<(Vec<Greeting>, Instant)>,
}

struct Greeting {
    stream: TcpStream,
    called: Called,
    until: Instant,
}

impl Port {
    /// Opens a port on the first address of `NMAD_TCP_ADDRESS`.
    ///
    /// # Errors
    /// The kernel refuses it, or the knob is wrong.
    pub fn open() -> Result<Port, Error> {
        let text = TCP_ADDRESS.text()?;
        let first = text.split(',').next().unwrap_or_default().trim();
        let doing = "opening a port";
        let listener = TcpListener::bind((first, 0)).map_err(|source| {
            Error::Bootstrap(format!("cannot listen on NMAD_TCP_ADDRESS={first}: {source}"))
        })?;
        listener.set_nonblocking(true).map_err(during(doing))?;
        let address = listener.local_addr().map_err(during(doing))?;
        let key = sys::random()?;
        let name = Name { address, key }.to_string();
        Ok(Port { listener, key, name, greetings: KernelMutex::new((Vec::new(), Instant::now())) })
    }

    /// What others need to call: some 100 characters without spaces. A process that has it may connect.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for a caller that knows the name, until `deadline`, or for as long as it takes.
    ///
    /// # Context
    /// Any thread; one accepts at a time, the others wait for it.
    /// # Blocking
    /// The kernel thread.
    /// # Errors
    /// No caller came in time; the kernel refuses to listen any more.
    pub fn accept(&self, deadline: Option<Instant>) -> Result<Channel, Failure> {
        let (greetings, left) = &mut *self.greetings.lock();
        // The time in which nobody accepted does not count.
        let pause = left.elapsed();
        greetings.iter_mut().for_each(|greeting| greeting.until += pause);
        let accepted = self.next_caller(greetings, deadline);
        *left = Instant::now();
        accepted
    }

    /// The next caller that proves itself.
    fn next_caller(
        &self,
        greetings: &mut Vec<Greeting>,
        deadline: Option<Instant>,
    ) -> Result<Channel, Failure> {
        loop {
            let late = |at: Instant| at.saturating_duration_since(Instant::now()).is_zero();
            if deadline.is_some_and(late) {
                return Err(Failure::Late);
            }
            greetings.retain(|greeting| !late(greeting.until));
            let until = greetings.iter().map(|greeting| greeting.until).chain(deadline).min();
            let ready = self.wait(greetings, until)?;
            if let Some(channel) = advance(greetings, &ready[1..]) {
                return Ok(channel);
            }
            if ready[0] {
                self.take_callers(greetings)?;
            }
        }
    }

    /// Waits until a caller comes (the first of the answers), or a greeting can go on.
    fn wait(&self, greetings: &[Greeting], until: Option<Instant>) -> io::Result<Vec<bool>> {
        let sockets = greetings.iter().map(|greeting| greeting.stream.as_fd());
        let all = std::iter::once(self.listener.as_fd()).chain(sockets);
        let mut polled: Vec<PollFd<'_>> =
            all.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)).collect();
        channel::poll(&mut polled, until)?;
        Ok(polled.iter().map(|one| !one.revents().is_empty()).collect())
    }

    fn take_callers(&self, greetings: &mut Vec<Greeting>) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if greetings.len() == STRANGERS {
                        greetings.remove(0);
                    }
                    if stream.set_nonblocking(true).is_err() {
                        continue;
                    }
                    let called = Called::new(self.key);
                    greetings.push(Greeting { stream, called, until: Instant::now() + PATIENCE });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_callers_own(&error) => {}
                // A greeting that ends gives its descriptor back.
                Err(error) if has_no_descriptor(&error) && !greetings.is_empty() => {
                    greetings.remove(0);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether an error of `accept` is that of the connection that was to be accepted.
fn is_callers_own(error: &io::Error) -> bool {
    let of_connection = [
        libc::ECONNABORTED,
        libc::EPROTO,
        libc::ENETDOWN,
        libc::ENETUNREACH,
        libc::EHOSTDOWN,
        libc::EHOSTUNREACH,
        libc::ENOPROTOOPT,
        libc::ENONET,
    ];
    error.raw_os_error().is_some_and(|errno| of_connection.contains(&errno))
}

fn has_no_descriptor(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Carries on the greetings of those that have said something; the first caller that has proven itself.
fn advance(greetings: &mut Vec<Greeting>, ready: &[bool]) -> Option<Channel> {
    for index in (0..ready.len()).rev().filter(|&index| ready[index]) {
        match greet(&mut greetings[index]) {
            Ok(None) => {}
            Ok(Some(secret)) => {
                let Greeting { stream, .. } = greetings.remove(index);
                if let Ok(channel) = Channel::new(stream, secret) {
                    return Some(channel);
                }
            }
            Err(Stranger) => drop(greetings.remove(index)),
        }
    }
    None
}

/// Takes what a caller has said. The secret: it has proven itself.
fn greet(greeting: &mut Greeting) -> Result<Option<[u8; KEY]>, Stranger> {
    use std::io::{Read, Write};
    loop {
        // No more than the greeting has left: what follows belongs to the channel.
        let mut bytes = [0; greeting::LONGEST];
        let room = greeting.called.wants().min(bytes.len());
        let got = match greeting.stream.read(&mut bytes[..room]) {
            Ok(0) => return Err(Stranger),
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(_) => return Err(Stranger),
        };
        match greeting.called.feed(&bytes[..got])? {
            Next::More => {}
            // A fresh socket takes so few bytes whole.
            Next::Say(challenge) => {
                greeting.stream.write_all(&challenge).map_err(|_| Stranger)?;
            }
            Next::Admitted(secret) => return Ok(Some(secret)),
        }
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the key.
        f.debug_struct("Port")
            .field("address", &self.listener.local_addr().ok())
            .finish_non_exhaustive()
    }
}

/// How long another process may take to come, or to answer (`NMAD_CONNECT_TIMEOUT_MS`).
///
/// # Errors
/// The knob is wrong.
pub fn patience() -> Result<Duration, Error> {
    Ok(Duration::from_millis(CONNECT_TIMEOUT.int()?.unwrap_or_default() as u64))
}

/// Calls the port of that name.
///
/// # Blocking
/// The kernel thread, until the port's process accepts or `deadline` comes.
/// # Errors
/// The text is no name; no such port is open; nobody accepts in time.
pub fn call(name: &str, deadline: Instant) -> Result<Channel, Failure> {
    let Name { address, key } = name.parse().map_err(|()| Failure::BadName)?;
    let left = deadline.saturating_duration_since(Instant::now());
    let stream = TcpStream::connect_timeout(&address, left.max(Duration::from_millis(1)))?;
    let mut channel = Channel::new(stream, [0; KEY])?;
    let hello = greeting::hello().map_err(|error| Failure::Lost(io::Error::other(error)))?;
    channel.write(&hello, deadline)?;
    let mut challenge = [0; crate::authentication::CHALLENGE];
    channel.read(&mut challenge, deadline)?;
    // Another process has the port's number now.
    let (proof, secret) = greeting::answer(&key, &hello, &challenge).ok_or(Failure::Refused)?;
    channel.write(&proof, deadline)?;
    channel.admitted(secret);
    Ok(channel)
}

#[cfg(test)]
mod tests;
