//! The watcher beside a thread that is inside a source, and does not come out: it may be that the watcher has taken its
//! core.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use marcel::Mode;
use pioman::plumbing::{Delegated, DelegationLock};
use pioman::{Completion, Hint, Manager, Source};

/// Generous: the machine may be busy with other things.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits until that is so; `what`: what is wrong if it never is.
fn until(done: &dyn Fn() -> bool, what: &str) {
    let until = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A counter of the kernel's, which does not block.
fn eventfd() -> OwnedFd {
    // SAFETY: no pointers; the descriptor is ours.
    unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_NONBLOCK)) }
}

/// Makes the counter readable.
fn ring(fd: &OwnedFd) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: eight readable bytes.
    unsafe { libc::write(fd.as_raw_fd(), one.as_ptr().cast(), 8) };
}

/// Makes the counter unreadable; whether it was readable.
fn fetch(fd: &OwnedFd) -> bool {
    let mut counter = [0u8; 8];
    // SAFETY: eight writable bytes.
    unsafe { libc::read(fd.as_raw_fd(), counter.as_mut_ptr().cast(), 8) == 8 }
}

/// What the lock protects: how often something was found.
struct Inside {
    come: Arc<AtomicU64>,
    found: Arc<AtomicU64>,
}

impl Inside {
    fn look(&self) -> bool {
        let come = self.come.swap(0, SeqCst);
        self.found.fetch_add(come, SeqCst);
        come > 0
    }
}

impl Delegated for Inside {
    fn run_delegated(&mut self, _: u64) {
        self.look();
    }
}

/// A network with a lock: a thread that finds it taken delegates its look to the holder. `careless`: an event is fetched under
/// the lock only.
struct Net {
    fd: OwnedFd,
    lock: DelegationLock<Inside>,
    come: Arc<AtomicU64>,
    found: Arc<AtomicU64>,
    careless: bool,
    acknowledged: AtomicBool,
}

impl Net {
    fn new(careless: bool) -> Net {
        let fd = eventfd();
        let (come, found) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let lock = DelegationLock::new(Inside { come: come.clone(), found: found.clone() });
        Net { fd, lock, come, found, careless, acknowledged: AtomicBool::new(false) }
    }

    fn send(&self) {
        self.come.fetch_add(1, SeqCst);
        ring(&self.fd);
    }

    fn fetch(&self) {
        fetch(&self.fd);
    }
}

// SAFETY: atomics, a try-lock, and reads that do not block; ticks are not used here.
unsafe impl Source for Net {
    fn name(&self) -> &str {
        "net"
    }
    fn poll(&self) -> bool {
        match self.lock.try_lock() {
            Some(inside) => {
                self.fetch();
                inside.look()
            }
            None => {
                self.lock.delegate(1);
                false
            }
        }
    }
    fn pending(&self) -> bool {
        true
    }
    fn fd(&self) -> Option<RawFd> {
        Some(self.fd.as_raw_fd())
    }
    fn acknowledge(&self) {
        if !self.careless {
            self.acknowledged.store(true, SeqCst);
            self.fetch();
        }
    }
    fn arm(&self) -> bool {
        match self.lock.try_lock() {
            Some(inside) => !inside.look(),
            None => {
                self.lock.delegate(1);
                true
            }
        }
    }
    fn disarm(&self) {}
}

/// How often the watcher went to sleep while a thread was inside, for a while, after an event.
fn sleeps(careless: bool) -> u64 {
    let net = Arc::new(Net::new(careless));
    let manager = Manager::builder().mode(Mode::Smp).build().unwrap();
    let source = manager.add_source(net.clone()).unwrap();
    let sleeps = || manager.counters().sleeps[1];
    manager.ensure_watched();
    net.send();
    until(&|| net.found.load(SeqCst) == 1, "the watcher finds nothing");
    let inside = loop {
        match net.lock.try_lock() {
            Some(inside) => break inside,
            None => std::thread::yield_now(), // the watcher is about to leave
        }
    };
    let before = sleeps();
    net.send();
    let enough = if careless { before + 100 } else { before };
    until(&|| sleeps() > enough, "the watcher does not wake up");
    std::thread::sleep(Duration::from_millis(50));
    let slept = sleeps() - before;
    drop(inside);
    until(&|| net.found.load(SeqCst) == 2, "what was delegated is not done");
    net.send();
    until(&|| net.found.load(SeqCst) == 3, "the watcher has gone");
    assert_eq!(net.acknowledged.load(SeqCst), !careless);
    drop(source);
    slept
}

/// Pending, but its owner asks for its end.
struct Attended {
    come: AtomicBool,
    done: AtomicBool,
}

// SAFETY: atomics.
unsafe impl Source for Attended {
    fn name(&self) -> &str {
        "attended"
    }
    fn poll(&self) -> bool {
        let found = self.come.swap(false, SeqCst);
        if found {
            self.done.store(true, SeqCst);
        }
        found
    }
    fn pending(&self) -> bool {
        !self.done.load(SeqCst)
    }
    fn unattended(&self) -> bool {
        false
    }
    fn fd(&self) -> Option<RawFd> {
        None
    }
    fn arm(&self) -> bool {
        panic!("nobody is to be woken for it")
    }
    fn disarm(&self) {}
}

