//! The driver, and the guards of pollers, the leader and the pacer. The folder's description has the invariant.

use std::io;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

use marcel::Load;
use marcel::plumbing::Sleeper;

use crate::driver::background::Background;
use crate::driver::dedicated::Dedicated;
use crate::driver::helper::Helper;
use crate::driver::idle_poller::IdlePoller;
use crate::driver::interrupt::ask_for_signal;
use crate::driver::leadership::Leadership;
use crate::driver::methods::{Methods, Plan};
use crate::driver::offers::{Glance, Offers};
use crate::ltask::scheduler::Tasks;
use crate::observe::ledger::{Ledger, Tells};
use crate::observe::{Counters, SourceCounters};
use crate::progress::advisor::{Advisor, Question};
use crate::progress::machine::Machine;
use crate::progress::point::Point;
use crate::progress::policy::contract::Asker;
use crate::progress::policy::hints::{Hint, Method};
use crate::progress::pollers::{Pollers, bits};
use crate::progress::registry::{Pinned, Registered, Registry};
use crate::progress::source::{MAX, Source};
use crate::stderr::say;

/// What a manager shares with its kernel threads. See the description of the folder.
pub(crate) struct Driver {
    pub(crate) machine: Arc<Machine>,
    pub(crate) registry: Registry,
    pub(crate) advisor: Advisor,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) ledger: Ledger,
    pub(super) pollers: Pollers<MAX>,
    pub(super) leadership: Leadership,
    pub(super) background: Background,
    pub(super) dedicated: Dedicated,
    pub(super) methods: Methods,
    pub(super) idle: IdlePoller,
    pub(super) helper: Helper,
    pub(super) offers: Offers,
    /// Threads inside a wait; counted only while progress outside calls is off.
    pub(super) waiting: AtomicUsize,
}

impl Driver {
    /// # Errors
    /// The kernel gives no descriptors.
    pub(crate) fn new(
        machine: Arc<Machine>,
        registry: Registry,
        advisor: Advisor,
        tasks: Arc<Tasks>,
        ledger: Ledger,
    ) -> io::Result<Driver> {
        Ok(Driver {
            machine,
            registry,
            advisor,
            tasks,
            ledger,
            pollers: Pollers::new(),
            leadership: Leadership::new()?,
            background: Background::new()?,
            dedicated: Dedicated::default(),
            methods: Methods::default(),
            idle: IdlePoller::default(),
            helper: Helper::new(),
            offers: Offers::default(),
            waiting: AtomicUsize::new(0),
        })
    }

    /// Looks for events once.
    #[inline]
    pub(crate) fn poll(&self, point: Point) -> bool {
        self.registry.pin().poll(point)
    }

    /// Polls until nothing is left, within bounds: events coalesce, and one wake-up may stand for many. A bit for each source
    /// that had some.
    pub(super) fn drain(&self, point: Point, sources: &Pinned<'_>, these: u64) -> u64 {
        let mut all = 0;
        for _ in 0..1000 {
            let found = sources.poll_each(point, these);
            if found == 0 {
                break;
            }
            all |= found;
        }
        all
    }

    /// A look for events of a thread that will look again has ended ([`Offers::looked`]).
    #[inline]
    pub(crate) fn looked(&self, found: bool) -> Duration {
        self.offers.looked(found, &self.machine)
    }

    /// A look of a program that does not wait begins ([`Offers::glance`]).
    #[inline]
    pub(crate) fn glance(&self) -> Glance {
        self.offers.glance()
    }

    /// It has ended ([`Offers::glanced`]).
    #[inline]
    pub(crate) fn glanced(&self, glance: Glance, found: bool) {
        self.offers.glanced(glance, found, &self.machine);
    }

    /// Whether the core of a thread that polls is wanted by others: every compute virtual processor is busy, or other
    /// processes took the core of late when it was offered.
    pub(crate) fn is_crowded(&self) -> bool {
        self.offers.are_taken() || self.machine.is_loaded()
    }

