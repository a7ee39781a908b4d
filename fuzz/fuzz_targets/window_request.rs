#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| madmpi::hostile::window_request(input));
