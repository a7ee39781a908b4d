//! The knobs' values, read once per session.

use std::sync::Arc;

use marcel::plumbing::knob::{Knob, KnobError};

use crate::connect::Shape;
use crate::engine::Locking;
use crate::knobs::{
    self, BOOTSTRAP, CARDS, CHANNELS, CHANNELS_AFTER, CHANNELS_RESHAPES, CHANNELS_SHAPE,
    CHANNELS_SHRINK, CHANNELS_WINDOW, CHECKSUM, CHUNKS, CMA, CONNECT_TIMEOUT, CONTROL_DIMENSIONS,
    CREDIT, DRIVER, KNOBS, LOCK, RDV_THRESHOLD, REORDER, REPAIR, SAMPLING, SHM_SLOT_SIZE,
    SHM_SLOTS, STRATEGY, TCP_ADDRESS, UNEXPECTED_MAX, VERBS_DEVICE, VERBS_RDMA, VERBS_SLOTS,
    VIRTUAL_RAILS, VIRTUAL_RAILS_WINDOW,
};
use crate::net::verbs::channels::{self, Rules, Shape as Slots, Shrink};
use crate::sampling::Source;
use crate::strategy::{self, Chunks, Strategy};
use crate::wire::MAX_RAILS;

/// The knobs' values, read once per session.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) driver: Option<String>,
    pub(crate) bootstrap: Option<String>,
    pub(crate) rdv_threshold: Option<usize>,
    pub(crate) shm_slots: usize,
    pub(crate) shm_slot_size: usize,
    pub(crate) cma: bool,
    pub(crate) unexpected_max: usize,
    pub(crate) connect_timeout: std::time::Duration,
    pub(crate) strategy: Option<Arc<dyn Strategy>>,
    pub(crate) chunks: Chunks,
    pub(crate) reorder: bool,
    pub(crate) repair: std::time::Duration,
    pub(crate) checksum: bool,
    pub(crate) credit: u64,
    pub(crate) tcp_addresses: Vec<std::net::IpAddr>,
    pub(crate) verbs_devices: Vec<String>,
    pub(crate) verbs_slots: usize,
    /// From which length on adapters read messages, if the user says so.
    pub(crate) verbs_rdma: Option<usize>,
    pub(crate) verbs_channels: channels::Settings,
    /// Virtual rails of each adapter. `None`: one for each NUMA node.
    pub(crate) virtual_rails: Option<usize>,
    pub(crate) virtual_rails_window: u32,
    pub(crate) sampling: Source,
    pub(crate) lock: Locking,
    pub(crate) control: Shape,
}

