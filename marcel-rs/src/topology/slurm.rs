//! The tasks of a Slurm step that share this one's cores.
//!
//! Slurm gives each task the number of tasks per node (`SLURM_STEP_TASKS_PER_NODE`, as `2(x3),1`), the task's node
//! (`SLURM_NODEID`) and the task's number on it (`SLURM_LOCALID`). If Slurm binds tasks, `SLURM_CPU_BIND_TYPE` and
//! `SLURM_CPU_BIND_LIST` have the masks or cores, which tasks take in turn. A task with another mask is no neighbour,
//! since the masks have divided the cores already. A batch script outside a step has no such variables.

/// Most tasks of a node.
const MOST: usize = 1 << 16;

/// The number of tasks that share this one's cores, and the rank of this one among them; `None` outside a step.
pub(super) fn neighbours(variable: impl Fn(&str) -> Option<String>) -> Option<(usize, usize)> {
    let number = |name| variable(name)?.parse::<usize>().ok();
    let tasks = tasks_of(number("SLURM_NODEID")?, &variable("SLURM_STEP_TASKS_PER_NODE")?)?;
    let me = number("SLURM_LOCALID").filter(|&me| me < tasks)?;
    let bound = variable("SLURM_CPU_BIND_TYPE")
        .is_some_and(|kind| kind.starts_with("mask_") || kind.starts_with("map_"));
    let list = variable("SLURM_CPU_BIND_LIST").filter(|_| bound).unwrap_or_default();
    let places: Vec<&str> = list.split(',').collect();
    let same = |other: &usize| places[other % places.len()] == places[me % places.len()];
    Some(((0..tasks).filter(same).count(), (0..me).filter(same).count()))
}

/// The number of tasks of node `node`; `None` for more than a machine can have.
fn tasks_of(node: usize, per_node: &str) -> Option<usize> {
    let mut before = 0;
    for word in per_node.split(',') {
        let (tasks, nodes) = match word.split_once("(x") {
            Some((tasks, nodes)) => (tasks, nodes.strip_suffix(')')?.parse().ok()?),
            None => (word, 1usize),
        };
        if node - before < nodes {
            return tasks.parse().ok().filter(|&tasks| tasks <= MOST);
        }
        before += nodes;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(node: &str, task: &str, per_node: &str, bind: (&str, &str)) -> Option<(usize, usize)> {
        neighbours(|name| {
            let value = match name {
                "SLURM_NODEID" => node,
                "SLURM_LOCALID" => task,
                "SLURM_STEP_TASKS_PER_NODE" => per_node,
                "SLURM_CPU_BIND_TYPE" => bind.0,
                "SLURM_CPU_BIND_LIST" => bind.1,
                _ => "",
            };
            Some(value.to_owned()).filter(|value| !value.is_empty())
        })
    }

    #[test]
    fn the_tasks_of_ones_own_node_are_neighbours() {
        assert_eq!(told("0", "2", "3", ("", "")), Some((3, 2)));
        assert_eq!(told("2", "1", "2(x3),1", ("none", "")), Some((2, 1)));
        assert_eq!(told("3", "0", "2(x3),1", ("", "")), Some((1, 0)));
        // As Slurm without a plug-in for binding says it.
        assert_eq!(told("0", "1", "2", ("cores", "cores")), Some((2, 1)));
    }

    #[test]
    fn tasks_bound_to_other_cores_are_none() {
        assert_eq!(told("0", "1", "4", ("mask_cpu:", "0x1,0x2,0x4,0x8")), Some((1, 0)));
        assert_eq!(told("0", "1", "4", ("mask_cpu:", "0xf")), Some((4, 1)));
        assert_eq!(told("0", "3", "4", ("mask_cpu:", "0x3,0x3,0xc,0xc")), Some((2, 1)));
        assert_eq!(told("0", "2", "4", ("map_cpu:", "0,1")), Some((2, 1)));
    }

    #[test]
    fn what_makes_no_sense_is_no_step() {
        for (node, task, per_node) in [
            ("", "", ""),
            ("0", "", "2"),
            ("0", "2", "2"),
            ("1", "0", "2"),
            ("-1", "0", "2"),
            ("0", "0", "2(x"),
            ("0", "0", "2(x)"),
            ("0", "0", "(x2)"),
            ("1", "0", "2(x0),x"),
            ("0", "0", "18446744073709551615"),
        ] {
            assert_eq!(told(node, task, per_node, ("", "")), None, "{node} {task} {per_node}");
        }
        let all = "2(x18446744073709551615),1";
        assert_eq!(told("18446744073709551614", "1", all, ("", "")), Some((2, 1)));
        assert_eq!(told("18446744073709551615", "0", all, ("", "")), Some((1, 0)));
    }
}
