use super::*;
use crate::error::Error;
use crate::net::verbs::channels::{Rules, Shrink};
use crate::net::verbs::connect::{Own, active_ports};
use crate::net::virtual_rails::Home;
use crate::wire::Kind;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);

/// Two ends over the machine's first active port, without a link. `None`: there is no adapter.
pub(super) fn ends(settings: Settings) -> Option<[(Own, Verbs); 2]> {
    let own = || {
        let port = active_ports(1)?.remove(0);
        Own::open(2, &port, (8, settings), true, Home::ANYWHERE)
    };
    match (own(), own()) {
        (Ok(caller), Ok(called)) => Some([caller, called]),
        (Err(Error::Bootstrap(why)), _) | (_, Err(Error::Bootstrap(why))) => {
            let name = std::thread::current().name().unwrap_or("a test").to_owned();
            // Not `eprintln!`: what a passing test prints that way is not shown.
            let _ = std::io::stderr().write_all(format!("SKIPPED {name}: {why}\n").as_bytes());
            None
        }
        (Err(error), _) | (_, Err(error)) => panic!("{error}"),
    }
}

/// The two ends of a socket.
fn sockets() -> [UnixStream; 2] {
    let (near, far) = UnixStream::pair().unwrap();
    for socket in [&near, &far] {
        socket.set_nonblocking(true).unwrap();
    }
    [near, far]
}

/// Two drivers with a link, over the machine's first active port; the second process was called. `None`: there is no
/// adapter.
fn pair() -> Option<[Verbs; 2]> {
    let [first, second] = linked(Settings::NONE)?;
    Some([first.1, second.1])
}

/// The same, with what is the connection manager's.
fn linked(settings: Settings) -> Option<[(Own, Verbs); 2]> {
    let mut ends = ends(settings)?;
    let [ours, theirs] = link(&mut ends);
    let [(_, first), (_, second)] = &mut ends;
    second.install(0, theirs).unwrap();
    assert!(!second.post_small(0, &header(0, 0), &[]), "the caller's end does not receive yet");
    first.install(1, ours).unwrap();
    Some(ends)
}

/// A link that the first end has called for, which is not installed yet.
fn link([(caller, _), (called, _)]: &mut [(Own, Verbs); 2]) -> [Peer; 2] {
    let [near, far] = sockets();
    let (offer, answer) = (caller.offer().unwrap(), called.offer().unwrap());
    let (offered, answered) = (offer.address(), answer.address());
    let theirs = called.link(0, far.into(), answer, Some(offered), false).unwrap();
    [caller.link(1, near.into(), offer, Some(answered), true).unwrap(), theirs]
}

/// A link that is made again: its receive buffers are posted, and its queue pair is not known yet.
#[test]
fn nothing_is_sent_to_an_end_that_is_not_installed() {
    let Some(mut ends) = linked(Settings::NONE) else { return };
    let [ours, theirs] = link(&mut ends);
    let [(_, first), (_, second)] = &mut ends;
    second.install(0, theirs).unwrap();
    let mut sent = 0;
    let mut send = |second: &mut Verbs| {
        second.begin();
        sent += u64::from(second.post_small(0, &header(sent, 0), &[]));
        sent
    };
    for _ in 0..50 {
        send(second);
        // What has come is taken.
        first.begin();
        std::thread::sleep(Duration::from_millis(1));
    }
    first.install(1, ours).unwrap();
    until("the first packet", || send(second) > 0);
    let mut came = None;
    until("its arrival", || {
        first.begin();
        second.begin();
        came = shown(first.peek_small(1)).unwrap();
        came.is_some()
    });
    assert_eq!(came.unwrap().0.tag, 0);
}

fn header(number: u64, payload: usize) -> Header {
    Header { tag: number, len: payload as u64, payload: payload as u32, ..Header::new(Kind::Eager) }
}

