//! What a completion queue tells.

use super::library::WorkCompletion;
use super::library::constant::{WC_RETRY_EXC_ERR, WC_SUCCESS, WC_WITH_IMM, WC_WR_FLUSH_ERR};

/// A request that is over.
#[derive(Clone, Copy)]
pub(in crate::net::verbs) struct Completion(pub(super) WorkCompletion);

impl Completion {
    /// The number that the request had.
    #[inline]
    pub(in crate::net::verbs) fn number(&self) -> u64 {
        self.0.wr_id
    }

    /// The queue pair that it was for.
    #[inline]
    pub(in crate::net::verbs) fn queue_pair(&self) -> u32 {
        self.0.qp_num
    }

    /// Whether it was done; else the `errno` that says most of what the adapter says.
    #[inline]
    pub(in crate::net::verbs) fn outcome(&self) -> Result<(), i32> {
        match self.0.status {
            WC_SUCCESS => Ok(()),
            // The peer's adapter, or the way to it, does not answer.
            WC_RETRY_EXC_ERR => Err(libc::ETIMEDOUT),
            // The queue pair failed before.
            WC_WR_FLUSH_ERR => Err(libc::ECONNABORTED),
            _ => Err(libc::EIO),
        }
    }

    /// Of a receive that was done: its length, and the word that came along.
    #[inline]
    pub(in crate::net::verbs) fn received(&self) -> (usize, Option<u32>) {
        let word = (self.0.wc_flags & WC_WITH_IMM != 0).then(|| u32::from_be(self.0.imm_data));
        (self.0.byte_len as usize, word)
    }
}
