//! What two processes say to each other before they trust each other: the bytes, and the proof of the key.
//!
//! ```text
//!  caller                                          called
//!    Hello (ranks, purpose, nonce a)      ──▶
//!                                         ◀──  Challenge (nonce b, proof of the called)
//!    Proof (of the caller) [descriptors]  ──▶
//!                                         ◀──  Verdict [descriptors]
//! ```
//! What a proof is: [`crate::authentication`]. The key is in the called's card, which only the job's processes and the
//! process manager read. So the key never travels over this connection, an eavesdropper cannot use a proof a second
//! time (both nonces are fresh), and a caller knows too that it has reached the publisher of the card. Descriptors are
//! shown only after the proof.
//!
//! *Protected*: a process without the key cannot join the session, nor pass for one of its processes. *Not protected*:
//! what follows on a TCP connection is neither encrypted nor signed. An attacker that can read the network reads the
//! messages; one that can change packets on their way can take over a connection that has been greeted. Where the
//! network is shared with strangers, put a tunnel (WireGuard, IPsec) below. Over Unix sockets the kernel vouches for
//! the user.
//!
//! Rejected: sending the key (an eavesdropper joins); keys by asymmetric exchange (the process manager's space already
//! is a common secret); TLS (encrypts what benchmarks measure, and would be the largest dependency by far).

pub(crate) use crate::authentication::KEY;
use crate::authentication::NONCE;
pub(super) use crate::authentication::{CHALLENGE, PROOF, admits, answer, challenge};
use crate::net::details::{DETAILS, Details};
use crate::wire::half_word;

/// Bytes of each message of a greeting.
pub(super) const HELLO: usize = 40 + DETAILS;
pub(super) const VERDICT: usize = 8 + DETAILS;
const MAGIC: [u8; 8] = *b"newmad3g";

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A link of the control ring.
    Control,
    /// A socket of the link over this rail; `track` counts the link's sockets.
    Link { rail: u8, track: u8 },
}

/// The first message of a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) purpose: Purpose,
    /// Links over that rail that the caller has had with the called.
    pub(super) generation: u32,
    pub(super) nonce: [u8; NONCE],
    pub(super) details: Details,
}

impl Hello {
    pub(super) fn encode(&self) -> [u8; HELLO] {
        let mut bytes = [0; HELLO];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.from.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.to.to_le_bytes());
        if let Purpose::Link { rail, track } = self.purpose {
            bytes[16..19].copy_from_slice(&[1, rail, track]);
        }
        bytes[20..24].copy_from_slice(&self.generation.to_le_bytes());
        bytes[24..40].copy_from_slice(&self.nonce);
        self.details.encode(&mut bytes[40..]);
        bytes
    }

    pub(super) fn decode(bytes: &[u8; HELLO]) -> Option<Hello> {
        let purpose = match bytes[16..20] {
            [0, 0, 0, 0] => Purpose::Control,
            [1, rail, track, 0] => Purpose::Link { rail, track },
            _ => return None,
        };
        (bytes[..8] == MAGIC).then_some(Hello {
            from: half_word(bytes, 8)?,
            to: half_word(bytes, 12)?,
            purpose,
            generation: half_word(bytes, 20)?,
            nonce: bytes[24..40].try_into().ok()?,
            details: Details::decode(&bytes[40..])?,
        })
    }
}

/// What the called decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The connection is taken.
    Accepted(Details),
    /// The called is calling too, and its call is the one that counts.
    Crossing,
    /// The caller does not know of a link that there has been: here is how many.
    Stale(u32),
    /// Not now.
    Refused,
    /// The session holds the caller for dead and goes on without it.
    Expelled,
}

impl Verdict {
    pub(super) fn encode(&self) -> [u8; VERDICT] {
        let mut bytes = [0; VERDICT];
        bytes[0] = match self {
            Verdict::Accepted(details) => {
                details.encode(&mut bytes[8..]);
                1
            }
            Verdict::Crossing => 2,
            Verdict::Stale(generation) => {
                bytes[4..8].copy_from_slice(&generation.to_le_bytes());
                3
            }
            Verdict::Refused => 4,
            Verdict::Expelled => 5,
        };
        bytes
    }

    pub(super) fn decode(bytes: &[u8; VERDICT]) -> Option<Verdict> {
        match bytes[0] {
            1 => Details::decode(&bytes[8..]).map(Verdict::Accepted),
            2 => Some(Verdict::Crossing),
            3 => half_word(bytes, 4).map(Verdict::Stale),
            4 => Some(Verdict::Refused),
            5 => Some(Verdict::Expelled),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello() -> Hello {
        Hello {
            from: 3,
            to: 5,
            purpose: Purpose::Link { rail: 1, track: 1 },
            generation: 7,
            nonce: [9; NONCE],
            details: Details { probe: 0x1234, slots: 64, slot_size: 8256, queue_pair: None },
        }
    }

    #[test]
    fn messages_survive_the_wire() {
        assert_eq!(Hello::decode(&hello().encode()), Some(hello()));
        let control = Hello { purpose: Purpose::Control, ..hello() };
        assert_eq!(Hello::decode(&control.encode()), Some(control));
        let accepted = Verdict::Accepted(hello().details);
        for verdict in
            [accepted, Verdict::Crossing, Verdict::Stale(9), Verdict::Refused, Verdict::Expelled]
        {
            assert_eq!(Verdict::decode(&verdict.encode()), Some(verdict));
        }
    }

    #[test]
    fn both_prove_that_they_know_the_key_and_nobody_else_can() {
        let (key, wrong) = ([7; KEY], [8; KEY]);
        let hello = hello().encode();
        let challenge_of = |key| challenge(key, &hello, [1; NONCE]).unwrap();
        let right = challenge_of(&key);
        let proof = answer(&key, &hello, &right).unwrap();
        assert!(admits(&key, &hello, &right, &proof));
        assert!(answer(&wrong, &hello, &right).is_none(), "an impostor was taken for the called");
        let guessed = answer(&wrong, &hello, &challenge_of(&wrong)).unwrap();
        assert!(!admits(&key, &hello, &right, &guessed));
        // What was overheard is of no use under another challenge, or for another purpose.
        let later = challenge(&key, &hello, [2; NONCE]).unwrap();
        assert!(!admits(&key, &hello, &later, &proof));
        let mut other = hello;
        other[17] ^= 1;
        assert!(!admits(&key, &other, &right, &proof));
        // The called's proof does not serve as the caller's.
        let reflected = right[NONCE..].try_into().unwrap();
        assert!(!admits(&key, &hello, &right, &reflected));
        // The key itself is in nothing that travels.
        for sent in [&hello[..], &right, &proof] {
            assert!(!sent.windows(KEY / 2).any(|window| window == &key[..KEY / 2]));
        }
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), HELLO)) {
            let bytes: [u8; HELLO] = bytes.try_into().unwrap();
            if let Some(hello) = Hello::decode(&bytes) {
                prop_assert_eq!(hello.encode(), bytes);
            }
            let _ = Verdict::decode(bytes[..VERDICT].try_into().unwrap());
        }
    }
}
