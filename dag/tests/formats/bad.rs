//! Bad input: a one-line error that names the place and what was expected; never a panic.

use std::io::Write;

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
fn every_error_says_where_and_what() {
    let table: &[(Format, &str, &str)] = &[
        // WfFormat
        (Format::WfFormat, "{}", "line 1, column 2: missing field `workflow`"),
        (Format::WfFormat, r#"{"workflow": {}}"#, "workflow: neither 'specification'"),
        (Format::WfFormat, "{\n\"workflow\": 3}", "line 2, column 13: invalid type"),
        (Format::WfFormat, r#"{"workflow": {"tasks": []}}"#, "the graph has no tasks"),
        (
            Format::WfFormat,
            r#"{"workflow": {"tasks": [{}]}}"#,
            "workflow.tasks[0]: expected an 'id' or a 'name'",
        ),
        (
            Format::WfFormat,
            r#"{"workflow": {"tasks": [{"name": "a"}, {"name": "a"}]}}"#,
            "two tasks are named 'a'",
        ),
        (
            Format::WfFormat,
            r#"{"workflow": {"tasks": [{"name": "align"}, {"name": "b", "parents": ["algin"]}]}}"#,
            "task 'b' depends on 'algin', which is not a task of this graph; did you mean 'align'?",
        ),
        (
            Format::WfFormat,
            r#"{"workflow": {"tasks": [{"name": "a", "children": ["x"]}]}}"#,
            "workflow.tasks[0]: children: 'x' is not a task",
        ),
        (
            Format::WfFormat,
            r#"{"workflow": {"tasks": [{"name": "a", "parents": ["b"]}, {"name": "b", "parents": ["a"]}]}}"#,
            "the graph has a cycle: ",
        ),
        (
            Format::WfFormat,
            r#"{"workflow": {"tasks": [{"name": "a", "runtimeInSeconds": -1}]}}"#,
            "task 'a': work in seconds is -1; expected",
        ),
        (
            Format::WfFormat,
            r#"{"workflow": {"tasks": [{"name": "a", "runtimeInSeconds": 1e999}]}}"#,
            "number out of range",
        ),
        (
            Format::WfFormat,
            r#"{"workflow": {"tasks": [{"name": "a", "memoryInBytes": -5}]}}"#,
            "workflow.tasks[0]: memory is -5; expected",
        ),
        (
            Format::WfFormat,
            r#"{"workflow": {"tasks": [{"name": "a", "files": [{"name": "f", "link": "up"}]}]}}"#,
            "link of file 'f' is 'up'; expected 'input' or 'output'",
        ),
        // DAX
        (Format::Dax, "<adag>", "line 1, column 7: the text ends inside <adag>"),
        (Format::Dax, "text", "there is no element <adag>"),
        (Format::Dax, "<dag/>", "line 1, column 1: element <dag>; expected one <adag>"),
        (Format::Dax, "<adag/><adag/>", "expected one <adag>"),
        (Format::Dax, "<adag/>", "the graph has no tasks"),
        (Format::Dax, "<adag>\n  <job name='x'/>\n</adag>", "line 2, column 3: <job> has no attribute 'id'"),
        (Format::Dax, "<adag><job id='a' runtime='fast'/></adag>", "runtime is 'fast'; expected a number"),
        (Format::Dax, "<adag><job id='a' runtime='NaN'/></adag>", "task 'a': work in seconds is NaN"),
        (
            Format::Dax,
            "<adag><job id='a' runtime='2e18'/></adag>",
            "task 'a': work in seconds is 2000000000000000000",
        ),
        (Format::Dax, "<adag><job id='a'><uses link='input'/></job></adag>", "<uses> names no file"),
        (Format::Dax, "<adag><job id='a'/><job id='a'/></adag>", "two tasks are named 'a'"),
        (
            Format::Dax,
            "<adag><job id='a'/><child ref='b'><parent ref='a'/></child></adag>",
            "line 1, column 35: <child ref=\"b\"> is not the id of a job",
        ),
        (
            Format::Dax,
            "<adag><job id='a'/><child ref='a'><parent ref='b'/></child></adag>",
            "task 'a' depends on 'b', which is not a task",
        ),
        (Format::Dax, "<adag><job id='&x;'/></adag>", "line 1, column 7: "),
        (Format::Dax, "<adag>&x;</adag>", "line 1, column 7: "),
        (Format::Dax, "<adag></job></adag>", "line 1, column 7: "),
        (Format::Dax, "<!DOCTYPE adag [<!ENTITY a 'b'>]><adag/>", "a document type is declared"),
        // STG
        (Format::Stg, "# nothing\n", "the graph has no tasks"),
        (Format::Stg, "0\n", "the graph has no tasks"),
        (Format::Stg, "0\n0 0 0\n1 0 1 0\n", "the graph has no tasks"),
        (Format::Stg, "x\n", "line 1: 'x' where the number of tasks was expected"),
        (Format::Stg, "1 2\n", "line 1: '2' follows the number of tasks"),
        (
            Format::Stg,
            "4000000000\n1 1 0\n",
            "line 2: the file ends after 1 rows; expected 4000000000, or 4000000002",
        ),
        (Format::Stg, "1\n1 1\n", "line 2: the line ends where the number of predecessors was expected"),
        (Format::Stg, "1\n1 1 2 1\n", "line 2: task 1 has 1 predecessors; its row announces 2"),
        (Format::Stg, "1\n1 1 1 7\n", "line 2: predecessor 7 of task 1 is not a task"),
        (Format::Stg, "1\n1 -1 0\n", "task '1': work in seconds is -1"),
        (Format::Stg, "1\n1 nan 0\n", "task '1': work in seconds is NaN"),
        (Format::Stg, "2\n1 1 0\n1 1 0\n", "two tasks are named '1'"),
        (Format::Stg, "2\n1 1 1 2\n2 1 1 1\n", "the graph has a cycle: "),
        (Format::Stg, "1\n0 5 0\n1 1 1 0\n2 0 1 1\n", "line 2: dummy task 0 has time 5; expected 0"),
        // DOT
        (
            Format::Dot,
            "graph { a -- b }",
            "line 1, column 1: found 'graph'; expected 'digraph': dependencies",
        ),
        (Format::Dot, "digraph { a -- b }", "line 1, column 13: found '--'; expected '->'"),
        (Format::Dot, "digraph {", "line 1, column 10: found the end of the text; expected '}'"),
        (Format::Dot, "digraph {}", "the graph has no tasks"),
        (Format::Dot, "digraph { a } b", "expected nothing after the graph"),
        (Format::Dot, "digraph { a [work=fast] }", "line 1, column 19: attribute work: "),
        (Format::Dot, "digraph { a [work=-1] }", "task 'a': work in seconds is -1"),
        (Format::Dot, "digraph { a [work=nan] }", "task 'a': work in seconds is NaN"),
        (Format::Dot, "digraph { a [times=\"P1\"] }", "attribute times: 'P1' is not like name=1.5"),
        (Format::Dot, "digraph {\n a -> b [bytes=many] }", "line 2, column 16: attribute bytes: "),
        (Format::Dot, "digraph { a -> b -> a }", "the graph has a cycle: "),
        (Format::Dot, "digraph { a -> a }", "the graph has a cycle: a -> a"),
        (Format::Dot, "digraph { <b>x</b> }", "HTML-like names are not supported"),
        (Format::Dot, "digraph { \"a }", "line 1, column 11: the quoted text is not closed"),
        (Format::Dot, "digraph { a [work 1 }", "line 1, column 21: attribute 1: expected '=' and a value"),
        (Format::Dot, "digraph { a -> b=c }", "expected a node after '->'"),
        // the own format
        (Format::Yaml, "name: x", "document: the key 'tasks' is missing"),
        (Format::Yaml, "tasks: []", "the graph has no tasks"),
        (Format::Yaml, "tasks: 5", "line 1, column 8: "),
        (
            Format::Yaml,
            "tasks:\n  - {name: a, wrok: 5}",
            "line 2, column 15: unknown key 'wrok' of a task; did you mean 'work'?",
        ),
        (
            Format::Yaml,
            "tasks:\n  - {name: a, colour: 5}",
            "unknown key 'colour' of a task; expected one of name, kind",
        ),
        (
            Format::Yaml,
            "task:\n  - {name: a}",
            "line 1, column 1: unknown key 'task' of a workflow; did you mean 'tasks'?",
        ),
        (Format::Yaml, "tasks:\n  - {name: a, work: soon}", "'soon' does not begin with a number"),
        (Format::Yaml, "tasks:\n  - {name: a, work: -4}", "task 'a': work in seconds is -4"),
        (Format::Yaml, "tasks:\n  - {name: a, work: .nan}", "line 2, column 21: "),
        (Format::Yaml, "tasks:\n  - {name: a, memory: -1}", "memory is -1; expected 0 to 1e18 bytes"),
        (Format::Yaml, "tasks:\n  - {name: a, name: b}", "line 2, column 15: "),
        (
            Format::Yaml,
            "tasks:\n  - {name: a, work: 1, times: {x: 1}}",
            "task 'a': has both 'work' and 'times'",
        ),
        (Format::Yaml, "tasks:\n  - {work: 1}", "tasks[0]: the key 'name' is missing"),
        (Format::Yaml, "tasks:\n  - {name: a, gang: 0}", "task 'a': gang is 0"),
        (Format::Yaml, "tasks:\n  - {name: a, after: [b]}", "task 'a' depends on 'b', which is not a task"),
        (Format::Yaml, "tasks:\n  - {name: a, after: a}", "the graph has a cycle: a -> a"),
        (Format::Yaml, "tasks:\n  - {name: a, timeout: 0}", "task 'a': timeout is 0"),
        (Format::Yaml, "tasks: [\n", "line "),
        (Format::Yaml, "\ttasks: 1", "line 1, column "),
        (
            Format::Json,
            r#"{"tasks": [{"name": "a", "aftre": []}]}"#,
            "unknown key 'aftre' of a task; did you mean 'after'?",
        ),
        (
            Format::Json,
            r#"{"tasks": [{"name": "a", "name": "b"}]}"#,
            "line 1, column 31: key 'name' is given twice",
        ),
        (Format::Json, r#"{"tasks": [{"name": "a", "needs": {"a": 1, "a": 2}}]}"#, "'a' is given twice"),
        (Format::Json, r#"{"tasks": [{"name": 5}]}"#, "line 1, column 21: invalid type: integer `5`"),
        (Format::Json, r#"{"tasks": [{"name": "a", "work": true}]}"#, "expected a number of seconds"),
        (Format::Json, "[1]", "line 1, column "),
        (Format::Toml, "name = ", "line 1, column "),
        (
            Format::Toml,
            "[[tasks]]\nname = 'a'\nwrok = 1",
            "line 3, column 1: unknown key 'wrok' of a task; did you mean 'work'?",
        ),
        (Format::Toml, "[[tasks]]\nname = 'a'\nname = 'b'", "line 3, column 1: duplicate key"),
        (Format::Toml, "[[tasks]]\nname = 'a'\nwork = nan", "task 'a': work in seconds is NaN"),
    ];
    let mut wrong = String::new();
    for (format, text, expected) in table {
        let error = error(*format, text.as_bytes());
        if !error.starts_with("bad.file: ") || !error.contains(expected) || error.contains('\n') {
            wrong += &format!("\n{text}\n  found:    {error}\n  expected: {expected}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
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
        yaml += &format!("  - name: t{i}\n    after: &l{i} [{}]\n", [&*alias; 9].join(", "));
    }
    assert!(error(Format::Yaml, yaml.as_bytes()).len() < 400);
    // One long text, named often.
    let mut yaml = format!("tasks:\n  - name: &a {}\n    after: [", "x".repeat(1_000_000));
    yaml += &"*a, ".repeat(100_000);
    yaml += "]\n";
    assert!(error(Format::Yaml, yaml.as_bytes()).len() < 400);
    // A group of n nodes on both sides of an arrow is n^2 edges.
    let group: String = (0..20_000).map(|i| format!("a{i} ")).collect();
    let dot = format!("digraph {{ {{{group}}} -> {{{}}} }}", group.replace('a', "b"));
    assert!(error(Format::Dot, dot.as_bytes()).contains("more than"));
    // Attributes are compared in pairs.
    let attributes: String = (0..200_000).map(|i| format!(" a{i}=''")).collect();
    assert!(error(Format::Dax, format!("<adag{attributes}/>").as_bytes()).contains("longer than"));
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
