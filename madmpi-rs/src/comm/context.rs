//! Contexts: the numbers that tell the messages of communicators apart.
//!
//! A context has 31 bits: `process | number`. The process is the one that gave it out; it has as many bits as the size
//! of the session needs. So no two processes give out the same context, and each has at least 2^17 numbers; of 64
//! processes, 2^25.
//!
//! A context that was given back is given out again once 1024 others wait for that too, or no fresh one is left.
//! Another member may still use it: freeing is not synchronised, and requests keep a communicator that was freed. So
//! members are asked before a context is used again ([`super::agreement`]).
//!
//! Rejected: giving a context back when all members have freed the communicator (a barrier behind the program's back);
//! asking for fresh ones too (a second round for each new communicator).

use std::collections::{HashSet, VecDeque};
use std::sync::MutexGuard;

use crate::abi::MPI_ERR_OTHER;
use crate::error::Fault;
use marcel::plumbing::KernelMutex;

const BITS: u32 = 31;
/// A context rests until so many others have been given back.
const REST: usize = 1024;
/// Contexts 0 and 1 are those of `MPI_COMM_WORLD` and `MPI_COMM_SELF`. A connection begins with the first.
pub(crate) const WORLD: u32 = 0;
pub(super) const OWN: u32 = 1;

/// The contexts that this process gives out in a circle, and those of its communicators there.
pub(crate) struct Contexts {
    process: u32,
    /// Bits of the number.
    bits: u32,
    state: KernelMutex<State>,
}

struct State {
    /// The next number that was never given out.
    fresh: u32,
    /// Fresh ones whose offer came to nothing.
    unused: Vec<u32>,
    /// Contexts of this process that were given back.
    back: VecDeque<u32>,
    /// Contexts of communicators that exist in this process, or of which a collective has failed.
    used: HashSet<u32>,
}

/// A context that is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) context: u32,
    /// Whether it was used before: then the members are asked.
    pub(crate) again: bool,
}

impl Contexts {
    /// Of the process with that rank in the job's session.
    pub(super) fn of_job(process: u32, size: u32) -> Contexts {
        Contexts::new(process, size, HashSet::from([WORLD, OWN]))
    }

    /// Of the process with that rank in a connection's session, where no communicator exists yet.
    pub(super) fn of_connection(process: u32, size: u32) -> Contexts {
        Contexts::new(process, size, HashSet::new())
    }