/// The owner stays away for long: what comes is found all the same, later. Then the watcher sleeps without end.
#[test]
fn what_its_owner_does_not_ask_for_is_found_after_a_while() {
    let manager = Manager::builder().mode(Mode::Smp).build().unwrap();
    for _ in 0..2 {
        let (come, done) = (AtomicBool::new(false), AtomicBool::new(false));
        let source = Arc::new(Attended { come, done });
        let registered = manager.add_source(source.clone()).unwrap();
        manager.ensure_watched();
        source.come.store(true, SeqCst);
        let until = Instant::now() + LIMIT;
        while source.pending() {
            assert!(Instant::now() < until, "nobody looks");
            std::thread::sleep(Duration::from_millis(1));
        }
        // Three looks more, which a busy machine has come late.
        std::thread::sleep(Duration::from_millis(2500));
        let until = Instant::now() + LIMIT;
        loop {
            let before = manager.counters().sleeps[1];
            std::thread::sleep(Duration::from_millis(700));
            if manager.counters().sleeps[1] <= before + 1 {
                break;
            }
            assert!(Instant::now() < until, "the watcher still looks");
        }
        drop(registered);
    }
}

/// Two requests: a thread is to be woken for the first; the owner of the second asks for its end.
struct Two {
    fd: OwnedFd,
    pending: [AtomicBool; 2],
    come: [AtomicBool; 2],
}

// SAFETY: atomics, and reads that do not block.
unsafe impl Source for Two {
    fn name(&self) -> &str {
        "two"
    }
    fn poll(&self) -> bool {
        self.acknowledge();
        let ended = |request: usize| {
            let found = self.come[request].swap(false, SeqCst);
            if found {
                self.pending[request].store(false, SeqCst);
            }
            found
        };
        ended(0) | ended(1)
    }
    fn pending(&self) -> bool {
        self.pending.iter().any(|pending| pending.load(SeqCst))
    }
    fn unattended(&self) -> bool {
        self.pending[0].load(SeqCst)
    }
    fn fd(&self) -> Option<RawFd> {
        Some(self.fd.as_raw_fd())
    }
    fn acknowledge(&self) {
        fetch(&self.fd);
    }
    fn arm(&self) -> bool {
        !self.come[0].load(SeqCst)
    }
    fn disarm(&self) {}
}

