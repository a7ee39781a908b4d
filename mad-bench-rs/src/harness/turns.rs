//! The order in which a worker takes its samples: in blocks. Every point has its part of each block, so a slow drift
//! of the machine hits all points alike.

use newmad::Session;

use crate::clock::now_ns;
use crate::config::Config;
use crate::harness::results::Metric;
use crate::harness::worker::{Emit, Spec, WorkResult};

/// Calls `measure` for each point of each of at most `blocks` blocks, after a barrier of all workers. Its arguments:
/// the point's place in `spec`, its configuration, and how many samples to take of the `samples` that it has in all.
///
/// # Errors
/// The first error of `measure`, of the session or of the output.
pub(crate) fn turns(
    session: &Session,
    emit: &Emit,
    spec: &Spec,
    blocks: u64,
    samples: impl Fn(&Config) -> u64,
    mut measure: impl FnMut(usize, &Config, u64) -> WorkResult,
) -> WorkResult {
    let (blocks, count) = (blocks.min(spec.iters), spec.points.len() as u64);
    for block in 0..blocks {
        for (at, (_, config)) in spec.points.iter().enumerate() {
            let all = samples(config);
            session.barrier()?;
            measure(at, config, all * (block + 1) / blocks - all * block / blocks)?;
            emit.progress(block * count + at as u64, blocks * count)?;
        }
    }
    Ok(())
}

/// As [`turns`], in ten blocks; reports the samples of each point, which are of `metric`.
///
/// # Errors
/// Those of [`turns`].
pub(crate) fn sampled(
    session: &Session,
    emit: &Emit,
    spec: &Spec,
    metric: &Metric,
    samples: impl Fn(&Config) -> u64,
    mut measure: impl FnMut(&Config, u64) -> WorkResult<Vec<f64>>,
) -> WorkResult {
    let mut all = vec![Vec::new(); spec.points.len()];
    turns(session, emit, spec, 10, samples, |at, config, count| {
        all[at].extend(measure(config, count)?);
        Ok(())
    })?;
    let mut points = spec.points.iter().zip(&all);
    points.try_for_each(|((number, _), samples)| emit.samples(*number, metric.name, samples))
}

/// Calls `once` with the place of each of so many points, which take turns, `iters` times.
///
/// # Errors
/// The first error of `once` or of the output.
pub(crate) fn in_turn(
    emit: &Emit,
    iters: u64,
    points: usize,
    mut once: impl FnMut(usize, u64) -> WorkResult,
) -> WorkResult {
    for i in 0..iters {
        for at in 0..points {
            once(at, i)?;
            emit.progress(i * points as u64 + at as u64 + 1, iters * points as u64)?;
        }
    }
    Ok(())
}

/// How many messages of `size` bytes to measure: as many as make the same number of bytes with 4 KB each, but at
/// least 20.
pub(crate) fn of_size(iters: u64, size: u64) -> u64 {
    (iters * 4096 / size.max(4096)).clamp(20.min(iters), iters)
}

/// How many calls go ahead of `count` calls that are timed.
pub(crate) fn warm(count: u64) -> u64 {
    2 + count / 10
}

/// Microseconds of each of `count` calls of `once`, after `warm` calls that do not count. The clock is read once for
/// each.
///
/// # Errors
/// The first error of `once`.
pub(crate) fn timed(
    warm: u64,
    count: u64,
    mut once: impl FnMut() -> WorkResult,
) -> WorkResult<Vec<f64>> {
    for _ in 0..warm {
        once()?;
    }
    let mut times = Vec::with_capacity(count as usize);
    let mut before = now_ns();
    for _ in 0..count {
        once()?;
        let now = now_ns();
        times.push((now - before) as f64 / 1000.0);
        before = now;
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_messages_go_less_often() {
        assert_eq!(of_size(5000, 0), 5000);
        assert_eq!(of_size(5000, 1), 5000);
        assert_eq!(of_size(5000, 1 << 20), 20);
        assert_eq!(of_size(5000, 65536), 312);
        assert_eq!(of_size(3, 1 << 20), 3);
    }

    #[test]
    fn calls_that_warm_up_are_not_timed() {
        let mut calls = 0;
        let once = || {
            calls += 1;
            Ok(())
        };
        assert_eq!(timed(warm(20), 20, once).unwrap().len(), 20);
        assert_eq!(calls, 24);
    }
}
