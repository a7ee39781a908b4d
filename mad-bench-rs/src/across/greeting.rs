//! What an agent and its caller say before they trust each other: the bytes, and the proof of the key.
//!
//! ```text
//!  caller (rank 0, a proxy)                     agent
//!    Hello (what for, nonce a)            ──▶
//!                                         ◀──  Challenge (nonce b, proof of the agent)
//!    Proof (of the caller)                ──▶
//!                                         ◀──  one byte: admitted
//! ```
//! What a proof is: [`newmad::authentication`], as in newmad's own greeting. The key is in the agent's card, which
//! goes through the process manager; it never travels over this connection, an overheard proof serves no second time,
//! and a caller knows that it has reached the publisher of the card. As with newmad's own greeting, which this one
//! follows, what comes afterwards is neither encrypted nor signed: an attacker that can change packets can take a
//! connection over.
//!
//! Rejected: showing the key as a token (an eavesdropper could start workers).

use newmad::authentication::NONCE;
pub(super) use newmad::authentication::{CHALLENGE, KEY, PROOF, admits, answer, challenge};

/// Bytes of each message.
pub(super) const HELLO: usize = MAGIC.len() + 1 + NONCE;
/// The agent's last word.
pub(super) const ADMITTED: u8 = 1;
const MAGIC: [u8; 8] = *b"mad1agnt";

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Rank 0, as long as the bench goes on.
    Control,
    /// A worker's proxy.
    Worker,
}

/// The first message.
pub(super) fn hello(purpose: Purpose, nonce: [u8; NONCE]) -> [u8; HELLO] {
    let mut bytes = [0; HELLO];
    bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
    bytes[MAGIC.len()] = match purpose {
        Purpose::Control => 1,
        Purpose::Worker => 2,
    };
    bytes[MAGIC.len() + 1..].copy_from_slice(&nonce);
    bytes
}

/// What a hello is for, if it is one.
pub(super) fn purpose(hello: &[u8; HELLO]) -> Option<Purpose> {
    let (magic, rest) = hello.split_at(MAGIC.len());
    match rest[0] {
        1 if magic == MAGIC => Some(Purpose::Control),
        2 if magic == MAGIC => Some(Purpose::Worker),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_prove_that_they_know_the_key_and_nobody_else_can() {
        let (key, wrong) = ([7; KEY], [8; KEY]);
        let hello = hello(Purpose::Worker, [3; NONCE]);
        assert_eq!(purpose(&hello), Some(Purpose::Worker));
        let right = challenge(&key, &hello, [1; NONCE]).unwrap();
        let proof = answer(&key, &hello, &right).unwrap();
        assert!(admits(&key, &hello, &right, &proof));
        assert!(answer(&wrong, &hello, &right).is_none(), "an impostor was taken for the agent");
        let of_impostor = challenge(&wrong, &hello, [1; NONCE]).unwrap();
        let guessed = answer(&wrong, &hello, &of_impostor).unwrap();
        assert!(!admits(&key, &hello, &right, &guessed));
        // What was overheard is of no use under another challenge, nor for another purpose.
        let later = challenge(&key, &hello, [2; NONCE]).unwrap();
        assert!(!admits(&key, &hello, &later, &proof));
        let control = super::hello(Purpose::Control, [3; NONCE]);
        assert!(!admits(&key, &control, &right, &proof));
        // The agent's proof does not serve as the caller's.
        assert!(!admits(&key, &hello, &right, right[NONCE..].try_into().unwrap()));
        for sent in [&hello[..], &right, &proof] {
            assert!(!sent.windows(KEY / 2).any(|window| window == &key[..KEY / 2]));
        }
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic_and_never_get_in(
            bytes in proptest::collection::vec(any::<u8>(), HELLO),
            proof in proptest::collection::vec(any::<u8>(), PROOF),
        ) {
            let hello: [u8; HELLO] = bytes.try_into().unwrap();
            if let Some(known) = purpose(&hello) {
                let nonce = hello[HELLO - NONCE..].try_into().unwrap();
                prop_assert_eq!(super::hello(known, nonce), hello);
            }
            let challenge = challenge(&[5; KEY], &hello, [9; NONCE]).unwrap();
            prop_assert!(!admits(&[5; KEY], &hello, &challenge, &proof.try_into().unwrap()));
        }
    }
}