    fn new(process: u32, size: u32, used: HashSet<u32>) -> Contexts {
        let bits = BITS - size.next_power_of_two().ilog2();
        let fresh = if process == 0 { 2 } else { 0 };
        let (unused, back) = (Vec::new(), VecDeque::new());
        Contexts { process, bits, state: KernelMutex::new(State { fresh, unused, back, used }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn all_out(&self) -> Fault {
        let why = format!(
            "this process has given out all its {} contexts: free some communicators",
            1u64 << self.bits
        );
        Fault::new(MPI_ERR_OTHER, why)
    }

    /// Offers a context for a new communicator.
    ///
    /// # Errors
    /// All contexts are in use.
    pub(crate) fn offer(&self) -> Result<Offer, Fault> {
        let back = {
            let mut state = self.state();
            if state.back.len() > REST { state.back.pop_front() } else { None }
        };
        if let Some(context) = back {
            return Ok(Offer { context, again: true });
        }
        match self.offer_fresh() {
            Ok(context) => Ok(Offer { context, again: false }),
            Err(fault) => {
                let context = self.state().back.pop_front();
                context.map(|context| Offer { context, again: true }).ok_or(fault)
            }
        }
    }

    /// Offers a context for a new communicator: a `fresh` one, which was never used, if there is one.
    ///
    /// # Errors
    /// As [`Contexts::offer`].
    pub(crate) fn offer_one(&self, fresh: bool) -> Result<Offer, Fault> {
        let never_used = if fresh { self.offer_fresh().ok() } else { None };
        never_used.map_or_else(|| self.offer(), |context| Ok(Offer { context, again: false }))
    }

    /// Offers a context that was never used, so that no member need be asked.
    ///
    /// # Errors
    /// All contexts were used.
    pub(crate) fn offer_fresh(&self) -> Result<u32, Fault> {
        let mut state = self.state();
        if let Some(context) = state.unused.pop() {
            return Ok(context);
        }
        if u64::from(state.fresh) >= 1 << self.bits {
            return Err(self.all_out());
        }
        state.fresh += 1;
        // In 64 bits: in a session of one process the number has all 31.
        Ok((u64::from(self.process) << self.bits) as u32 | (state.fresh - 1))
    }

    /// Takes back an offer that came to nothing.
    pub(crate) fn withdraw(&self, offer: Offer) {
        let mut state = self.state();
        if offer.again {
            state.back.push_back(offer.context);
        } else {
            state.unused.push(offer.context);
        }
    }

    pub(crate) fn is_used(&self, context: u32) -> bool {
        self.state().used.contains(&context)
    }

    /// Marks a context as used by a communicator of this process; whether it was free.
    pub(crate) fn take(&self, context: u32) -> bool {
        self.state().used.insert(context)
    }

    /// Gives back the context of a communicator that was dropped, for others to use `again` or not.
    pub(crate) fn release(&self, context: u32, again: bool) {
        let mut state = self.state();
        state.used.remove(&context);
        if again && u64::from(context) >> self.bits == u64::from(self.process) {
            state.back.push_back(context);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_two_processes_offer_the_same(size in 1..300u32, steps in 1..50usize) {
            let mut seen = HashSet::from([WORLD, OWN]);
            for process in [0, size / 2, size - 1].into_iter().collect::<HashSet<_>>() {
                let contexts = Contexts::of_job(process, size);
                for _ in 0..steps {
                    let offer = contexts.offer().unwrap_or_else(|fault| panic!("{}", fault.text));
                    prop_assert!(offer.context < 1 << 31 && !offer.again);
                    prop_assert!(seen.insert(offer.context));
                }
            }
        }
    }

    #[test]
    fn one_that_is_back_rests_and_comes_again() {
        let contexts = Contexts::of_job(3, 4);
        let mut last = None;
        for round in 0..2 * REST {
            let offer = contexts.offer().unwrap_or_else(|fault| panic!("{}", fault.text));
            assert_eq!(offer.again, round > REST);
            assert!(contexts.take(offer.context) && contexts.is_used(offer.context));
            contexts.release(offer.context, true);
            assert!(!contexts.is_used(offer.context));
            last = Some(offer.context);
        }
        let offer = contexts.offer().unwrap_or_else(|fault| panic!("{}", fault.text));
        assert_ne!(Some(offer.context), last);
    }

    #[test]
    fn one_that_is_not_to_come_again_does_not() {
        let contexts = Contexts::of_job(0, 1);
        let offer = contexts.offer().unwrap_or_else(|fault| panic!("{}", fault.text));
        contexts.take(offer.context);
        contexts.release(offer.context, false);
        assert!(!contexts.is_used(offer.context) && contexts.state().back.is_empty());
    }

    #[test]
    fn what_nobody_wanted_is_offered_first() {
        let contexts = Contexts::of_job(0, 1);
        let first = contexts.offer().unwrap_or_else(|fault| panic!("{}", fault.text));
        contexts.withdraw(first);
        assert_eq!(contexts.offer().ok(), Some(first));
    }

    #[test]
    fn one_of_another_process_is_not_offered_here() {
        let (mine, other) = (Contexts::of_job(0, 2), Contexts::of_job(1, 2));
        let offer = other.offer().unwrap_or_else(|fault| panic!("{}", fault.text));
        mine.take(offer.context);
        mine.release(offer.context, true);
        assert!(mine.state().back.is_empty());
    }
}
