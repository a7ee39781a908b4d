//! Runs the programs: the worker's side of the points of an MPI library.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

use marcel::topology::allowed_cpus;

use super::super::Bench;
use super::super::results::Metric;
use super::super::worker::{Emit, Record, Spec, Worked};
use super::{Program, find};

/// Measures the points, all of one library and driver.
///
/// # Errors
/// When the library is not there, fails, or says something else than it should.
pub(crate) fn work(bench: &Bench, spec: &Spec) -> Worked {
    let with = bench.mpi.ok_or("this bench knows no MPI libraries")?;
    let emit = Emit::of(0);
    let mut programs: Vec<(Program, Vec<String>)> = Vec::new();
    for (number, config) in &spec.points {
        let program = with(config);
        let [a, b, c] = program.numbers;
        let point = format!("{number}:{a}:{b}:{c}");
        match programs.iter_mut().find(|(known, _)| known.name == program.name) {
            Some((_, points)) => points.push(point),
            None => programs.push((program, vec![point])),
        }
    }
    let (library, driver) = match spec.points.first() {
        Some((_, config)) => (config.text("library"), config.text("driver")),
        None => return Ok(()),
    };
    let of = |why: String| format!("{library}: {why}");
    let installed = find(library, spec.peers_dir.as_deref())?;
    let numbers: Vec<usize> = spec.points.iter().map(|(number, _)| *number).collect();
    for (program, points) in &programs {
        let path = installed.build(program.name)?;
        let mut command = installed.launch(&path, driver);
        command.args(cores(program.share)).arg(spec.iters.to_string()).args(points);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| of(format!("{}: {e}", Path::new(command.get_program()).display())))?;
        let said = child.stderr.take().map(|stderr| std::thread::spawn(|| first_words(stderr)));
        let mut heard = 0;
        let mut wrong = None;
        for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
            let line = line.map_err(|e| of(e.to_string()))?;
            match parse(&line, &numbers) {
                Some(Record::Samples(number, metric, samples)) => {
                    heard += 1;
                    if let Some(Metric { name, .. }) =
                        bench.metrics.iter().find(|known| known.name == metric)
                    {
                        emit.samples(number, name, &samples)?;
                    }
                }
                // The launcher is heard to its end, so that nothing of the job stays behind.
                _ if wrong.is_none() => wrong = Some(line),
                _ => {}
            }
        }
        let status = child.wait().map_err(|e| of(e.to_string()))?;
        let said = said.and_then(|said| said.join().ok()).unwrap_or_default();
        if !status.success() {
            return Err(of(format!("its program {} ended with {status}: {said}", program.name)));
        }
        if let Some(line) = wrong {
            return Err(of(format!("its program {} says {line:?}", program.name)));
        }
        if heard < points.len() {
            return Err(of(format!("its program {} measured too little: {said}", program.name)));
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
        _ => None,
    }
}

/// The cores of the two processes: one each, as [`super::super::worker::own_core`] has it, or half of all.
fn cores(share: bool) -> [String; 2] {
    let cpus = allowed_cpus();
    [0, 1].map(|rank| {
        let cores = if share { own_share(rank, &cpus) } else { &[cpus[rank % cpus.len()]] };
        let words: Vec<String> = cores.iter().map(ToString::to_string).collect();
        words.join(",")
    })
}

/// A process's part of the cores.
fn own_share(rank: usize, cpus: &[usize]) -> &[usize] {
    match cpus.len() / 2 {
        0 => cpus,
        half => &cpus[rank * half..(rank + 1) * half],
    }
}

/// What a program says first on standard error; the rest is read and forgotten.
fn first_words(stderr: impl Read) -> String {
    let mut words = String::new();
    for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        if words.len() + line.len() < 600 {
            words.extend([line.trim(), " "]);
        }
    }
    words.trim().to_owned()
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
            ["", "warning: no network", r#"{"Progress":0.5}"#, r#"{"Samples":[3,"x",[nan]]}"#]
        {
            assert!(parse(bad, &[3]).is_none(), "{bad}");
        }
    }

    #[test]
    fn cores_are_shared_out_evenly() {
        assert_eq!(own_share(1, &[0, 1, 2, 3]), [2, 3]);
        assert_eq!(own_share(0, &[4, 5, 6]), [4]);
        assert_eq!(own_share(1, &[7]), [7]);
    }
}
