//! Indices of arrays: `1-10`, `1,3,5-9:2`, `0-99%4`.

/// No array is spelled out beyond this.
const MOST: usize = 100_000;

/// All indices, in the order in which they stand. None if they cannot be read, or are very many.
pub(super) fn indices(text: &str) -> Option<Vec<u32>> {
    let text = text.split('%').next().unwrap_or_default();
    let mut all = Vec::new();
    for item in text.split(',') {
        let (range, step) = item.split_once(':').unwrap_or((item, "1"));
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        let step: usize = step.parse().ok().filter(|step| *step > 0)?;
        if low > high || (high - low) as usize / step >= MOST - all.len().min(MOST - 1) {
            return None;
        }
        all.extend((low..=high).step_by(step));
    }
    Some(all).filter(|all| all.len() <= MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_spelled_out() {
        let table: [(&str, Option<&[u32]>); 8] = [
            ("1-3", Some(&[1, 2, 3])),
            ("1,5,3", Some(&[1, 5, 3])),
            ("0-9:4%2", Some(&[0, 4, 8])),
            ("7", Some(&[7])),
            ("3-1", None),
            ("1-3:0", None),
            ("x", None),
            ("0-4000000000", None),
        ];
        for (text, expected) in table {
            assert_eq!(indices(text).as_deref(), expected, "{text}");
        }
    }
}
