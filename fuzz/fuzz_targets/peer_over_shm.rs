#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| newmad::fuzzing::run("peer_over_shm", input));
