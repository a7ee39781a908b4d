//! User memory as the library knows it: addresses and lengths, in a row ([`span`]) or apart ([`layout`]).

pub(crate) mod layout;
pub(crate) mod span;
