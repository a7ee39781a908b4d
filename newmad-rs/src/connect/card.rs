//! Business cards: what a process publishes so that the others can reach it.

use super::socket::Address;
use crate::authentication::KEY;
use crate::error::Error;
use crate::sys;

/// One process's card. Travels as `newmad4,rails,threshold,ranks,control,key,address...`, with one address for each rail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Card {
    pub(crate) rails: String,
    pub(crate) threshold: usize,
    /// Of all processes.
    pub(crate) ranks: u32,
    /// The shape of the control network.
    pub(crate) control: String,
    pub(crate) key: [u8; KEY],
    pub(crate) addresses: Vec<Address>,
}

impl Card {
    /// A card with that key, or a fresh one.
    pub(crate) fn new(
        rails: String,
        threshold: usize,
        ranks: u32,
        control: String,
        addresses: Vec<Address>,
        key: Option<[u8; KEY]>,
    ) -> Result<Card, Error> {
        let key = key.map_or_else(sys::random, Ok)?;
        Ok(Card { rails, threshold, ranks, control, key, addresses })
    }

    /// As text without spaces.
    pub(crate) fn encode(&self) -> String {
        let addresses: Vec<String> = self.addresses.iter().map(Address::to_string).collect();
        let addresses = addresses.join(",");
        let Card { rails, threshold, ranks, control, key, .. } = self;
        format!("newmad4,{rails},{threshold},{ranks},{control},{},{addresses}", hex(key))
    }

    /// The card of process `rank`, which must have been made for the same rails with the same settings as `mine`.
    pub(crate) fn decode(text: &str, rank: u32, mine: &Card) -> Result<Card, Error> {
        let fields: Vec<&str> = text.split(',').collect();
        let bad = || {
            Error::Bootstrap(format!(
                "the card of rank {rank} is not one of this version of the library: {text:?}"
            ))
        };
        let ["newmad4", rails, threshold, ranks, control, key, addresses @ ..] = fields.as_slice()
        else {
            return Err(bad());
        };
        let card = Card {
            rails: (*rails).to_owned(),
            threshold: threshold.parse().map_err(|_| bad())?,
            ranks: ranks.parse().map_err(|_| bad())?,
            control: (*control).to_owned(),
            key: unhex(key).ok_or_else(bad)?,
            addresses: addresses
                .iter()
                .map(|address| address.parse().map_err(|()| bad()))
                .collect::<Result<_, Error>>()?,
        };
        let differs = |what: &str, mine: &dyn std::fmt::Display, theirs: &dyn std::fmt::Display| {
            Error::Bootstrap(format!(
                "rank {rank} has {what}={theirs} and this process has {mine}: they must be the same everywhere"
            ))
        };
        if card.rails != mine.rails {
            // A number of virtual rails is behind a star.
            let what = match mine.rails.contains('*') || card.rails.contains('*') {
                true => "NMAD_DRIVER*NMAD_VERBS_VIRTUAL_RAILS",
                false => "NMAD_DRIVER",
            };
            return Err(differs(what, &mine.rails, &card.rails));
        }
        if card.threshold != mine.threshold {
            return Err(differs("NMAD_RDV_THRESHOLD", &mine.threshold, &card.threshold));
        }
        if card.control != mine.control {
            return Err(differs(
                "NMAD_CONTROL_DIMENSIONS/NMAD_CARDS",
                &mine.control,
                &card.control,
            ));
        }
        if card.ranks != mine.ranks {
            return Err(Error::Bootstrap(format!(
                "process {rank} counts {} ranks in all processes and this one counts {}: every process \
                 opens with `open_ranks` (or `run_ranks`), or none",
                card.ranks, mine.ranks
            )));
        }
        if card.addresses.len() != mine.addresses.len() {
            return Err(bad());
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

/// What [`hex`] wrote.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_travel_as_text_and_must_agree() {
        let addresses = vec![Address::Unix("newmad-1f".into()), "[::1]:80".parse().unwrap()];
        let mine =
            Card::new("shm+tcp".into(), 16384, 2, "2/manager".into(), addresses, None).unwrap();
        assert_eq!(Card::decode(&mine.encode(), 1, &mine).unwrap(), mine);
        assert!(!mine.encode().contains([' ', ';']));
        let refusal = |other: Card| {
            let text = Card::decode(&other.encode(), 1, &mine).unwrap_err().to_string();
            assert!(text.contains("rank 1") || text.contains("process 1"), "{text}");
            text
        };
        let text = refusal(Card { threshold: 1, ..mine.clone() });
        assert!(text.contains("NMAD_RDV_THRESHOLD"), "{text}");
        let text = refusal(Card { rails: "verbs*2".into(), ..mine.clone() });
        assert!(text.contains("NMAD_VERBS_VIRTUAL_RAILS=verbs*2"), "{text}");
        let text = refusal(Card { rails: "shm".into(), ..mine.clone() });
        assert!(text.contains("NMAD_DRIVER") && text.contains("shm+tcp"), "{text}");
        let text = refusal(Card { control: "usual/network".into(), ..mine.clone() });
        assert!(text.contains("NMAD_CARDS=usual/network"), "{text}");
        let text = refusal(Card { ranks: 8, ..mine.clone() });
        assert!(text.contains("8 ranks"), "{text}");
        refusal(Card { addresses: Vec::new(), ..mine.clone() });
        for hostile in [
            "",
            "newmad4",
            "newmad4,shm,x,2,2/manager,00,",
            "newmad4,shm,16384,2,2/manager,zz",
            "newmad3,shm,16384,2,00,a",
        ] {
            assert!(Card::decode(hostile, 1, &mine).is_err());
        }
        let long = mine.encode().replace("newmad-1f", &"x".repeat(200));
        assert!(Card::decode(&long, 1, &mine).is_err(), "a name that no socket can have");
    }
}