fn span(bytes: &[u8]) -> Span {
    // SAFETY: the tests keep the bytes longer than the spans.
    unsafe { Span::new(bytes.as_ptr(), bytes.len()) }
}

/// What a peek shows, with the payload's bytes.
fn shown(peek: Peek) -> Result<Option<(Header, Vec<u8>)>, Cause> {
    match peek {
        Peek::Empty => Ok(None),
        Peek::Packet(header, payload) => {
            let mut bytes = vec![0; payload.len()];
            // SAFETY: the vector is as long; the payload is there until it is released.
            unsafe { payload.copy_to(bytes.as_mut_ptr()) };
            Ok(Some((header, bytes)))
        }
        Peek::Gone(cause) => Err(cause),
    }
}

fn bytes(number: u64) -> Vec<u8> {
    let len = [0, 1, 30, 200, 300, 4096, 8208][number as usize % 7];
    (0..len).map(|at| (at as u64 * 7 + number * 31) as u8).collect()
}

/// Waits until `done` says so; polls, and lets others run.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LIMIT, "{what} took too long");
        std::thread::yield_now();
    }
}

#[test]
fn both_tracks_carry_packets_in_order_both_ways_and_neither_waits_for_the_other() {
    const PACKETS: u64 = 500;
    let Some(mut pair) = pair() else { return };
    let long: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8).collect();
    let (mut sent, mut got) = ([0; 2], [0; 2]);
    let (mut gone, mut came) = ([0; 2], [vec![], vec![]]);
    until("all packets", || {
        for (side, driver) in pair.iter_mut().enumerate() {
            let peer = 1 - side as u32;
            driver.begin();
            let data = bytes(sent[side]);
            if sent[side] < PACKETS
                && driver.post_small(peer, &header(sent[side], data.len()), &[span(&data)])
            {
                sent[side] += 1;
            }
            let rest = span(&long).part(gone[side], usize::MAX);
            let data = Header { len: gone[side] as u64, ..Header::new(Kind::Data) };
            gone[side] += driver.post_large(peer, &data, rest);
            // The first side takes from the large track only when the small one is through.
            if (side == 1 || got[0] == PACKETS)
                && let Some((header, _)) = shown(driver.peek_large(peer)).unwrap()
            {
                assert_eq!(header.len as usize, came[side].len());
                let mut left = header.payload as usize;
                let mut room = vec![0; left];
                while left > 0 {
                    let at = room.len() - left;
                    // SAFETY: the vector has that much room behind `at`.
                    left -=
                        unsafe { driver.read_large(peer, room[at..].as_mut_ptr(), left.min(3000)) };
                }
                came[side].extend(room);
            }
            if let Some((header, payload)) = shown(driver.peek_small(peer)).unwrap() {
                assert_eq!(header.tag, got[side]);
                assert!(payload == bytes(got[side]), "packet {}", got[side]);
                driver.release(peer);
                got[side] += 1;
            }
        }
        got == [PACKETS; 2] && came.iter().all(|came| came.len() == long.len())
    });
    assert!(came.iter().all(|came| *came == long));
    until("the end of all requests", || {
        pair.iter_mut().enumerate().all(|(side, driver)| {
            driver.begin();
            driver.is_flushed(1 - side as u32)
        })
    });
}

fn is_readable(driver: &Verbs, ms: libc::c_int) -> bool {
    let (fd, events) = (driver.ready().unwrap().fd(), libc::POLLIN);
    let mut poll = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: one entry of a local.
    unsafe { libc::poll(&raw mut poll, 1, ms) == 1 }
}

/// Arms, and polls, until nothing is left.
fn sleep_of(driver: &mut Verbs) {
    loop {
        driver.arm(Rings::ALL);
        driver.begin();
        if !is_readable(driver, 0) {
            return;
        }
    }
}

