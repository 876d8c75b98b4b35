//! Lists that others write, of which no more is read than they may have.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// A list of at most so many values. The first one beyond is an error at once: values can take dozens of times the room
/// of their text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Few<T, const MOST: usize>(pub(super) Vec<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Few<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Reader::<T, MOST>(PhantomData))
    }
}

/// Reads one.
struct Reader<T, const MOST: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for Reader<T, MOST> {
    type Value = Few<T, MOST>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a list of at most {MOST}")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            if values.len() == MOST {
                return Err(A::Error::invalid_length(MOST + 1, &self));
            }
            values.push(value);
        }
        Ok(Few(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_up_to_its_limit() {
        let read = |text| serde_json::from_str::<Few<u8, 3>>(text).map_err(|error| error.to_string());
        assert_eq!(read("[]"), Ok(Few(vec![])));
        assert_eq!(read("[1,2,3]"), Ok(Few(vec![1, 2, 3])));
        // The rest is not looked at.
        let refused = read("[1,2,3,4,nonsense").unwrap_err();
        assert!(refused.starts_with("invalid length 4, expected a list of at most 3"), "{refused}");
        assert!(read("{}").unwrap_err().contains("expected a list of at most 3"));
        assert_eq!(serde_json::from_str::<Option<Few<u8, 3>>>("null").unwrap(), None);
    }
}
