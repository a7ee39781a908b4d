//! What caller and called say before they trust each other: [`crate::authentication`], and no more.
//!
//! No sockets here: the called's side takes bytes in any pieces.

use crate::authentication::{CHALLENGE, KEY, NONCE, PROOF, admits, challenge, derive};
use crate::error::Error;
use crate::sys;

const MAGIC: [u8; 8] = *b"newmadp1";
/// Bytes of a hello.
pub(super) const HELLO: usize = MAGIC.len() + NONCE;
/// The longest message of a greeting.
pub(super) const LONGEST: usize = if HELLO > PROOF { HELLO } else { PROOF };

/// A caller that does not know the key, or speaks another language.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stranger;

/// What the called does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Listens on.
    More,
    /// Says this, and listens on.
    Say([u8; CHALLENGE]),
    /// The caller has proven itself; the secret is both sides'.
    Admitted([u8; KEY]),
}

/// The called's side of one greeting.
pub(super) struct Called {
    key: [u8; KEY],
    input: Vec<u8>,
    /// What was said, once the hello is there.
    said: Option<([u8; HELLO], [u8; CHALLENGE])>,
}

impl Called {
    pub(super) fn new(key: [u8; KEY]) -> Called {
        Called { key, input: Vec::with_capacity(LONGEST), said: None }
    }

    /// Bytes that are missing from the caller's message.
    pub(super) fn wants(&self) -> usize {
        let whole = if self.said.is_none() { HELLO } else { PROOF };
        whole - self.input.len()
    }

    /// Takes at most so many bytes of the caller's as [`Called::wants`] says.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Next, Stranger> {
        if bytes.len() > self.wants() {
            return Err(Stranger);
        }
        self.input.extend_from_slice(bytes);
        if self.wants() > 0 {
            return Ok(Next::More);
        }
        let input = std::mem::take(&mut self.input);
        match &self.said {
            None => {
                let hello: [u8; HELLO] = input.try_into().map_err(|_| Stranger)?;
                if hello[..MAGIC.len()] != MAGIC {
                    return Err(Stranger);
                }
                let nonce = sys::random().map_err(|_| Stranger)?;
                let said = challenge(&self.key, &hello, nonce).ok_or(Stranger)?;
                self.said = Some((hello, said));
                Ok(Next::Say(said))
            }
            Some((hello, said)) => {
                let proof = input.try_into().map_err(|_| Stranger)?;
                match admits(&self.key, hello, said, &proof) {
                    true => Ok(Next::Admitted(secret(&self.key, hello, said))),
                    false => Err(Stranger),
                }
            }
        }
    }
}

/// What both sides know after the greeting, and nobody else.
fn secret(key: &[u8; KEY], hello: &[u8; HELLO], challenge: &[u8; CHALLENGE]) -> [u8; KEY] {
    let mut purpose = Vec::from(hello);
    purpose.extend_from_slice(&challenge[..NONCE]);
    derive(key, &purpose)
}

/// A caller's first message.
pub(super) fn hello() -> Result<[u8; HELLO], Error> {
    let nonce: [u8; NONCE] = sys::random()?;
    let mut hello = [0; HELLO];
    hello[..MAGIC.len()].copy_from_slice(&MAGIC);
    hello[MAGIC.len()..].copy_from_slice(&nonce);
    Ok(hello)
}

/// The caller's proof, and the secret. `None`: the called does not know the key.
pub(super) fn answer(
    key: &[u8; KEY],
    hello: &[u8; HELLO],
    challenge: &[u8; CHALLENGE],
) -> Option<([u8; PROOF], [u8; KEY])> {
    let proof = crate::authentication::answer(key, hello, challenge)?;
    Some((proof, secret(key, hello, challenge)))
}

/// A caller that says anything, in pieces of any length.
#[cfg(any(test, fuzzing))]
pub(crate) fn hostile(bytes: &[u8], piece: usize) {
    let mut called = Called::new([7; KEY]);
    let mut rest = bytes;
    while !rest.is_empty() {
        let len = piece.clamp(1, called.wants()).min(rest.len());
        match called.feed(&rest[..len]) {
            Ok(Next::More | Next::Say(_)) => assert!(called.wants() > 0),
            Ok(Next::Admitted(_)) => panic!("a stranger was admitted"),
            Err(Stranger) => return,
        }
        rest = &rest[len..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn greet(theirs: [u8; KEY], piece: usize) -> Option<([u8; KEY], [u8; KEY])> {
        let key = [7; KEY];
        let mut called = Called::new(key);
        let hello = hello().unwrap();
        let mut next = Next::More;
        for bytes in hello.chunks(piece) {
            next = called.feed(bytes).unwrap();
        }
        let Next::Say(challenge) = next else { panic!("no challenge came") };
        let (proof, mine) = answer(&theirs, &hello, &challenge)?;
        for bytes in proof.chunks(piece) {
            next = called.feed(bytes).ok()?;
        }
        match next {
            Next::Admitted(secret) => Some((mine, secret)),
            _ => None,
        }
    }

    proptest! {
        #[test]
        fn both_sides_have_the_same_secret_afterwards(piece in 1usize..64) {
            let (mine, theirs) = greet([7; KEY], piece).unwrap();
            prop_assert_eq!(mine, theirs);
            prop_assert!(greet([7; KEY], piece).unwrap().0 != mine, "two greetings have one secret");
        }

        #[test]
        fn strangers_are_never_admitted(bytes in proptest::collection::vec(any::<u8>(), 0..200), piece in 1usize..64, magic: bool) {
            let mut bytes = bytes;
            if magic && bytes.len() >= MAGIC.len() {
                bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
            }
            hostile(&bytes, piece);
        }
    }

    #[test]
    fn another_key_opens_nothing() {
        assert!(greet([8; KEY], 64).is_none());
    }
}
