//! Addresses from text. To look up a host's name blocks in the C library, so that a pool thread does it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::vec;

/// What addresses can be made of: [`std::net::ToSocketAddrs`] for the same types, but to look up a host's name blocks
/// the calling green thread only.
///
/// A trait of its own, since `std`'s does not say whether a value is a name that takes seconds or an address that is
/// there.
pub trait ToSocketAddrs {
    /// The addresses.
    type Iter: Iterator<Item = SocketAddr>;

    /// The addresses that the value stands for.
    ///
    /// # Blocking
    /// The green thread, or the kernel thread; for hosts' names only.
    ///
    /// # Errors
    /// The text is no address; there is no such host.
    fn to_socket_addrs(&self) -> io::Result<Self::Iter>;
}

/// Types whose addresses are there.
macro_rules! as_in_std {
    ($($type:ty),*) => {$(
        impl ToSocketAddrs for $type {
            type Iter = <$type as std::net::ToSocketAddrs>::Iter;
            fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
                std::net::ToSocketAddrs::to_socket_addrs(self)
            }
        }
    )*};
}

as_in_std!(SocketAddr, SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16));

impl<'a> ToSocketAddrs for &'a [SocketAddr] {
    type Iter = std::iter::Copied<std::slice::Iter<'a, SocketAddr>>;
    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        Ok(self.iter().copied())
    }
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {
    type Iter = T::Iter;
    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        (**self).to_socket_addrs()
    }
}

impl ToSocketAddrs for str {
    type Iter = vec::IntoIter<SocketAddr>;
    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        match self.parse() {
            Ok(address) => Ok(vec![address].into_iter()),
            Err(_) => look_up(self),
        }
    }
}

impl ToSocketAddrs for String {
    type Iter = vec::IntoIter<SocketAddr>;
    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        self.as_str().to_socket_addrs()
    }
}

impl ToSocketAddrs for (&str, u16) {
    type Iter = vec::IntoIter<SocketAddr>;
    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        match self.0.parse::<IpAddr>() {
            Ok(address) => Ok(vec![SocketAddr::new(address, self.1)].into_iter()),
            Err(_) => look_up(*self),
        }
    }
}

impl ToSocketAddrs for (String, u16) {
    type Iter = vec::IntoIter<SocketAddr>;
    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        (self.0.as_str(), self.1).to_socket_addrs()
    }
}

fn look_up<A>(name: A) -> io::Result<vec::IntoIter<SocketAddr>>
where
    A: std::net::ToSocketAddrs<Iter = vec::IntoIter<SocketAddr>> + Send,
{
    marcel::blocking::export(move || name.to_socket_addrs())
}

/// Tries one address after the other; the first success, or else the last error.
pub(super) fn each<A: ToSocketAddrs, T>(
    addresses: A,
    mut attempt: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = None;
    for address in addresses.to_socket_addrs()? {
        match attempt(address) {
            Ok(value) => return Ok(value),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any addresses")
    }))
}

/// All of them, for calls of `std` that try one after the other.
pub(super) fn all<A: ToSocketAddrs>(addresses: A) -> io::Result<Vec<SocketAddr>> {
    Ok(addresses.to_socket_addrs()?.collect())
}
