//! Sizes and durations as people write them: `100MB`, `2GiB`, `10m`, `1.5h`.

/// Bytes from a number with an optional unit: B, kB, MB, GB, TB, PB (powers of 1000), KiB ... PiB (of 1024).
///
/// ```
/// use mdts_dag::units::parse_bytes;
/// assert_eq!(parse_bytes("2GiB").unwrap(), 2_147_483_648.0);
/// assert_eq!(parse_bytes("1.5 kB").unwrap(), 1500.0);
/// assert!(parse_bytes("5 parsecs").is_err());
/// ```
///
/// # Errors
/// A message that says what was expected.
pub fn parse_bytes(text: &str) -> Result<f64, String> {
    let (number, unit) = split_unit(text)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "p" | "pb" => 1e15,
        "kib" | "ki" => 1024.0,
        "mib" | "mi" => 1024.0 * 1024.0,
        "gib" | "gi" => 1024.0 * 1024.0 * 1024.0,
        "tib" | "ti" => 1024.0_f64.powi(4),
        "pib" | "pi" => 1024.0_f64.powi(5),
        _ => {
            return Err(format!(
                "'{text}' is not a size; write for example 100MB, 2GiB or a number of bytes"
            ));
        }
    };
    Ok(number * factor)
}

/// Seconds from a number with an optional unit: ms, s, m or min, h, d.
///
/// ```
/// use mdts_dag::units::parse_seconds;
/// assert_eq!(parse_seconds("10m").unwrap(), 600.0);
/// assert_eq!(parse_seconds("250ms").unwrap(), 0.25);
/// assert_eq!(parse_seconds("12").unwrap(), 12.0);
/// ```
///
/// # Errors
/// A message that says what was expected.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    let (number, unit) = split_unit(text)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(format!("'{text}' is not a duration; write for example 90s, 10m, 2h or seconds")),
    };
    Ok(number * factor)
}

fn split_unit(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("an empty text where a number was expected".into());
    }
    // A whole number first, so that "1e9" is not cut at its exponent.
    if let Ok(number) = text.parse::<f64>() {
        return Ok((number, ""));
    }
    let cut = text
        .char_indices()
        .find(|(_, c)| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+')))
        .map_or(text.len(), |(i, _)| i);
    let (number, unit) = text.split_at(cut);
    let number = number.parse().map_err(|_| format!("'{text}' does not begin with a number"))?;
    Ok((number, unit.trim()))
}
