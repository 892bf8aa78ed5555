//! From words to options, as `getopt_long` does it. O(words).

use super::options::{self, Name, Value};

/// One option with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Which.
    pub name: Name,
    /// Its value, if it has one.
    pub value: Option<String>,
    /// The line of the script where it begins; 0 for the command line and the environment.
    pub line: usize,
}

/// Reads options from words, each with its line. `stops_at_words`: a word that is no option, and `--`, end the options, as on a
/// command line, where the script's name follows; in a script they are refused.
///
/// # Errors
/// The line, and what is wrong there.
pub(super) fn options(
    words: &[(usize, String)],
    stops_at_words: bool,
) -> Result<Vec<Given>, (usize, String)> {
    let mut given = Vec::new();
    let mut words = words.iter();
    while let Some((line, word)) = words.next() {
        let fail = |what: String| (*line, what);
        if let Some(long) = word.strip_prefix("--").filter(|long| !long.is_empty()) {
            let (text, value) = match long.split_once('=') {
                Some((text, value)) => (text, Some(value.to_owned())),
                None => (long, None),
            };
            let row = options::long(text).map_err(fail)?;
            let value = match (row.value, value) {
                (Value::None, Some(_)) => return Err(fail(format!("--{} takes no value", row.long))),
                (Value::Required, None) => Some(next(&mut words, row.long).map_err(fail)?),
                (_, value) => value,
            };
            given.push(Given { name: row.name, value, line: *line });
        } else if let Some(letters) = word.strip_prefix('-').filter(|l| !l.is_empty() && *l != "-") {
            short(letters, *line, &mut words, &mut given).map_err(fail)?;
        } else if stops_at_words {
            break;
        } else {
            return Err(fail(format!("'{word}' is no option")));
        }
    }
    Ok(given)
}

/// Reads `-Hc3`: flags, and at last one that takes the rest or the next word.
fn short<'a>(
    letters: &str,
    line: usize,
    words: &mut impl Iterator<Item = &'a (usize, String)>,
    given: &mut Vec<Given>,
) -> Result<(), String> {
    for (at, letter) in letters.char_indices() {
        let row = options::short(letter)?;
        let rest = &letters[at + letter.len_utf8()..];
        let value = match row.value {
            Value::None => {
                given.push(Given { name: row.name, value: None, line });
                continue;
            }
            Value::Optional => Some(rest.to_owned()).filter(|rest| !rest.is_empty()),
            Value::Required if rest.is_empty() => Some(next(words, row.long)?),
            Value::Required => Some(rest.to_owned()),
        };
        given.push(Given { name: row.name, value, line });
        break;
    }
    Ok(())
}

fn next<'a>(words: &mut impl Iterator<Item = &'a (usize, String)>, long: &str) -> Result<String, String> {
    words.next().map(|(_, word)| word.clone()).ok_or_else(|| format!("--{long} lacks its value"))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = Vec<(Name, Option<String>)>;

    fn read(text: &str, stops: bool) -> Result<Read, (usize, String)> {
        let words: Vec<_> = text.split(' ').map(|word| (7, word.to_owned())).collect();
        options(&words, stops).map(|given| given.into_iter().map(|g| (g.name, g.value)).collect())
    }

    #[test]
    fn options_are_read_as_getopt_does() {
        let some = |text: &str| Some(text.to_owned());
        let table: [(&str, Read); 7] = [
            ("-c 3", vec![(Name::CpusPerTask, some("3"))]),
            ("-Hc3", vec![(Name::Hold, None), (Name::CpusPerTask, some("3"))]),
            ("--nodelist=a -wb", vec![(Name::NodeList, some("a")), (Name::NodeList, some("b"))]),
            ("--nodelist a=b", vec![(Name::NodeList, some("a=b"))]),
            ("--nice --exclusive=user", vec![(Name::Nice, None), (Name::Exclusive, some("user"))]),
            ("--comment=", vec![(Name::Comment, some(""))]),
            ("-c --mem", vec![(Name::CpusPerTask, some("--mem"))]),
        ];
        for (text, expected) in table {
            assert_eq!(read(text, false), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_getopt_refuses_is_refused() {
        for text in ["foo -c2", "-c", "--mem", "--hold=1", "-Zc3", "--foo=1", "-- -c2", "-"] {
            assert!(read(text, false).is_err(), "{text}");
        }
    }

    #[test]
    fn a_command_line_ends_at_the_script() {
        assert_eq!(read("-c2 job.sh -c3", true).unwrap().len(), 1);
        assert_eq!(read("-c2 -- job.sh -c3", true).unwrap().len(), 1);
    }
}
