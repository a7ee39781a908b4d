//! A rank above 0: an agent that starts workers on this machine for rank 0.
//!
//! One thread, one `poll` over signals, the door, callers that are not authenticated yet ([`PendingPeer`]), and rank
//! 0's own connection. For each worker a process of its own, a [supervisor](super::supervisor), takes the connection:
//! what a worker leaves behind is then the supervisor's to clean up, and no worker's output holds another one's up.
//! Supervisors die with the agent.
//!
//! ```text
//!   Waiting ── rank 0 connects ──▶ Serving ── it says that it is over ──▶ exit 0
//!      │ it does not come in time     │ its connection breaks: exit 1    │ a signal, and no word of rank 0 for a while: exit 130
//!      ▼ exit 1                       ▼                                  ▼
//! ```
//! Strangers at the door cost a descriptor each, [`PENDING_MAX`] at the most, the one that came first goes when one
//! more comes; and none stays longer than a greeting takes.
//!
//! Rejected: threads instead of supervisors (the death signal is tied to the thread that starts a process, and
//! orphans go to the whole process); `ssh` (asks for a set-up that the process manager has already done in its way).

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::across::card;
use crate::across::card::random;
use crate::across::greeting::{KEY, Purpose};
use crate::across::link;
use crate::across::link::GREETING;
use crate::across::pending_peer::{PendingPeer, Step};
use crate::out::{Exit, INTERRUPTED, Outcome, complain};
use mad_launch::signals::{Interruption, Interruptions, STOP};
use mad_launch::{Signals, die_with, readable, wait};

/// Most callers that are not authenticated.
const PENDING_MAX: usize = 64;
/// How long rank 0 may take to come, after all have met.
const COMES: Duration = Duration::from_secs(30);
/// How long rank 0 may take to end the bench, after a signal that is to end it: it prints what was measured.
const WINDS_UP: Duration = Duration::from_secs(10);
/// How long supervisors may take to see that it is over.
const SUPERVISORS: Duration = Duration::from_secs(5);
/// What rank 0 says at the end.
pub(super) const OVER: u8 = 1;

/// See the module.
pub(super) struct Door {
    listener: TcpListener,
    key: [u8; KEY],
    /// The rank behind it and its machine, in words.
    owner: String,
}

impl Door {
    /// Opens it, on the address of newmad's tcp driver, and gives what others need to find it.
    ///
    /// # Errors
    /// In a sentence, why it cannot be.
    pub(super) fn open(owner: String) -> Result<(Door, card::Agent), String> {
        let ip = card::address()?;
        let refused = |e| format!("NMAD_TCP_ADDRESS={ip}: it cannot be listened on: {e}");
        let listener = TcpListener::bind(SocketAddr::new(ip, 0)).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let key = random().map_err(|e| format!("/dev/urandom: {e}"))?;
        Ok((Door { listener, key, owner }, card::Agent { address, key }))
    }

    /// Serves rank 0 until it says that it is over.
    ///
    /// # Errors
    /// It did not come, it is gone, or a signal ended this.
    pub(super) fn serve(self) -> Outcome {
        let signals = Signals::catch()
            .map_err(|e| Exit::Failed(format!("bench: signals cannot be caught: {e}")))?;
        let mut agent = Agent {
            door: self,
            pending_peers: Vec::new(),
            control: None,
            supervisors: Vec::new(),
            until: Some(Instant::now() + COMES),
            stops: 0,
            interruptions: Interruptions::default(),
        };
        let outcome = loop {
            if let Some(outcome) = agent.turn(&signals) {
                break outcome;
            }
        };
        // At once: the launcher, which grants little time after rank 0's end, may end this one before its supervisors are gone.
        let outcome = outcome.map_err(Exit::said);
        let until = Instant::now() + SUPERVISORS;
        while agent.supervisors_left() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        outcome
    }
}

struct Agent {
    door: Door,
    pending_peers: Vec<PendingPeer>,
    control: Option<TcpStream>,
    supervisors: Vec<Child>,
    /// When rank 0 is given up.
    until: Option<Instant>,
    stops: u32,
    interruptions: Interruptions,
}

