//! Bad input: a one-line error that names the place and what was expected; never a panic.

use std::fmt::Write as _;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use mdts_dag::format::{self, Format};
use proptest::prelude::*;

use crate::samples;

fn error(format: Format, text: &[u8]) -> String {
    match format::read(text, format, "bad.file") {
        Ok(_) => panic!("read without error: {}", String::from_utf8_lossy(text)),
        Err(error) => error.to_string(),
    }
}

#[test]
fn names_with_newlines_stay_on_one_line() {
    let error = error(Format::Dot, b"digraph { \"a\nb\" -> \"a\nb\" }");
    assert!(
        error.ends_with(r"the graph has a cycle: a\nb -> a\nb; remove one of these dependencies"),
        "{error}"
    );
}

#[test]
fn empty_and_foreign_bytes_are_named() {
    for (format, _) in samples::ALL {
        for empty in [&b""[..], b" \n\t\n", b"\xef\xbb\xbf"] {
            let error = error(format, empty);
            assert!(error.contains("the file is empty; expected a job graph as"), "{error}");
        }
        let error = error(format, b"\n\na\xffb");
        assert!(error.contains("byte 3 (line 3): not UTF-8 text"), "{error}");
    }
    let error = format::read(b"\x00\x01", None, "core").unwrap_err().to_string();
    assert!(error.starts_with("core: neither the extension nor the text tells the format"), "{error}");
}

#[test]
fn files_that_are_not_there_are_named() {
    let error = format::read_path("no/such.json").unwrap_err().to_string();
    assert!(error.starts_with("no/such.json: ") && !error.contains('\n'), "{error}");
    let folder = tempfile::tempdir().unwrap();
    assert!(format::read_path(folder.path()).is_err());
}

#[test]
fn deep_nesting_is_refused() {
    const DEPTH: usize = 200_000;
    let nested = |before: &str, open: &str, close: &str, after: &str| {
        [before, &open.repeat(DEPTH), &close.repeat(DEPTH), after].concat()
    };
    let table = [
        (Format::WfFormat, nested(r#"{"workflow": "#, "[", "]", "}")),
        (Format::WfFormat, nested(r#"{"ignored": "#, "[", "]", "}")),
        (Format::Json, nested(r#"{"tasks": "#, "[", "]", "}")),
        (Format::Toml, nested("tasks = ", "[", "]", "")),
        (Format::Toml, nested("tasks = ", "{a=", "}", "")),
        (Format::Yaml, nested("tasks: ", "[", "]", "")),
        (Format::Yaml, nested("tasks: ", "{a: ", "}", "")),
        (Format::Yaml, nested("", "- ", "", "a")),
        (Format::Dot, nested("digraph {", "{", "}", "}")),
        (Format::Dot, nested("digraph {", "a -> {", "}", "}")),
        (Format::Dax, nested("<adag>", "<a>", "</a>", "</adag>")),
    ];
    for (format, text) in table {
        let error = error(format, text.as_bytes());
        assert!(error.len() < 300, "{}: {error}", format.name());
    }
}

#[test]
fn expansion_bombs_are_refused() {
    let xml = r#"<!DOCTYPE lolz [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><adag name="&b;"/>"#;
    assert!(error(Format::Dax, xml.as_bytes()).contains("document type"));
    let mut yaml =
        String::from("files: {}\ntasks:\n  - name: &a0 aaaaaaaaaa\n    after: &l0 [*a0, *a0, *a0]\n");
    for i in 1..30 {
        let alias = format!("*l{}", i - 1);
        let aliases = [&*alias; 9].join(", ");
        writeln!(yaml, "  - name: t{i}\n    after: &l{i} [{aliases}]").unwrap();
    }
    assert!(error(Format::Yaml, yaml.as_bytes()).len() < 400);
    // One long text, named often.
    let mut yaml = format!("tasks:\n  - name: &a {}\n    after: [", "x".repeat(1_000_000));
    yaml += &"*a, ".repeat(100_000);
    yaml += "]\n";
    assert!(error(Format::Yaml, yaml.as_bytes()).len() < 400);
    // A group of n nodes on both sides of an arrow is n^2 edges.
    let group: Vec<String> = (0..20_000).map(|i| format!("a{i}")).collect();
    let group = group.join(" ");
    let dot = format!("digraph {{ {{{group}}} -> {{{}}} }}", group.replace('a', "b"));
    assert!(error(Format::Dot, dot.as_bytes()).contains("more than"));
    // Attributes are compared in pairs.
    let attributes: Vec<String> = (0..200_000).map(|i| format!("a{i}=''")).collect();
    assert!(
        error(Format::Dax, format!("<adag {}/>", attributes.join(" ")).as_bytes()).contains("longer than")
    );
}

fn pack(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn packed_texts_read_and_cut_off_ones_do_not() {
    for (format, text) in samples::ALL {
        let (first, second) = text.split_at(text.len() / 2);
        let packed = [pack(first.as_bytes()), pack(second.as_bytes())].concat();
        assert_eq!(format::read(&packed, format, "x.gz").unwrap().len(), 3);
        let error = error(format, &packed[..packed.len() - 9]);
        assert!(error.starts_with("bad.file: gzip, byte ") && error.contains("cut off"), "{error}");
    }
}

/// Reads in the given format and in the detected one; only a panic is wrong.
fn try_read(format: Format, bytes: &[u8]) {
    for format in [Some(format), None] {
        if let Err(error) = format::read(bytes, format, "cut") {
            let error = error.to_string();
            assert!(!error.contains('\n'), "{error}");
        }
    }
}

#[test]
fn cut_off_texts_never_panic() {
    for (format, text) in samples::ALL {
        for end in 0..text.len() {
            try_read(format, &text.as_bytes()[..end]);
        }
        let packed = pack(text.as_bytes());
        for end in 0..packed.len() {
            try_read(format, &packed[..end]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn changed_bytes_never_panic(
        sample in prop::sample::select(&samples::ALL[..]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..4), 1..8),
    ) {
        const TELLING: &[u8] = b"{}[]()<>\"'\\:,;=-+*&!#%|~0123456789.eE \t\n\0/a_";
        let (format, text) = sample;
        let mut bytes = text.as_bytes().to_vec();
        for (index, byte, how) in changes {
            let at = index.index(bytes.len());
            let telling = TELLING[usize::from(byte) % TELLING.len()];
            match how {
                0 => bytes[at] = byte,
                1 => bytes[at] = telling,
                2 => bytes.insert(at, telling),
                _ => drop(bytes.drain(at..(at + usize::from(byte) % 20 + 1).min(bytes.len()))),
            }
            if bytes.is_empty() {
                break;
            }
        }
        try_read(format, &bytes);
    }
}
