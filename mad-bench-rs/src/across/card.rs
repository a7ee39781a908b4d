//! What a process of `mad bench` publishes of itself through the process manager.

use std::fs;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::across::greeting::KEY;

/// Where a process is and how its agent is reached.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Card {
    /// Of this program: the two sides of a bench have to agree on what they say to each other and on how it was built.
    pub(super) version: String,
    /// The machine's name, for people.
    pub(super) host: String,
    /// Whose cores these are: one start of one kernel.
    pub(super) machine: String,
    /// Processes with the same value reach each other's memory: the machine, and the namespaces on which shared
    /// memory depends.
    pub(super) reach: String,
    /// The cores that it may use.
    pub(super) cpus: Vec<usize>,
    /// Where its agent listens, or why it cannot; rank 0 has none.
    pub(super) agent: Option<Result<Agent, String>>,
}

/// How an agent is reached.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Agent {
    pub(super) address: SocketAddr,
    pub(super) key: [u8; KEY],
}

impl Card {
    /// Of this process.
    pub(super) fn own(agent: Option<Result<Agent, String>>) -> Card {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let host = read("/proc/sys/kernel/hostname");
        let machine = match read("/proc/sys/kernel/random/boot_id") {
            unknown if unknown.is_empty() => host.clone(),
            boot => boot,
        };
        let namespaces = ["net", "ipc", "pid"].map(|name| {
            let link = fs::read_link(format!("/proc/self/ns/{name}")).unwrap_or_default();
            link.to_string_lossy().into_owned()
        });
        Card {
            version: version(),
            host,
            reach: format!("{machine} {}", namespaces.join(" ")),
            machine,
            cpus: marcel::topology::allowed_cpus(),
            agent,
        }
    }
}

/// What has to be the same everywhere.
pub(super) fn version() -> String {
    let build = if cfg!(debug_assertions) { "debug build" } else { "release build" };
    format!("mad {}, {build}", env!("CARGO_PKG_VERSION"))
}

/// Bytes that cannot be guessed.
pub(super) fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The address of this machine on the network that is to be used: the first of `NMAD_TCP_ADDRESS`, which newmad's tcp
/// driver takes too.
///
/// # Errors
/// When that is no address.
pub(crate) fn address() -> Result<IpAddr, String> {
    const NAME: &str = "NMAD_TCP_ADDRESS";
    let knob = crate::knobs::find(NAME).ok_or("there is no knob NMAD_TCP_ADDRESS")?;
    let text = knob.text().map_err(|e| e.to_string())?;
    let first = text.split(',').next().unwrap_or_default().trim();
    first.parse().map_err(|_| format!("{NAME}={text}: '{first}' is not an IPv4 or IPv6 address"))
}

impl Card {
    /// The version in a published card, of this version or another.
    pub(super) fn version_in(text: &str) -> Option<String> {
        let value: serde_json::Value = serde_json::from_str(text).ok()?;
        Some(value.get("version")?.as_str()?.to_owned())
    }
}
