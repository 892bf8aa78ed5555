//! Single mistakes, format by format, each with a part of the error that it must give.

use mdts_dag::format::{self, Format};

/// Texts and parts of their errors.
type Mistakes = &'static [(&'static str, &'static str)];

/// Every text is refused, on one line that names the file and holds the expected part.
fn check(format: Format, mistakes: Mistakes) {
    for (text, expected) in mistakes {
        let error = match format::read(text.as_bytes(), format, "bad.file") {
            Ok(_) => panic!("read without error: {text}"),
            Err(error) => error.to_string(),
        };
        let right = error.starts_with("bad.file: ") && error.contains(expected) && !error.contains('\n');
        assert!(right, "{text}\n  found:    {error}\n  expected: {expected}");
    }
}

const WFFORMAT: Mistakes = &[
    ("{}", "line 1, column 2: missing field `workflow`"),
    (r#"{"workflow": {}}"#, "workflow: neither 'specification'"),
    ("{\n\"workflow\": 3}", "line 2, column 13: invalid type"),
    (r#"{"workflow": {"tasks": []}}"#, "the graph has no tasks"),
    (r#"{"workflow": {"tasks": [{}]}}"#, "tasks[0]: expected an 'id' or a 'name'"),
    (r#"{"workflow": {"tasks": [{"name": "a"}, {"name": "a"}]}}"#, "two tasks are named 'a'"),
    (
        r#"{"workflow": {"tasks": [{"name": "align"}, {"name": "b", "parents": ["algin"]}]}}"#,
        "task 'b' depends on 'algin', which is not a task of this graph; did you mean 'align'?",
    ),
    (
        r#"{"workflow": {"tasks": [{"name": "a", "children": ["x"]}]}}"#,
        "workflow.tasks[0]: children: 'x' is not a task",
    ),
    (
        r#"{"workflow": {"tasks": [{"name": "a", "parents": ["b"]}, {"name": "b", "parents": ["a"]}]}}"#,
        "the graph has a cycle: ",
    ),
    (
        r#"{"workflow": {"tasks": [{"name": "a", "runtimeInSeconds": -1}]}}"#,
        "task 'a': work in seconds is -1; expected",
    ),
    (r#"{"workflow": {"tasks": [{"name": "a", "runtimeInSeconds": 1e999}]}}"#, "number out of range"),
    (
        r#"{"workflow": {"tasks": [{"name": "a", "memoryInBytes": -5}]}}"#,
        "workflow.tasks[0]: memory is -5; expected",
    ),
    (
        r#"{"workflow": {"tasks": [{"name": "a", "files": [{"name": "f", "link": "up"}]}]}}"#,
        "link of file 'f' is 'up'; expected 'input' or 'output'",
    ),
];

#[test]
fn wfformat() {
    check(Format::WfFormat, WFFORMAT);
}

const DAX: Mistakes = &[
    ("<adag>", "line 1, column 7: the text ends inside <adag>"),
    ("text", "there is no element <adag>"),
    ("<dag/>", "line 1, column 1: element <dag>; expected one <adag>"),
    ("<adag/><adag/>", "expected one <adag>"),
    ("<adag/>", "the graph has no tasks"),
    ("<adag>\n  <job name='x'/>\n</adag>", "line 2, column 3: <job> has no attribute 'id'"),
    ("<adag><job id='a' runtime='fast'/></adag>", "runtime is 'fast'; expected a number"),
    ("<adag><job id='a' runtime='NaN'/></adag>", "task 'a': work in seconds is NaN"),
    ("<adag><job id='a' runtime='2e18'/></adag>", "task 'a': work in seconds is 2000000000000000000"),
    ("<adag><job id='a'><uses link='input'/></job></adag>", "<uses> names no file"),
    ("<adag><job id='a'/><job id='a'/></adag>", "two tasks are named 'a'"),
    (
        "<adag><job id='a'/><child ref='b'><parent ref='a'/></child></adag>",
        "line 1, column 35: <child ref=\"b\"> is not the id of a job",
    ),
    (
        "<adag><job id='a'/><child ref='a'><parent ref='b'/></child></adag>",
        "task 'a' depends on 'b', which is not a task",
    ),
    ("<adag><job id='&x;'/></adag>", "line 1, column 7: "),
    ("<adag>&x;</adag>", "line 1, column 7: "),
    ("<adag></job></adag>", "line 1, column 7: "),
    ("<!DOCTYPE adag [<!ENTITY a 'b'>]><adag/>", "a document type is declared"),
];

#[test]
fn dax() {
    check(Format::Dax, DAX);
}

const STG: Mistakes = &[
    ("# nothing\n", "the graph has no tasks"),
    ("0\n", "the graph has no tasks"),
    ("0\n0 0 0\n1 0 1 0\n", "the graph has no tasks"),
    ("x\n", "line 1: 'x' where the number of tasks was expected"),
    ("1 2\n", "line 1: '2' follows the number of tasks"),
    ("4000000000\n1 1 0\n", "line 2: the file ends after 1 rows; expected 4000000000, or 4000000002"),
    ("1\n1 1\n", "line 2: the line ends where the number of predecessors was expected"),
    ("1\n1 1 2 1\n", "line 2: task 1 has 1 predecessors; its row announces 2"),
    ("1\n1 1 1 7\n", "line 2: predecessor 7 of task 1 is not a task"),
    ("1\n1 -1 0\n", "task '1': work in seconds is -1"),
    ("1\n1 nan 0\n", "task '1': work in seconds is NaN"),
    ("2\n1 1 0\n1 1 0\n", "two tasks are named '1'"),
    ("2\n1 1 1 2\n2 1 1 1\n", "the graph has a cycle: "),
    ("1\n0 5 0\n1 1 1 0\n2 0 1 1\n", "line 2: dummy task 0 has time 5; expected 0"),
];

#[test]
fn stg() {
    check(Format::Stg, STG);
}

const DOT: Mistakes = &[
    ("graph { a -- b }", "line 1, column 1: found 'graph'; expected 'digraph': dependencies"),
    ("digraph { a -- b }", "line 1, column 13: found '--'; expected '->'"),
    ("digraph {", "line 1, column 10: found the end of the text; expected '}'"),
    ("digraph {}", "the graph has no tasks"),
    ("digraph { a } b", "expected nothing after the graph"),
    ("digraph { a [work=fast] }", "line 1, column 19: attribute work: "),
    ("digraph { a [work=-1] }", "task 'a': work in seconds is -1"),
    ("digraph { a [work=nan] }", "task 'a': work in seconds is NaN"),
    ("digraph { a [times=\"P1\"] }", "attribute times: 'P1' is not like name=1.5"),
    ("digraph {\n a -> b [bytes=many] }", "line 2, column 16: attribute bytes: "),
    ("digraph { a -> b -> a }", "the graph has a cycle: "),
    ("digraph { a -> a }", "the graph has a cycle: a -> a"),
    ("digraph { <b>x</b> }", "HTML-like names are not supported"),
    ("digraph { \"a }", "line 1, column 11: the quoted text is not closed"),
    ("digraph { a [work 1 }", "line 1, column 21: attribute 1: expected '=' and a value"),
    ("digraph { a -> b=c }", "expected a node after '->'"),
];

#[test]
fn dot() {
    check(Format::Dot, DOT);
}

const YAML: Mistakes = &[
    ("name: x", "document: the key 'tasks' is missing"),
    ("tasks: []", "the graph has no tasks"),
    ("tasks: 5", "line 1, column 8: "),
    (
        "tasks:\n  - {name: a, wrok: 5}",
        "line 2, column 15: unknown key 'wrok' of a task; did you mean 'work'?",
    ),
    ("tasks:\n  - {name: a, colour: 5}", "unknown key 'colour' of a task; expected one of name, kind"),
    (
        "tasks:\n  - {name: a, retry_on: [75, sginal]}",
        "'sginal' is no way to fail; expected an exit status from 1",
    ),
    ("tasks:\n  - {name: a, env: {A=B: c}}", "task 'a': env: 'A=B' cannot be the name of a variable"),
    ("task:\n  - {name: a}", "line 1, column 1: unknown key 'task' of a workflow; did you mean 'tasks'?"),
    ("tasks:\n  - {name: a, work: soon}", "'soon' does not begin with a number"),
    ("tasks:\n  - {name: a, work: -4}", "task 'a': work in seconds is -4"),
    ("tasks:\n  - {name: a, work: .nan}", "line 2, column 21: "),
    ("tasks:\n  - {name: a, memory: -1}", "memory is -1; expected 0 to 1e18 bytes"),
    ("tasks:\n  - {name: a, name: b}", "line 2, column 15: "),
    ("tasks:\n  - {name: a, work: 1, times: {x: 1}}", "task 'a': has both 'work' and 'times'"),
    ("tasks:\n  - {work: 1}", "tasks[0]: the key 'name' is missing"),
    ("tasks:\n  - {name: a, gang: 0}", "task 'a': gang is 0"),
    ("tasks:\n  - {name: a, after: [b]}", "task 'a' depends on 'b', which is not a task"),
    ("tasks:\n  - {name: a, after: a}", "the graph has a cycle: a -> a"),
    ("tasks:\n  - {name: a, timeout: 0}", "task 'a': timeout is 0"),
    ("tasks: [\n", "line "),
    ("\ttasks: 1", "line 1, column "),
];

#[test]
fn yaml() {
    check(Format::Yaml, YAML);
}

const JSON: Mistakes = &[
    (r#"{"tasks": [{"name": "a", "aftre": []}]}"#, "unknown key 'aftre' of a task; did you mean 'after'?"),
    (r#"{"tasks": [{"name": "a", "name": "b"}]}"#, "line 1, column 31: key 'name' is given twice"),
    (r#"{"tasks": [{"name": "a", "needs": {"a": 1, "a": 2}}]}"#, "'a' is given twice"),
    (r#"{"tasks": [{"name": 5}]}"#, "line 1, column 21: invalid type: integer `5`"),
    (r#"{"tasks": [{"name": "a", "work": true}]}"#, "expected a number of seconds"),
    ("[1]", "line 1, column "),
];

#[test]
fn json() {
    check(Format::Json, JSON);
}

const TOML: Mistakes = &[
    ("name = ", "line 1, column "),
    (
        "[[tasks]]\nname = 'a'\nwrok = 1",
        "line 3, column 1: unknown key 'wrok' of a task; did you mean 'work'?",
    ),
    ("[[tasks]]\nname = 'a'\nname = 'b'", "line 3, column 1: duplicate key"),
    ("[[tasks]]\nname = 'a'\nwork = nan", "task 'a': work in seconds is NaN"),
];

#[test]
fn toml() {
    check(Format::Toml, TOML);
}
