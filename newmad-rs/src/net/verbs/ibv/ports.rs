//! Which adapters and ports there are.

use std::ffi::CStr;
use std::io;

use super::choice::{Version, choose};
use super::library::constant::{LINK_LAYER_ETHERNET, PORT_ACTIVE};
use super::library::{Context, Device, DeviceAttributes, Ibverbs, PortAttributes, library};
use super::owned::Owned;

/// A port, as `mad doctor` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortReport {
    /// As `NMAD_VERBS_DEVICE` names it: adapter and port.
    pub name: String,
    /// Whether messages can go over it.
    pub is_active: bool,
    /// InfiniBand, RoCE v2 or RoCE v1.
    pub network: &'static str,
    /// The address by which it is used.
    pub address: String,
}

/// An adapter that is open.
pub(super) struct Open {
    pub(super) lib: &'static Ibverbs,
    pub(super) context: Owned<Context>,
}

/// What is known of a port, and by which address it is used.
#[derive(Clone, Copy)]
pub(super) struct PortState {
    pub(super) attributes: PortAttributes,
    pub(super) gid: Option<Address>,
}

/// An address of a port: its place in the port's table, its kind, itself.
pub(super) type Address = (u8, Version, [u8; 16]);

impl PortState {
    pub(super) fn is_active(&self) -> bool {
        self.attributes.state == PORT_ACTIVE
    }

    pub(super) fn is_ethernet(&self) -> bool {
        self.attributes.link_layer == LINK_LAYER_ETHERNET
    }
}

