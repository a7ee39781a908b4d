//! A rank's stream of bytes, cut into messages: lines (version 1), or six characters of length and as many bytes
//! (version 2).

use super::{Version, Violation};

/// Longest message that is accepted, its newline or length included.
pub(super) const MESSAGE_MAX: usize = 8192;
/// Characters of a length.
const LENGTH: usize = 6;

/// See the module.
#[derive(Default)]
pub struct Frames {
    held: Vec<u8>,
    version: Version,
}

impl Frames {
    /// Takes bytes and gives every message that they complete to `each`, which says in which version the next one is.
    ///
    /// # Errors
    /// When a message is longer than [`MESSAGE_MAX`] or its length makes no sense, or when `each` fails.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<Version, Violation>,
    ) -> Result<(), Violation> {
        while !bytes.is_empty() {
            let missing = match self.version {
                Version::One => {
                    bytes.iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |at| at + 1)
                }
                Version::Two => (LENGTH + self.length()?).saturating_sub(self.held.len()),
            };
            let (piece, rest) = bytes.split_at(missing.min(bytes.len()));
            if self.held.len() + piece.len() > MESSAGE_MAX {
                return Err(Violation(format!(
                    "a message of more than {MESSAGE_MAX} bytes came on its PMI connection"
                )));
            }
            self.held.extend_from_slice(piece);
            bytes = rest;
            let message = match self.version {
                Version::One => self.held.strip_suffix(b"\n"),
                Version::Two if self.held.len() < LENGTH => None,
                Version::Two if self.held.len() < LENGTH + self.length()? => None,
                Version::Two => self.held.get(LENGTH..),
            };
            if let Some(message) = message {
                self.version = each(message)?;
                self.held.clear();
            }
        }
        Ok(())
    }

    /// Length of the message that is being held; 0 as long as that has not come.
    fn length(&self) -> Result<usize, Violation> {
        let Some(length) = self.held.get(..LENGTH) else { return Ok(0) };
        let length = std::str::from_utf8(length).ok().and_then(|text| text.trim().parse().ok());
        length.filter(|length| (1..=MESSAGE_MAX).contains(length)).ok_or_else(|| {
            Violation(format!(
                "a message without a length from 1 to {MESSAGE_MAX} came on its PMI connection"
            ))
        })
    }
}
