//! The remote example: as several processes over each driver, and alone.

mod common;

use common::{err, example, mad, out};

#[test]
fn services_are_called_over_each_driver() {
    for driver in ["shm", "tcp"] {
        let output =
            mad(&["run", "-n", "3", "--driver", driver]).arg(example("remote")).output().unwrap();
        assert!(output.status.success(), "{driver}: {}", err(&output));
        let text = out(&output);
        for line in [
            "hello world, rank 2 is here for rank 0",
            "they say: hello again, rank 0 is here for rank 2",
            "8 threads on 3 processes found 9592 primes below 100000",
        ] {
            assert!(text.lines().any(|l| l == line), "{driver}: {line}: {text}");
        }
        assert!(text.contains("as expected: rank 2 has no service \"nothing\""), "{text}");
    }
}

#[test]
fn a_process_alone_calls_itself() {
    for mode in ["smp", "mono", "no-thread"] {
        let output = std::process::Command::new(example("remote"))
            .env("MARCEL_MODE", mode)
            .output()
            .unwrap();
        assert!(output.status.success(), "{mode}: {}", err(&output));
        assert!(out(&output).contains("8 threads on 1 processes found 9592"), "{}", out(&output));
    }
}
