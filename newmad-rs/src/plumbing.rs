//! What the project's own command uses beside the public interface. It may change in any version.

/// The knobs of marcel, pioman and newmad, as one set of names.
pub mod knobs {
    pub use crate::knobs::coll::CHECK;
    pub use crate::knobs::{RANKS, unknown, warn_of_unknown};
}

pub use crate::bootstrap::abort::abort;
pub use crate::net::shm::cma::cma_works;
pub use crate::net::verbs::ibv::{PortReport, ports};

/// How packets went over eager channels.
pub mod eager_channels {
    pub use crate::net::verbs::channels::{Counts, counts};
}

/// What a session chooses by measurement, and from what.
pub mod choices {
    pub use crate::choices::{Choice, Origin, choices};
}

/// The control network of many processes, in virtual time.
pub mod control_network {
    pub use crate::connect::network::simulation::{Counts, requests};
}

/// Locks in memory that processes share.
pub mod shared_locks {
    pub use crate::shared_locks::*;
}
