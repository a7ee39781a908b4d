//! Runs the programs: the worker's side of the points of an MPI library.

use marcel::topology::allowed_cpus;

use crate::harness::experiment::{Bench, Program};
use crate::harness::mpi::library::find;
use crate::harness::program::{self, ENDING};
use crate::harness::results::Metric;
use crate::harness::worker::{Emit, Record, Spec, WorkResult};
use crate::out::complain;

/// Measures the points, all of one library and driver.
///
/// # Errors
/// When the library is not there, fails, or says something else than it should.
pub(crate) fn work(bench: &Bench, spec: &Spec) -> WorkResult {
    let with = bench.mpi.ok_or("this bench knows no MPI libraries")?;
    let emit = Emit::of(0);
    let mut programs: Vec<(Program, Vec<String>)> = Vec::new();
    for (number, config) in &spec.points {
        let program = with(config);
        let [a, b, c] = program.numbers;
        let point = format!("{number}:{a}:{b}:{c}");
        match programs
            .iter_mut()
            .find(|(known, _)| known.name == program.name && known.ranks == program.ranks)
        {
            Some((_, points)) => points.push(point),
            None => programs.push((program, vec![point])),
        }
    }
    let (library, driver) = match spec.points.first() {
        Some((_, config)) => (config.text("library"), config.text("driver")),
        None => return Ok(()),
    };
    let of = |why: &dyn std::fmt::Display| format!("{library}: {why}");
    let installed = find(library, spec.peers_dir.as_deref())?;
    let numbers: Vec<usize> = spec.points.iter().map(|(number, _)| *number).collect();
    for (program, points) in &programs {
        let path = installed.build(program.name)?;
        let cores = allowed_cpus();
        let mut command = installed.launch(
            &path,
            driver,
            (program.ranks, program.ranks as usize > cores.len()),
            program.each,
        );
        command.envs(program.knobs.iter().copied());
        command.arg(places(program, &cores)).arg(spec.iters.to_string()).args(points);
        let mut heard = 0;
        let mut wrong = None;
        let outcome = program::run(&mut command, |line| {
            match parse(&line, &numbers) {
                Some(Record::Samples(number, metric, samples)) => {
                    heard += 1;
                    if let Some(Metric { name, .. }) =
                        bench.metrics.iter().find(|known| known.name == metric)
                    {
                        emit.samples(number, name, &samples)?;
                    }
                }
                Some(Record::Progress(part)) => return Ok(part >= 1.0),
                // The launcher is heard to its end, so that nothing of the job stays behind.
                None => drop(wrong.get_or_insert(line)),
            }
            Ok(false)
        })
        .map_err(|why| of(&why))?;
        if let Some(why) = outcome.failure() {
            return Err(of(&format!("its program {} {why}", program.name)).into());
        }
        if outcome.was_killed() {
            complain(&format!(
                "mad bench: {library}: its program {} measured everything and did not end within {} s: it is killed",
                program.name,
                ENDING.as_secs()
            ));
        }
        if let Some(line) = wrong {
            return Err(of(&format!("its program {} says {line:?}", program.name)).into());
        }
        if heard < points.len() {
            let said = &outcome.said;
            return Err(
                of(&format!("its program {} measured too little: {said}", program.name)).into()
            );
        }
    }
    Ok(())
}

/// What a line says, if it says what it should about one of these points.
fn parse(line: &str, numbers: &[usize]) -> Option<Record> {
    match serde_json::from_str(line).ok()? {
        Record::Samples(number, metric, samples)
            if numbers.contains(&number) && samples.iter().all(|sample| sample.is_finite()) =>
        {
            Some(Record::Samples(number, metric, samples))
        }
        Record::Progress(part) if part.is_finite() => Some(Record::Progress(part)),
        _ => None,
    }
}

/// The cores of the processes, as `peer.h` takes them: one each, as [`super::super::worker::own_core`] has it, or an even
/// part of all. Where there are more processes than cores, they are where their launcher puts them.
fn places(program: &Program, cores: &[usize]) -> String {
    let ranks = program.ranks as usize;
    if !program.share && ranks > cores.len() {
        return "any".into();
    }
    let lists = (0..ranks).map(|rank| {
        let own = if program.share { own_share(rank, ranks, cores) } else { &cores[rank..][..1] };
        let words: Vec<String> = own.iter().map(ToString::to_string).collect();
        words.join(",")
    });
    lists.collect::<Vec<_>>().join("/")
}

/// A process's part of the cores.
fn own_share(rank: usize, ranks: usize, cores: &[usize]) -> &[usize] {
    match cores.len() / ranks {
        0 => cores,
        part => &cores[rank * part..(rank + 1) * part],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_samples_of_the_points_that_were_asked_for_are_understood() {
        let good = r#"{"Samples":[3,"half_round_trip",[0.25,1.5]]}"#;
        assert!(matches!(
            parse(good, &[1, 3]),
            Some(Record::Samples(3, metric, samples)) if metric == "half_round_trip" && samples == [0.25, 1.5]
        ));
        assert!(parse(good, &[1]).is_none());
        for bad in
            ["", "warning: no network", r#"{"Progress":"all"}"#, r#"{"Samples":[3,"x",[nan]]}"#]
        {
            assert!(parse(bad, &[3]).is_none(), "{bad}");
        }
    }

    #[test]
    fn cores_are_shared_out_evenly() {
        assert_eq!(own_share(1, 2, &[0, 1, 2, 3]), [2, 3]);
        assert_eq!(own_share(0, 2, &[4, 5, 6]), [4]);
        assert_eq!(own_share(1, 2, &[7]), [7]);
        let program = |ranks, share| Program { ranks, share, ..Program::pair("halo", [0; 3]) };
        assert_eq!(places(&program(2, false), &[3, 5]), "3/5");
        assert_eq!(places(&program(2, true), &[0, 1, 2, 3]), "0,1/2,3");
        assert_eq!(places(&program(4, false), &[3, 5]), "any");
    }
}
