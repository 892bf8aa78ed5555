"""Real jobs to learn from, as workflow files that `mdts train --jobs` reads.

    python3 policies/examples/real_jobs.py DATA OUT

DATA holds folders of public data sets; what each is and where it comes from is told beside its function. OUT gets a
file per job of 30 to 200 tasks. No family of WfInstances is among them, as results are judged on those: of the Pegasus
workflows, Montage and Epigenomics are left out.
"""
import csv
import gzip
import json
import re
import shutil
import statistics
import sys
from pathlib import Path

WIDEST = 10  # parallel tasks of a stage that are kept
SIZES = range(30, 201)  # tasks of a job


def staged(stages, edges):
    """Tasks of stages (name, kind, seconds of every task); every task of a stage waits for all of the stages before."""
    tasks, names = [], {}
    for name, kind, seconds in stages:
        seconds = seconds[:WIDEST]
        names[name] = [f"{name}_{i}" for i in range(len(seconds))]
        tasks += [{"name": n, "kind": kind, "work": s} for n, s in zip(names[name], seconds)]
    before = {}
    for parent, child in edges:
        before.setdefault(child, []).extend(names[parent])
    for task in tasks:
        stage = task["name"].rpartition("_")[0]
        if stage in before:
            task["after"] = before[stage]
    return tasks


def tpch(folder):
    """Stages of TPC-H queries on Spark (github.com/hongzimao/decima-sim), with the run times on 10 executors."""
    for size in ["2g", "10g", "100g"]:
        for query in json.loads(gzip.open(folder / f"tpch_{size}.json.gz").read()):
            stages = []
            for stage in query["stages"]:
                by_executors = stage["durations_ms"]["first_wave"]
                times = by_executors.get("10") or next(iter(by_executors.values()))
                times = (times * WIDEST)[: stage["num_tasks"]]
                kind = f"q{query['query']}s{stage['stage']}"
                stages.append((f"s{stage['stage']}", kind, [t / 1000 for t in times]))
            edges = [(f"s{a}", f"s{b}") for a, b in query["edges"]]
            yield f"tpch-{size}-q{query['query']}", staged(stages, edges)


def alibaba(folder):
    """Batch jobs of Alibaba's cluster trace of 2018: `J25_16_18` is task 25, which waits for 16 and 18."""
    jobs = {}
    for _, job, task, seconds, _, _, instances in csv.reader(open(folder / "sample_200_dag_jobs.csv")):
        letters, numbers = re.match(r"([A-Za-z]+)([0-9_]*)", task).groups()
        jobs.setdefault(job, []).append((letters, numbers.split("_"), float(seconds), int(instances)))
    for job, rows in jobs.items():
        stages = [(n[0], f"{l}{n[0]}", [s] * count) for l, n, s, count in rows if s > 0]
        known = {stage[0] for stage in stages}
        edges = [(p, n[0]) for _, n, _, _ in rows for p in n[1:] if {p, n[0]} <= known]
        if len(known) == len(stages):
            yield f"alibaba-{job}", staged(stages, edges)


def pipedream(folder):
    """Layers of neural networks with what they hand on (github.com/msr-fiddle/pipedream), forward and backward as one."""
    number = r"([0-9.]+)"
    node = re.compile(
        rf"(node\d+) -- (\w+).* -- forward_compute_time={number}, backward_compute_time={number}, "
        rf"activation_size=\[?([0-9.; ]+)\]?, parameter_size"
    )
    for path in sorted(folder.glob("*.graph.txt")):
        tasks, sizes = {}, {}
        for line in path.read_text().splitlines():
            if layer := node.match(line):
                name, kind, forward, backward, size = layer.groups()
                work = (float(forward) + float(backward)) / 1000
                tasks[name] = {"name": name, "kind": kind, "work": work, "needs": {}}
                sizes[name] = sum(float(s) for s in size.split(";"))
            elif line.startswith("\t"):
                parent, child = line.strip().split(" -- ")
                tasks[child]["needs"][parent] = sizes[parent]
        yield f"pipedream-{path.name.split('.')[0]}", list(tasks.values())


def main(data, out):
    out.mkdir(parents=True, exist_ok=True)
    counts = []
    for folder, jobs in [("tpch_decima", tpch), ("alibaba_v2018_dag", alibaba), ("pipedream", pipedream)]:
        for name, tasks in jobs(data / folder):
            if len(tasks) in SIZES:
                (out / f"{name}.json").write_text(json.dumps({"name": name, "tasks": tasks}))
                counts.append(len(tasks))
    # Workflows from the Pegasus generator (profiles of real runs): earthquakes, gravitational waves, RNA.
    for path in sorted((data / "pegasus_dax").glob("*.xml")):
        if re.match(r"(CyberShake|Inspiral|Sipht)_", path.name):
            shutil.copy(path, out / path.name)
            counts.append(int(re.search(r"\d+", path.name).group()))
    print(f"{len(counts)} jobs of {min(counts)} to {max(counts)} tasks, median {statistics.median(counts):.0f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
