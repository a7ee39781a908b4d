//! The name of a port: `newmad-port1,KEY,ADDRESS`.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use crate::authentication::KEY;
use crate::connect::{hex, unhex};

const KIND: &str = "newmad-port1";

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) address: SocketAddr,
    pub(crate) key: [u8; KEY],
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KIND},{},{}", hex(&self.key), self.address)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KIND},…,{}", self.address)
    }
}

impl FromStr for Name {
    type Err = ();
    fn from_str(text: &str) -> Result<Name, ()> {
        let mut fields = text.split(',');
        let (Some(KIND), Some(key), Some(address), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(());
        };
        Ok(Name { address: address.parse().map_err(drop)?, key: unhex(key).ok_or(())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn names_come_back(key: [u8; KEY], port: u16, v6: bool) {
            let address = if v6 { format!("[::1]:{port}") } else { format!("127.0.0.1:{port}") };
            let name = Name { address: address.parse().unwrap(), key };
            prop_assert_eq!(name.to_string().parse(), Ok(name));
        }

        #[test]
        fn hostile_names_are_refused_or_are_what_they_say(text in "(newmad-port1)?,?[0-9a-f]{0,70},?[0-9.:]{0,20}\\PC{0,9}") {
            if let Ok(name) = text.parse::<Name>() {
                prop_assert_eq!(name.to_string().parse(), Ok(name));
            }
        }
    }
}
