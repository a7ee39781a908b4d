//! What the scheduler calls: idle loop, context switch, tick, and going to sleep.

use std::time::Instant;

use marcel::{Hooks, Idle, Kind, Load, Vp, plumbing::Sleeper};

use crate::driver::{idle, tick};
use crate::manager::Manager;
use crate::progress::point::Point;

// SAFETY: a tick polls sources, which promise as much, and runs no light task.
unsafe impl Hooks for Manager {
    fn started(&self, load: Load, vps: &[&'static Vp]) {
        for vp in vps {
            self.driver.add_vp(vp);
        }
        // A runtime without virtual processors is none: what is left to idle ones would be left to no thread.
        if !vps.is_empty() {
            self.driver.tasks.tree.serve(vps);
            self.driver.machine.serve(load);
        }
    }

    fn idle(&self, vp: &Vp, idle_since: Instant) -> Idle {
        idle::poll(&self.driver, vp, idle_since)
    }

    fn switch(&self, vp: &Vp) -> bool {
        idle::switch(&self.driver, vp)
    }

    fn tick(&self, _: &Vp) -> bool {
        tick::poll(&self.driver, Point::Tick);
        self.driver.wants_ticks()
    }

    fn signalled(&self, _: &Vp) -> bool {
        tick::poll(&self.driver, Point::Interrupt);
        self.driver.wants_ticks()
    }

    fn wants_ticks(&self) -> bool {
        self.driver.wants_ticks()
    }

    fn sleep(
        &self,
        vp: &Vp,
        sleeper: &Sleeper,
        deadline: Option<Instant>,
        last_look: &dyn Fn() -> bool,
    ) -> bool {
        idle::sleep(&self.driver, vp, sleeper, deadline, last_look)
    }

    fn busy(&self, vp: &Vp) {
        self.driver.tasks.when_busy();
        idle::busy(&self.driver, vp);
    }

    fn ended(&self, vp: &Vp) {
        self.driver.tasks.tree.lose();
        idle::stop(&self.driver, vp);
        let reactive = u32::from(vp.kind() == Kind::Reactive) << 31;
        // Else the kernel has refused it a kernel thread, and the caller polls on under its own name.
        if marcel::current_vp().is_some_and(|own| std::ptr::eq(own, vp)) {
            self.driver.registry.counts().ended(vp.index() as u32 | reactive);
        }
        self.driver.remove_vp(vp);
        // What ticks looked for until now.
        self.driver.call_pacer();
    }
}