impl Open {
    /// # Errors
    /// The library refuses.
    pub(super) fn attributes(&self) -> io::Result<DeviceAttributes> {
        // SAFETY: numbers, for which zero is valid.
        let mut attributes: DeviceAttributes = unsafe { std::mem::zeroed() };
        // SAFETY: the context lives; a local of the type that is asked for.
        match unsafe { (self.lib.query_device)(self.context.as_ptr(), &raw mut attributes) } {
            0 => Ok(attributes),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// `known`: the address by which the port was used before, which stays while it is there. To look for one is to read
    /// the table entry by entry, 256 at most: soft-RoCE has 1,024.
    ///
    /// # Errors
    /// The library refuses.
    pub(super) fn port(
        &self,
        name: &str,
        port: u8,
        known: Option<Address>,
    ) -> io::Result<PortState> {
        // SAFETY: numbers, for which zero is valid.
        let mut attributes: PortAttributes = unsafe { std::mem::zeroed() };
        // SAFETY: the context lives; a local of the type that is asked for.
        match unsafe { (self.lib.query_port)(self.context.as_ptr(), port, &raw mut attributes) } {
            0 => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
        let mut state = PortState { attributes, gid: known };
        let is_there = |(place, _, gid)| self.gid(port, i32::from(place)) == gid;
        if known.is_some_and(is_there) {
            return Ok(state);
        }
        let table: Vec<_> = (0..attributes.gid_tbl_len.clamp(0, 256))
            .map(|place| {
                let gid = self.gid(port, place);
                (Open::version(name, port, place, gid), gid)
            })
            .collect();
        let place = match state.is_ethernet() {
            true => choose(&table),
            false => (!table.is_empty()).then_some(0),
        };
        state.gid = place.map(|place| (place as u8, table[place].0, table[place].1));
        Ok(state)
    }

    /// An entry of the table of addresses; zeros where there is none.
    fn gid(&self, port: u8, place: i32) -> [u8; 16] {
        let mut gid = [0; 16];
        // SAFETY: the context lives; a local of an address's size.
        match unsafe { (self.lib.query_gid)(self.context.as_ptr(), port, place, &raw mut gid) } {
            0 => gid,
            _ => [0; 16],
        }
    }

    /// What kind of address that entry is. The kernel knows none for an empty place.
    fn version(name: &str, port: u8, place: i32, gid: [u8; 16]) -> Version {
        let path = format!("/sys/class/infiniband/{name}/ports/{port}/gid_attrs/types/{place}");
        let is_empty = gid == [0; 16];
        let text = if is_empty { Ok(String::new()) } else { std::fs::read_to_string(path) };
        Version::of(&text.unwrap_or_default())
    }
}

/// Why there is no adapter, with the way out.
fn absence() -> String {
    if std::path::Path::new("/sys/class/infiniband").exists() {
        "this machine has no adapter that libibverbs knows (see /sys/class/infiniband and the package \
         ibverbs-providers); soft-RoCE makes one of a network interface: rdma link add rxe0 type rxe netdev eth0"
            .into()
    } else {
        "this machine has no adapter: the kernel has no InfiniBand or RoCE device (module ib_core)"
            .into()
    }
}

/// Gives every adapter to `each`, by name.
fn each_device<T>(
    lib: &'static Ibverbs,
    mut each: impl FnMut(&str, *mut Device) -> Option<T>,
) -> Result<Option<T>, String> {
    let mut count = 0;
    // SAFETY: a local for the number.
    let list = unsafe { (lib.get_device_list)(&raw mut count) };
    if list.is_null() {
        return match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENOSYS) => Err(absence()),
            error => Err(format!("the adapters cannot be listed: {error}")),
        };
    }
    // SAFETY: the library says that so many pointers are there.
    let devices = unsafe { std::slice::from_raw_parts(list, count.max(0) as usize) };
    let mut devices: Vec<(String, *mut Device)> = devices
        .iter()
        .map(|&device| {
            // SAFETY: a device of the list, whose name ends with a zero.
            let name = unsafe { CStr::from_ptr((*device).name.as_ptr()) };
            (name.to_string_lossy().into_owned(), device)
        })
        .collect();
    devices.sort();
    let found = devices.iter().find_map(|(name, device)| each(name, *device));
    let none = devices.is_empty();
    // SAFETY: from above, and not used any more.
    unsafe { (lib.free_device_list)(list) };
    if none { Err(absence()) } else { Ok(found) }
}

/// Opens a device of a list.
fn open(lib: &'static Ibverbs, name: &str, device: *mut Device) -> Result<Open, String> {
    // SAFETY: a device of a list that was not freed; a context keeps what it needs of it.
    let context = unsafe { Owned::new((lib.open_device)(device), lib.close_device) };
    context.map(|context| Open { lib, context }).map_err(|error| {
        // The library goes on to look elsewhere, and its last error is of that.
        // SAFETY: as above; the name ends with a zero.
        let file = unsafe { CStr::from_ptr((*device).dev_name.as_ptr()) };
        let path = std::path::Path::new("/dev/infiniband").join(&*file.to_string_lossy());
        let wanted = rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK;
        if rustix::fs::access(&path, wanted) == Err(rustix::io::Errno::ACCESS) {
            return format!(
                "{name} may not be opened: this user needs to read and write {} (on many systems: be in the group rdma)",
                path.display()
            );
        }
        format!("{name} cannot be opened: {error}")
    })
}

/// The ports of this machine's adapters, in the order of names.
///
/// # Errors
/// The reason, as text, why there is none, or none may be opened.
pub fn ports() -> Result<Vec<PortReport>, String> {
    let lib = library()?;
    let mut reports = Vec::new();
    let mut trouble = None;
    each_device(lib, |name, device| {
        match open(lib, name, device) {
            Ok(open) => reports.extend(reports_of(&open, name)),
            Err(why) => trouble = Some(why),
        }
        None::<()>
    })?;
    match trouble {
        Some(why) if reports.is_empty() => Err(why),
        _ => Ok(reports),
    }
}

fn reports_of(open: &Open, name: &str) -> Vec<PortReport> {
    let count = open.attributes().map_or(0, |attributes| attributes.phys_port_cnt);
    let report = |port| {
        let state = open.port(name, port, None).ok()?;
        let (_, version, gid) = state.gid?;
        let address = std::net::Ipv6Addr::from(gid);
        let network = match (state.is_ethernet(), version) {
            (false, _) => "InfiniBand",
            (true, Version::Two) => "RoCE v2",
            (true, Version::One) => "RoCE v1",
        };
        let address = match address.to_ipv4_mapped() {
            Some(address) => address.to_string(),
            None => address.to_string(),
        };
        Some(PortReport {
            name: format!("{name}:{port}"),
            is_active: state.is_active(),
            network,
            address,
        })
    };
    (1..=count).filter_map(report).collect()
}

/// Opens the adapter of this name.
pub(super) fn open_named(wanted: &str) -> Result<Open, String> {
    let lib = library()?;
    let opened =
        each_device(lib, |name, device| (name == wanted).then(|| open(lib, name, device)))?;
    opened.unwrap_or_else(|| {
        let names: Vec<_> = ports().unwrap_or_default().into_iter().map(|port| port.name).collect();
        Err(format!("there is no adapter {wanted}: this machine has {}", names.join(", ")))
    })
}
