//! Whole numbers, which JSON may write as `4.0`.

use serde::de::{Deserialize, Deserializer, Error, Unexpected};

/// A whole number.
pub(super) fn read<'de, D: Deserializer<'de>, N: TryFrom<u64>>(deserializer: D) -> Result<N, D::Error> {
    let number = serde_json::Number::deserialize(deserializer)?;
    let whole = number.as_u64().or_else(|| {
        let float = number.as_f64()?;
        // Beyond 2^53 floats are not exact.
        (float.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&float)).then_some(float as u64)
    });
    let refused =
        || D::Error::invalid_value(Unexpected::Float(number.as_f64().unwrap_or(f64::NAN)), &"a whole number");
    whole.and_then(|whole| N::try_from(whole).ok()).ok_or_else(refused)
}

/// A whole number, or none.
pub(super) fn read_option<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    #[derive(serde::Deserialize)]
    struct Whole(#[serde(deserialize_with = "read")] u64);
    Ok(Option::<Whole>::deserialize(deserializer)?.map(|whole| whole.0))
}

#[cfg(test)]
mod tests {
    use crate::api::{NodeSpec, TaskEvent};

    #[test]
    fn whole_numbers_may_have_a_point() {
        let memory = |text: &str| serde_json::from_str::<NodeSpec>(text).map(|spec| spec.memory);
        assert_eq!(memory(r#"{"memory": 8065.0}"#).ok(), Some(Some(8065)));
        assert_eq!(memory(r#"{"memory": 18446744073709551615}"#).ok(), Some(Some(u64::MAX)));
        assert_eq!(memory(r#"{"memory": null}"#).ok(), Some(None));
        for wrong in ["0.5", "-1", "1e300", "\"1\""] {
            assert!(memory(&format!("{{\"memory\": {wrong}}}")).is_err(), "{wrong}");
        }
        let event = |attempt: &str| {
            serde_json::from_str::<TaskEvent>(&format!(
                r#"{{"task": "a", "event": "failed", "attempt": {attempt}}}"#
            ))
        };
        assert!(event("2.0").is_ok_and(|event| event.attempt == 2));
        assert!(event("4294967296").is_err());
    }
}
