//! Texts that repeat or exaggerate one thing. They are so long that a reader whose time or memory grows with their
//! square would not come to an end here.

use mdts_dag::format::{self, Format};

/// Reads a text; tells tasks and dependencies, or the error.
fn read(format: Format, text: &str) -> Result<(usize, usize), String> {
    let result = format::read(text.as_bytes(), format, "cost");
    result.map(|job| (job.len(), job.dependency_count())).map_err(|e| e.to_string())
}

fn list(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(",")
}

#[test]
fn repeated_names_stay_linear() {
    const N: usize = 1_000_000;
    let same = |name: &str| list(N, |_| format!("\"{name}\""));
    let json = |task: &str| format!(r#"{{"tasks": [{{"name": "a", "outputs": ["f"]}}, {task}]}}"#);
    let edges = "a->b;".repeat(N);
    let table = [
        ("parents", Format::Json, json(&format!(r#"{{"name": "b", "after": [{}]}}"#, same("a")))),
        ("inputs", Format::Json, json(&format!(r#"{{"name": "b", "inputs": [{}]}}"#, same("f")))),
        ("edges", Format::Dot, format!("digraph {{ {edges} }}")),
        ("strict edges", Format::Dot, format!("strict digraph {{ {edges} }}")),
    ];
    for (what, format, text) in table {
        assert_eq!(read(format, &text), Ok((2, 1)), "{what}");
    }
}

#[test]
fn many_lists_of_children_stay_linear() {
    const N: usize = 200_000;
    let task = |i: usize| format!(r#"{{"name":"t{i}","children":["t{}","last"]}}"#, i + 1);
    let chain = list(N, task);
    let text = format!(r#"{{"workflow":{{"tasks":[{chain},{{"name":"t{N}"}},{{"name":"last"}}]}}}}"#);
    assert_eq!(read(Format::WfFormat, &text), Ok((N + 2, 2 * N)));
}

#[test]
fn long_names_stay_linear() {
    let long = "x".repeat(500_000);
    let (first, second) = (format!("{long}a"), format!("{long}b"));
    let text = format!(r#"{{"tasks": [{{"name": "{first}", "after": ["{second}"]}}]}}"#);
    let error = read(Format::Json, &text).unwrap_err();
    assert!(error.ends_with("is not a task of this graph"), "no hint for long names");
    // One long child of many parents: its name is not copied for each.
    let child = "x".repeat(60_000);
    let parents = "<parent ref='a'/>".repeat(100_000);
    let text = format!("<adag><job id='a'/><job id='{child}'/><child ref='{child}'>{parents}</child></adag>");
    assert_eq!(read(Format::Dax, &text), Ok((2, 1)));
}

#[test]
fn all_to_all_files_are_refused_before_they_fill_memory() {
    let task = |i: usize| {
        let list = if i < 6000 { "outputs" } else { "inputs" };
        format!(r#"{{"name":"t{i}","{list}":["f"]}}"#)
    };
    let tasks = list(12_000, task);
    let error = read(Format::Json, &format!(r#"{{"tasks":[{tasks}]}}"#)).unwrap_err();
    assert!(error.contains("more than 16777216 dependencies implied"), "{error}");
    let text = format!(r#"{{"infer_parents":false,"tasks":[{tasks}]}}"#);
    assert_eq!(read(Format::Json, &text), Ok((12_000, 0)));
}

#[test]
fn tags_of_many_attributes_stay_cheap() {
    let attributes: Vec<String> = (0..6_500).map(|i| format!("a{i}=''")).collect();
    let tag = format!("<uses file='f' link='input' {}/>", attributes.join(" "));
    let text = format!("<adag><job id='a'>{}</job></adag>", tag.repeat(15));
    assert_eq!(read(Format::Dax, &text), Ok((1, 0)));
}
