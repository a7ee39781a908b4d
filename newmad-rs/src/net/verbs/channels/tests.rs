//! Both ends of a channel over a network that does what reliable connections promise, and nothing more: any
//! interleaving.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::control::{Message, Place};
use super::doze::Word;
use super::incoming::{Incoming, Path, Tail};
use super::outgoing::{Outgoing, Route, Rules};
use super::window::{Shape, TAIL};

const LONGEST: u32 = 640;

/// What is under way to the receiver.
#[derive(Clone, Copy, Debug)]
enum Item {
    Packet { number: u64, behind: Option<u32> },
    Slot { target: Place, tail: Tail, number: u64 },
    Control(Message),
    Wake,
}

/// What is under way to the sender.
#[derive(Clone, Copy, Debug)]
enum Back {
    Control(Message),
    Word(u64),
}

/// One ring: what is written in its slots, and not released.
struct Ring {
    shape: Shape,
    slots: Vec<Option<(Tail, u64)>>,
}

struct World {
    out: Outgoing,
    come: Incoming,
    there: VecDeque<Item>,
    back: VecDeque<Back>,
    /// The word in the sender's memory.
    word: u64,
    /// Of all memory that there is or was, by key; `None`: it is given back.
    rings: BTreeMap<u32, Option<Ring>>,
    ring: u32,
    arrived: VecDeque<(u64, u32)>,
    shown: Option<Path>,
    sent: u64,
    got: u64,
    by_ring: u64,
    now: u64,
    /// When the receiver that sleeps wakes up by itself.
    timer: Option<u64>,
    /// Something has come that wakes a sleeper.
    woken: bool,
    opened: u32,
}

impl World {
    fn new(rules: Rules) -> World {
        World {
            out: Outgoing::new(Some(Place { address: 7, key: 7 }), rules, LONGEST),
            come: Incoming::new(),
            there: VecDeque::new(),
            back: VecDeque::new(),
            word: 0,
            rings: BTreeMap::new(),
            ring: 0,
            arrived: VecDeque::new(),
            shown: None,
            sent: 0,
            got: 0,
            by_ring: 0,
            now: 0,
            timer: None,
            woken: false,
            opened: 0,
        }
    }

    fn send(&mut self, len: usize) {
        let number = self.sent;
        self.sent += 1;
        let route = self.out.route(len);
        self.there.push_back(match route {
            Route::Ring => {
                self.by_ring += 1;
                let (target, tail) = self.out.target(len);
                Item::Slot { target, tail, number }
            }
            _ => Item::Packet { number, behind: self.out.behind() },
        });
        self.out.posted(route, len);
        if route != Route::Ring && number.is_multiple_of(2) {
            self.out.over(len);
        }
    }

    /// Something arrives: slots in any order, the others in theirs and after all slots written before.
    fn arrive(&mut self, pick: usize) {
        let slots = self.there.iter().take_while(|item| matches!(item, Item::Slot { .. })).count();
        let Some(item) = self.there.remove(pick % slots.max(1)) else { return };
        match item {
            Item::Slot { target, tail, number } => {
                let ring = self.rings.get_mut(&target.key).expect("a ring that never was");
                let ring = ring.as_mut().expect("a write to memory that was given back");
                let end = target.address as usize + tail.len as usize + TAIL;
                let size = ring.shape.size as usize;
                assert_eq!(end % size, 0, "a slot's packet ends at its end");
                assert!(tail.len as usize + TAIL <= size);
                let slot = ring.slots.get_mut(end / size - 1).expect("a slot of the ring");
                assert!(slot.is_none(), "a slot is written that is not released");
                *slot = Some((tail, number));
            }
            Item::Packet { number, behind } => {
                self.arrived.push_back((number, behind.unwrap_or(0)));
                self.woken = true;
            }
            Item::Control(message) => {
                self.come.on_message(message).expect("a message of an honest sender");
                self.woken = true;
            }
            Item::Wake => self.woken = true,
        }
    }

