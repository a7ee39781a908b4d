//! The server's side of PMI.
#![no_main]

use mad_launch::pmi;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let mut server = pmi::Server::new("job".into(), 3);
    let mut frames: [pmi::Frames; 3] = Default::default();
    let mut rest = input;
    while let [rank, len, more @ ..] = rest {
        let rank = *rank as u32 % 3;
        let (bytes, more) = more.split_at((*len as usize).min(more.len()));
        rest = more;
        let fed = frames[rank as usize].feed(bytes, |message| {
            server.message(rank, message, &mut |to, text| {
                assert!(to < 3 && !text.is_empty() && text.len() < 16 * 1024);
            })?;
            Ok(server.version(rank))
        });
        if fed.is_err() {
            server.left(rank, "given up".into(), &mut |_, _| {});
            return;
        }
    }
});
