//! How Slurm spells times, sizes, counts, generic resources and lists of hosts.

use std::collections::BTreeMap;

/// A list of hosts longer than this is not spelled out.
const MOST_HOSTS: usize = 100_000;

/// Minutes of a time limit: `90`, `1:30` (minutes, seconds), `1:30:00`, `2-12`, `2-12:30`, `2-12:30:00`. Seconds are rounded
/// up. None if it is none, or unlimited.
///
/// ```
/// assert_eq!(mdts_slurm::spell::minutes("1-02:30"), Some(26 * 60 + 30));
/// assert_eq!(mdts_slurm::spell::minutes("UNLIMITED"), None);
/// ```
pub fn minutes(text: &str) -> Option<u64> {
    seconds(text).map(|seconds| seconds.div_ceil(60))
}

/// Seconds of the same spelling.
pub fn seconds(text: &str) -> Option<u64> {
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(number(days)?), rest),
        None => (None, text),
    };
    let parts = rest.split(':').map(number).collect::<Option<Vec<u64>>>()?;
    let (hours, minutes, seconds) = match (days.is_some(), parts.as_slice()) {
        (true, [h]) => (*h, 0, 0),
        (true, [h, m]) => (*h, *m, 0),
        (false, [m]) => (0, *m, 0),
        (false, [m, s]) => (0, *m, *s),
        (_, [h, m, s]) => (*h, *m, *s),
        _ => return None,
    };
    let all = [(days.unwrap_or(0), 86_400), (hours, 3600), (minutes, 60), (seconds, 1)];
    all.iter().try_fold(0_u64, |sum, (count, each)| sum.checked_add(count.checked_mul(*each)?))
}

/// Mebibytes of a size: `100`, `100M`, `2G`, `1T`, `512K`; with `default` a number's own unit in mebibytes.
///
/// ```
/// assert_eq!(mdts_slurm::spell::mebibytes("2G"), Some(2048));
/// ```
pub fn mebibytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let text = text.strip_suffix(['B', 'b']).unwrap_or(text);
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let amount: f64 = digits.parse().ok().filter(|amount: &f64| *amount >= 0.0 && *amount < 1e15)?;
    let unit = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "M" => 1.0,
        "K" => 1.0 / 1024.0,
        "G" => 1024.0,
        "T" => 1024.0 * 1024.0,
        "P" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some((amount * unit).ceil() as u64)
}

/// A count, also as `2k` or `1m`, and as the least and most of a range: `4`, `2-4`.
pub fn range(text: &str) -> Option<(u64, u64)> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let count = |text: &str| match text.as_bytes().last()? {
        b'k' | b'K' => number(&text[..text.len() - 1])?.checked_mul(1024),
        b'm' | b'M' => number(&text[..text.len() - 1])?.checked_mul(1024 * 1024),
        _ => number(text),
    };
    let (low, high) = (count(low)?, count(high)?);
    (low <= high).then_some((low, high))
}

/// Generic resources: `gpu:tesla:2,gres:licence:1` and what nodes say, `gpu:fake:2(S:0)`. A type counts under `gpu:tesla` and,
/// with all others, under `gpu`. Resources of which there are none are left out. None if it cannot be read.
///
/// ```
/// let gres = mdts_slurm::spell::gres("gpu:tesla:2(S:0-1),gpu:1").unwrap();
/// assert_eq!(gres["gpu"], 3);
/// assert_eq!(gres["gpu:tesla"], 2);
/// ```
pub fn gres(text: &str) -> Option<BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    if matches!(text, "" | "(null)" | "N/A" | "none" | "NONE" | "NULL") {
        return Some(found);
    }
    for item in outside_brackets(text, ',') {
        let item = item.split('(').next().unwrap_or(item).trim();
        let item = item.strip_prefix("gres:").or(item.strip_prefix("gres/")).unwrap_or(item);
        let (name, count) = match item.rsplit_once([':', '=']) {
            Some((name, count)) => match range(count) {
                Some((low, high)) if low == high => (name, low),
                // `gpu:tesla`: one of this type.
                _ if count.starts_with(|c: char| c.is_ascii_alphabetic()) => (item, 1),
                _ => return None,
            },
            None => (item, 1),
        };
        let (family, kind) = match name.split_once(':') {
            Some((family, kind)) => (family, Some(kind)),
            None => (name, None),
        };
        if family.is_empty() || kind.is_some_and(str::is_empty) {
            return None;
        }
        if count == 0 {
            continue;
        }
        *found.entry(family.to_owned()).or_insert(0) += count;
        if kind.is_some() {
            *found.entry(name.to_owned()).or_insert(0) += count;
        }
    }
    Some(found)
}

