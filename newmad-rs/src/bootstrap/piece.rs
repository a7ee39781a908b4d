//! Cards cut into values that every process manager carries.

use std::fmt::Write;

/// Bytes that mean nothing to any of the protocols.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b',' | b'.' | b'-' | b'_' | b':')
}

/// `text` in pieces of at most `room` bytes, of plain bytes alone; each but the last begins with `+`, the last
/// with `.`.
pub(crate) fn cut(text: &str, room: usize) -> Vec<String> {
    let encoded = encode(text);
    let each = room.saturating_sub(1).max(1);
    let mut pieces = Vec::new();
    // What is encoded is ASCII: every byte is a place to cut.
    let mut rest = encoded.as_str();
    while rest.len() > each {
        let (piece, more) = rest.split_at(each);
        pieces.push(format!("+{piece}"));
        rest = more;
    }
    pieces.push(format!(".{rest}"));
    pieces
}

/// Percent-encodes whatever is not plain.
fn encode(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        match is_plain(byte) {
            true => encoded.push(char::from(byte)),
            false => drop(write!(encoded, "%{byte:02x}")),
        }
        encoded
    })
}

/// What was encoded; `None`: it was not.
pub(crate) fn decode(encoded: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                (digit(rest.next())? * 16 + digit(rest.next())?) as u8
            }
            plain if is_plain(plain) => plain,
            _ => return None,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_cut_is_plain_and_comes_back(text in ".{0,200}", room in 0usize..100) {
            let pieces = cut(&text, room);
            prop_assert!(pieces.iter().all(|piece| piece.len() <= room.max(2)));
            prop_assert!(pieces.iter().all(|piece| piece[1..].bytes().all(|b| is_plain(b) || b == b'%')));
            let whole: String = pieces.iter().map(|piece| &piece[1..]).collect();
            prop_assert_eq!(decode(&whole), Some(text));
        }

        #[test]
        fn any_text_is_survived(text in any::<String>()) {
            let _ = decode(&text);
        }
    }
}