    fn arrive_back(&mut self) {
        match self.back.pop_front() {
            Some(Back::Word(word)) => self.word = word,
            Some(Back::Control(message)) => {
                self.out.on_message(message).expect("a message of an honest receiver");
                self.look();
            }
            None => {}
        }
    }

    fn look(&mut self) {
        self.out.look(Word::of_bits(self.word)).expect("the word of an honest receiver");
    }

    /// What the driver does at the beginning of a round of the sender.
    fn sender_progresses(&mut self) {
        self.look();
        if self.out.take_wake() {
            self.there.push_back(Item::Wake);
        }
        if let Some(message) = self.out.take_message() {
            self.there.push_back(Item::Control(message));
        }
        let controls = self.there.iter().filter(|item| matches!(item, Item::Control(_))).count();
        assert!(controls <= 2, "the link has buffers for two");
    }

    fn receiver_tells(&mut self) {
        if let Some((place, word)) = self.come.take_word() {
            assert_eq!(place, Place { address: 7, key: 7 });
            self.back.push_back(Back::Word(word));
        }
        if let Some(message) = self.come.take_message() {
            self.back.push_back(Back::Control(message));
        }
        let controls = self.back.iter().filter(|item| matches!(item, Back::Control(_))).count();
        assert!(controls <= 2, "the link has buffers for two");
    }

    /// As `Peer::peek_small` and `release`; false: nothing is there.
    fn take(&mut self) -> bool {
        let slot = self.rings.get_mut(&self.ring).and_then(Option::as_mut).and_then(|ring| {
            let place = self.come.end_of_slot() / (ring.shape.size as usize) - 1;
            ring.slots.get_mut(place)
        });
        let ready = slot.and_then(|slot| {
            let (tail, number) = (*slot)?;
            let last = u64::from(tail.len) | u64::from(tail.sequence) << 32;
            let shown = self.come.show_slot(last, tail.before).expect("an honest slot");
            (shown? == tail.len as usize).then_some((slot, number))
        });
        let packet = self.arrived.front().filter(|&&(_, behind)| self.come.may_show_packet(behind));
        let (path, number) = match (ready, packet) {
            (Some(_), Some(_)) => panic!("two packets are the next"),
            (Some((slot, number)), None) => {
                *slot = None;
                (Path::Ring, number)
            }
            (None, Some(&(number, _))) => (Path::Receive, number),
            (None, None) => return false,
        };
        self.shown = Some(path);
        assert_eq!(number, self.got, "the order is kept");
        self.got += 1;
        match path {
            Path::Ring => self.come.release_slot(),
            Path::Receive => {
                self.arrived.pop_front();
                self.come.release_packet();
            }
        }
        true
    }

    /// What the connection manager's thread does.
    fn manage(&mut self, pick: u8) {
        if let Some((shape, _)) = self.come.request() {
            match pick % 4 {
                0 => self.come.decline(),
                1 => self.come.accept(shape.within(200)),
                _ => self.come.accept(shape),
            }
        }
        if let Some(wish) = self.come.wish() {
            if let Some(old) = self.rings.get_mut(&self.ring) {
                let old = old.take().unwrap();
                assert!(old.slots.iter().all(Option::is_none), "a slot was given back undelivered");
            }
            self.ring = 0;
            let shape = if pick % 8 == 7 { Shape::NONE } else { wish };
            if !shape.is_none() {
                self.opened += 1;
                self.ring = self.opened;
                let slots = vec![None; shape.slots as usize];
                self.rings.insert(self.ring, Some(Ring { shape, slots }));
            }
            self.come.made(shape, Place { address: 0, key: self.ring });
        }
    }

    fn step(&mut self, step: u8, pick: u8) {
        match step % 16 {
            0..=4 => self.send(usize::from(pick) * 2 + 1),
            5 | 6 => self.arrive(pick.into()),
            7 => self.arrive_back(),
            8 | 9 => _ = self.take(),
            10 => self.sender_progresses(),
            11 => self.receiver_tells(),
            12 => self.manage(pick),
            13 => {
                self.now += u64::from(pick) * 10_000;
                self.come.arm(self.now);
            }
            14 => (0..40).for_each(|_| _ = self.come.polled()),
            _ if pick < 60 => self.come.shrink(self.come.shape().within(u64::from(pick) * 20)),
            _ => {}
        }
    }

