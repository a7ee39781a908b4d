//! Elements of predefined types, as operators read and write them in memory.

/// An element in memory.
pub(super) trait Element: Copy {
    const SIZE: usize;
    /// `bytes` has the length of an element.
    fn load(bytes: &[u8]) -> Self;
    fn store(self, bytes: &mut [u8]);
}

/// A floating-point number.
pub(super) trait Floating: Element + PartialOrd {
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
}
