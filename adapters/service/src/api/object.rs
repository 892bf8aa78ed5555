//! Objects inside bodies: what is derived for structs would take a list of values in the order of the fields as well.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A value that is written as an object.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfMap<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for OfMap<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_map(OfMap(PhantomData)).map(Self)
    }
}

/// A list of objects.
pub(super) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let list = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(list.into_iter().map(|object| object.0).collect())
}

/// The first objects of a list, `most` of them.
pub(crate) fn first<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
    most: usize,
) -> Result<Vec<T>, D::Error> {
    struct First<T>(usize, PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for First<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of objects")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut found = Vec::new();
            while found.len() < self.0 {
                let Some(object) = list.next_element::<Object<T>>()? else { return Ok(found) };
                found.push(object.0);
            }
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(found)
        }
    }

    deserializer.deserialize_seq(First(most, PhantomData))
}

/// Objects by name.
pub(super) fn by_name<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, T>, D::Error> {
    let objects = BTreeMap::<String, Object<T>>::deserialize(deserializer)?;
    Ok(objects.into_iter().map(|(name, object)| (name, object.0)).collect())
}

#[cfg(test)]
mod tests {
    use crate::api::{Batch, Events, Registration};

    #[test]
    fn lists_are_no_objects() {
        let right = [
            serde_json::from_str::<Events>(r#"{"events": [{"task": "a", "attempt": 1, "event": "failed"}]}"#)
                .is_ok(),
            serde_json::from_str::<Registration>(r#"{"nodes": {"m": {"speed": 2}}}"#).is_ok(),
            serde_json::from_str::<Batch>(r#"{"calls": [{"method": "GET", "path": "/v1/jobs"}]}"#).is_ok(),
        ];
        assert_eq!(right, [true; 3]);
        let wrong = [
            serde_json::from_str::<Events>(r#"{"events": [["a", 1, "failed", null, null]]}"#).err(),
            serde_json::from_str::<Registration>(r#"{"nodes": {"m": [2]}}"#).err(),
            serde_json::from_str::<Batch>(r#"{"calls": [["GET", "/v1/jobs", null, null]]}"#).err(),
        ];
        for error in wrong {
            let error = error.map_or_else(String::new, |error| error.to_string());
            assert!(error.contains("expected an object at line 1"), "{error}");
        }
    }
}
