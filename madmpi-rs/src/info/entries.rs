//! The entries of an info object.

/// Keys and values, in the order in which the keys were added.
#[derive(Clone, Default)]
pub(crate) struct Entries(Vec<Entry>);

type Entry = (Box<[u8]>, Box<[u8]>);

impl Entries {
    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.0.iter().find(|entry| *entry.0 == *key).map(|entry| &*entry.1)
    }

    pub(crate) fn set(&mut self, key: &[u8], value: &[u8]) {
        match self.0.iter_mut().find(|entry| *entry.0 == *key) {
            Some(entry) => entry.1 = value.into(),
            None => self.0.push((key.into(), value.into())),
        }
    }

    /// Deletes a key; whether it existed.
    pub(crate) fn delete(&mut self, key: &[u8]) -> bool {
        let place = self.0.iter().position(|entry| *entry.0 == *key);
        place.map(|place| self.0.remove(place)).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The key with that number.
    pub(crate) fn key(&self, number: usize) -> Option<&[u8]> {
        self.0.get(number).map(|entry| &*entry.0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|entry| (&*entry.0, &*entry.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_are_a_map_that_keeps_its_order(
            steps in proptest::collection::vec((any::<bool>(), 0..6u8, any::<u8>()), 0..60),
        ) {
            let (mut entries, mut oracle) = (Entries::default(), Vec::<(u8, u8)>::new());
            for (set, key, value) in steps {
                let place = oracle.iter().position(|entry| entry.0 == key);
                if set {
                    entries.set(&[key], &[value]);
                    match place {
                        Some(place) => oracle[place].1 = value,
                        None => oracle.push((key, value)),
                    }
                } else {
                    prop_assert_eq!(entries.delete(&[key]), place.is_some());
                    place.map(|place| oracle.remove(place));
                }
                let listed: Vec<(u8, u8)> = entries.iter().map(|(key, value)| (key[0], value[0])).collect();
                prop_assert_eq!(&listed, &oracle);
                let found = oracle.iter().find(|entry| entry.0 == key).map(|entry| entry.1);
                prop_assert_eq!(entries.get(&[key]).map(|value| value[0]), found);
            }
        }
    }
}