impl Agent {
    /// Waits for something and treats it; how the agent ends, if it does.
    fn turn(&mut self, signals: &Signals) -> Option<Outcome> {
        let control = self.control.as_ref().map_or(-1, |control| control.as_raw_fd());
        let listener = self.door.listener.as_raw_fd();
        let mut fds = vec![readable(signals.fd()), readable(control), readable(listener)];
        fds.extend(self.pending_peers.iter().map(|pending_peer| readable(pending_peer.fd())));
        let now = Instant::now();
        let next = self
            .pending_peers
            .iter()
            .map(|pending_peer| pending_peer.until)
            .chain(self.until)
            .min();
        wait(&mut fds, next.map(|at| at.saturating_duration_since(now)));
        let ready = |at: usize| fds[at].revents != 0;
        if ready(0)
            && let Some(end) = self.signals(signals)
        {
            return Some(end);
        }
        if ready(1)
            && let Some(end) = self.control()
        {
            return Some(end);
        }
        let speaking: Vec<bool> =
            (0..self.pending_peers.len()).map(|index| ready(3 + index)).collect();
        self.pending_peers(&speaking);
        if ready(2) {
            self.admit();
        }
        match self.until {
            Some(until) if until <= Instant::now() => Some(match self.stops {
                0 => Err(self.lost("did not come")),
                _ => Err(Exit::Code(INTERRUPTED)),
            }),
            _ => None,
        }
    }

    fn signals(&mut self, signals: &Signals) -> Option<Outcome> {
        while let Some(signal) = signals.next() {
            match signal.number {
                libc::SIGCHLD => drop(self.supervisors_left()),
                number if STOP.contains(&number) => {
                    let judged = self.interruptions.judge(number, Instant::now());
                    self.stops += u32::from(judged != Interruption::Echo);
                    self.until.get_or_insert(Instant::now() + WINDS_UP);
                }
                _ => {}
            }
        }
        // One before rank 0 has come, or the second: there is nothing to wait for.
        let at_once = self.stops > 1 || (self.stops == 1 && self.control.is_none());
        at_once.then_some(Err(Exit::Code(INTERRUPTED)))
    }

    fn control(&mut self) -> Option<Outcome> {
        let mut word = [0];
        match self.control.as_mut()?.read(&mut word) {
            Ok(1) if word[0] == OVER => Some(Ok(())),
            Err(e) if e.kind() == ErrorKind::Interrupted => None,
            _ => Some(Err(self.lost("is gone"))),
        }
    }

    fn lost(&self, what: &str) -> Exit {
        Exit::Failed(format!(
            "bench: {}: rank 0 {what}, nothing is measured here any more",
            self.door.owner
        ))
    }

    /// Lets one more caller in front of the door.
    fn admit(&mut self) {
        let Ok((stream, _)) = self.door.listener.accept() else { return };
        if stream.set_nonblocking(true).is_err() || link::tune(&stream).is_err() {
            return;
        }
        if self.pending_peers.len() == PENDING_MAX {
            self.pending_peers.remove(0);
        }
        self.pending_peers.push(PendingPeer::new(stream, Instant::now() + GREETING));
    }

    fn pending_peers(&mut self, speaking: &[bool]) {
        let now = Instant::now();
        let mut waiting = Vec::with_capacity(self.pending_peers.len());
        for (mut pending_peer, &speaks) in
            std::mem::take(&mut self.pending_peers).into_iter().zip(speaking)
        {
            let step = if speaks { pending_peer.step(&self.door.key) } else { Step::Waits };
            match step {
                Step::Waits if pending_peer.until > now => waiting.push(pending_peer),
                Step::Waits | Step::Refused => {}
                Step::Admitted(purpose) => self.serve(pending_peer, purpose),
            }
        }
        self.pending_peers = waiting;
    }

    fn serve(&mut self, pending_peer: PendingPeer, purpose: Purpose) {
        let Ok(stream) = pending_peer.welcome() else { return };
        match purpose {
            Purpose::Control if self.control.is_none() => {
                self.control = Some(stream);
                self.until = None;
            }
            Purpose::Control => {}
            Purpose::Worker => match supervisor(stream) {
                Ok(child) => self.supervisors.push(child),
                Err(e) => complain(&format!("mad bench: no process can be started here: {e}")),
            },
        }
    }

    /// Whether one still runs.
    fn supervisors_left(&mut self) -> bool {
        self.supervisors.retain_mut(|supervisor| matches!(supervisor.try_wait(), Ok(None)));
        !self.supervisors.is_empty()
    }
}

/// Starts the process that keeps a worker; the connection is its standard input.
fn supervisor(stream: TcpStream) -> std::io::Result<Child> {
    let mut command = Command::new(mad_launch::own_program()?);
    command.arg("supervisor").stdin(OwnedFd::from(stream)).stdout(Stdio::null());
    let parent = std::process::id() as i32;
    // SAFETY: async-signal-safe calls on a copied number.
    unsafe {
        command.pre_exec(move || {
            die_with(parent);
            Ok(())
        });
    }
    command.spawn()
}
