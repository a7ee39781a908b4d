//! What the roots of two sides tell each other: words, and texts.

use crate::group::names::Identity;

/// Most processes of both sides together: contexts have bits for so many.
pub(super) const MOST: usize = 1 << 14;
const KIND: u64 = u64::from_le_bytes(*b"madmpi1m");

/// Who the processes of a side are.
pub(super) fn encode_side(members: &[Identity]) -> Vec<u8> {
    let words = members.iter().flat_map(|one| [one.job, one.rank.into()]);
    std::iter::once(KIND).chain(words).flat_map(u64::to_le_bytes).collect()
}

/// As [`encode_side`] wrote it; `None`: of another program, of no or too many processes, or with one of them twice.
pub(super) fn decode_side(bytes: &[u8]) -> Option<Vec<Identity>> {
    let (words, []) = bytes.as_chunks::<8>() else { return None };
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    if words.next()? != KIND || words.len() / 2 > MOST || words.len() % 2 != 0 || words.len() == 0 {
        return None;
    }
    let mut members = Vec::with_capacity(words.len() / 2);
    while let Some(job) = words.next() {
        members.push(Identity { job, rank: words.next()?.try_into().ok()? });
    }
    let distinct: std::collections::HashSet<&Identity> = members.iter().collect();
    (distinct.len() == members.len()).then_some(members)
}

/// Texts, each with its length before it.
pub(super) fn encode_texts(texts: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in texts {
        bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// As [`encode_texts`] wrote them; `None`: they are not so many.
pub(super) fn decode_texts(mut bytes: &[u8], count: usize) -> Option<Vec<String>> {
    let mut texts = Vec::new();
    for _ in 0..count {
        let (len, rest) = bytes.split_first_chunk::<4>()?;
        let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        texts.push(std::str::from_utf8(text).ok()?.to_owned());
        bytes = rest;
    }
    bytes.is_empty().then_some(texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sides_come_back(ranks in proptest::collection::hash_set(0..50u32, 1..20), job: u64) {
            let side: Vec<Identity> = ranks.into_iter().map(|rank| Identity { job, rank }).collect();
            let encoded = encode_side(&side);
            prop_assert_eq!(decode_side(&encoded[..encoded.len() - 1]), None);
            let twice: Vec<Identity> = side.iter().chain(&side[..1]).copied().collect();
            prop_assert_eq!(decode_side(&encode_side(&twice)), None);
            prop_assert_eq!(decode_side(&encoded), Some(side));
        }

        #[test]
        fn texts_come_back(texts in proptest::collection::vec("\\PC{0,20}", 0..9)) {
            let encoded = encode_texts(&texts);
            prop_assert_eq!(decode_texts(&encoded, texts.len() + 1), None);
            prop_assert_eq!(decode_texts(&encoded, texts.len()), Some(texts));
        }

        #[test]
        fn hostile_bytes_are_refused_or_are_what_they_say(bytes in proptest::collection::vec(any::<u8>(), 0..100), kind: bool, count in 0..9usize) {
            let mut bytes = bytes;
            if kind && bytes.len() >= 8 {
                bytes[..8].copy_from_slice(&KIND.to_le_bytes());
            }
            if let Some(side) = decode_side(&bytes) {
                prop_assert_eq!(encode_side(&side), bytes.clone());
            }
            if let Some(texts) = decode_texts(&bytes, count) {
                prop_assert_eq!(encode_texts(&texts), bytes);
            }
        }
    }
}
