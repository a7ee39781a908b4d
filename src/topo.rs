//! `mad topo`: the cores that this process may use, how they hang together, and what a runtime makes of them.

use std::collections::BTreeMap;

use clap::Args;
use marcel::topology::{self, Cache, Level, Node, Topology};
use serde_json::json;

use mad_bench::out::{self, Exit, Outcome};
use mad_bench::quantity;

/// Options of `mad topo`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  mad topo
  taskset -c 0 mad topo
  MARCEL_TOPOLOGY=\"numa:2 core:4\" mad topo    as if this were another machine
  MARCEL_HWLOC=0 mad topo                     from the kernel's files, even if there is hwloc
  mad topo --json

Names as they are shown (numa:0, core:3) name places where knobs and interfaces ask for one.")]
pub(crate) struct TopoArgs {
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// What there is, and what a runtime in mode smp would make of it.
struct View {
    topology: Topology,
    allowed: Vec<usize>,
    quota: Option<f64>,
    /// The core of each compute virtual processor.
    placement: Vec<usize>,
}

impl View {
    fn new() -> Result<View, marcel::Error> {
        let topology = Topology::current()?;
        let asked = mad_bench::knobs::find("MARCEL_NVP").map_or(Ok(None), |knob| knob.int())?;
        let vps = asked.map_or_else(|| topology.vp_count(), |n| n as usize);
        Ok(View {
            placement: topology.cores_for(vps, None)?,
            allowed: topology::allowed_cpus(),
            quota: topology::cgroup_quota(),
            topology,
        })
    }

    fn json(&self) -> serde_json::Value {
        let cache = |cache: &Cache| json!({"level": cache.level.get(), "size": cache.size});
        let node = |node: &Node| {
            json!({
                "level": node.level.to_string(), "id": node.id, "cpus": node.cpus, "parent": node.parent,
                "caches": node.caches.iter().map(cache).collect::<Vec<_>>(),
            })
        };
        let vp = |(index, &core): (usize, &usize)| json!({"vp": index, "core": core, "cpu": self.topology.real_cpu(core)});
        json!({
            "source": self.topology.source().to_string(), "synthetic": self.topology.is_synthetic(),
            "allowed_cpus": self.allowed, "cgroup_quota": self.quota,
            "virtual_processors": self.placement.len(),
            "placement": self.placement.iter().enumerate().map(vp).collect::<Vec<_>>(),
            "nodes": self.topology.nodes().iter().map(node).collect::<Vec<_>>(),
        })
    }

    fn text(&self) -> String {
        let mut vps_at: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (vp, &core) in self.placement.iter().enumerate() {
            vps_at.entry(core).or_default().push(vp);
        }
        let mut text = String::new();
        for (index, node) in self.topology.nodes().iter().enumerate() {
            text.push_str(&"  ".repeat(self.topology.depth_of(index)));
            text.push_str(&self.line(node));
            let leaf =
                node.cpus.first().copied().filter(|&c| self.topology.leaf_of(c) == Some(index));
            if let Some(core) = leaf {
                text.push_str(&self.vps(core, vps_at.get(&core)));
            }
            text.push('\n');
        }
        let vps = self.placement.len();
        let quota = self.quota.map_or("none".into(), |quota| format!("{quota:.2} CPUs"));
        text.push_str(&format!(
            "\nsource:        {}\n\
             allowed cores: {}\n\
             cgroup quota:  {quota}\n\
             a runtime in mode smp has {vps} compute virtual processor{} (MARCEL_NVP changes that)\n",
            self.topology.source(),
            ranges(&self.allowed),
            if vps == 1 { "" } else { "s" },
        ));
        if self.placement.iter().any(|&core| self.topology.real_cpu(core).is_none()) {
            text.push_str(
                "there are fewer allowed cores than synthetic ones: kernel threads are bound to none\n",
            );
        }
        text
    }

    fn line(&self, node: &Node) -> String {
        let name = match node.level {
            Level::Machine => "machine".to_owned(),
            level => format!("{level}:{}", node.id),
        };
        let sizes: Vec<String> = node
            .caches
            .iter()
            .filter_map(|cache| {
                let size = quantity::size(cache.size?);
                Some(match node.level {
                    Level::Cache(_) => size,
                    _ => format!("l{} {size}", cache.level.get()),
                })
            })
            .collect();
        let cores = match node.cpus.len() {
            0 | 1 => String::new(),
            _ => format!("  cores {}", ranges(&node.cpus)),
        };
        let sizes =
            if sizes.is_empty() { String::new() } else { format!("  {}", sizes.join(", ")) };
        name + &cores + &sizes
    }

    /// The virtual processors on a core, and where the kernel would have them if that is another one.
    fn vps(&self, core: usize, vps: Option<&Vec<usize>>) -> String {
        let Some(vps) = vps else { return String::new() };
        let on = match self.topology.real_cpu(core) {
            Some(cpu) if self.topology.is_synthetic() => {
                format!(" (bound to core {cpu} of this machine)")
            }
            _ => String::new(),
        };
        format!("  VP {}{on}", ranges(vps))
    }
}

/// Ascending numbers as the kernel writes them: 0-3,8.
fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        run => run.iter().map(ToString::to_string).collect(),
    });
    runs.collect::<Vec<_>>().join(",")
}

/// Prints the tree.
pub(crate) fn run(args: &TopoArgs) -> Outcome {
    let view = View::new().map_err(|e| Exit::Failed(e.to_string()))?;
    out::print(&if args.json { view.json().to_string() } else { view.text() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }
}
