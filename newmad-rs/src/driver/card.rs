//! Business cards: what a process publishes so that the others can reach it.

use crate::error::Error;
use crate::sys;

/// Bytes of the secret that a caller must know.
pub(crate) const KEY: usize = 32;

/// One process's card. Travels as `newmad1,driver,threshold,key,address...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Card {
    pub(crate) driver: String,
    pub(crate) threshold: usize,
    pub(crate) key: [u8; KEY],
    pub(crate) address: Vec<String>,
}

impl Card {
    /// A card with a fresh key.
    pub(crate) fn new(driver: &str, threshold: usize, address: Vec<String>) -> Result<Card, Error> {
        Ok(Card { driver: driver.to_owned(), threshold, key: sys::random()?, address })
    }

    /// As text without spaces.
    pub(crate) fn encode(&self) -> String {
        let address = self.address.join(",");
        format!("newmad1,{},{},{},{address}", self.driver, self.threshold, hex(&self.key))
    }

    /// The card of `rank`, which must have been made by the same driver with the same settings as `mine`.
    pub(crate) fn decode(text: &str, rank: u32, mine: &Card) -> Result<Card, Error> {
        let fields: Vec<&str> = text.split(',').collect();
        let bad = || {
            Error::Bootstrap(format!(
                "the card of rank {rank} is not one of this library: {text:?}"
            ))
        };
        let ["newmad1", driver, threshold, key, address @ ..] = fields.as_slice() else {
            return Err(bad());
        };
        let card = Card {
            driver: (*driver).to_owned(),
            threshold: threshold.parse().map_err(|_| bad())?,
            key: unhex(key).ok_or_else(bad)?,
            address: address.iter().map(|&field| field.to_owned()).collect(),
        };
        let differs = |what: &str, mine: &dyn std::fmt::Display, theirs: &dyn std::fmt::Display| {
            Error::Bootstrap(format!(
                "rank {rank} has {what}={theirs} and this process has {mine}: they must be the same everywhere"
            ))
        };
        if card.driver != mine.driver {
            return Err(differs("NMAD_DRIVER", &mine.driver, &card.driver));
        }
        if card.threshold != mine.threshold {
            return Err(differs("NMAD_RDV_THRESHOLD", &mine.threshold, &card.threshold));
        }
        Ok(card)
    }
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}

/// Compares keys without telling by the time it takes where they differ.
pub(crate) fn same_key(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |different, (a, b)| different | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_travel_as_text_and_must_agree() {
        let mine = Card::new("shm", 16384, vec!["abc".into(), "64".into()]).unwrap();
        assert_eq!(Card::decode(&mine.encode(), 1, &mine).unwrap(), mine);
        assert!(!mine.encode().contains(' '));
        let other = Card { threshold: 1, ..mine.clone() };
        let text = Card::decode(&other.encode(), 1, &mine).unwrap_err().to_string();
        assert!(text.contains("NMAD_RDV_THRESHOLD") && text.contains("rank 1"), "{text}");
        for hostile in ["", "newmad1", "newmad1,shm,x,00,", "newmad1,shm,16384,zz"] {
            assert!(Card::decode(hostile, 1, &mine).is_err());
        }
        assert!(same_key(b"abc", b"abc") && !same_key(b"abc", b"abd"));
    }
}