    /// All that is under way arrives, both ways; the connection manager's thread works if `makes`.
    fn exchange(&mut self, makes: bool) {
        self.sender_progresses();
        while !self.there.is_empty() {
            self.arrive(0);
        }
        if makes {
            self.manage(2);
        }
        self.receiver_tells();
        while !self.back.is_empty() {
            self.arrive_back();
        }
        while self.take() {}
    }

    /// A ring whose receiver polls is replaced, if there is one: the connection manager's thread has not begun.
    fn wait_for_ring(&mut self) {
        (0..40).for_each(|_| _ = self.come.polled());
        self.come.shrink(self.come.shape());
        (0..3).for_each(|_| self.exchange(false));
    }

    /// The receiver goes to sleep, as a thread does: arms, and looks once more.
    fn sleep(&mut self) {
        self.timer = self.come.arm(self.now);
        self.receiver_tells();
        while self.take() {}
        self.woken = false;
    }
}

fn rules() -> impl Strategy<Value = Rules> {
    let fixed = prop_oneof![
        Just(None),
        (2u32..6, 1u32..10).prop_map(|(slots, lines)| Some(Shape { slots, size: lines * 64 })),
    ];
    (1u32..10, 1u32..20, proptest::option::of(0u32..3), fixed)
        .prop_map(|(after, window, reshapes, fixed)| Rules { after, window, reshapes, fixed })
}