    /// Whether a thread other than a caller may look for events now: always, or only on behalf of a wait.
    pub(super) fn may_progress(&self) -> bool {
        self.machine.progresses() || self.waiting.load(SeqCst) > 0
    }

    /// The sources that busy virtual processors look at when they tick: those that are to be found so, those whose peers
    /// interrupt (a signal may be refused, and a peer's death sends none), and without a background watcher all.
    pub(super) fn ticking(&self) -> u64 {
        match (self.machine.points.tick, self.machine.has_watcher()) {
            (false, _) => 0,
            (true, true) => self.methods.ticked() | self.methods.interrupted(),
            (true, false) => u64::MAX,
        }
    }

    /// Whether busy virtual processors need ticks. Signal handlers included.
    pub(crate) fn wants_ticks(&self) -> bool {
        let ticking = self.ticking();
        ticking != 0 && self.registry.pin().pending_of(ticking) != 0
    }

    /// The sources that a thread looks at which was woken on behalf of one of them.
    pub(super) fn awaited(&self) -> u64 {
        self.methods.blocked() | self.advisor.passed()
    }

    // ---- The invariant.

    /// Keeps the invariant for a caller that leaves requests pending. A few loads while another thread polls or
    /// watches.
    pub(crate) fn ensure_watched(&self) {
        if !self.may_progress() {
            return;
        }
        let sources = self.registry.pin();
        let pending = sources.pending_of(u64::MAX);
        if pending == 0 {
            return;
        }
        if sources.unattended_of(u64::MAX) != 0 {
            self.background.visits.count();
            self.arm_unattended(Point::Library, &sources);
        }
        self.look_seldom(&sources);
        if pending & self.ticking() != 0
            && let Some(load) = self.machine.load()
        {
            load.arm_ticks();
        }
    }

    /// Where all pending requests of a source are attended, the watcher looks now and then (`watcher`): a peer may need an
    /// answer while an owner stays away, and cannot wake a thread of this process.
    #[inline]
    fn look_seldom(&self, sources: &Pinned<'_>) {
        if self.background.looks_seldom() || !self.machine.has_watcher() {
            return;
        }
        let attended = sources.pending_of(u64::MAX) & !sources.unattended_of(u64::MAX);
        if attended != 0 && self.background.ask_seldom() {
            self.machine.call_watcher();
        }
    }

    /// Whether the watcher sleeps on this source's descriptor, armed, by the policy's choice; or has its event in hand,
    /// and then arms for what is unattended (`arming`).
    #[inline]
    pub(crate) fn watches(&self, slot: usize) -> bool {
        self.background.visits.count();
        // The caller has stored what it leaves pending, and loads whether the descriptor is armed. A poller stores that it is
        // not, and loads what pends when it leaves: one of both sees the other's store. The caller may have made no
        // read-modify-write. On x86-64 it does without a fence, which each submission would pay: the poller's system call
        // (`epoll_ctl`), between its store and its load, takes longer than any store waits in a processor's buffer. That
        // is no guarantee of the architecture's.
        if !cfg!(target_arch = "x86_64") {
            std::sync::atomic::fence(SeqCst);
        }
        self.methods.blocked() >> slot & 1 != 0
            && self.machine.has_watcher()
            && !self.leadership.has_leader()
            && self.background.set.is_armed(slot)
    }

    /// The unattended sources without a poller. A caller that polled has left the pollers before.
    pub(super) fn unpolled(&self, sources: &Pinned<'_>) -> u64 {
        match sources.unattended_of(u64::MAX) {
            0 => 0,
            unattended => self.pollers.unpolled(unattended),
        }
    }

    /// Returns when each unattended source has a poller (which arms when it stops), or a kernel thread sleeps on it,
    /// armed, or a tick will find its events; the watcher looks at the others now and then, where something pends.
    ///
    /// (The watcher did so only when a thread had left a request behind. A thread that relied on a watch armed for another
    /// request lost it with that one's event: a receive whose sender waited for an answer was found when its owner came back.)
    pub(super) fn arm(&self, point: Point, sources: &Pinned<'_>) {
        self.arm_unattended(point, sources);
        self.look_seldom(sources);
    }

