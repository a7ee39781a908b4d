//! Two machines on one: a network namespace each, and a cable between them.

use std::process::{Child, Command, Stdio};

use super::eventually;

/// Processes that hold a network namespace each, with a cable between the two; they end with the test.
pub struct Machines([Child; 2]);

impl Machines {
    /// `None` where this is not allowed.
    pub fn new() -> Option<Machines> {
        let holder = || {
            Command::new("unshare").args(["-n", "sleep", "600"]).stderr(Stdio::null()).spawn().ok()
        };
        let machines = Machines([holder()?, holder()?]);
        let mine = std::fs::read_link("/proc/self/ns/net").ok()?;
        let apart = |pid: u32| {
            std::fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|other| other != mine)
        };
        let [a, b] = [0, 1].map(|at| machines.0[at].id());
        // Root or not is known when `unshare` has done it or has ended.
        let gone = |pid: u32| {
            std::fs::read_to_string(format!("/proc/{pid}/stat"))
                .is_ok_and(|stat| stat.contains(") Z "))
        };
        assert!(eventually(|| [a, b].iter().all(|&pid| apart(pid) || gone(pid))));
        let ip = |pid: u32, words: &str| {
            let mut command = Command::new("nsenter");
            command.args(["-t", &pid.to_string(), "-n", "ip"]).args(words.split(' '));
            command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        let mut made = ip(a, &format!("link add cable type veth peer name cable netns {b}"));
        for (pid, address) in [(a, "192.0.2.1/24"), (b, "192.0.2.2/24")] {
            made = made && ip(pid, &format!("address add {address} dev cable"));
            made = made && ip(pid, "link set cable up") && ip(pid, "link set lo up");
        }
        made.then_some(machines)
    }

    /// What a shell says to have a rank's program run on its machine.
    pub fn shell(&self) -> String {
        let [a, b] = [0, 1].map(|at| self.0[at].id());
        format!(
            "[ $PMI_RANK = 0 ] && at={a} || at={b}; export NMAD_TCP_ADDRESS=${{ADDRESS-192.0.2.$((PMI_RANK + 1))}}; \
             set -- nsenter -t $at -n \"$0\" bench \"$@\"; exec \"$@\""
        )
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
