//! What pioman and newmad build on, and programs have no use for. It changes without notice.

pub use crate::list::{Chained, Inbox, Leave, Linked, Links, List, Listed, RawInbox};
