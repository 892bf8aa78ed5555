//! Names that were probably meant.

/// The candidate that `name` is most likely a typing error of: the first one of the smallest Damerau-Levenshtein
/// distance, if at most a quarter of the shorter name and one more letter differ. Case does not matter.
///
/// Names that are longer than 64 bytes are no typing errors, and only the first 10,000 candidates count: the cost is
/// O(candidates * 64^2) at worst.
///
/// ```
/// use mdts_dag::text::nearest;
/// assert_eq!(nearest("Wrok", ["work", "kind"]), Some("work"));
/// assert_eq!(nearest("colour", ["work", "kind"]), None);
/// ```
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64;
    const LOOKED_AT: usize = 10_000;
    if name.len() > LONGEST {
        return None;
    }
    let wanted = name.to_lowercase();
    candidates
        .into_iter()
        .take(LOOKED_AT)
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| (strsim::damerau_levenshtein(&wanted, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| is_near(*distance, name.len().min(candidate.len())))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Something must be left of the shorter name: `a` is no typing error of `b`.
fn is_near(distance: usize, shorter: usize) -> bool {
    distance <= 1 + shorter / 4 && distance < shorter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered_if_it_is_near() {
        let known = ["heft", "cpop", "min-min", "max-min", "a"];
        let table = [
            ("heft", Some("heft")),
            ("HEFFT", Some("heft")),
            ("ehft", Some("heft")),
            ("min_min", Some("min-min")),
            ("mxa-min", Some("max-min")),
            ("peft", Some("heft")),
            ("b", None),
            ("", None),
            ("zzz", None),
        ];
        for (name, expected) in table {
            assert_eq!(nearest(name, known), expected, "{name}");
        }
        assert_eq!(nearest("heft", []), None);
        assert_eq!(nearest("ab", ["ax", "ay"]), Some("ax"), "the first of equals");
    }

    #[test]
    fn long_names_get_no_hint() {
        let (at_most, longer) = ("x".repeat(64), "x".repeat(65));
        assert_eq!(nearest(&at_most, [&*at_most]), Some(&*at_most));
        assert_eq!(nearest(&longer, [&*at_most]), None);
        assert_eq!(nearest(&at_most, [&*longer]), None);
    }
}
