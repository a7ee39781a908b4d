//! The end of a communicator that its members come to together.

use super::Comm;
use super::agreement::Agreement;
use crate::error::Fault;

impl Comm {
    /// As [`Comm::free`], after all members have come to this. The circle closes with its last communicator.
    ///
    /// # Errors
    /// The function of an attribute has failed; a member has failed.
    pub(crate) fn disconnect(&self) -> Result<(), Fault> {
        let sent = self.buffer.flush();
        let met = Agreement::of_comm(self).and_then(|all| all.any(false).map(drop));
        self.circle.part();
        // A member that has failed is no reason to stay connected with the others.
        self.free().and(met).and(sent)
    }
}
