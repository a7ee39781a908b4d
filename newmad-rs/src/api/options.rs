//! What a send or a receive may be told beside rank, tag and buffer.

use crate::memory::layout::Strided;
use crate::request::Request;

/// How a message is sent: [`Session::send_with`](crate::Session::send_with) and its kin. A [`Strided`] alone stands for
/// the usual way, from these blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct SendOptions {
    pub(crate) sync: bool,
    pub(crate) priority: i8,
    pub(crate) layout: Option<Strided>,
}

impl SendOptions {
    /// The usual way.
    #[inline]
    pub const fn new() -> SendOptions {
        SendOptions { sync: false, priority: 0, layout: None }
    }

    /// The send ends only when a receive has matched the message, however short it is.
    #[inline]
    pub const fn sync(self) -> SendOptions {
        SendOptions { sync: true, ..self }
    }

    /// How urgent the message is: where the session's strategy is `prio`, what waits leaves in this order (0: as usual;
    /// more is more urgent). Messages with one tag keep their order.
    #[inline]
    pub const fn priority(self, priority: i8) -> SendOptions {
        SendOptions { priority, ..self }
    }

    /// The message is gathered from blocks of the buffer, the first of which is at its beginning.
    #[inline]
    pub const fn layout(self, layout: Strided) -> SendOptions {
        SendOptions { layout: Some(layout), ..self }
    }

    /// A request of a message with these options; its layout was seen to.
    #[inline]
    pub(crate) fn apply(self, request: &mut Request) {
        request.priority = self.priority;
        if self.sync {
            request.announce();
        }
    }

    /// Whether the message may leave without a request.
    #[inline]
    pub(crate) const fn is_plain(&self) -> bool {
        !self.sync && self.priority == 0 && self.layout.is_none()
    }
}

impl From<Strided> for SendOptions {
    fn from(layout: Strided) -> SendOptions {
        SendOptions::new().layout(layout)
    }
}

/// How a message is received: [`Session::recv_with`](crate::Session::recv_with) and its kin. A [`Strided`] alone stands
/// for the usual way, into these blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct RecvOptions {
    pub(crate) layout: Option<Strided>,
}

impl RecvOptions {
    /// The usual way.
    #[inline]
    pub const fn new() -> RecvOptions {
        RecvOptions { layout: None }
    }

    /// The message is spread over blocks of the buffer, the first of which is at its beginning; what is between them is
    /// not touched.
    #[inline]
    pub const fn layout(self, layout: Strided) -> RecvOptions {
        RecvOptions { layout: Some(layout) }
    }
}

impl From<Strided> for RecvOptions {
    fn from(layout: Strided) -> RecvOptions {
        RecvOptions::new().layout(layout)
    }
}