/// All hosts of a list: `n[1-3,07],x`. None if it cannot be read or is very long.
///
/// ```
/// assert_eq!(mdts_slurm::spell::hosts("n[08-10,2],x").unwrap(), ["n08", "n09", "n10", "n2", "x"]);
/// ```
pub fn hosts(text: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    if matches!(text, "" | "(null)" | "None") {
        return Some(all);
    }
    for item in outside_brackets(text, ',') {
        spell_out(item, String::new(), &mut all)?;
    }
    Some(all)
}

/// Adds every host of one pattern behind what is spelled out already.
fn spell_out(pattern: &str, before: String, all: &mut Vec<String>) -> Option<()> {
    let Some((plain, rest)) = pattern.split_once('[') else {
        let host = before + pattern;
        let is_name = !host.is_empty() && !host.contains([']', ' ', '/']);
        return (is_name && all.len() < MOST_HOSTS).then(|| all.push(host));
    };
    let (ranges, rest) = rest.split_once(']')?;
    for range in ranges.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (number(low)?, number(high)?);
        if first > last || last - first > MOST_HOSTS as u64 {
            return None;
        }
        let width = low.len();
        for i in first..=last {
            spell_out(rest, format!("{before}{plain}{i:0width$}"), all)?;
        }
    }
    Some(())
}

/// Splits at a separator that stands outside brackets.
fn outside_brackets(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    text.split(move |c| {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            _ => {}
        }
        c == separator && depth <= 0
    })
}

fn number(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let table = [
            ("90", Some(90)),
            ("1:30", Some(2)),
            ("1:30:00", Some(90)),
            ("2-12", Some(60 * 60)),
            ("0-00:00:01", Some(1)),
            ("INFINITE", None),
            ("-1", None),
            ("", None),
            ("1:2:3:4", None),
            ("99999999999999999999", None),
            ("9999999999999999-0", None),
        ];
        for (text, expected) in table {
            assert_eq!(minutes(text), expected, "{text}");
        }
    }

    #[test]
    fn sizes_and_counts() {
        for (text, expected) in [
            ("100", Some(100)),
            ("1K", Some(1)),
            ("1.5G", Some(1536)),
            ("2x", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(mebibytes(text), expected, "{text}");
        }
        for (text, expected) in [
            ("4", Some((4, 4))),
            ("2-4", Some((2, 4))),
            ("1k", Some((1024, 1024))),
            ("4-2", None),
            ("x", None),
            ("-", None),
        ] {
            assert_eq!(range(text), expected, "{text}");
        }
    }

    #[test]
    fn generic_resources() {
        let show = |text: &str| {
            gres(text).map(|g| g.into_iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" "))
        };
        let table = [
            ("gpu", Some("gpu=1")),
            ("gpu:2", Some("gpu=2")),
            ("gpu:tesla", Some("gpu=1 gpu:tesla=1")),
            ("gres:gpu:a:2,gres:gpu:b:1", Some("gpu=3 gpu:a=2 gpu:b=1")),
            ("gres/gpu=2", Some("gpu=2")),
            ("gpu:fake:2(IDX:0-1)", Some("gpu=2 gpu:fake=2")),
            ("gpu:0", Some("")),
            ("(null)", Some("")),
            ("gpu:2x", None),
            (":2", None),
        ];
        for (text, expected) in table {
            assert_eq!(show(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn host_lists() {
        for (text, expected) in [
            ("a", Some(1)),
            ("n[1-3]", Some(3)),
            ("r[1-2]n[1-3],x", Some(7)),
            ("(null)", Some(0)),
            ("n[1-3", None),
            ("n[3-1]", None),
            ("n[0-99999999]", None),
            ("a,,b", None),
        ] {
            assert_eq!(hosts(text).map(|h| h.len()), expected, "{text}");
        }
    }
}