#[test]
fn a_sleeper_is_woken_by_a_packet_by_room_and_by_nothing_else() {
    let Some([mut first, mut second]) = pair() else { return };
    until("the caller's byte", || {
        second.begin();
        second.waiting == 0
    });
    sleep_of(&mut second);
    assert!(!is_readable(&second, 50), "nothing has come");
    for number in 0..20 {
        assert!(first.post_small(1, &header(number, 0), &[]));
        assert!(is_readable(&second, 10_000), "packet {number} was slept through");
        sleep_of(&mut second);
        assert_eq!(shown(second.peek_small(0)).unwrap().unwrap().0.tag, number);
        second.release(0);
        second.begin();
        until("the credit", || {
            first.begin();
            first.links.peer(1).unwrap().granted(Track::Small) > 0
        });
    }
    // The last word of credit may be on its way still: it would wake the sleeper below.
    until("all credit", || {
        first.begin();
        first.links.peer(1).unwrap().granted(Track::Small) == 8
    });
    // Until nothing is granted any more; then the peer releases.
    while first.post_small(1, &header(0, 0), &[]) {}
    sleep_of(&mut first);
    assert!(!is_readable(&first, 50), "no packet was released");
    until("all packets", || {
        second.begin();
        let any = shown(second.peek_small(0)).unwrap().is_some();
        second.release(0);
        second.begin();
        any && first.links.peer(1).is_some() && is_readable(&first, 0)
    });
    sleep_of(&mut first);
    assert!(first.post_small(1, &header(0, 0), &[]));
}

#[test]
fn a_link_that_came_to_nothing_takes_no_receive_buffers_with_it() {
    let Some(mut ends) = ends(Settings::NONE) else { return };
    drop(link(&mut ends));
    let [ours, theirs] = link(&mut ends);
    let [(_, first), (_, second)] = &mut ends;
    second.install(0, theirs).unwrap();
    first.install(1, ours).unwrap();
    assert!(first.post_small(1, &header(3, 0), &[]));
    until("a packet, for which there has to be a buffer", || {
        second.begin();
        shown(second.peek_small(0)).unwrap().is_some()
    });
}

#[test]
fn a_queue_pair_that_fails_ends_the_link_on_both_sides() {
    let Some([mut first, mut second]) = pair() else { return };
    assert!(first.post_small(1, &header(7, 0), &[]));
    until("the packet", || {
        second.begin();
        shown(second.peek_small(0)).unwrap().is_some()
    });
    first.links.peer(1).unwrap().pair.fail();
    // A request to send tells, or the adapter's event.
    until("the failure", || {
        first.begin();
        first.post_small(1, &header(8, 0), &[]);
        shown(first.peek_small(1)).is_err()
    });
    assert!(matches!(first.peek_large(1), Peek::Gone(Cause::Broken(_))));
    first.close(1);
    assert!(matches!(first.peek_small(1), Peek::Empty), "it is closed");
    // What came before the end is still there.
    until("the end", || {
        second.begin();
        second.ends || second.links.peer(0).unwrap().ends
    });
    second.begin();
    assert_eq!(shown(second.peek_small(0)).unwrap().unwrap().0.tag, 7);
    second.release(0);
    assert!(shown(second.peek_small(0)).is_err());
}

#[test]
fn an_event_of_the_adapter_ends_its_links() {
    let Some([mut first, _second]) = pair() else { return };
    let number = first.links.peer(1).unwrap().pair.number();
    first.on_event(Event::Other);
    first.on_event(Event::QueuePair(number ^ 0x80_0000));
    assert!(matches!(first.peek_small(1), Peek::Empty));
    first.on_event(Event::QueuePair(number));
    assert!(matches!(first.peek_small(1), Peek::Gone(Cause::Broken(libc::ECONNABORTED))));
}

/// Memory of its own, which is unmapped when it is dropped.
pub(super) struct Mapped(*mut u8, usize);

impl Mapped {
    fn new(len: usize, protection: libc::c_int) -> Mapped {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping where the kernel likes.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Mapped(at.cast(), len)
    }