impl Settings {
    /// Reads and checks all of them, so that a wrong value is found when the session opens.
    pub(crate) fn read() -> Result<Settings, KnobError> {
        knobs::warn_of_unknown();
        let size = |knob: &Knob| Ok::<_, KnobError>(knob.int()?.map(|value| value as usize));
        let must = |knob: &Knob| size(knob).map(|value| value.unwrap_or_default());
        let shm_slots = must(&SHM_SLOTS)?;
        if !shm_slots.is_power_of_two() {
            return Err(refuse(&SHM_SLOTS, shm_slots, "a power of two from 2 to 4096"));
        }
        let shm_slot_size = must(&SHM_SLOT_SIZE)?;
        if shm_slot_size % 64 != 0 {
            return Err(refuse(
                &SHM_SLOT_SIZE,
                shm_slot_size,
                "a multiple of 64 from 128 to 1048576",
            ));
        }
        let address = TCP_ADDRESS.text()?;
        // Layers above the session read theirs when they need them.
        for knob in KNOBS {
            knob.text()?;
        }
        Ok(Settings {
            driver: DRIVER.raw()?,
            bootstrap: Some(BOOTSTRAP.text()?).filter(|word| !word.is_empty()),
            rdv_threshold: size(&RDV_THRESHOLD)?,
            shm_slots,
            shm_slot_size,
            cma: CMA.bool()?,
            unexpected_max: must(&UNEXPECTED_MAX)?,
            connect_timeout: std::time::Duration::from_millis(must(&CONNECT_TIMEOUT)? as u64),
            strategy: strategy::by_name(&STRATEGY.text()?),
            chunks: match CHUNKS.text()?.as_str() {
                "idle" => Chunks::Idle,
                _ => Chunks::Rails,
            },
            reorder: REORDER.bool()?,
            checksum: CHECKSUM.bool()?,
            credit: must(&CREDIT)? as u64,
            repair: std::time::Duration::from_millis(must(&REPAIR)? as u64),
            tcp_addresses: address
                .split(',')
                .map(|one| one.trim().parse())
                .collect::<Result<_, _>>()
                .map_err(|_| {
                    refuse(
                        &TCP_ADDRESS,
                        &address,
                        "IPv4 or IPv6 addresses of this machine, separated by commas",
                    )
                })?,
            verbs_devices: VERBS_DEVICE
                .text()?
                .split(',')
                .map(|device| device.trim().to_owned())
                .filter(|device| !device.is_empty())
                .collect(),
            verbs_slots: must(&VERBS_SLOTS)?,
            verbs_rdma: size(&VERBS_RDMA)?,
            verbs_channels: channels()?,
            virtual_rails: virtual_rails(&VIRTUAL_RAILS.text()?)?,
            virtual_rails_window: must(&VIRTUAL_RAILS_WINDOW)? as u32,
            sampling: Source::of(&SAMPLING.text()?),
            control: Shape {
                dimensions: size(&CONTROL_DIMENSIONS)?.map(|count| count as u32),
                cards_by_network: CARDS.text()? == "network",
            },
            lock: match LOCK.text()?.as_str() {
                "none" => Locking::None,
                "fine" => Locking::Fine,
                _ => Locking::Coarse,
            },
        })
    }
}

/// How many virtual rails of each adapter are wanted. `None`: one for each NUMA node.
fn virtual_rails(text: &str) -> Result<Option<usize>, KnobError> {
    match (text.trim(), text.trim().parse()) {
        ("auto", _) => Ok(None),
        (_, Ok(count)) if (1..=MAX_RAILS).contains(&count) => Ok(Some(count)),
        _ => Err(refuse(&VIRTUAL_RAILS, text, "an integer from 1 to 4, or auto")),
    }
}

/// What the knobs say about eager channels.
fn channels() -> Result<channels::Settings, KnobError> {
    let int = |knob: &Knob| Ok::<_, KnobError>(knob.int()?.map(|value| value as u64));
    let shape = CHANNELS_SHAPE.text()?;
    let fixed = match shape.trim() {
        "" => None,
        text => Some(Slots::parse(text).ok_or_else(|| {
            refuse(&CHANNELS_SHAPE, text, "slots and bytes as in 128x1024, up to 1024x8208")
        })?),
    };
    let rules = Rules {
        after: int(&CHANNELS_AFTER)?.unwrap_or_default() as u32,
        window: int(&CHANNELS_WINDOW)?.unwrap_or_default() as u32,
        reshapes: int(&CHANNELS_RESHAPES)?.map(|times| times as u32),
        fixed,
    };
    let shrink = match CHANNELS_SHRINK.text()?.as_str() {
        "emergency" => Shrink::Emergency,
        "lru" => Shrink::LeastRecentlyUsed,
        _ => Shrink::Normalisation,
    };
    Ok(channels::Settings { limit: int(&CHANNELS)?.unwrap_or_default(), shrink, rules })
}

fn refuse(knob: &Knob, value: impl ToString, accepts: &str) -> KnobError {
    KnobError { name: knob.name, value: value.to_string(), accepts: accepts.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_acceptable() {
        let settings = Settings::read().unwrap();
        assert_eq!(settings.shm_slot_size % 64, 0);
        assert_eq!(settings.virtual_rails, Some(1));
    }

    #[test]
    fn virtual_rails_are_a_number_or_auto() {
        assert_eq!(virtual_rails("auto").unwrap(), None);
        assert_eq!(virtual_rails(" 4 ").unwrap(), Some(4));
        for wrong in ["", "0", "5", "-1", "two", "2x"] {
            let error = virtual_rails(wrong).unwrap_err().to_string();
            assert!(error.contains("NMAD_VERBS_VIRTUAL_RAILS"), "{error}");
        }
    }
}
