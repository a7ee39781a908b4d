//! What the project's own command uses beside the public interface. It may change in any version.

pub use crate::net::shm::cma::cma_works;
