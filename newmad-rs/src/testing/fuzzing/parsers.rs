//! Texts and bytes that are read in one go.

use crate::bootstrap::piece;
use crate::connect::Card;
use crate::memory::span::Span;
use crate::net::details::{DETAILS, Details};
use crate::sampling::Sampling;
use crate::tolerance::wire;
use crate::wire::entries;
use crate::wire::{Header, Kind, LONG};
use crate::{pack, port, rpc};

/// A packet's header.
pub(super) fn header(input: &[u8]) {
    let Ok(header) = Header::decode(input) else { return };
    let mut again = [0; LONG];
    header.encode(&mut again);
    let len = header.kind.header_len();
    assert_eq!(Header::len_from_first_byte(input[0]), Ok(len));
    assert_eq!(Header::decode(&again[..len]), Ok(header));
}

/// What a process says of its end of a link.
pub(super) fn details(input: &[u8]) {
    let Some(details) = Details::decode(input) else { return };
    let mut again = [0; DETAILS];
    details.encode(&mut again);
    assert_eq!(input[..DETAILS], again);
}

/// What is in a packet of several messages.
pub(super) fn entries(input: &[u8]) {
    // SAFETY: the bytes are there while the span is used.
    let pack = unsafe { Span::new(input.as_ptr(), input.len()) };
    let mut at = 0;
    while let Ok(Some((header, body, next))) = entries::decode(pack, at) {
        assert!(next > at && next <= input.len() && body.len() < next - at);
        assert!(header.kind == Kind::Rts || header.len == body.len() as u64);
        at = next;
    }
}

/// What a process says of failures.
pub(super) fn control(input: &[u8]) {
    let again = match wire::decode(input) {
        None => return,
        Some(wire::Word::Revoke { key, members }) => wire::revoke(key, &members),
        Some(wire::Word::Agreement { key, number, message }) => {
            wire::agreement((key, number), &message)
        }
    };
    assert_eq!(again, input);
}

/// A peer's card.
pub(super) fn card(input: &[u8]) {
    let addresses = ["@here", "[::1]:80"].map(str::parse);
    let [Ok(shm), Ok(tcp)] = addresses else { return };
    let control = "3/network".into();
    let Ok(mine) = Card::new("shm+tcp".into(), 1000, 2, control, vec![shm, tcp], None) else {
        return;
    };
    let text = String::from_utf8_lossy(input);
    // As it comes, and where only the addresses are made up.
    let head = mine.encode();
    let head = head.split_once('@').map_or("", |(head, _)| head);
    for text in [text.to_string(), format!("{head}{text}"), format!("{head}@here,{text}")] {
        if let Ok(card) = Card::decode(&text, 1, &mine) {
            assert_eq!(Card::decode(&card.encode(), 1, &mine).ok(), Some(card));
        }
    }
}

/// The name of a port, and what a caller says to one.
pub(super) fn port(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let key = "ab".repeat(crate::authentication::KEY);
    for text in [text.to_string(), format!("newmad-port1,{key},{text}")] {
        if let Ok(name) = text.parse::<port::Name>() {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
    }
    port::registry::hostile(&text);
    port::hostile(input, 1 + input.len() % 50);
    port::hostile(&[b"newmadp1", input].concat(), 100);
}

/// A value of which a card is made.
pub(super) fn value(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Some(decoded) = piece::decode(&text) {
        let pieces = piece::cut(&decoded, 1 + input.len() % 50);
        let whole: String = pieces.iter().map(|piece| &piece[1..]).collect();
        assert_eq!(piece::decode(&whole), Some(decoded));
    }
}

/// What a lane of remote calls is sent, and what a call is answered.
pub(super) fn calls(input: &[u8]) {
    rpc::wire::hostile(input);
}

/// A packed message.
pub(super) fn packed(input: &[u8]) {
    pack::wire::hostile(input);
}

/// The file of what was measured.
pub(super) fn sampling(input: &[u8]) {
    let body = String::from_utf8_lossy(input);
    let lines = body.lines().count();
    for text in [body.to_string(), format!("newmad sampling 1\n{body}\nend {lines}\n")] {
        if let Ok(sampling) = Sampling::parse(&text) {
            let written = sampling.text();
            assert_eq!(Sampling::parse(&written).map(|again| again.text()), Ok(written));
        }
    }
}
