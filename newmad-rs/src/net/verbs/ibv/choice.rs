//! Which address of a port is used: chosen by what it is, since positions in the table differ between machines and
//! change when addresses do.

/// The two layers below, as the kernel names them in `gid_attrs/types`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// InfiniBand, or the first RoCE, which no router passes on.
    One,
    /// RoCE v2: UDP.
    Two,
}

impl Version {
    /// Of the kernel's text.
    pub(super) fn of(text: &str) -> Version {
        if text.trim() == "RoCE v2" { Version::Two } else { Version::One }
    }
}

/// How good an address is for RoCE, best last; `None`: it is none.
fn rank(version: Version, gid: &[u8; 16]) -> Option<u8> {
    let is_ipv4 = gid[..10] == [0; 10] && gid[10..12] == [0xff; 2];
    let is_link_local = gid[0] == 0xfe && gid[1] & 0xc0 == 0x80;
    match version {
        _ if *gid == [0; 16] => None,
        Version::One => Some(0),
        Version::Two if is_link_local => Some(1),
        Version::Two if !is_ipv4 => Some(2),
        Version::Two => Some(3),
    }
}

/// The place of the address to use on Ethernet: RoCE v2 over IPv4, over a routed IPv6 address, over a link-local one, in
/// this order, then the first RoCE.
pub(super) fn choose(table: &[(Version, [u8; 16])]) -> Option<usize> {
    let ranks = table.iter().map(|(version, gid)| rank(*version, gid));
    let best = ranks.enumerate().filter_map(|(place, rank)| Some((rank?, place)));
    best.max_by_key(|&(rank, place)| (rank, std::cmp::Reverse(place))).map(|(_, place)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(text: &str) -> [u8; 16] {
        text.parse::<std::net::Ipv6Addr>().unwrap().octets()
    }

    #[test]
    fn an_address_is_chosen_by_what_it_is() {
        let link_local = gid("fe80::1");
        let (ipv4, ipv6) = (gid("::ffff:10.0.0.1"), gid("2001:db8::1"));
        let zero = gid("::");
        let (one, two) = (Version::of("IB/RoCE v1\n"), Version::of("RoCE v2\n"));
        assert_eq!(
            choose(&[(one, link_local), (two, link_local), (one, ipv4), (two, ipv4)]),
            Some(3)
        );
        assert_eq!(choose(&[(two, ipv6), (two, link_local)]), Some(0));
        assert_eq!(choose(&[(two, ipv4), (two, ipv4)]), Some(0), "the first of equals");
        assert_eq!(choose(&[(one, link_local)]), Some(0));
        assert_eq!(choose(&[(two, zero), (one, zero)]), None);
        assert_eq!(choose(&[]), None);
    }
}
