//! An experiment that is ready to be measured: what cannot be measured here is left out, and what the rest runs in is
//! set up.

use std::path::Path;

use crate::across::Hosts;
use crate::config::{Config, distinct};
use crate::experiments::{BENCHES, find};
use crate::harness::drive::Campaign;
use crate::harness::experiment::{Absent, Bench, Effort};
use crate::harness::{key, mpi};
use crate::out::{self, Exit};

/// A bench that is ready to be measured.
pub(crate) struct Ready<'a> {
    pub(crate) campaign: Campaign<'a>,
    /// Something vital cannot be measured here.
    pub(crate) absent: bool,
    /// What its processes run in.
    _held: Option<Box<dyn std::any::Any>>,
}

/// Leaves out what cannot be measured here, and sets up what the rest runs in.
pub(crate) fn ready<'a>(
    bench: &'static Bench,
    mut points: Vec<Config>,
    effort: Effort,
    peers: bool,
    hosts: Option<&'a Hosts>,
) -> Result<Ready<'a>, Exit> {
    let absent = absent(bench, peers, effort.peers_dir.as_deref(), &mut points, hosts)?;
    let cannot = |why| Exit::Failed(format!("bench {} cannot run here: {why}", bench.name));
    let (env, held) = match &bench.staged {
        None => (Vec::new(), None),
        Some(stage) => {
            let stage = stage().map_err(cannot)?;
            (stage.env, Some(stage.holds))
        }
    };
    let campaign = Campaign::new(bench, points, effort, env, hosts);
    Ok(Ready { campaign, absent, _held: held })
}

/// As `mad bench NAME` with these options: for `mad report`. Libraries that are missing are left out.
pub(crate) fn ready_for_report(
    name: &str,
    given: &[(&'static str, &str)],
    mut effort: Effort,
) -> Result<Ready<'static>, Exit> {
    let bench = find(name).ok_or_else(|| Exit::Failed(format!("there is no bench '{name}'")))?;
    let grid = key::grid(bench.name, bench.keys, given).map_err(Exit::Failed)?;
    effort.peers_dir = effort.peers_dir.filter(|_| bench.mpi.is_some());
    ready(bench, (bench.points)(grid), effort, false, None)
}

/// What several ranks of a process manager cannot measure.
fn elsewhere(bench: &Bench, hosts: &Hosts, points: &[Config]) -> Vec<Absent> {
    let refused = |point: &Config| {
        match mpi::is(point) {
        true => Some(
            "MPI libraries: they have launchers of their own; `mad bench` without a process manager measures them, on one machine"
                .to_owned(),
        ),
        false => hosts.refuses(point, bench.ranks_of(point)),
    }
    };
    let points = points.iter().enumerate();
    points.filter_map(|(index, point)| Some((index, refused(point)?))).collect()
}

/// Takes out the points that cannot be measured here, after saying why. True if one of them is vital.
fn absent(
    bench: &Bench,
    peers: bool,
    peers_dir: Option<&Path>,
    points: &mut Vec<Config>,
    hosts: Option<&Hosts>,
) -> Result<bool, Exit> {
    for (given, option, has) in [
        (peers, "--peers", bench.apart.is_some_and(|apart| apart.builds)),
        (peers_dir.is_some(), "--peers-dir", bench.mpi.is_some()),
    ] {
        if given && !has {
            let has =
                |one: &&&Bench| one.mpi.is_some() || one.apart.is_some_and(|apart| apart.builds);
            let others: Vec<&str> = BENCHES.iter().filter(has).map(|bench| bench.name).collect();
            return Err(Exit::Usage(format!(
                "bench {} has no option '{option}': that is for {}",
                bench.name,
                others.join(", ")
            )));
        }
    }
    let absent = match (hosts, bench.apart, bench.mpi) {
        (Some(hosts), ..) => elsewhere(bench, hosts, points),
        (None, Some(apart), _) => (apart.prepare)(points, peers),
        (None, None, Some(with)) => mpi::prepare(points, with, peers_dir),
        (None, None, None) => return Ok(false),
    };
    for why in distinct(absent.iter().map(|(_, why)| why)) {
        out::complain(&format!("mad bench: left out: {why}"));
    }
    let is_vital = |point| bench.apart.is_some_and(|apart| (apart.vital)(point));
    let vital = absent.iter().any(|(index, _)| is_vital(&points[*index]));
    let mut index = 0;
    points.retain(|_| {
        index += 1;
        !absent.iter().any(|(gone, _)| *gone == index - 1)
    });
    match points.is_empty() {
        false => Ok(vital),
        true => Err(Exit::Failed(format!(
            "bench: nothing is left to be measured: `mad bench --list {}` says what goes with what",
            bench.name
        ))),
    }
}
