//! What is recorded.

/// Declares the kinds once: their numbers are those of the file.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// What a record tells. *Thread* is the number of a thread, as in a dump; *name* is what [`super::intern`] or
        /// [`super::intern_static`] gave for a name. A kind that begins something is followed by the one that ends it
        /// on the same kernel thread, properly nested within what else began there.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])* $name = $number,)*
        }

        impl Kind {
            /// The kind of this number.
            pub fn from_number(number: u16) -> Option<Kind> {
                match number {
                    $($number => Some(Kind::$name),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// The kernel thread has changed: its number in the lower half of `a`, in the upper one more than the number of its
    /// virtual processor or 0; `b`: the first eight bytes of its name.
    Owner = 1,
    /// `a`: the other eight bytes of that name.
    OwnerName = 2,
    /// A virtual processor goes on with thread `a`, called `b`.
    Resume = 3,
    /// Thread `a` has given it back. `b`: why, a name, or 0 if it yields and 1 if it has ended.
    Left = 4,
    /// A virtual processor has nothing to run, and looks around.
    Rest = 5,
    /// …has found something, or slept.
    RestEnd = 6,
    /// It sleeps in the kernel.
    Sleep = 7,
    /// It has woken up.
    Wake = 8,
    /// Thread `a`, called `b`, has been made.
    Spawn = 9,
    /// Thread `a` has been woken: it can run from now on.
    Unpark = 10,
    /// Thread `a`, which never ran, was taken from virtual processor `b`.
    Steal = 11,
    /// A tick interrupts.
    Tick = 12,
    /// …and returns.
    TickEnd = 13,
    /// A plain kernel thread sleeps; `a`: its thread number, `b`: why, a name.
    KernelWait = 14,
    /// …is awake again.
    KernelWaitEnd = 15,
    /// A kernel thread of the pool makes an exported blocking call.
    Call = 16,
    /// …has made it.
    CallEnd = 17,

    /// A look for events found some at the source called `a`. `b`: the point in the lowest eight bits, above them how
    /// often the kernel thread has looked there since it last recorded such a look.
    Hit = 32,
    /// A thread waits for request `a` and polls.
    WaitPoll = 33,
    /// …has stopped polling; the lowest bit of `a` says whether the request is complete.
    WaitPollEnd = 34,
    /// It goes to sleep until request `a` completes.
    WaitSleep = 35,
    /// Its wait for request `a` is over.
    WaitEnd = 36,
    /// A kernel thread blocks until a source has something; `a` is 0 for a leader, 1 for the background
    /// watcher.
    Block = 37,
    /// …and has been woken; `a`: events.
    BlockEnd = 38,
    /// A light task called `a` is run.
    Task = 39,
    /// …it has returned.
    TaskEnd = 40,
    /// A callback of the event server called `a` is called; `b`: which one, a name.
    Callback = 41,
    /// …it has returned.
    CallbackEnd = 42,
    /// Request `a` completes.
    Complete = 43,
    /// A policy does not have the waiter poll (any more) for a request of the source called `a`. `b`: in the lowest
    /// eight bits the method that it has chosen, in the upper half why, a name.
    Method = 44,
    /// A kernel thread that blocked was woken, looked, and found nothing; `a` as in `Block`.
    Vain = 45,
    /// A peer is rung: woken by a system call. `b`: its rank.
    Ring = 46,
    /// A network ends the sleep of the thread that watches it, since there is more to do.
    SelfWake = 47,

    /// What the next record tells of, made at the same moment: the tag (`a`) and the length in bytes (`b`) of a
    /// message.
    Message = 64,
    /// A message to rank `b` does not leave at once.
    MessageQueued = 65,
    /// A message leaves, or its announcement does. Here and in what follows, `a`: its number among those of these two
    /// ranks, the same on both sides; `b`: the rank of this side in the upper half, that of the other in the lower.
    MessageLeft = 66,
    /// It, or its announcement, has come, and is not received yet.
    MessageArrived = 67,
    /// It has been received.
    MessageReceived = 68,
    /// One that was announced has gone as a whole: its memory is the sender's again.
    MessageSent = 69,
    /// How it moves was chosen; `a`: the protocol and the reason, a name; `b` as above.
    MessageProtocol = 70,
}

impl Kind {
    /// The kind in a record's second word, if it is known, and how many events of its sort were only counted before it.
    pub fn decode(word: u64) -> (Option<Kind>, u16) {
        (Kind::from_number(word as u16), (word >> 16) as u16)
    }

    /// The lower half of a record's second word.
    pub(super) fn encode(self, skipped: u32) -> u64 {
        self as u64 | u64::from(skipped.min(0xffff)) << 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_kind_or_nothing() {
        for number in 0..=u16::MAX {
            assert!(Kind::from_number(number).is_none_or(|kind| kind as u16 == number));
        }
        assert_eq!(Kind::from_number(Kind::Method as u16), Some(Kind::Method));
    }
}
