#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| newmad::fuzzing::run("verbs_channels", input));
