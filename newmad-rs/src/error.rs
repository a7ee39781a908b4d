//! What can go wrong, each with its cause and a way out.

use std::fmt;
use std::io;
use std::path::PathBuf;

use marcel::plumbing::knob::KnobError;

/// Why a peer can no longer be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Its process ended, or was killed, without closing its session.
    Vanished,
    /// It closed its session in order; nothing more comes from it and it receives nothing more.
    Left,
    /// It sent something that this protocol does not know; the connection was dropped.
    Malformed,
    /// The kernel refused to go on with the connection; this is the `errno`.
    Broken(i32),
    /// No connection with it could be made, or made again, in time.
    Unreachable,
    /// The thread that ran it as a rank of this process has panicked ([`run_ranks`](crate::run_ranks)).
    Panicked,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Vanished => {
                f.write_str("its process ended without closing its session (killed or crashed)")
            }
            Cause::Left => f.write_str("it closed its session before this operation was over"),
            Cause::Panicked => {
                f.write_str("it panicked, and this process with all its ranks leaves")
            }
            Cause::Malformed => f.write_str(
                "it sent a packet that is not of this protocol; the connection was dropped",
            ),
            Cause::Unreachable => f.write_str(
                "no connection with it could be made in time (NMAD_REPAIR_MS for one that broke, \
                 NMAD_CONNECT_TIMEOUT_MS for the first)",
            ),
            Cause::Broken(errno) => {
                let error = io::Error::from_raw_os_error(*errno);
                write!(
                    f,
                    "its connection broke ({error}), and no other was made in time (NMAD_REPAIR_MS)"
                )
            }
        }
    }
}

/// Why a cache file was refused.
#[derive(Debug)]
pub struct BadCache {
    pub(crate) path: PathBuf,
    pub(crate) why: String,
}

impl fmt::Display for BadCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadCache { path, why } = self;
        write!(f, "{}: {why}; `mad sample` writes a new one", path.display())
    }
}

impl std::error::Error for BadCache {}

