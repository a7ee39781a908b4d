//! Hostile input: bytes of others, for `fuzz/`.

/// A request of a window that is reached by messages.
///
/// # Panics
/// When it fails: it is taken for a request, and is not what that request is encoded as.
pub fn window_request(input: &[u8]) {
    crate::win::wire::parse(input);
}
