//! Two machines on one: two network namespaces with cables between them, each of a capacity of its own.
//!
//! Nothing of this has a name outside: the namespaces are held by descriptors of the process that made them, so they
//! end, with all that is in them, when it does, however it does. The addresses are those set aside for documentation,
//! and exist in the namespaces only.
//!
//! Rejected: named namespaces (`ip netns add`): they outlive a process that is killed, and two runs need two names.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// The cables' addresses but for the last byte.
const SUBNETS: [&str; 2] = ["192.0.2", "198.51.100"];

/// How many cables there can be.
pub(crate) const CABLES: usize = SUBNETS.len();

/// Most bytes that the kernel hands to a cable as one packet: less than a bucket of the shaping holds. Longer ones
/// the shaping cuts up, frame by frame, each let go by a timer on whichever core; they arrive out of order, the
/// sender takes that for losses, and two cables together carried half of what each carried alone, in either
/// direction.
const MOST: usize = 15_000;

/// See the module.
pub(crate) struct Network {
    sides: [File; 2],
}

impl Network {
    /// Two sides with a cable for each entry, of so many megabits a second in each direction.
    ///
    /// # Errors
    /// In one sentence, what is missing.
    pub(crate) fn new(megabits: [u32; CABLES]) -> Result<Network, String> {
        let network = Network { sides: [namespace()?, namespace()?] };
        let (own, far) = (std::process::id(), network.sides[1].as_raw_fd());
        for (cable, megabits) in megabits.into_iter().enumerate() {
            let name = cable_name(cable);
            network.run(
                0,
                "ip",
                &format!("link add {name} type veth peer name {name} netns /proc/{own}/fd/{far}"),
            )?;
            for side in 0..2 {
                let address = network.address(side, cable);
                network.run(side, "ip", &format!("address add {address}/24 dev {name}"))?;
                network.run(side, "ip", &format!("link set {name} up gso_max_size {MOST}"))?;
                // A short bucket, so that a burst says little, and room for what waits behind it.
                let shape = format!(
                    "qdisc add dev {name} root tbf rate {megabits}mbit burst 16kb limit 4mb"
                );
                network.run(side, "tc", &shape)?;
            }
        }
        Ok(network)
    }

    /// The address of a side (0 or 1) on a cable.
    pub(crate) fn address(&self, side: usize, cable: usize) -> String {
        format!("{}.{}", SUBNETS[cable], side + 1)
    }

    /// Where another process finds the namespace of a side ([`enter`]), as long as this one lives.
    pub(crate) fn path(&self, side: usize) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.sides[side].as_raw_fd())
    }

    /// Runs a command on one side; words are separated by spaces.
    ///
    /// # Errors
    /// What it has said.
    pub(crate) fn run(&self, side: usize, program: &str, words: &str) -> Result<(), String> {
        let namespace = self.sides[side].as_raw_fd();
        let mut command = Command::new(program);
        command.args(words.split(' ')).stdin(Stdio::null());
        // SAFETY: setns is async-signal-safe, and the descriptor is open until after the command has ended.
        unsafe { command.pre_exec(move || set_namespace(namespace)) };
        let output = command.output().map_err(|e| format!("{program} cannot be run: {e}"))?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(format!("{program} {words}: {}", said.trim()))
            }
        }
    }
}

/// The interface at both ends of a cable.
pub(crate) fn cable_name(cable: usize) -> String {
    format!("rail{}", cable + 1)
}

/// Puts the calling thread, and those that it will start, into the namespace at `path`.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn enter(path: &str) -> Result<(), String> {
    let namespace = File::open(path).map_err(|e| format!("{path}: {e}"))?;
    set_namespace(namespace.as_raw_fd()).map_err(|e| format!("{path} cannot be entered: {e}"))
}

fn set_namespace(namespace: RawFd) -> io::Result<()> {
    // SAFETY: no memory is passed.
    match unsafe { libc::setns(namespace, libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A new network namespace. A thread makes it, so that this one stays where it is.
fn namespace() -> Result<File, String> {
    let made = std::thread::spawn(|| {
        // SAFETY: no memory is passed.
        match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
            0 => File::open("/proc/thread-self/ns/net"),
            _ => Err(io::Error::last_os_error()),
        }
    });
    let made = made.join().unwrap_or_else(|_| Err(io::Error::other("the thread failed")));
    made.map_err(|e| format!("no network namespace can be made (that needs root): {e}"))
}
