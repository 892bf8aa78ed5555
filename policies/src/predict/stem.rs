//! Task types by name, for names that hold more than the kind.

/// The part of a kind that tasks of one type share: of a path of scopes (`A:B.TRIM`, `/bin/trim`) / that the first word. Workflow systems put samples, lanes and chunks behind it.
///
/// ```
/// use mdts_policies::predict::stem;
/// assert_eq!(stem("map_HEP2_s_1_sequence_12"), "map");
/// assert_eq!(stem("NFCORE.RNASEQ.FASTQC"), "FASTQC");
/// assert_eq!(stem("chr21_3"), "chr");
/// assert_eq!(stem("7"), "7");
/// ```
pub fn stem(kind: &str) -> &str {
    let last = kind.rsplit(['.', ':', '/']).find(|step| !step.is_empty()).unwrap_or(kind);
    if last.len() < kind.len() {
        return last;
    }
    let word = last.split(['_', '-', ' ']).find(|word| !word.is_empty()).unwrap_or(last);
    let name = word.trim_end_matches(|c: char| c.is_ascii_digit());
    if name.is_empty() { word } else { name }
}
