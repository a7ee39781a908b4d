//! Which tags a receive takes.

use crate::error::Error;

/// First of the tags that belong to the library.
pub(crate) const RESERVED: u64 = 1 << 63;
// The next seven bits say which part of the library a tag belongs to.
const PART: u64 = u64::MAX << 56;
pub(crate) const BARRIER: u64 = RESERVED;
pub(crate) const COLLECTIVES: u64 = RESERVED | 1 << 56;
pub(crate) const CALLS: u64 = RESERVED | 2 << 56;
pub(crate) const PACKS: u64 = RESERVED | 3 << 56;
pub(crate) const SAMPLING: u64 = RESERVED | 4 << 56;
/// Collectives in a series. One bit apart from [`COLLECTIVES`]: one receive with a mask takes both.
pub(crate) const SERIES: u64 = RESERVED | 5 << 56;
/// What processes tell each other of failures. The other bits are not used.
pub(crate) const CONTROL: u64 = RESERVED | 6 << 56;
/// Every bit of the tag counts.
pub(crate) const EXACT: u64 = u64::MAX;

/// Whether a tag belongs to a collective.
pub(crate) fn is_collective(tag: u64) -> bool {
    matches!(tag & PART, COLLECTIVES | SERIES)
}

/// Whether a message is what processes tell each other of failures.
#[inline]
pub(crate) fn is_control(tag: u64) -> bool {
    tag == CONTROL
}

/// Whether a message is of a remote call.
pub(crate) fn is_call(tag: u64) -> bool {
    tag & PART == CALLS
}

/// The tags that a receive or a probe takes: those that agree with `value` in the bits of `mask`. A number stands for
/// itself.
///
/// ```
/// use newmad::Tag;
/// newmad::run(|session| {
///     for tag in [0x0105, 0x0207, 0x0109] {
///         session.send(0, tag, &[tag as u8])?;
///     }
///     let mut buffer = [0; 8];
///     // The first whose upper byte is 2, then whatever is first.
///     assert_eq!(session.recv(0, Tag { value: 0x0200, mask: 0xff00 }, &mut buffer)?.tag, 0x0207);
///     assert_eq!(session.recv(0, Tag::ANY, &mut buffer)?.tag, 0x0105);
///     assert_eq!(session.recv(0, 0x0109, &mut buffer)?.tag, 0x0109);
///     Ok::<(), newmad::Error>(())
/// })??;
/// # Ok::<(), newmad::Error>(())
/// ```
///
/// Exact tags are found at once; receives with a mask are looked at one by one, for each message that comes, and such a
/// receive looks at unexpected messages one by one.
///
/// Messages from one sender with one tag never overtake each other. Those with *different* tags may, when the strategy
/// fills a packet with short ones while a longer one waits: a receiver that takes several tags by a mask, and counts on
/// the order, sets `NMAD_REORDER=0` or opens the session with [`ordered`](crate::Builder::ordered).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    /// What the bits are to be. Bits that do not count are ignored.
    pub value: u64,
    /// The bits that count. The top one always does: such tags belong to the library.
    pub mask: u64,
}

impl Tag {
    /// Every tag of a program's.
    pub const ANY: Tag = Tag { value: 0, mask: 0 };

    /// Value and mask as the engine wants them.
    ///
    /// # Errors
    /// [`Error::BadTag`]: it is reserved.
    #[inline]
    pub(crate) fn checked(self) -> Result<(u64, u64), Error> {
        if self.value >= RESERVED {
            return Err(Error::BadTag { tag: self.value });
        }
        let mask = self.mask | RESERVED;
        Ok((self.value & mask, mask))
    }
}

impl From<u64> for Tag {
    #[inline]
    fn from(value: u64) -> Tag {
        Tag { value, mask: EXACT }
    }
}
