//! What every experiment is run with: keys and grids, processes, samples and statistics, other libraries, tables.

pub(crate) mod check;
pub(crate) mod drive;
pub(crate) mod experiment;
pub(crate) mod key;
pub(crate) mod libraries;
pub(crate) mod line;
pub(crate) mod mpi;
pub(crate) mod present;
pub(crate) mod program;
pub(crate) mod results;
pub(crate) mod stats;
pub(crate) mod turns;
pub(crate) mod worker;