    fn arm_unattended(&self, point: Point, sources: &Pinned<'_>) {
        let mut vain = false;
        loop {
            let open = self.unpolled(sources);
            if open == 0 {
                return;
            }
            let plan = self.plan(sources, open);
            if plan.tick != 0 {
                self.call_pacer();
            }
            let interrupts = plan.interrupt == 0 || self.arm_interrupts(sources, plan.interrupt);
            if interrupts && (plan.block == 0 || self.arm_sleeper(sources, plan.block)) {
                return;
            }
            // Arming may have treated the event that it found.
            let found = self.drain(point, sources, plan.block | plan.interrupt) != 0;
            if vain && !found {
                // Another thread holds what is needed to arm, or the event that is there. If the kernel has taken that
                // thread's core away, perhaps for this one, it gets it back sooner.
                std::thread::yield_now();
            }
            vain = !found;
        }
    }

    /// Asks the policies how these sources are looked after, now that they have no poller, and calls the threads that
    /// are to poll.
    pub(super) fn plan(&self, sources: &Pinned<'_>, open: u64) -> Plan {
        let load = self.machine.snapshot();
        let mut plan = Plan { block: 0, tick: 0, interrupt: 0 };
        for slot in bits(open) {
            let question = Question::of(slot, Asker::Leaving, Hint::Short, Duration::ZERO);
            let choice = self.advisor.ask(sources, &question, &load);
            let bit = 1 << slot;
            match self.advisor.possible(sources, slot, choice.method) {
                Method::Block => plan.block |= bit,
                Method::Tick => plan.tick |= bit,
                Method::Interrupt => plan.interrupt |= bit,
                Method::Dedicated => drop(self.dedicated.call(bit, self.machine.dedicated())),
                Method::Poll => {
                    // If the virtual processor that is woken finds a thread to run, it is a tick that looks.
                    plan.tick |= bit;
                    let _ = self.machine.load().is_some_and(Load::wake_one);
                }
            }
        }
        self.methods.note(open, &plan);
        plan
    }

    /// Arms the set of a thread that sleeps, so that the next event wakes it; false if one is there already, or may
    /// be: then poll, and try again. A caller that stops here with false has armed nothing, although others may rely on
    /// it (`arming`).
    pub(super) fn arm_sleeper(&self, sources: &Pinned<'_>, these: u64) -> bool {
        if self.leadership.has_leader() {
            self.leadership.set.arm(sources, these)
        } else if self.machine.has_watcher() {
            self.background.set.arm(sources, these)
        } else {
            // Without a watcher: wakes a thread that sleeps, to lead. If there is none, ticks and calls have to do.
            let _ = self.leadership.followers.wake_one()
                || self.machine.load().is_some_and(Load::wake_one);
            true
        }
    }

    /// Has the peers interrupt a busy virtual processor at the next event of these sources. False if one has an event
    /// already, or no virtual processor is busy any more: then poll, and choose again. Progress path, signal handlers
    /// included.
    pub(super) fn arm_interrupts(&self, sources: &Pinned<'_>, these: u64) -> bool {
        let Some((vp, target)) = self.machine.load().and_then(Load::signal_target) else {
            return false;
        };
        let ask = |quiet: bool, source: &dyn Source| source.arm_interrupt(target) && quiet;
        let all = || sources.these(these).fold(true, |quiet, (_, slot)| ask(quiet, &*slot.source));
        ask_for_signal(all, || vp.is_busy())
    }

    /// Events are to be looked for at the pace of the tick: without a pacer, wakes an idle thread.
    pub(crate) fn call_pacer(&self) {
        if self.methods.has_pacer() || self.machine.load().is_some_and(Load::wake_one) {
            return;
        }
        if !self.machine.is_served() {
            self.machine.call_watcher();
        }
    }

    // ---- Roles.

