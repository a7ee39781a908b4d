//! Members of one process: where they meet, and how they wait there.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::{Arc, Weak};

use marcel::plumbing::KernelMutex;
use pioman::{Completion, Hint};

use crate::coll::algo::choose::Algorithm;
use crate::coll::board::{Deposit, Ended, Meeting, Stage};
use crate::coll::failure::Failure;
use crate::coll::group::Group;
use crate::coll::memory::Memory;
use crate::coll::operator::{Operator, as_bytes, as_bytes_mut};
use crate::coll::task::Task;
use crate::engine::look_beside;
use crate::error::Error;
use crate::session::Inner;
use crate::session::departures::Watches;

/// The meetings of a process, by numbers that the first members of groups give out.
#[derive(Default)]
pub(super) struct Meetings(KernelMutex<Known>);

#[derive(Default)]
struct Known {
    last: u64,
    meetings: HashMap<u64, Weak<Meeting>>,
}

impl Meetings {
    pub(super) fn of(session: &Inner) -> &Meetings {
        session.process_extensions().get()
    }

    /// A new one, and its number.
    pub(super) fn make(&self, members: &[u32]) -> (u64, Arc<Meeting>) {
        let mut known = self.0.lock();
        known.meetings.retain(|_, meeting| meeting.strong_count() > 0);
        known.last += 1;
        let (number, meeting) = (known.last, Arc::new(Meeting::new(members)));
        known.meetings.insert(number, Arc::downgrade(&meeting));
        (number, meeting)
    }

    pub(super) fn find(&self, number: u64) -> Option<Arc<Meeting>> {
        self.0.lock().meetings.get(&number)?.upgrade()
    }
}

impl Group {
    /// The first member makes the meeting, and tells the others its number.
    ///
    /// # Errors
    /// As of a collective.
    pub(super) fn agree_on_meeting(&self) -> Result<Stage, Error> {
        let meetings = Meetings::of(&self.context.session);
        let made = (self.rank() == 0).then(|| meetings.make(self.members()));
        let mut number = [made.as_ref().map_or(0, |(number, _)| *number)];
        let output = as_bytes_mut(&mut number) as *mut [u8];
        let memory = Memory { input: as_bytes::<u64>(&[]), output };
        let task = Task::Bcast { root: 0, len: size_of_val(&number) };
        let plan = self.plan(&task, Algorithm::Binomial, None, &memory, true)?;
        // SAFETY: the memory is here until this returns, has the length that the task says, and any bytes are a number.
        unsafe { self.by_messages(plan, None, memory)? };
        let found = match made {
            Some((_, meeting)) => Some(meeting),
            None => meetings.find(number[0]),
        };
        // The first member has dropped the group, so that this collective, which goes by messages, is the last; or it has given
        // up, and tells the others.
        let Some(meeting) = found else { return Ok(Stage::Off) };
        self.meets_at(meeting, self.rank() == 0);
        Ok(Stage::Met)
    }

    /// Its members meet there from now on; the `first` of them has it learn which ranks are gone.
    pub(super) fn meets_at(&self, meeting: Arc<Meeting>, first: bool) {
        if first {
            let watcher: Arc<dyn Watches> = meeting.clone();
            self.context.session.departures().watch(Arc::downgrade(&watcher));
        }
        self.context.shared.meet_at(meeting);
        self.context.end_meeting();
    }

    /// Does one collective at a meeting of the group's members, at this member's seat.
    ///
    /// # Safety
    /// The memory is as long as the task takes it to be, readable, and the output is the caller's alone.
    pub(in crate::coll) unsafe fn meet(
        &self,
        (meeting, seat): (&Meeting, u32),
        task: &Task,
        operator: Option<&Operator>,
        memory: &Memory,
        in_place: bool,
    ) -> Result<(), Error> {
        let into: *mut u8 = memory.output.cast();
        let from = if in_place { into.cast_const() } else { memory.input.cast() };
        let place = if meeting.is_divided() { None } else { marcel::current_vp() };
        let place = place.map_or(0, |vp| std::ptr::from_ref(vp).addr());
        let deposit = Deposit::new(task, operator, (from, into), in_place, place);
        let wait = |end: &Completion| self.wait_there(end);
        // SAFETY: the caller's promise; the caller has the group's turn.
        let ended = unsafe { meeting.meet(seat as usize, &deposit, &wait) };
        match ended {
            Ok(()) => Ok(()),
            Err(Ended::Failed(failure)) => {
                // What this member knows already says more.
                let before = self.context.failure.get().map(|failure| failure.of_another());
                self.context.revoke(failure);
                Err(before.unwrap_or(failure).error())
            }
            Err(Ended::Panicked(panic)) => {
                self.context.revoke(Failure::Panicked);
                resume_unwind(panic)
            }
        }
    }

    /// Waits for what other ranks of the process do: their wake-up needs no poll.
    fn wait_there(&self, end: &Completion) {
        if end.is_done() {
            return;
        }
        let session = &self.context.session;
        session.engine.send_held();
        let _open = session.waits();
        if look_beside(&session.manager, || end.is_done()) {
            return;
        }
        session.engine.before_sleep();
        match marcel::is_green() {
            true => end.latch().wait("a collective"),
            false => session.manager.wait(end, Hint::Short),
        }
    }
}
