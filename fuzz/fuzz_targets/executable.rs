#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| mad_loader::hostile::run(input));
