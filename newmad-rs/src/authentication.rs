//! How two processes prove to each other that they know a key, over a connection on which the key is never shown.
//!
//! ```text
//!  caller                                          called
//!    hello (any bytes, a fresh nonce among them) ─▶
//!                                                ◀─  challenge: a fresh nonce, proof of the called
//!    proof of the caller                         ─▶  admitted or not
//! ```
//! A proof is the HMAC-SHA256, under the key, of a word for the role, the hello and the nonce of the called. So an
//! eavesdropper cannot use a proof a second time, a proof cannot be reflected to its maker, and the caller knows which
//! process it has reached. What follows on the connection is neither encrypted nor signed.
//!
//! newmad's own connections begin so. For a program's own ones a key can go to the others with
//! [`crate::Launched::gather`]. The bytes that these functions are given may come from any process.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Bytes of a key.
pub const KEY: usize = 32;
/// Bytes of the nonce of the called.
pub const NONCE: usize = 16;
/// Bytes of a proof.
pub const PROOF: usize = 32;
/// Bytes of a challenge.
pub const CHALLENGE: usize = NONCE + PROOF;

/// A key for that purpose, which says nothing about the key that it is made from, nor about those for other purposes.
#[must_use]
pub fn derive(key: &[u8; KEY], purpose: &[u8]) -> [u8; KEY] {
    // A key is always found; the zeros in its place would open nothing that expects a proof.
    prove(key, Role::Purpose, purpose, &[]).unwrap_or([0; KEY])
}

/// The role of the process that proves that it knows the key.
#[derive(Clone, Copy)]
enum Role {
    Caller = 1,
    Called = 2,
    Member = 3,
    /// No process: a key for another purpose.
    Purpose = 4,
}

fn mac(key: &[u8; KEY], role: Role, hello: &[u8], nonce: &[u8]) -> Option<Hmac<Sha256>> {
    // A key of any length is fine with HMAC; the error is of the interface.
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(&[role as u8]);
    mac.update(hello);
    mac.update(nonce);
    Some(mac)
}

fn prove(key: &[u8; KEY], role: Role, hello: &[u8], nonce: &[u8]) -> Option<[u8; PROOF]> {
    Some(mac(key, role, hello, nonce)?.finalize().into_bytes().into())
}

/// Whether the proof is right; the time that this takes does not tell where it is wrong.
fn proven(key: &[u8; KEY], role: Role, hello: &[u8], nonce: &[u8], proof: &[u8]) -> bool {
    mac(key, role, hello, nonce).is_some_and(|mac| mac.verify_slice(proof).is_ok())
}

/// The key of a process, from one that the whole job knows. Without that one it cannot be found, nor that one from it.
pub(crate) fn key_of(job: &[u8; KEY], process: u32) -> Option<[u8; KEY]> {
    prove(job, Role::Member, &process.to_le_bytes(), &[])
}

/// The called's answer to a hello; `nonce` has to be fresh and unforeseeable. (`None` does not happen with this length
/// of keys.)
#[must_use]
pub fn challenge(key: &[u8; KEY], hello: &[u8], nonce: [u8; NONCE]) -> Option<[u8; CHALLENGE]> {
    let mut bytes = [0; CHALLENGE];
    bytes[..NONCE].copy_from_slice(&nonce);
    bytes[NONCE..].copy_from_slice(&prove(key, Role::Called, hello, &nonce)?);
    Some(bytes)
}

/// The caller's answer to a challenge: its proof. `None`: the called does not know the key.
#[must_use]
pub fn answer(key: &[u8; KEY], hello: &[u8], challenge: &[u8; CHALLENGE]) -> Option<[u8; PROOF]> {
    let (nonce, proof) = challenge.split_at(NONCE);
    if !proven(key, Role::Called, hello, nonce, proof) {
        return None;
    }
    prove(key, Role::Caller, hello, nonce)
}

/// Whether the caller that said this hello, was given this challenge and sent this proof knows the key.
#[must_use]
pub fn admits(
    key: &[u8; KEY],
    hello: &[u8],
    challenge: &[u8; CHALLENGE],
    proof: &[u8; PROOF],
) -> bool {
    proven(key, Role::Caller, hello, &challenge[..NONCE], proof)
}
