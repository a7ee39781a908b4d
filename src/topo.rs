//! `mad topo`: the cores that this process may use, how they hang together, and what a runtime makes of them.

use clap::Args;
use marcel::topology::{self, Level, Node, Topology};
use serde_json::json;

use crate::out::{self, Exit, Outcome};

/// Options of `mad topo`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  mad topo
  taskset -c 0 mad topo
  mad topo --json")]
pub(crate) struct TopoArgs {
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Prints the tree.
pub(crate) fn run(args: &TopoArgs) -> Outcome {
    let topology = Topology::current().map_err(|e| Exit::Failed(e.to_string()))?;
    let nodes = topology.nodes();
    let quota = topology::cgroup_quota();
    let vps = topology.vp_count();
    if args.json {
        let list: Vec<_> = nodes
            .iter()
            .map(|n| json!({"level": n.level.to_string(), "id": n.id, "cpus": n.cpus, "parent": n.parent}))
            .collect();
        return out::print(
            &json!({
                "allowed_cpus": topology::allowed_cpus(), "cgroup_quota": quota,
                "virtual_processors": vps, "nodes": list,
            })
            .to_string(),
        );
    }
    let mut text = String::new();
    if !nodes.is_empty() {
        draw(nodes, 0, 0, &mut text);
    }
    let quota = quota.map_or("none".into(), |quota| format!("{quota:.2} CPUs"));
    text.push_str(&format!(
        "\nallowed cores: {:?}\n\
         cgroup quota:  {quota}\n\
         a runtime in mode smp has {vps} compute virtual processor{} (MARCEL_NVP changes that)\n",
        topology::allowed_cpus(),
        if vps == 1 { "" } else { "s" },
    ));
    out::print(&text)
}

fn draw(nodes: &[Node], at: usize, depth: usize, text: &mut String) {
    let node = &nodes[at];
    let indent = "  ".repeat(depth);
    text.push_str(&match node.level {
        Level::Machine => format!("{indent}machine\n"),
        level @ (Level::Core | Level::Pu) => format!("{indent}{level} {}\n", node.id),
        other => format!("{indent}{} {} (cores {:?})\n", other, node.id, node.cpus),
    });
    for (child, _) in nodes.iter().enumerate().filter(|(_, node)| node.parent == Some(at)) {
        draw(nodes, child, depth + 1, text);
    }
}