/// A request that is left while the watcher sleeps for another one is seen to after that one's end, too.
#[test]
fn what_its_owner_does_not_ask_for_is_found_after_the_watch_was_for_another() {
    let manager = Manager::builder().mode(Mode::Smp).build().unwrap();
    let fd = eventfd();
    let [pending, come] = [0; 2].map(|_| [0; 2].map(|_| AtomicBool::new(false)));
    let two = Arc::new(Two { fd, pending, come });
    let _source = manager.add_source(two.clone()).unwrap();
    two.pending[0].store(true, SeqCst);
    manager.ensure_watched();
    two.pending[1].store(true, SeqCst); // a thread sleeps on the descriptor already
    let until = Instant::now() + LIMIT;
    for request in 0..2 {
        two.come[request].store(true, SeqCst);
        if request == 0 {
            ring(&two.fd);
        }
        while two.pending[request].load(SeqCst) {
            assert!(Instant::now() < until, "nobody looks for request {request}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A network whose packets make its descriptor readable whether or not a thread polls.
struct Sockets {
    fd: OwnedFd,
    /// What it says of that.
    disarms: bool,
}

// SAFETY: a read that does not block.
unsafe impl Source for Sockets {
    fn name(&self) -> &str {
        "sockets"
    }
    fn poll(&self) -> bool {
        fetch(&self.fd)
    }
    fn pending(&self) -> bool {
        true
    }
    fn fd(&self) -> Option<RawFd> {
        Some(self.fd.as_raw_fd())
    }
    fn arm(&self) -> bool {
        true
    }
    fn disarm(&self) {}
    fn disarms_its_descriptor(&self) -> bool {
        self.disarms
    }
}

/// How often the watcher went to sleep again after a packet that came while another thread polled; then that thread stops, and
/// the watcher finds the next packet.
fn sleeps_beside_a_poller(disarms: bool) -> u64 {
    let manager = Manager::builder().mode(Mode::Smp).build().unwrap();
    let fd = eventfd();
    let sockets = Arc::new(Sockets { fd, disarms });
    let source = manager.add_source(sockets.clone()).unwrap();
    let sleeps = || manager.counters().sleeps[1];
    let send = || ring(&sockets.fd);
    manager.ensure_watched();
    until(&|| manager.watches(source.id()) && sleeps() > 0, "the watcher does not sleep");
    let looking = manager.looking(source.id());
    let before = sleeps();
    send();
    if disarms {
        until(&|| sleeps() > before, "the watcher was not woken");
    } else {
        std::thread::sleep(Duration::from_millis(50));
    }
    let slept = sleeps() - before;
    while sockets.poll() {}
    drop(looking);
    let before = sleeps();
    send();
    until(&|| sleeps() > before, "the watcher was not armed when the poller left");
    slept
}

#[test]
fn a_packet_that_comes_while_a_thread_polls_wakes_no_watcher() {
    assert_eq!(sleeps_beside_a_poller(false), 0);
}

/// That this is about something: the watcher is woken by a descriptor that is said to be silent and is not.
#[test]
fn a_descriptor_that_stays_armed_wakes_the_watcher_beside_a_poller() {
    assert!(sleeps_beside_a_poller(true) > 0);
}

#[test]
fn who_is_inside_a_source_is_left_alone_by_the_watcher() {
    let slept = sleeps(false);
    assert!(slept <= 2, "one event has ended {slept} sleeps");
}

/// That this is about something: without the acknowledgement the same event wakes it all the time.
#[test]
fn a_source_that_does_not_acknowledge_keeps_the_watcher_awake() {
    let slept = sleeps(true);
    assert!(slept > 100, "only {slept} times");
}

/// Its event comes while the thread that waits for it arms.
struct Late {
    waits: AtomicBool,
    done: Completion,
    acknowledged: AtomicBool,
    fd: OwnedFd,
}

// SAFETY: atomics.
unsafe impl Source for Late {
    fn name(&self) -> &str {
        "late"
    }
    fn poll(&self) -> bool {
        false
    }
    fn pending(&self) -> bool {
        !self.done.is_done()
    }
    fn fd(&self) -> Option<RawFd> {
        Some(self.fd.as_raw_fd())
    }
    fn acknowledge(&self) {
        self.acknowledged.store(true, SeqCst);
    }
    fn arm(&self) -> bool {
        let waits = self.waits.load(SeqCst);
        if waits {
            self.done.complete();
        }
        !waits
    }
    fn disarm(&self) {}
}

/// An event that came for a thread that was about to sleep must not wake a later sleeper.
#[test]
fn who_was_about_to_sleep_acknowledges_what_came() {
    let manager = Manager::builder().mode(Mode::Smp).build().unwrap();
    let fd = eventfd();
    let (done, acknowledged) = (Completion::new(), AtomicBool::new(false));
    let waits = AtomicBool::new(false);
    let late = Arc::new(Late { waits, done, acknowledged, fd });
    let _source = manager.add_source(late.clone()).unwrap();
    late.waits.store(true, SeqCst);
    manager.wait(&late.done, Hint::Short);
    assert!(late.acknowledged.load(SeqCst));
}

/// Its descriptor is closed although it is registered; `come` stands for an event.
struct Closed {
    submitted: AtomicBool,
    come: AtomicBool,
    done: Completion,
    fd: RawFd,
}

// SAFETY: atomics and a completion.
unsafe impl Source for Closed {
    fn name(&self) -> &str {
        "closed"
    }
    fn poll(&self) -> bool {
        let found = self.come.swap(false, SeqCst);
        if found {
            self.done.complete();
        }
        found
    }
    fn pending(&self) -> bool {
        self.submitted.load(SeqCst) && !self.done.is_done()
    }
    fn fd(&self) -> Option<RawFd> {
        Some(self.fd)
    }
    fn arm(&self) -> bool {
        !self.come.load(SeqCst)
    }
    fn disarm(&self) {}
}

/// The kernel refuses to arm such a descriptor: callers and the watcher do not try for ever, and ticks find the event.
#[test]
fn a_source_whose_descriptor_is_closed_too_early_is_found_by_ticks() {
    let manager = Manager::builder().mode(Mode::Smp).build().unwrap();
    // SAFETY: no pointers; the descriptors are ours.
    let [fd, another] =
        [0; 2].map(|_| unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_NONBLOCK)) });
    let (come, done) = (AtomicBool::new(false), Completion::new());
    let source =
        Arc::new(Closed { submitted: AtomicBool::new(false), come, done, fd: fd.as_raw_fd() });
    let registered = manager.add_source(source.clone()).unwrap();
    // Closes the source's file. Its number stays taken, so that no other thread's descriptor gets it.
    // SAFETY: no pointers; both are ours.
    assert!(unsafe { libc::dup2(another.as_raw_fd(), fd.as_raw_fd()) } >= 0);
    source.submitted.store(true, SeqCst);
    let (left, caller) = (Arc::new(AtomicBool::new(false)), manager.clone());
    let returned = left.clone();
    std::thread::spawn(move || {
        caller.ensure_watched();
        returned.store(true, SeqCst);
    });
    let until = Instant::now() + Duration::from_secs(20);
    while !left.load(SeqCst) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    let returned = left.load(SeqCst);
    source.come.store(true, SeqCst);
    assert!(returned, "the caller tries to arm it for ever");
    assert!(manager.wait_until(&source.done, Hint::Long, Instant::now() + LIMIT));
    drop(registered);
}
