//! What an engine takes over from a sampling.

use crate::engine::core::Core;
use crate::net::Driver;
use crate::sampling::{FED_NS, Sampling, rail_names};

impl<D: Driver> Core<D> {
    /// Takes over what is known of the rails.
    pub(crate) fn learn(&mut self, sampling: &Sampling) {
        let names = rail_names(self.rails.iter().map(|rail| rail.driver.name()));
        for (rail, name) in self.rails.iter_mut().zip(names) {
            if let Some(pace) = sampling.pace(&name) {
                rail.pace = pace;
                rail.copies = !rail.driver.calls_the_kernel() || pace.mib_ns < FED_NS;
            }
        }
    }
}
