//! The service over sessions of one process: agreements, failures, revocations, bans.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use marcel::plumbing::KernelMutex;
use pioman::Manager;

use super::service::Service;
use super::*;
use crate::raw::{EventKind, Memory, RawRequest};
use crate::{ANY, Cause, Error, Session, Tag};

/// Counts what it is told.
#[derive(Clone, Default)]
struct Counts {
    failed: Arc<AtomicUsize>,
    revoked: Arc<AtomicU64>,
}

impl Hook for Counts {
    fn failed(&self) {
        self.failed.fetch_add(1, Ordering::SeqCst);
    }

    fn revoked(&self, key: u64) {
        self.revoked.fetch_add(key, Ordering::SeqCst);
    }
}

fn world(size: u32) -> (Vec<Session>, Vec<Counts>) {
    let manager = Manager::builder().build().unwrap();
    let sessions = Session::local_world(size, &manager).unwrap();
    let counts: Vec<Counts> = sessions.iter().map(|_| Counts::default()).collect();
    for (session, counts) in sessions.iter().zip(&counts) {
        session.tolerate(counts.clone());
    }
    (sessions, counts)
}

fn eventually(mut what: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !what() {
        assert!(Instant::now() < until, "it does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// `rank` fails, as the others learn.
fn fails(sessions: &[Session], rank: u32) {
    for session in sessions.iter().filter(|session| session.rank() != rank) {
        session.inner().engine.with(|core| core.fail_peer(rank, Cause::Vanished));
    }
}

fn close(sessions: Vec<Session>) {
    std::thread::scope(|scope| {
        for session in &sessions {
            scope.spawn(move || {
                session.leave_agreements();
                session.close().unwrap();
            });
        }
    });
}

fn said(session: &Session) -> Contribution {
    Contribution { flags: !(1 << session.rank()), offer: 10, acknowledged: Vec::new() }
}

#[test]
fn all_agree_and_again_when_one_has_failed() {
    let (sessions, counts) = world(4);
    let agree = |sessions: &[Session], round: usize| {
        let decisions: Vec<Decision> = std::thread::scope(|scope| {
            let begin = |session: &Session| {
                session.agree(5, &[0, 1, 2, 3], said(session)).unwrap().wait().unwrap()
            };
            let threads: Vec<_> =
                sessions.iter().map(|session| scope.spawn(move || begin(session))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(
            decisions.iter().all(|decision| *decision == decisions[0]),
            "{round}: {decisions:?}"
        );
        decisions[0].clone()
    };
    for round in 0..20 {
        let decision = agree(&sessions, round);
        let all = Decision { flags: !15, offer: 10, failed: Vec::new(), acknowledged: true };
        assert_eq!(decision, all);
    }
    sessions[1].record_events(true);
    fails(&sessions, 0);
    let mut events = Vec::new();
    assert_eq!(sessions[1].take_events(&mut events), [0; 3]);
    assert!(
        events.iter().any(|event| (event.kind, event.rank) == (EventKind::Failed, 0)),
        "{events:?}"
    );
    let decision = agree(&sessions[1..], 20);
    assert_eq!((decision.failed, decision.acknowledged), (vec![0], false));
    eventually(|| counts[1..].iter().all(|counts| counts.failed.load(Ordering::SeqCst) == 1));
    assert_eq!(sessions[3].failed_ranks(), [(0, Cause::Vanished)]);
    // Rank 0 lives in truth, and takes the others for failed from here on.
    for rank in 1..4 {
        fails(&sessions[..1], rank);
    }
    close(sessions);
}

#[test]
fn a_revocation_reaches_ranks_that_never_listened() {
    let (sessions, counts) = world(3);
    sessions[1].revoke(40, &[0, 1, 2]);
    eventually(|| {
        // No call waits for it: attended sessions look.
        assert!(sessions.iter().all(|session| session.iprobe(ANY, 1).unwrap().is_none()));
        counts.iter().all(|counts| counts.revoked.load(Ordering::SeqCst) != 0)
    });
    sessions[2].revoke(40, &[0, 1, 2]);
    let told: Vec<u64> = counts.iter().map(|one| one.revoked.load(Ordering::SeqCst) / 40).collect();
    // Once; the last one again if the thread that had heard of it was still at it.
    assert!(told == [1, 1, 1] || told == [1, 1, 2], "{told:?}");
    assert!(sessions.iter().all(|session| session.is_revoked(40) && !session.is_revoked(41)));
    close(sessions);
}

/// Its first call is held until the test lets it go.
struct Held {
    entered: mpsc::Sender<()>,
    go: KernelMutex<Option<mpsc::Receiver<()>>>,
    left: Arc<AtomicUsize>,
}

impl Hook for Held {
    fn failed(&self) {}

    fn revoked(&self, _: u64) {
        let go = self.go.lock().take();
        if let Some(go) = go {
            self.entered.send(()).unwrap();
            go.recv().unwrap();
        }
        self.left.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_program_that_revokes_does_not_rely_on_a_thread_that_has_begun_to() {
    let manager = Manager::builder().build().unwrap();
    let sessions = Session::local_world(2, &manager).unwrap();
    let (entered, enters) = mpsc::channel();
    let (lets_go, go) = mpsc::channel();
    let left = Arc::new(AtomicUsize::new(0));
    let go = KernelMutex::new(Some(go));
    sessions[0].tolerate(Held { entered, go, left: left.clone() });
    let counts = Counts::default();
    sessions[1].tolerate(counts.clone());
    std::thread::scope(|scope| {
        let inner = sessions[0].inner();
        let word = wire::revoke(40, &[0, 1]);
        scope.spawn(move || Service::of(inner).receive(inner, 1, &word));
        enters.recv().unwrap();
        sessions[0].revoke(40, &[0, 1]);
        // Before the thread that heard of it is let go, so that a failure here does not hang.
        let left = left.load(Ordering::SeqCst);
        lets_go.send(()).unwrap();
        assert_eq!(left, 1, "the call returned, and the layer above had not been told");
    });
    sessions[0].revoke(40, &[0, 1]);
    assert_eq!(left.load(Ordering::SeqCst), 2, "all had been told before the last call");
    eventually(|| {
        let _ = sessions[1].iprobe(ANY, 1);
        counts.revoked.load(Ordering::SeqCst) == 40
    });
    close(sessions);
}

const CONTEXT: Tag = Tag { value: 7 << 32, mask: !0 << 32 };

#[test]
fn what_waits_for_revoked_messages_ends_and_what_comes_later_does_not_wait() {
    let (sessions, _) = world(2);
    let session = &sessions[0];
    std::thread::scope(|scope| {
        let tag = 7 << 32 | 3;
        let blocked = [
            scope.spawn(move || session.recv(1, tag, &mut [0]).map(drop)),
            scope.spawn(move || {
                session.recv(ANY, Tag { value: 7 << 32, mask: !0 << 31 }, &mut []).map(drop)
            }),
            scope.spawn(move || session.probe(1, tag).map(drop)),
        ];
        let long = session.isend(1, tag, vec![0; 1 << 20]).unwrap();
        let other = session.irecv(1, 8 << 32, vec![0; 8]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        session.ban_revoked(CONTEXT);
        for thread in blocked {
            assert!(matches!(thread.join().unwrap(), Err(Error::ContextRevoked)));
        }
        // It was announced: the receiver gives it back.
        scope.spawn(|| sessions[1].iprobe(ANY, 9));
        let long = loop {
            let _ = sessions[1].iprobe(ANY, 9);
            if long.is_over() {
                break long.wait();
            }
        };
        assert!(matches!(long, Err(Error::ContextRevoked | Error::Cancelled)), "{long:?}");
        assert!(matches!(session.recv(1, tag, &mut [0]), Err(Error::ContextRevoked)));
        assert!(matches!(session.iprobe(1, tag), Err(Error::ContextRevoked)));
        let late = session.isend(1, tag, vec![0; 1 << 20]).unwrap().wait();
        assert!(matches!(late, Err(Error::ContextRevoked)));
        assert!(!other.is_over());
        sessions[1].send(0, 8 << 32, &[1]).unwrap();
        other.wait().unwrap();
        session.lift_revoked(CONTEXT);
        sessions[1].send(0, tag, &[2]).unwrap();
        assert_eq!(session.recv(1, tag, &mut [0]).unwrap().len, 1);
    });
    close(sessions);
}

#[test]
fn receives_from_any_rank_end_or_are_alarmed_and_go_on() {
    let (sessions, _) = world(3);
    let (session, tag) = (&sessions[0], 7 << 32 | 3);
    let mut buffer = [0u8; 8];
    // SAFETY: the request is over before the buffer goes.
    let into = |buffer: &mut [u8; 8]| unsafe { Memory::Whole(buffer.as_mut_ptr(), 8).trusted() };
    let mut early = RawRequest::idle();
    early.start_recv(session, ANY, tag, into(&mut buffer)).unwrap();
    std::thread::scope(|scope| {
        let blocked = scope.spawn(move || session.recv(ANY, 7 << 32 | 4, &mut [0]).map(drop));
        let early = &early;
        // SAFETY: no other thread waits for it.
        let waiting = scope.spawn(move || unsafe { early.wait_shared() });
        std::thread::sleep(Duration::from_millis(20));
        session.ban_any_source(CONTEXT, (2, Cause::Vanished));
        assert!(matches!(blocked.join().unwrap(), Err(Error::PeerDied { rank: 2, .. })));
        waiting.join().unwrap();
    });
    assert!(early.is_alarmed() && !early.is_over());
    early.calm();
    // One that begins now is alarmed from the start, as often as it is asked for.
    let mut later_buffer = [0u8; 8];
    let mut later = RawRequest::idle();
    later.start_recv(session, ANY, tag, into(&mut later_buffer)).unwrap();
    // SAFETY: as above.
    unsafe { later.wait_shared() };
    assert!(later.is_alarmed());
    assert_eq!(newmad_wait_any(&[&early, &later]), 1);
    later.calm();
    session.lift_any_source(CONTEXT);
    sessions[1].send(0, tag, &[1]).unwrap();
    sessions[1].send(0, tag, &[2]).unwrap();
    // SAFETY: as above. In the order in which they were posted.
    unsafe {
        later.wait_shared();
        early.wait_shared();
    }
    assert!(early.is_over() && later.is_over());
    drop((early, later));
    assert_eq!((buffer[0], later_buffer[0]), (1, 2));
    close(sessions);
}

fn newmad_wait_any(requests: &[&RawRequest]) -> usize {
    // SAFETY: one thread waits.
    let mut all: Vec<_> = requests.iter().map(|request| unsafe { request.awaited() }).collect();
    crate::wait_any(&mut all).unwrap()
}