    /// The caller owes that its requests are watched.
    #[inline]
    pub(crate) fn owe(&self) -> Debt<'_> {
        Debt(self)
    }

    /// Peers were asked to interrupt a virtual processor, which may not have been busy meanwhile.
    #[inline]
    pub(super) fn owe_interrupts(&self) -> Option<Debt<'_>> {
        (self.methods.interrupted() != 0).then_some(Debt(self))
    }

    /// The caller polls these sources from now on; what is armed of them for the watcher is so no more. (Another thread that is
    /// about to arm may still do so: a wake-up in vain.)
    #[inline]
    pub(crate) fn begin_polling(&self, sources: &Pinned<'_>, mask: u64) -> Polling<'_> {
        self.pollers.join(mask);
        let mut armed = 0;
        for (index, slot) in sources.these(mask) {
            slot.source.disarm();
            if self.background.set.is_armed(index) && !slot.source.disarms_its_descriptor() {
                armed |= 1 << index;
            }
        }
        if armed != 0 {
            self.take_from_watcher(sources, armed);
        }
        Polling { driver: self, mask }
    }

    /// Disarms what is armed for the watcher. Where threads do so often, the watcher is woken to poll along, so that they need
    /// not arm (`polling_mode`).
    #[inline(never)]
    fn take_from_watcher(&self, sources: &Pinned<'_>, these: u64) {
        let Background { set, takes, .. } = &self.background;
        if set.is_inherited() {
            return; // nothing of it can be changed here
        }
        set.disarm(sources, these);
        if these & self.advisor.passed() != 0 && takes.again() {
            self.machine.call_watcher();
        }
    }

    /// The caller leads, unless another thread does.
    pub(super) fn try_lead(&self) -> Option<Leader<'_>> {
        self.leadership.take().then(|| Leader(self)) // not `then_some`: a guard that is not wanted would be dropped
    }

    /// The caller is the pacer, if ticks are to find something and no other thread is.
    pub(super) fn try_pace(&self, point: Point) -> Option<Pacer<'_>> {
        let ticked = self.methods.ticked();
        let takes = ticked != 0
            && self.registry.pin().unattended_of(ticked) != 0
            && self.methods.take_pace();
        takes.then(|| Pacer { driver: self, point })
    }

    /// The virtual processor does not poll any more. The debt, if it did.
    #[inline]
    pub(super) fn stop_idle(&self, vp: &marcel::Vp) -> Option<Debt<'_>> {
        let mask = self.idle.stop(vp)?;
        self.pollers.leave(mask);
        Some(Debt(self))
    }

    /// Offers work to a helper: true if an idle virtual processor on another core polls at this moment.
    pub(crate) fn offer(&self) -> bool {
        self.helper.offer(&self.idle)
    }

    /// The caller waits, or has nothing to run: if an offer has found no helper, wakes one for the next.
    #[inline]
    pub(super) fn call_helper(&self) {
        if self.helper.is_missed() {
            self.helper.call(&self.machine);
        }
    }

    /// Whether threads wait while progress outside calls is off.
    #[inline]
    pub(super) fn has_waiters(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }

    /// The caller waits, until what this returns is dropped: events are looked for on its behalf even where progress
    /// outside calls is off.
    pub(super) fn counts_waiter(&self) -> Option<Waiting<'_>> {
        (!self.machine.progresses()).then(|| {
            self.waiting.fetch_add(1, SeqCst);
            Waiting(&self.waiting)
        })
    }

    /// A virtual processor has begun, and may lead.
    pub(crate) fn add_vp(&self, vp: &marcel::Vp) {
        let added = vp.sleeper().fd().and_then(|fd| self.leadership.set.add_sleeper(fd));
        // It could not be called out of the set: it looks around by itself.
        if let Err(error) = added
            && self.leadership.becomes_blind()
        {
            say(format_args!(
                "pioman: no eventfd for a virtual processor ({error}): it wakes up at the pace of ticks"
            ));
        }
    }

    /// A virtual processor has ended.
    pub(crate) fn remove_vp(&self, vp: &marcel::Vp) {
        if let Ok(fd) = vp.sleeper().fd() {
            self.leadership.set.remove_sleeper(fd);
        }
    }

    // ---- Sources and figures.

    /// Registers a source; its slot.
    ///
    /// # Errors
    /// There are [`MAX`] sources; the kernel refuses the descriptor.
    pub(crate) fn add_source(&self, source: Arc<dyn Source>) -> io::Result<usize> {
        let fd = source.fd();
        let policy = self.advisor.policies.of(source.name()).clone();
        let Some(slot) = self.registry.add(Registered { source, fd }, policy) else {
            return Err(io::Error::other(format!("a manager takes at most {MAX} sources")));
        };
        if let Some(fd) = fd {
            let added = self.leadership.set.add_source(slot, fd);
            if let Err(error) = added.and_then(|()| self.background.set.add_source(slot, fd)) {
                self.remove_source(slot);
                return Err(error);
            }
        }
        Ok(slot)
    }

    /// Takes a source out. Returns when no thread uses it.
    pub(crate) fn remove_source(&self, slot: usize) {
        // Before another source can get the slot.
        self.registry.remove(slot, |registered| {
            let counted = self.count(slot, &*registered.source);
            self.ledger.has_gone(SourceCounters { is_there: false, ..counted });
            if let Some(fd) = registered.fd {
                self.leadership.set.remove_source(slot, fd);
                self.background.set.remove_source(slot, fd);
            }
            self.advisor.forget(slot);
            self.methods.forget(slot);
        });
    }

    /// What was counted for the source that has `index`.
    fn count(&self, index: usize, source: &dyn Source) -> SourceCounters {
        let wake_ups = [&self.leadership.set, &self.background.set].map(|set| set.wake_ups(index));
        SourceCounters { wake_ups, ..SourceCounters::of(self.registry.counts(), index, source) }
    }

    /// All that was counted.
    pub(crate) fn counters(&self) -> Counters {
        let mut all = self.ledger.gone();
        all.sleeps = [self.leadership.set.sleeps(), self.background.set.sleeps()];
        all.vain = self.background.set.vain();
        all.threads = crate::kernel_threads::threads();
        let pinned = self.registry.pin();
        pinned.each().for_each(|(index, slot)| all.add(self.count(index, &*slot.source)));
        all
    }
}

