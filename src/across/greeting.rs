//! What an agent and who calls it say before they trust each other: the bytes, and the proof of the key.
//!
//! ```text
//!  caller (rank 0, a stand-in)                     agent
//!    Hello (what for, nonce a)            ──▶
//!                                         ◀──  Challenge (nonce b, proof of the agent)
//!    Proof (of the caller)                ──▶
//!                                         ◀──  one byte: admitted
//! ```
//! A proof is the HMAC-SHA256, under the agent's key, of the hello, nonce b and a word for the role. The key is in the agent's card,
//! which goes through the process manager; it never travels over this connection, what was overheard serves nobody a second
//! time, and a caller knows that it has reached the one who published the card. As with newmad's own greeting, which this one
//! follows, what comes afterwards is neither encrypted nor signed: who can change packets on their way can take a
//! connection over.
//!
//! Rejected: showing the key as a token (an eavesdropper could start workers).

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Bytes of a key.
pub(super) const KEY: usize = 32;
/// Bytes of each message.
pub(super) const HELLO: usize = MAGIC.len() + 1 + NONCE;
pub(super) const CHALLENGE: usize = NONCE + PROOF;
pub(super) const PROOF: usize = 32;
/// The agent's last word.
pub(super) const ADMITTED: u8 = 1;
pub(super) const NONCE: usize = 16;
const MAGIC: [u8; 8] = *b"mad1agnt";

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Rank 0, as long as the bench goes on.
    Control,
    /// A worker's stand-in.
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

#[derive(Clone, Copy)]
enum Role {
    Caller = 1,
    Agent = 2,
}

fn mac(key: &[u8; KEY], role: Role, hello: &[u8; HELLO], nonce: &[u8]) -> Option<Hmac<Sha256>> {
    // A key of any length is fine with HMAC; the error is of the interface.
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(&[role as u8]);
    mac.update(hello);
    mac.update(nonce);
    Some(mac)
}

fn prove(key: &[u8; KEY], role: Role, hello: &[u8; HELLO], nonce: &[u8]) -> Option<[u8; PROOF]> {
    Some(mac(key, role, hello, nonce)?.finalize().into_bytes().into())
}

/// Whether the proof is right; the time that this takes does not tell where it is wrong.
fn proven(key: &[u8; KEY], role: Role, hello: &[u8; HELLO], nonce: &[u8], proof: &[u8]) -> bool {
    mac(key, role, hello, nonce).is_some_and(|mac| mac.verify_slice(proof).is_ok())
}

/// The agent's answer to a hello.
pub(super) fn challenge(
    key: &[u8; KEY],
    hello: &[u8; HELLO],
    nonce: [u8; NONCE],
) -> Option<[u8; CHALLENGE]> {
    let mut bytes = [0; CHALLENGE];
    bytes[..NONCE].copy_from_slice(&nonce);
    bytes[NONCE..].copy_from_slice(&prove(key, Role::Agent, hello, &nonce)?);
    Some(bytes)
}

/// The caller's answer to a challenge: `None`, whoever is there does not know the key.
pub(super) fn answer(
    key: &[u8; KEY],
    hello: &[u8; HELLO],
    challenge: &[u8; CHALLENGE],
) -> Option<[u8; PROOF]> {
    let (nonce, proof) = challenge.split_at(NONCE);
    if !proven(key, Role::Agent, hello, nonce, proof) {
        return None;
    }
    prove(key, Role::Caller, hello, nonce)
}

/// Whether the caller knows the key.
pub(super) fn admits(
    key: &[u8; KEY],
    hello: &[u8; HELLO],
    challenge: &[u8; CHALLENGE],
    proof: &[u8; PROOF],
) -> bool {
    proven(key, Role::Caller, hello, &challenge[..NONCE], proof)
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
