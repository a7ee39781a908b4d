//! The configuration of one measured point: ordered keys and values, the same names as the options.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::quantity;

/// Keys and values, in the order in which they are shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Config(Vec<(String, Value)>);

impl Config {
    /// Sets a key, in its place if it is there, else at the end.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<Value>) {
        let value = value.into();
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// This configuration with one key changed.
    pub(crate) fn with(&self, key: &str, value: impl Into<Value>) -> Config {
        let mut changed = self.clone();
        changed.set(key, value);
        changed
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// A key's text; empty when it is not there or is a number.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.get(key).and_then(Value::as_str).unwrap_or("")
    }

    /// The number of a key that every point of the bench has.
    ///
    /// # Panics
    /// The point has no such key, or its value is text: a misspelt key must not measure size 0.
    pub(crate) fn number(&self, key: &str) -> u64 {
        self.number_of(key)
            .unwrap_or_else(|| panic!("no number has the key {key:?} in {:?}", self.0))
    }

    /// The number of a key, if there is one.
    pub(crate) fn number_of(&self, key: &str) -> Option<u64> {
        self.get(key).and_then(Value::as_u64)
    }

    /// The keys and values in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Whether another has the same keys and values, in whatever order.
    pub(crate) fn same(&self, other: &Config) -> bool {
        let inside =
            |a: &Config, b: &Config| a.iter().all(|(key, value)| b.get(key) == Some(value));
        inside(self, other) && inside(other, self)
    }

    /// Only the keys for which `keep` holds.
    pub(crate) fn only(&self, keep: impl Fn(&str) -> bool) -> Config {
        Config(self.0.iter().filter(|(key, _)| keep(key)).cloned().collect())
    }
}

/// Each of them once, in the order in which they first come.
pub(crate) fn distinct<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut once: Vec<T> = Vec::new();
    for one in all {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

/// A value as the command line would have it.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The value of a key as people read it; the key's name stands at the head of the column.
pub(crate) fn for_people(key: &str, value: &Value) -> String {
    match (key, value.as_u64()) {
        ("size", Some(bytes)) => quantity::size(bytes),
        _ => shown(value),
    }
}

impl Serialize for Config {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Config, D::Error> {
        /// Keeps the order of the keys, as a page is to be the same when it is made again.
        struct Ordered;

        impl<'de> Visitor<'de> for Ordered {
            type Value = Config;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of keys and values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Config, A::Error> {
                let mut config = Config::default();
                while let Some((key, value)) = map.next_entry::<String, Value>()? {
                    config.set(&key, value);
                }
                Ok(config)
            }
        }

        deserializer.deserialize_map(Ordered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order_and_their_place() {
        let mut config = Config::default();
        config.set("size", 4);
        config.set("driver", "shm");
        config.set("size", 8);
        assert_eq!(serde_json::to_string(&config).unwrap(), r#"{"size":8,"driver":"shm"}"#);
        assert_eq!(
            (config.number("size"), config.text("driver"), config.number_of("none")),
            (8, "shm", None)
        );
    }

    #[test]
    #[should_panic(expected = "no number has the key \"sise\"")]
    fn a_misspelt_key_is_noticed() {
        Config::default().with("size", 8).number("sise");
    }

    #[test]
    fn a_configuration_survives_the_way_to_the_worker() {
        let config = Config::default().with("size", 65536).with("driver", "tcp");
        let back: Config = serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
        assert_eq!(back, config, "in the same order too");
    }
}