fn steps(most: usize) -> impl Strategy<Value = Vec<(u8, u8)>> {
    proptest::collection::vec(any::<(u8, u8)>(), 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Through opening, reshaping, shrinking and ending, at any moment.
    #[test]
    fn packets_keep_their_order_and_none_is_lost(rules in rules(), steps in steps(600)) {
        let mut world = World::new(rules);
        for (step, pick) in steps {
            world.step(step, pick);
        }
        for _ in 0..1000 {
            world.arrive(0);
            world.arrive_back();
            while world.take() {}
            world.sender_progresses();
            world.receiver_tells();
            world.manage(2);
        }
        prop_assert_eq!(world.got, world.sent);
        prop_assert!(world.there.is_empty() && world.back.is_empty());
        // No handshake hangs: once more it is asked for, and used.
        let before = world.by_ring;
        for _ in 0..400 {
            world.send(1);
            world.sender_progresses();
            while !world.there.is_empty() {
                world.arrive(0);
            }
            world.manage(2);
            (0..40).for_each(|_| _ = world.come.polled());
            while world.take() {}
            world.receiver_tells();
            while !world.back.is_empty() {
                world.arrive_back();
            }
        }
        prop_assert_eq!(world.got, world.sent);
        prop_assert!(world.by_ring > before, "the channel is used again");
    }

    /// A receiver that sleeps is woken for every packet, if its sender makes progress; without the timer.
    #[test]
    fn no_sleeper_is_forgotten_by_a_sender_that_makes_progress(
        rules in rules(), steps in steps(400), waits in any::<bool>(), picks in steps(60),
    ) {
        let mut world = World::new(rules);
        for (step, pick) in steps {
            world.step(step, pick);
        }
        if waits {
            world.wait_for_ring();
        }
        world.sleep();
        // The sender sends some more, at any moment.
        for (step, pick) in picks {
            match step % 8 {
                // Few: a packet that is still under way wakes the receiver for all that came before.
                0 => world.send(usize::from(pick) + 1),
                1..=3 => world.arrive(pick.into()),
                4 | 5 => world.arrive_back(),
                // The connection manager's thread works while the others sleep.
                6 => {
                    world.manage(2);
                    world.receiver_tells();
                }
                _ => world.sender_progresses(),
            }
            if world.woken {
                world.sleep();
            }
        }
        for _ in 0..1000 {
            world.arrive(0);
            world.arrive_back();
            world.sender_progresses();
            if world.woken {
                world.sleep();
            }
        }
        // No packet waits for the connection manager: while it makes a ring, they go by send and receive.
        prop_assert_eq!(world.got, world.sent);
    }

    /// A sender that sends, and then computes and never looks: the timer finds what was written too late.
    #[test]
    fn no_sleeper_is_forgotten_by_a_sender_that_computes(
        rules in rules(), steps in steps(400), waits in any::<bool>(), told in 0usize..4, more in 0usize..5,
    ) {
        let mut world = World::new(rules);
        for (step, pick) in steps {
            world.step(step, pick);
        }
        if waits {
            world.wait_for_ring();
        }
        world.sleep();
        // The connection manager's thread works meanwhile, and what it says is the last that the sender hears.
        world.manage(2);
        world.receiver_tells();
        (0..told).for_each(|_| world.arrive_back());
        (0..more).for_each(|number| world.send(number * 50 + 1));
        while !world.there.is_empty() {
            world.arrive(3);
            if world.woken {
                world.sleep();
            }
        }
        if world.got < world.sent {
            // Nothing wakes it but the timer, for which it has asked.
            world.now = world.timer.expect("a sleeper with a ring has a timer");
            world.sleep();
        }
        prop_assert_eq!(world.got, world.sent);
    }
}

/// A world with a channel, one message, and a receiver of which the sender knows that it polls.
fn world_whose_receiver_polls() -> World {
    world_of_slots(4)
}

fn world_of_slots(slots: u32) -> World {
    let shape = Shape { slots, size: 64 };
    let rules = Rules { after: 1, window: 100, reshapes: None, fixed: Some(shape) };
    let mut world = World::new(rules);
    world.send(1);
    (0..3).for_each(|_| world.exchange(true));
    (0..40).for_each(|_| _ = world.come.polled());
    world.exchange(true);
    world.sender_progresses();
    world
}

/// Slots keep their turn, however many of them make up the ring, when their number passes 2^32.
#[test]
fn slots_follow_each_other_for_ever() {
    let mut world = world_of_slots(3);
    world.out.age(u32::MAX - 4);
    world.come.age(u32::MAX - 4);
    let before = world.by_ring;
    for _ in 0..5 {
        (0..3).for_each(|_| world.send(1));
        // Nothing is taken before all have arrived.
        (0..3).for_each(|_| world.arrive(0));
        world.exchange(true);
        world.sender_progresses();
    }
    assert!(world.by_ring - before > 6 && world.got == world.sent);
}

/// A receiver falls asleep while its ring is replaced, and the new one is made while it sleeps.
#[test]
fn a_ring_that_is_made_for_a_sleeper_is_not_taken_for_one_that_is_polled() {
    let mut world = world_whose_receiver_polls();
    assert_eq!(world.out.route(1), Route::Ring, "the receiver polls");
    world.wait_for_ring();
    assert!(!world.come.has_ring() && world.come.has_wish());
    world.sleep();
    (0..3).for_each(|_| world.exchange(true));
    assert!(world.come.has_ring() && !world.woken);
    assert_eq!(world.out.route(1), Route::Sleeps);
    world.send(1);
    world.exchange(true);
    assert!(world.woken);
    assert_eq!(world.got, 2);
}

/// The tests above would see a sleeper that is forgotten: here the wake-up is.
#[test]
fn a_sleeper_without_wake_ups_would_be_forgotten() {
    let mut world = world_whose_receiver_polls();
    // The receiver falls asleep, and the sender does not know it yet.
    world.sleep();
    world.send(1);
    assert_eq!(world.by_ring, 1);
    world.arrive(0);
    assert!(!world.woken && world.got == 1, "it sleeps beside the slot");
    world.arrive_back();
    world.sender_progresses();
    world.arrive(0);
    assert!(world.woken);
    world.sleep();
    assert_eq!(world.got, 2);
}