    /// Memory of which each byte is one.
    pub(super) fn ones(len: usize) -> Mapped {
        let mapped = Mapped::new(len, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: its own memory.
        unsafe { std::ptr::write_bytes(mapped.0, 1, len) };
        mapped
    }

    fn protect(&self) {
        // SAFETY: its own memory.
        assert_eq!(unsafe { libc::mprotect(self.0.cast(), self.1, libc::PROT_READ) }, 0);
    }

    pub(super) fn at(&self) -> *mut u8 {
        self.0
    }

    /// Unmaps it and maps it again at the same place, or has the kernel forget what is in it.
    pub(super) fn renew(&self, maps: bool) {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: its own memory, and nothing has been mapped there meanwhile but by this.
        unsafe {
            if maps {
                let at = libc::mmap(self.0.cast(), self.1, protection, flags, -1, 0);
                assert_eq!(at, self.0.cast());
            } else {
                assert_eq!(libc::madvise(self.0.cast(), self.1, libc::MADV_DONTNEED), 0);
            }
        }
        assert_eq!(self.byte(0), 0);
    }

    pub(super) fn fill(&self, byte: u8) {
        // SAFETY: its own memory; no read is under way.
        unsafe { std::ptr::write_bytes(self.0, byte, self.1) };
    }

    pub(super) fn byte(&self, at: usize) -> u8 {
        assert!(at < self.1);
        // SAFETY: inside; no read is under way.
        unsafe { self.0.add(at).read() }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: its own memory.
        unsafe { libc::munmap(self.0.cast(), self.1) };
    }
}

fn register(driver: &mut Verbs, mapped: &Mapped, access: Access) -> Ticket {
    let peer = (0..2).find(|&peer| driver.links.peer(peer).is_some()).unwrap();
    // SAFETY: the tests keep the memory as long as they read.
    unsafe { driver.register(peer, mapped.0, mapped.1, access) }.unwrap()
}

/// What a driver tells of a piece, once it does.
fn event_of(driver: &mut Verbs, ticket: Ticket) -> RdmaEvent {
    let mut told = None;
    until("an event", || {
        driver.begin();
        told = driver.rdma_event();
        told.is_some()
    });
    let (of, event) = told.unwrap();
    assert_eq!(of, ticket);
    event
}

fn key(driver: &mut Verbs, source: Ticket) -> u32 {
    match event_of(driver, source) {
        RdmaEvent::Registered { key } => key,
        other => panic!("{other:?}"),
    }
}

/// Two drivers, of which the second has begun to read 64 KiB of ones from the first into memory of zeros, which is given
/// back, with its ticket. `from`: whether the first answers.
fn reading(answers: bool) -> Option<([Verbs; 2], [Mapped; 2], Ticket)> {
    const LEN: usize = 64 * 1024;
    let [mut first, mut second] = pair()?;
    let (from, to) = (Mapped::ones(LEN), Mapped::new(LEN, libc::PROT_READ | libc::PROT_WRITE));
    until("the caller's byte", || {
        second.begin();
        second.waiting == 0
    });
    let source = register(&mut first, &from, Access::Source);
    let target = register(&mut second, &to, Access::Target);
    let key = key(&mut first, source);
    if !answers {
        first.links.peer(1).unwrap().pair.fail();
    }
    // SAFETY: the memory is kept.
    unsafe { second.read(target, from.0 as u64, key) };
    until("the post of the read", || {
        second.begin();
        second.pieces.as_ref().unwrap().reads() > 0 || answers
    });
    Some(([first, second], [from, to], target))
}

fn is_idle(driver: &Verbs) -> bool {
    driver.under_way == 0 && driver.pieces.as_ref().unwrap().is_idle()
}

#[test]
fn an_adapter_reads_what_is_registered_and_wakes_a_sleeper() {
    let Some(([mut first, mut second], [_from, to], target)) = reading(true) else { return };
    assert_eq!(event_of(&mut second, target), RdmaEvent::Read);
    assert!((0..64 * 1024).all(|at| to.byte(at) == 1));
    // A second one, of which a sleeping thread is to hear: the post wakes it, and then the end.
    let (from, to) = (Mapped::ones(4096), Mapped::new(4096, libc::PROT_READ | libc::PROT_WRITE));
    let source = register(&mut first, &from, Access::Source);
    let again = register(&mut second, &to, Access::Target);
    let key = key(&mut first, source);
    // SAFETY: the memory is kept.
    unsafe { second.read(again, from.0 as u64, key) };
    let mut told = None;
    until("the end of a read, slept for", || {
        second.arm(Rings::ALL);
        second.begin();
        told = second.rdma_event();
        told.is_some() || {
            assert!(is_readable(&second, 10_000), "the end of the read was slept through");
            false
        }
    });
    assert_eq!(told, Some((again, RdmaEvent::Read)));
    assert_eq!((to.byte(0), to.byte(4095)), (1, 1));
    second.unregister(again);
    second.unregister(target);
    until("the end of all that is registered", || {
        second.begin();
        is_idle(&second)
    });
    // Two ends of one event are none.
    second.unregister(again);
    assert!(is_idle(&second) && second.rdma_event().is_none());
}

#[test]
fn memory_that_cannot_be_registered_is_refused() {
    let Some([mut first, _second]) = pair() else { return };
    let readable = Mapped::ones(4096);
    readable.protect();
    let source = register(&mut first, &readable, Access::Source);
    key(&mut first, source);
    let target = register(&mut first, &readable, Access::Target);
    assert_eq!(event_of(&mut first, target), RdmaEvent::Refused);
    let closed = Mapped::new(4096, libc::PROT_NONE);
    let nothing = register(&mut first, &closed, Access::Source);
    assert_eq!(event_of(&mut first, nothing), RdmaEvent::Refused);
    // A read that waits for memory which is refused ends so, too.
    let target = register(&mut first, &closed, Access::Target);
    // SAFETY: nothing is written to what cannot be registered.
    unsafe { first.read(target, 4096, 1) };
    assert_eq!(event_of(&mut first, target), RdmaEvent::Refused);
    for ticket in [source, nothing, target] {
        first.unregister(ticket);
    }
    assert_eq!(first.pieces.as_ref().unwrap().counts(), (0, 0, 0));
}

#[test]
fn no_more_is_registered_than_there_are_places() {
    let Some([mut first, _second]) = pair() else { return };
    let memory = Mapped::ones(4096);
    let all: Vec<_> =
        (0..pieces::PLACES).map(|_| register(&mut first, &memory, Access::Source)).collect();
    // SAFETY: the memory is kept.
    let more = unsafe { first.register(1, memory.0, 4096, Access::Source) };
    assert_eq!(more, None);
    all.iter().for_each(|&ticket| first.unregister(ticket));
    until("free places", || {
        first.begin();
        is_idle(&first)
    });
    assert!(first.rdma_event().is_none(), "what was left tells nothing");
}

/// The peer does not answer, and the adapter would try for two seconds and more.
#[test]
fn reads_end_soon_after_their_link_is_closed_and_not_before() {
    let Some(([_first, mut second], [_from, to], target)) = reading(false) else { return };
    second.begin();
    assert_eq!(second.rdma_event(), None, "the read goes on");
    let begin = Instant::now();
    second.close(0);
    assert_eq!(second.rdma_event(), None, "it goes on until the adapter says that it does not");
    assert_eq!(event_of(&mut second, target), RdmaEvent::Broken);
    assert!(begin.elapsed() < Duration::from_millis(1500), "{:?}", begin.elapsed());
    assert_eq!(to.byte(0), 0);
    second.unregister(target);
    until("the end of all that is registered", || {
        second.begin();
        is_idle(&second)
    });
}

/// Of 40 reads over a link, of which the first ones are posted at once. `answers`: whether the peer does.
fn many_reads(answers: bool) -> Option<([Verbs; 2], Vec<Mapped>, Vec<Ticket>)> {
    const LEN: usize = 32 * 1024;
    let [mut first, mut second] = pair()?;
    until("the caller's byte", || {
        second.begin();
        second.waiting == 0
    });
    let mut memory = vec![Mapped::ones(LEN)];
    let source = register(&mut first, &memory[0], Access::Source);
    let key = key(&mut first, source);
    if !answers {
        first.links.peer(1).unwrap().pair.fail();
    }
    let mut targets = vec![];
    for _ in 0..40 {
        let to = Mapped::new(LEN, libc::PROT_READ | libc::PROT_WRITE);
        let target = register(&mut second, &to, Access::Target);
        // SAFETY: the memory is kept.
        unsafe { second.read(target, memory[0].0 as u64, key) };
        memory.push(to);
        targets.push(target);
    }
    Some(([first, second], memory, targets))
}

#[test]
fn a_link_has_two_reads_under_way_at_a_time() {
    let Some(([_first, mut second], memory, targets)) = many_reads(true) else { return };
    let (mut ends, mut most) = (vec![], 0);
    until("all reads", || {
        second.begin();
        let reads = second.pieces.as_ref().unwrap().reads();
        assert_eq!(second.links.peer(0).unwrap().reads(), reads);
        most = most.max(reads);
        ends.extend(std::iter::from_fn(|| second.rdma_event()));
        ends.len() == targets.len()
    });
    assert_eq!(most, READS_OF_LINK);
    assert!(ends.iter().all(|&(_, event)| event == RdmaEvent::Read));
    assert!(memory.iter().all(|to| to.byte(0) == 1));
    assert_eq!(second.links.peer(0).unwrap().reads(), 0);
}

#[test]
fn a_new_link_does_not_count_the_reads_of_the_old_one() {
    let Some(([_first, mut second], _memory, targets)) = many_reads(false) else { return };
    until("the posts of reads", || {
        second.begin();
        second.links.peer(0).unwrap().reads() == READS_OF_LINK
    });
    let Some([(mut caller, _), _]) = ends(Settings::NONE) else { return };
    let [near, _far] = sockets();
    let offer = caller.offer().unwrap();
    let address = offer.address();
    let link = caller.link(1, near.into(), offer, Some(address), true).unwrap();
    second.close(0);
    second.install(0, link).unwrap();
    assert_eq!(second.links.peer(0).unwrap().reads(), 0);
    let mut ends = vec![];
    until("the ends of reads", || {
        second.begin();
        ends.extend(std::iter::from_fn(|| second.rdma_event()));
        ends.len() == targets.len()
    });
    assert!(ends.iter().all(|&(_, event)| event == RdmaEvent::Broken));
    assert_eq!((second.under_way, second.pieces.as_ref().unwrap().counts()), (0, (0, 0, 0)));
}

#[test]
fn a_new_link_ends_the_reads_over_the_old_one() {
    let Some(([_first, mut second], _memory, target)) = reading(false) else { return };
    let Some([(mut caller, _), _]) = ends(Settings::NONE) else { return };
    let [near, _far] = sockets();
    let offer = caller.offer().unwrap();
    let address = offer.address();
    let link = caller.link(1, near.into(), offer, Some(address), true).unwrap();
    second.install(0, link).unwrap();
    assert_eq!(second.rdma_event(), Some((target, RdmaEvent::Broken)));
    assert_eq!(second.under_way, 0);
}

/// The end of a session, while a read goes on: the queue pairs go first.
#[test]
fn a_driver_that_ends_leaves_no_read_behind() {
    let Some(([first, mut second], [from, to], _)) = reading(false) else { return };
    second.close(0);
    drop(second);
    drop((from, to));
    drop(first);
}

#[test]
fn a_link_that_is_closed_reads_nothing() {
    let Some([mut first, _second]) = pair() else { return };
    assert!(first.can_read(1));
    let to = Mapped::new(4096, libc::PROT_READ | libc::PROT_WRITE);
    let target = register(&mut first, &to, Access::Target);
    first.close(1);
    assert!(!first.can_read(1));
    // SAFETY: the memory is kept.
    unsafe { first.read(target, 4096, 1) };
    assert_eq!(event_of(&mut first, target), RdmaEvent::Broken);
}

/// Channels after a few packets.
pub(super) const FEW: Settings = Settings {
    limit: 1 << 20,
    shrink: Shrink::Normalisation,
    rules: Rules { after: 10, window: 40, reshapes: None, fixed: None },
};

/// What the connection manager's thread does.
fn manage(ends: &mut [(Own, Verbs); 2]) {
    for (own, driver) in ends {
        while let Some(event) = own.event() {
            driver.on_event(event);
        }
    }
}

/// Sends numbered packets of `len` bytes from the first side to the second, up to that number, while both poll; fails
/// if one is lost or out of order.
fn exchange(ends: &mut [(Own, Verbs); 2], (mut next, until_number): (u64, u64), len: usize) {
    let data = vec![7; len];
    let (mut expected, mut rounds) = (next, 0u32);
    until("numbered packets", || {
        manage(ends);
        let [(_, first), (_, second)] = &mut *ends;
        first.begin();
        second.begin();
        if next < until_number && first.post_small(1, &header(next, len), &[span(&data)]) {
            next += 1;
        }
        // The receiver is a little slower.
        rounds += 1;
        if rounds.is_multiple_of(3) {
            while let Some((header, payload)) = shown(second.peek_small(0)).unwrap() {
                assert_eq!(header.tag, expected);
                assert!(payload == data, "packet {expected}");
                second.release(0);
                expected += 1;
            }
        }
        expected == until_number
    });
}

#[test]
fn packets_go_through_a_channel_that_changes_its_shape_meanwhile_in_order() {
    let Some(mut ends) = linked(FEW) else { return };
    exchange(&mut ends, (0, 300), 100);
    let through = |ends: &[(Own, Verbs); 2]| ends[0].1.counts.get(Count::Ring);
    let small = through(&ends);
    assert!(small > 100, "{small} of 300 packets went through the channel");
    let shape = |ends: &mut [(Own, Verbs); 2]| {
        ends[1].1.links.peer(0).unwrap().eager.as_ref().unwrap().come.shape()
    };
    let before = shape(&mut ends);
    assert_eq!(before.size, 192, "100 bytes, a header, and the tail");
    // Longer ones: another shape, while they go on.
    exchange(&mut ends, (300, 700), 3000);
    let after = shape(&mut ends);
    assert!(after.size > 3000, "{before:?} became {after:?}");
    assert!(through(&ends) > small + 100);
    assert!(ends[1].1.counts.get(Count::Opened) >= 2);
    let held = ends[1].1.counts.get(Count::Memory);
    assert_eq!(held, after.bytes());
}

#[test]
fn a_request_beyond_the_limit_is_declined_and_packets_go_on() {
    let settings = Settings { limit: 100, ..FEW };
    let Some(mut ends) = linked(settings) else { return };
    exchange(&mut ends, (0, 300), 100);
    assert!(ends[1].1.counts.get(Count::Declines) >= 2, "it asks again");
    assert_eq!(ends[0].1.counts.get(Count::Ring), 0);
}

#[test]
fn a_process_without_channels_gives_no_answer_and_packets_go_on() {
    let Some([caller, _]) = ends(FEW) else { return };
    let Some([_, called]) = ends(Settings::NONE) else { return };
    let mut ends = [caller, called];
    let [ours, theirs] = link(&mut ends);
    ends[1].1.install(0, theirs).unwrap();
    ends[0].1.install(1, ours).unwrap();
    exchange(&mut ends, (0, 200), 100);
    assert_eq!(ends[0].1.counts.get(Count::Ring), 0);
}

#[test]
fn a_sleeper_beside_a_slot_is_woken_by_the_sender_or_by_its_timer() {
    let Some(mut ends) = linked(FEW) else { return };
    exchange(&mut ends, (0, 300), 100);
    for (round, computes) in (0..20).map(|round| (round, round % 2 == 0)) {
        let [(_, first), (_, second)] = &mut ends;
        until("a receiver that polls", || {
            first.begin();
            second.begin();
            first.links.peer(1).unwrap().route(100) == Route::Ring
        });
        until("the end of requests", || {
            second.begin();
            first.begin();
            first.is_flushed(1) && second.is_flushed(0)
        });
        // The sender does not see that the receiver sleeps: it does not look.
        sleep_of(second);
        let before = first.counts.get(Count::Ring);
        let number = 1000 + round;
        assert!(first.post_small(1, &header(number, 0), &[]));
        assert_eq!(first.counts.get(Count::Ring), before + 1, "it went through the channel");
        let start = Instant::now();
        loop {
            if !computes {
                first.begin();
            }
            if is_readable(second, 5) {
                sleep_of(second);
                if shown(second.peek_small(0)).unwrap().is_some() {
                    break;
                }
            }
            assert!(start.elapsed() < LIMIT, "packet {number} was slept through");
        }
        assert_eq!(shown(second.peek_small(0)).unwrap().unwrap().0.tag, number);
        second.release(0);
        // What the sender sends now goes the other way.
        if !computes {
            until("the word", || {
                first.begin();
                first.links.peer(1).unwrap().route(0) == Route::Sleeps
            });
        }
    }
    let [(_, first), (_, second)] = &ends;
    assert!(first.counts.get(Count::Wakes) > 0 && second.counts.get(Count::Naps) > 0);
}

#[test]
fn a_sleeper_beside_threads_that_poll_and_stop_is_woken() {
    let Some(mut ends) = linked(FEW) else { return };
    exchange(&mut ends, (0, 300), 100);
    let [(_, first), (_, second)] = &mut ends;
    for number in 1000..1005 {
        sleep_of(second);
        // Another thread of the process polls on and on: the sender uses the channel.
        until("a receiver that polls", || {
            first.begin();
            second.begin();
            first.links.peer(1).unwrap().route(100) == Route::Ring
        });
        let before = first.counts.get(Count::Ring);
        assert!(first.post_small(1, &header(number, 0), &[]));
        assert_eq!(first.counts.get(Count::Ring), before + 1);
        // It stops, and only the sleeper is left; the sender computes.
        assert!(is_readable(second, 10_000), "packet {number} was slept through");
        until("the packet", || {
            sleep_of(second);
            shown(second.peek_small(0)).unwrap().is_some()
        });
        second.release(0);
    }
}

#[test]
fn a_link_that_fails_while_a_channel_is_used_takes_its_memory_with_it() {
    let Some(mut ends) = linked(FEW) else { return };
    exchange(&mut ends, (0, 300), 100);
    assert!(ends[1].1.counts.get(Count::Memory) > 0);
    ends[0].1.links.peer(1).unwrap().pair.fail();
    until("the failure", || {
        let [(_, first), (_, second)] = &mut ends;
        first.begin();
        first.post_small(1, &header(8, 0), &[]);
        let fails = shown(first.peek_small(1)).is_err();
        if fails {
            first.close(1);
        }
        second.rounds = u32::MAX;
        second.begin();
        let ended = shown(second.peek_small(0)).is_err();
        second.release(0);
        ended
    });
    ends[1].1.close(0);
    manage(&mut ends);
    assert_eq!(ends[1].1.counts.get(Count::Memory), 0);
    assert!(!ends[1].1.links.peer(0).unwrap().eager.as_ref().unwrap().has_memory());
}
