//! The words of one directive, as sbatch splits them.
//!
//! White space separates; single and double quotes keep it; a backslash takes the next character as it is, inside quotes, too,
//! but for white space outside of them; an unquoted `#` begins a comment. O(bytes).

/// Longer words overflow sbatch's own buffer.
const LONGEST: usize = 8191;

/// Splits the text behind `#SBATCH`.
///
/// ```
/// use mdts_slurm::filter::split;
/// assert_eq!(split(br#" -J "my job" -c2 # a comment"#).unwrap(), ["-J", "my job", "-c2"]);
/// assert!(split(br#" -J "my job"#).is_err());
/// ```
///
/// # Errors
/// What sbatch would refuse: a quote that does not end, a colon between words, an endless word; and text that is not UTF-8.
pub fn split(line: &[u8]) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start_c();
        match rest.first() {
            None | Some(b'#') => return Ok(words),
            Some(b':') => return Err("a colon stands where an option is expected".into()),
            Some(_) => {}
        }
        let (word, used) = word(rest)?;
        if word.len() > LONGEST {
            return Err(format!("a word of {} bytes; {LONGEST} are the most", word.len()));
        }
        // At an empty word, quoted or a lone backslash, sbatch stops reading the line.
        if word.is_empty() {
            return Ok(words);
        }
        words.push(String::from_utf8(word).map_err(|_| "the text is not UTF-8".to_owned())?);
        rest = &rest[used..];
    }
}

/// The first word and how many bytes it takes up.
fn word(text: &[u8]) -> Result<(Vec<u8>, usize), String> {
    let (mut word, mut quote, mut escaped) = (Vec::new(), None, false);
    for (at, &byte) in text.iter().enumerate() {
        if quote.is_none() && is_space(byte) {
            return Ok((word, at));
        }
        match (escaped, byte, quote) {
            (true, ..) => {
                word.push(byte);
                escaped = false;
            }
            (false, b'\\', _) => escaped = true,
            (false, byte, Some(open)) if byte == open => quote = None,
            (false, b'"' | b'\'', None) => quote = Some(byte),
            (false, b'#', None) => return Ok((word, at)),
            (false, byte, _) => word.push(byte),
        }
    }
    match quote {
        Some(open) => Err(format!("the quote {} does not end", char::from(open))),
        None => Ok((word, text.len())),
    }
}

/// C's `isspace`.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Trims what C calls white space, which Rust's ASCII white space is but for the vertical tab.
trait TrimC {
    fn trim_ascii_start_c(&self) -> &Self;
}

impl TrimC for [u8] {
    fn trim_ascii_start_c(&self) -> &Self {
        let begin = self.iter().position(|b| !is_space(*b)).unwrap_or(self.len());
        &self[begin..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_sbatch() {
        // Each of these was tried with sbatch 22.05.8.
        let table: [(&str, &[&str]); 13] = [
            (" '' -c3", &[]),
            (" -J a#b -c 2", &["-J", "a"]),
            ("\t-c\t3", &["-c", "3"]),
            ("-c3", &["-c3"]),
            (" -t\u{b}5", &["-t", "5"]),
            (" -c3 \\", &["-c3"]),
            (r#" --comment="a b"c -c2"#, &["--comment=a bc", "-c2"]),
            (r" --comment=x\ y", &["--comment=x", "y"]),
            (r#" --comment="a\"b""#, &["--comment=a\"b"]),
            (r" --comment='a \n b'", &["--comment=a n b"]),
            (r" -J a\#b", &["-J", "a#b"]),
            (" # nothing", &[]),
            ("", &[]),
        ];
        for (line, expected) in table {
            assert_eq!(split(line.as_bytes()).unwrap(), expected, "{line:?}");
        }
    }

    #[test]
    fn what_sbatch_refuses_is_refused() {
        for line in [" -J \"a", " -J 'a\"", " : -c2", " -c3 : -c2"] {
            assert!(split(line.as_bytes()).is_err(), "{line:?}");
        }
        let long = "x".repeat(LONGEST + 1);
        assert!(split(long.as_bytes()).is_err());
        assert!(split(b" -J \xff").is_err());
    }
}