/// Why an operation failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is no such rank in the session.
    BadRank {
        /// The rank that was asked for.
        rank: u32,
        /// Number of ranks in the session.
        size: u32,
    },
    /// Tags from 2^63 up are the library's own.
    BadTag {
        /// The tag that was asked for.
        tag: u64,
    },
    /// The message was longer than the buffer; the buffer holds its beginning, the rest is gone, and the
    /// next message is intact.
    Truncated {
        /// Its sender.
        from: u32,
        /// Its tag.
        tag: u64,
        /// Length of the message, in bytes.
        message: usize,
        /// Length of the buffer, in bytes.
        capacity: usize,
    },
    /// A peer that the operation needs is gone.
    PeerDied {
        /// Its rank.
        rank: u32,
        /// What is known of its end.
        cause: Cause,
    },
    /// A packed message cannot be made.
    Packing(String),
    /// A packed message is taken apart in another way than it was packed.
    Unpacking {
        /// Its sender.
        from: u32,
        /// Its tag.
        tag: u64,
        /// Number of the piece, from 0.
        piece: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The receive was taken back before a message matched it.
    Cancelled,
    /// Blocks that overlap, or do not fit the memory.
    BadLayout {
        /// The blocks.
        layout: crate::memory::layout::Strided,
        /// Bytes of the memory that they are to be in.
        memory: usize,
    },
    /// The persistent request has been started and is not over.
    Active,
    /// The persistent request has not been started.
    NotStarted,
    /// The session is closed.
    Closed,
    /// A strategy has used a session. It is asked while the engine is locked, so that it would wait for itself.
    InStrategy,
    /// A group cannot be made, or used, like that.
    BadGroup(String),
    /// Memory that was given to a collective has not the length that goes with the other arguments.
    BadBuffer {
        /// What is counted.
        what: &'static str,
        /// How many there should be.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// Members of a group do not do the same: a message had another length than its receiver's call has it. The group
    /// is over.
    Mismatch {
        /// Its sender: a rank of the session.
        from: u32,
        /// The length that goes with the receiver's call, in bytes.
        expected: usize,
        /// The length that it had.
        found: usize,
    },
    /// A member of the group has given up a collective: the group is over.
    Revoked {
        /// The member that told us: a rank of the session. `None`: this process has.
        by: Option<u32>,
        /// Whether the reason is that a member is gone.
        gone: bool,
    },
    /// The messages of its tag were revoked ([`Session::revoke`](crate::Session::revoke)), or those of the group.
    ContextRevoked,
    /// No driver has that name.
    UnknownDriver {
        /// The name that was asked for.
        name: String,
    },
    /// The file that `NMAD_SAMPLING` names is not sound.
    Sampling(BadCache),
    /// A knob holds a value that is not acceptable.
    Knob(KnobError),
    /// The processes of the session could not find or reach each other.
    Bootstrap(String),
    /// The kernel refused something that the session needs.
    Io {
        /// What was being done.
        doing: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The green-thread runtime could not be built.
    Marcel(marcel::Error),
    /// The I/O manager could not be built.
    Pioman(pioman::Error),
    /// A control message was refused: this says why ([`Control`](crate::Control)).
    Control(String),
    /// A remote call failed, for another reason than those of messages: this is the [`CallError`](crate::CallError).
    Call(Box<dyn std::error::Error + Send + Sync>),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::BadRank { rank, size } => write!(
                f,
                "rank {rank} does not exist: this session has {size} rank(s), 0 to {}",
                size.saturating_sub(1)
            ),
            Error::BadTag { tag } => write!(
                f,
                "tag {tag:#x} is reserved: tags of programs are below 2^63 ({:#x})",
                1u64 << 63
            ),
            Error::Truncated { from, tag, message, capacity } => write!(
                f,
                "message of {message} bytes from rank {from} (tag {tag}) does not fit the receive \
                 buffer of {capacity} bytes: its first {capacity} bytes were kept; give a buffer of \
                 at least {message} bytes"
            ),
            Error::PeerDied { rank, cause } => write!(f, "rank {rank} is gone: {cause}"),
            Error::Packing(why) => write!(f, "packing: {why}"),
            Error::Unpacking { from, tag, piece, why } => write!(
                f,
                "piece {piece} of the packed message from rank {from} (tag {tag}): {why}; both sides name \
                 the same pieces in the same order"
            ),
            Error::Cancelled => {
                f.write_str("the request was cancelled before a message, or a receive, matched it")
            }
            Error::BadLayout { layout: crate::memory::layout::Strided { block, stride, count }, memory } => write!(
                f,
                "{count} blocks of {block} bytes, one every {stride}, overlap or do not fit {memory} \
                 bytes: the stride must be a block at least, and (count - 1) * stride + block no more \
                 than the memory"
            ),
            Error::Active => f.write_str(
                "the persistent request is under way: wait for it before it is started or its \
                 buffer is touched again",
            ),
            Error::NotStarted => {
                f.write_str("the persistent request was not started: start it before each wait")
            }
            Error::Closed => f.write_str("the session is closed"),
            Error::InStrategy => f.write_str(
                "a strategy used a session while it was asked, with the engine locked: it only answers; have another thread \
                 make the call",
            ),
            Error::BadGroup(why) => write!(f, "not a group to work with: {why}"),
            Error::BadBuffer { what, expected, found } => {
                write!(f, "a collective needs {expected} {what} here, and was given {found}")
            }
            Error::Mismatch { from, expected, found } => write!(
                f,
                "rank {from} sent {found} bytes to a collective where this rank expected {expected}: all members \
                 have to call the same operations in the same order, with lengths that fit; the group is over"
            ),
            Error::Revoked { by: Some(rank), gone: true } => write!(
                f,
                "the group is over: rank {rank} has given up a collective, because a member is gone; make a new \
                 group of the others"
            ),
            Error::Revoked { by: Some(rank), gone: false } => write!(
                f,
                "the group is over: rank {rank} has given up a collective, because lengths did not fit, an \
                 operator panicked, or its thread was ended (its own error says which); make a new group"
            ),
            Error::Revoked { by: None, .. } => f.write_str(
                "the group is over: this process has given up a collective of it before, because lengths did not \
                 fit, its operator panicked, or its thread was ended; make a new group",
            ),
            Error::ContextRevoked => f.write_str(
                "a member has revoked these messages, because a rank failed or for another reason of the program's: \
                 agree on who is left, and go on with messages of another context",
            ),
            Error::UnknownDriver { name } => {
                write!(
                    f,
                    "there is no driver named {name:?}: NMAD_DRIVER takes shm, tcp, verbs or local, or several rails (shm+tcp)"
                )
            }
            Error::Sampling(error) => write!(f, "NMAD_SAMPLING: {error}"),
            Error::Knob(error) => error.fmt(f),
            Error::Bootstrap(why) => write!(f, "the session could not start: {why}"),
            Error::Io { doing, source } => write!(f, "{doing}: {source}"),
            Error::Marcel(error) => error.fmt(f),
            Error::Pioman(error) => error.fmt(f),
            Error::Control(why) => f.write_str(why),
            Error::Call(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::Sampling(error) => Some(error),
            Error::Knob(error) => Some(error),
            Error::Marcel(error) => Some(error),
            Error::Pioman(error) => Some(error),
            Error::Call(error) => error.source(),
            _ => None,
        }
    }
}

impl From<KnobError> for Error {
    fn from(error: KnobError) -> Self {
        Error::Knob(error)
    }
}

impl From<marcel::Error> for Error {
    fn from(error: marcel::Error) -> Self {
        Error::Marcel(error)
    }
}

impl From<pioman::Error> for Error {
    fn from(error: pioman::Error) -> Self {
        Error::Pioman(error)
    }
}

/// What an error of the system means that came while `doing` something.
pub(crate) fn during<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Error {
    move |source| Error::Io { doing, source: source.into() }
}

/// `doing` failed with the calling thread's `errno`.
pub(crate) fn os(doing: &'static str) -> Error {
    Error::Io { doing, source: io::Error::last_os_error() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_cause_and_way_out() {
        let text = Error::Truncated { from: 3, tag: 7, message: 100, capacity: 10 }.to_string();
        assert!(
            text.contains("100 bytes") && text.contains("10 bytes") && text.contains("rank 3"),
            "{text}"
        );
        let text = Error::PeerDied { rank: 1, cause: Cause::Vanished }.to_string();
        assert!(text.contains("rank 1"), "{text}");
        let text = Error::UnknownDriver { name: "carrier-pigeon".into() }.to_string();
        assert!(text.contains("carrier-pigeon") && text.contains("shm"), "{text}");
    }
}
