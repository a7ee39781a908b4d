//! Lines in groups, and the names of the curves of a group.

use crate::harness::line::Line;
use crate::harness::mpi::is_newmads;
use crate::report::names;

/// Lines with the metric, in groups that agree in the keys.
pub(super) fn groups<'a>(
    lines: &'a [Line],
    metric: &str,
    apart: &[&str],
) -> Vec<(String, Vec<&'a Line>)> {
    let mut groups: Vec<(String, Vec<&Line>)> = Vec::new();
    for line in lines.iter().filter(|line| line.metric == metric) {
        let words: Vec<String> =
            apart.iter().map(|key| names::of(line, key)).filter(|word| !word.is_empty()).collect();
        let name = words.join(", ");
        match groups.iter_mut().find(|(other, _)| *other == name) {
            Some((_, members)) => members.push(line),
            None => groups.push((name, vec![line])),
        }
    }
    groups
}

/// What tells a line from the others of its group, in words.
pub(super) fn label(line: &Line, group: &[&Line], without: &[&str]) -> String {
    let words: Vec<String> = line
        .config
        .iter()
        .filter(|(key, _)| !without.contains(key))
        .filter(|(key, _)| {
            // What MPI libraries do not have tells nothing from them, and nothing about them.
            let theirs = |line: &Line| is_newmads(key) && line.key(key) == "none";
            let differs = |other: &&Line| !theirs(other) && other.key(key) != line.key(key);
            !theirs(line) && group.iter().any(differs)
        })
        .map(|(key, value)| names::value(key, value))
        .collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::line::tests::line;

    #[test]
    fn a_curve_is_named_by_its_library_and_by_what_else_differs() {
        let of = |library, mode, offload| {
            let keys = [("library", library), ("mode", mode), ("offload", offload), ("size", "4")];
            line("total_time", &keys, 1.0)
        };
        let lines = [
            of("newmad", "smp", "auto"),
            of("newmad", "smp", "never"),
            of("mpich", "none", "none"),
        ];
        let group: Vec<&Line> = lines.iter().collect();
        let names: Vec<String> = lines.iter().map(|line| label(line, &group, &["size"])).collect();
        assert_eq!(names, ["newmad, idle cores submit", "newmad, the caller submits", "mpich"]);
        let locks = ["none", "coarse"].map(|lock| line("half_round_trip", &[("lock", lock)], 1.0));
        let group: Vec<&Line> = locks.iter().collect();
        assert_eq!(label(group[0], &group, &[]), "no lock");
        assert_eq!(label(group[1], &group, &[]), "coarse");
    }
}