impl Tells for Driver {
    fn figures(&self) -> Counters {
        self.counters()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.ledger.tells_at_end() {
            crate::observe::ledger::tell(self);
        }
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Driver { machine, .. } = self;
        f.debug_struct("Driver")
            .field("mode", &machine.mode)
            .field("points", &machine.points)
            .finish()
    }
}

/// The caller has stopped polling, or leaves requests pending. Dropping this pays: [`Driver::ensure_watched`].
#[derive(Debug)]
#[must_use = "paid at once when it is dropped"]
pub(crate) struct Debt<'a>(&'a Driver);

impl<'a> Debt<'a> {
    /// Whose debt it is.
    pub(super) fn driver(&self) -> &'a Driver {
        self.0
    }

    /// The caller is about to sleep, and arms for that, or finds that other threads poll.
    pub(super) fn paid_by_parking(self) {
        std::mem::forget(self);
    }
}

impl Drop for Debt<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.ensure_watched();
    }
}

/// A thread that polls some sources. Dropping this stops it, and pays the debt of a poller that stops.
#[derive(Debug)]
pub(crate) struct Polling<'a> {
    driver: &'a Driver,
    mask: u64,
}

impl<'a> Polling<'a> {
    /// The sources that it polls.
    #[inline]
    pub(crate) fn mask(&self) -> u64 {
        self.mask
    }

    /// From now on it polls these instead. The caller arms for those that it does not poll any more.
    pub(super) fn change_to(&mut self, mask: u64) {
        let before = std::mem::replace(&mut self.mask, mask);
        self.driver.pollers.join(mask & !before);
        self.driver.pollers.leave(before & !mask);
    }

    /// Stops; the debt is `to`'s, which the caller holds already.
    #[inline]
    pub(super) fn stop_owing(self, to: &Debt<'_>) {
        debug_assert!(std::ptr::eq(self.driver, to.0));
        let this = ManuallyDrop::new(self);
        this.driver.pollers.leave(this.mask);
    }

