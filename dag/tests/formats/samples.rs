//! One small text per format, all of the same graph where the format can say it.

use mdts_dag::format::Format;

pub(crate) const WFFORMAT_14: &str = r#"{
  "name": "sample", "schemaVersion": "1.4", "createdAt": "2020-01-01T00:00:00Z",
  "workflow": {
    "makespanInSeconds": 60, "executedAt": "2020-01-01T00:00:00Z",
    "machines": [{"nodeName": "m0", "cpu": {"count": 4}}],
    "tasks": [
      {"name": "split_ID0000001", "id": "ID0000001", "category": "split", "type": "compute",
       "command": {"program": "split", "arguments": ["-n", "2"]},
       "parents": [], "children": ["sort_ID0000002", "sort_ID0000003"],
       "files": [{"link": "input", "name": "all.txt", "sizeInBytes": 300},
                 {"link": "output", "name": "a.txt", "sizeInBytes": 100},
                 {"link": "output", "name": "b.txt", "size": 200}],
       "runtimeInSeconds": 1.5, "cores": 1.0, "avgCPU": 97.1, "memoryInBytes": 4096},
      {"name": "sort_ID0000002", "id": "ID0000002", "parents": ["split_ID0000001"], "children": [],
       "files": [{"link": "input", "name": "a.txt", "sizeInBytes": 100}], "runtime": 2, "cores": null},
      {"name": "sort_ID0000003", "id": "ID0000003", "parents": ["ID0000001"],
       "files": [{"link": "input", "id": "b.txt"}], "runtimeInSeconds": 3, "cores": 2, "memory": 8}
    ]
  }
}"#;

pub(crate) const WFFORMAT_15: &str = r#"{
  "name": "sample", "schemaVersion": "1.5",
  "workflow": {
    "specification": {
      "tasks": [
        {"name": "split", "id": "split_1", "parents": [], "children": ["sort_1", "sort_2"],
         "inputFiles": ["all.txt"], "outputFiles": ["a.txt", "b.txt"]},
        {"name": "sort", "id": "sort_1", "parents": ["split_1"], "children": [], "inputFiles": ["a.txt"]},
        {"name": "sort", "id": "sort_2", "parents": [], "children": null, "inputFiles": ["b.txt"]}
      ],
      "files": [{"id": "all.txt", "sizeInBytes": 300}, {"id": "a.txt", "sizeInBytes": 100},
                {"id": "b.txt", "sizeInBytes": 200}]
    },
    "execution": {
      "makespanInSeconds": 60, "executedAt": "2020-01-01T00:00:00Z",
      "tasks": [
        {"id": "sort_1", "runtimeInSeconds": 2},
        {"id": "split_1", "runtimeInSeconds": 1.5, "coreCount": 1, "memoryInBytes": 4096,
         "command": {"program": "split", "arguments": ["-n", "2"]}, "machines": ["m0"]},
        {"id": "sort_2", "runtimeInSeconds": 3, "coreCount": 2, "memoryInBytes": 8000}
      ]
    }
  }
}"#;

pub(crate) const DAX: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!-- a sample -->
<d:adag xmlns:d="http://pegasus.isi.edu/schema/DAX" version="3.6" name="sample">
  <file name="all.txt"><pfn url="file:///all.txt" site="local"/></file>
  <d:job id="split_1" name="split" runtime="1.5">
    <argument>-n 2 &amp; <file name="all.txt"/></argument>
    <uses name="all.txt" link="input" size="300"/>
    <d:uses file="a.txt" link="output" size="100"/>
    <uses link="output"><file name="b.txt" size="200"/></uses>
    <uses name="split.exe" link="none" size="9999"/>
    <profile namespace="pegasus" key="memory">0.004096</profile>
  </d:job>
  <job id="sort_1" name="sort"><metadata key="runtime">2</metadata>
    <uses name="a.txt" link="input"><metadata key="size">100</metadata></uses>
  </job>
  <job id="sort_2" name="sort" runtime="3">
    <uses name="b.txt" link="input" size="200"/>
    <profile namespace="pegasus" key="cores">2</profile><profile namespace="pegasus" key="memory">0.008</profile>
  </job>
  <child ref="sort_1"><parent ref="split_1"/></child>
  <child ref="sort_2"><parent ref="split_1"/></child>
</d:adag>"#;

pub(crate) const STG: &str =
    "    3\n  0  0  0\n  1 1.5 1  0\n  2  2  1  1  # comment\n  3  3  1  1\n  4  0  2  2  3\n# end\n";

pub(crate) const DOT: &str = r#"// a sample
strict digraph "sample" {
  graph [label="ignored", rankdir=LR]; nodesep=0.5
  node [shape=box cores=1]
  split_1 [work=1.5, memory="4096B", command="[\"split\",\"-n\",\"2\"]"];
  sort_1 [label="a \"quoted\" label", runtime=2]
  split_1:out -> sort_1:in [bytes=100]
  subgraph cluster_x { node [cores=2] sort_2 [weight="3s"; memory=8000] }
  /* a group */ edge [data=200]
  split_1 -> { sort_2 }
}"#;

pub(crate) const YAML: &str = r#"# a sample
name: sample
files: {a.txt: 100, b.txt: 200B, all.txt: 0.3kB}
tasks:
  - name: split_1
    work: 1.5
    memory: 4096
    command: [split, -n, "2"]
    inputs: all.txt
    outputs: [a.txt, b.txt]
  - {name: sort_1, work: 2s, inputs: [a.txt]}
  - {name: sort_2, work: 3, cores: 2, memory: 8kB, inputs: [b.txt], after: split_1}
"#;

pub(crate) const JSON: &str = r#"{
  "name": "sample",
  "files": {"a.txt": 100, "b.txt": "200B", "all.txt": 300},
  "tasks": [
    {"name": "split_1", "work": 1.5, "memory": 4096, "command": ["split", "-n", "2"], "inputs": ["all.txt"],
     "outputs": ["a.txt", "b.txt"]},
    {"name": "sort_1", "work": "2s", "inputs": ["a.txt"]},
    {"name": "sort_2", "work": 3, "cores": 2, "memory": "8kB", "inputs": "b.txt"}
  ]
}"#;

pub(crate) const TOML: &str = r#"name = "sample"
files = { "a.txt" = 100, "b.txt" = "200B", "all.txt" = 300.0 }

[[tasks]]
name = "split_1"
work = 1.5
memory = 4096
command = ["split", "-n", "2"]
inputs = ["all.txt"]
outputs = ["a.txt", "b.txt"]

[[tasks]]
name = "sort_1"
work = "2s"
inputs = ["a.txt"]

[[tasks]]
name = "sort_2"
work = 3
cores = 2
memory = "8kB"
inputs = ["b.txt"]
"#;

pub(crate) const ALL: [(Format, &str); 8] = [
    (Format::WfFormat, WFFORMAT_14),
    (Format::WfFormat, WFFORMAT_15),
    (Format::Dax, DAX),
    (Format::Stg, STG),
    (Format::Dot, DOT),
    (Format::Yaml, YAML),
    (Format::Json, JSON),
    (Format::Toml, TOML),
];
