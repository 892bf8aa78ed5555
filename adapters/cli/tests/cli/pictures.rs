//! Gantt charts and plots are well-formed, whole and escape what files put into names.

use quick_xml::Reader;
use quick_xml::events::Event;

use crate::{Folder, diamond};

/// Names with all that could break a picture.
const NASTY: &str = r#"
name: "<job> & \"co\""
tasks:
  - {name: "<a href='x'>", kind: "&amp;</style><script>", work: 1}
  - {name: "b & \u0001 c", work: 0, after: ["<a href='x'>"]}
"#;

/// Names and classes of all elements of well-formed XML.
pub(crate) fn elements(xml: &str) -> Vec<(String, String)> {
    let mut reader = Reader::from_str(xml);
    let mut found = Vec::new();
    loop {
        match reader.read_event().expect("well-formed XML") {
            Event::Start(e) | Event::Empty(e) => {
                let class = e.try_get_attribute("class").expect("well-formed attributes");
                let class = class.map_or(String::new(), |a| a.value.into_owned());
                found.push((e.name().as_ref().to_owned(), class));
            }
            Event::Eof => return found,
            _ => {}
        }
    }
}

fn bars(xml: &str) -> usize {
    elements(xml).iter().filter(|(name, class)| name == "rect" && class.starts_with("bar ")).count()
}

/// The picture inside a page.
fn picture(page: &str) -> &str {
    let (from, to) = (page.find("<svg").expect("a picture"), page.find("</svg>").expect("its end"));
    &page[from..to + "</svg>".len()]
}

#[test]
fn a_gantt_chart_has_one_bar_per_task() {
    let folder = diamond();
    folder.write("nasty.yaml", NASTY).write("zero.yaml", "tasks: [{name: a, work: 0}]");
    assert_eq!(folder.mdts(&["convert", "--generate", "layered:tasks=10000", "big.json"]).status, 0);
    for (dag, tasks) in [("diamond.yaml", 4), ("nasty.yaml", 2), ("zero.yaml", 1), ("big.json", 10_000)] {
        for slots in ["exclusive", "resources"] {
            let base = ["plan", dag, "--cluster", "pair.toml", "--slots", slots];
            for file in ["out.svg", "out.html"] {
                let called = folder.mdts(&[&base[..], &["--gantt", file]].concat());
                assert_eq!(called.status, 0, "{dag}: {}", called.stderr);
            }
            assert_eq!(bars(&folder.read("out.svg")), tasks, "{dag}");
            let page = folder.read("out.html");
            assert_eq!(bars(picture(&page)), tasks, "{dag}");
            assert_eq!(page.matches("<script>").count(), 1, "{dag}: only the page's own script");
        }
    }
}

#[test]
fn a_page_needs_no_network() {
    let folder = diamond();
    folder.mdts(&["plan", "diamond.yaml", "--gantt", "out.html"]);
    let page = folder.read("out.html").replace("http://www.w3.org/2000/svg", "");
    for outside in ["http:", "https:", "src=", "@import", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_plot_shows_every_policy() {
    let folder = Folder::new();
    folder.write("nasty.yaml", NASTY).write("diamond.yaml", crate::DIAMOND).write("pair.toml", crate::PAIR);
    for dags in [&["nasty.yaml", "diamond.yaml"][..], &["diamond.yaml"; 8]] {
        let args =
            [&["compare"], dags, &["--cluster", "pair.toml", "--noise", "0.2", "--seeds", "2"]].concat();
        assert_eq!(folder.mdts(&[&args[..], &["--plot", "out.svg"]].concat()).status, 0);
        let svg = folder.read("out.svg");
        assert!(elements(&svg).len() > 20);
        for policy in ["heft", "least-connection", "fastest-node"] {
            assert!(svg.contains(policy), "{policy}");
        }
        assert_eq!(folder.mdts(&[&args[..], &["--plot", "out.html"]].concat()).status, 0);
        elements(picture(&folder.read("out.html")));
    }
}