    /// Stops; the caller pays.
    #[inline]
    pub(crate) fn stop(self) -> Debt<'a> {
        let this = ManuallyDrop::new(self);
        this.driver.pollers.leave(this.mask);
        Debt(this.driver)
    }
}

impl Drop for Polling<'_> {
    #[inline]
    fn drop(&mut self) {
        self.driver.pollers.leave(self.mask);
        self.driver.ensure_watched();
    }
}

/// The holder of the leader's role. Dropping this releases the role, disarms every source, and arms again those that
/// are still unattended. (A source that is armed for this thread alone would ring for nothing.)
pub(super) struct Leader<'a>(&'a Driver);

impl Leader<'_> {
    /// Sleeps until one of these sources has an event, the sleeper is notified, or the deadline. Progress is not
    /// promised: the caller polls afterwards. A bit for each source that had an event when it was armed, so that the leader did
    /// not sleep.
    pub(super) fn park(
        &self,
        sources: Pinned<'_>,
        these: u64,
        sleeper: &Sleeper,
        deadline: Option<Instant>,
        last_look: impl FnOnce() -> bool,
    ) -> u64 {
        let Driver { leadership, background, machine, .. } = self.0;
        let inherited = leadership.set.is_inherited();
        let blind = leadership.is_blind() || inherited;
        let blind = blind.then(|| Instant::now() + machine.tick_period);
        let until = [deadline, blind].into_iter().flatten().min();
        // First: a ring that is on its way when the last look finds its cause would wake the watcher in vain. The
        // leader arms for what is unattended when it leaves.
        background.set.disarm(&sources, these);
        let awake = leadership.set.arm_but(&sources, these);
        let armed = awake == 0;
        drop(sources); // a thread that removes a source waits for pins
        let mut reported = 0;
        if armed && inherited {
            sleeper.sleep(until, last_look);
        } else if armed {
            sleeper.sleep_in(last_look, || reported = leadership.set.sleep(until));
        }
        // An event that came for this thread must not wake the next sleeper, even if this thread did not sleep.
        self.0.registry.pin().acknowledge(these | reported);
        awake
    }

    /// Leaves without arming, if the leader's own wait, which goes on or pays its debt, sees to all that is pending: it
    /// looks at `these` sources. Otherwise as dropped.
    ///
    /// (Each leader armed the watcher's set when it left. A wait that was woken by a message for which it did not wait, and
    /// slept on, had the watcher woken by the next one, 950 times of 1,100 in vain.)
    ///
    /// A thread that has found a leader when it armed relies on this wait. One that has become a follower may rely on a
    /// leader for longer; it has entered before it looked whether there is one, and this looks in the opposite order.
    pub(super) fn leave_owing(self, _to: &Debt<'_>, these: u64) {
        let leader = ManuallyDrop::new(self);
        leader.leave(|driver, sources| {
            sources.unattended_of(!these) == 0 && driver.leadership.followers.are_none()
        });
    }

    /// Releases the role, disarms, and arms again unless that is `seen_to`, which is asked after the release.
    fn leave(&self, seen_to: impl FnOnce(&Driver, &Pinned<'_>) -> bool) {
        let driver = self.0;
        let sources = driver.registry.pin();
        driver.leadership.release();
        sources.each().for_each(|(_, slot)| slot.source.disarm());
        if driver.may_progress() && !seen_to(driver, &sources) {
            driver.arm(Point::Wait, &sources);
        }
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        self.leave(|_, _| false);
    }
}

/// The thread that looks at the pace of the tick. Dropping this looks once more and gives the role up; the caller then
/// comes back, or arms.
pub(super) struct Pacer<'a> {
    driver: &'a Driver,
    point: Point,
}

impl Drop for Pacer<'_> {
    fn drop(&mut self) {
        let Pacer { driver, point } = *self;
        driver.registry.pin().poll_these(point, driver.methods.ticked());
        driver.methods.release_pace();
    }
}

/// See [`Driver::counts_waiter`].
pub(super) struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}
