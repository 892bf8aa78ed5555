"""CPU time and makespan of SAGA's planners on a WfFormat file, on eight machines of unequal speed and 100 MB/s.

    pip install anrg-saga==2.0.2 && python policies/benches/saga_plan.py montage.json.gz HeftScheduler CpopScheduler

The Rust side is `mdts bench --graph montage.json.gz --nodes 8 --policies heft,cpop`.
"""
import gzip
import json
import logging
import sys
import time

import saga.schedulers
from saga import Network, TaskGraph

SPEEDS = (1.0, 1.5, 2.0, 1.25, 1.5, 1.125, 0.5, 0.75)
BANDWIDTH = 100e6


def task_graph(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as file:
        workflow = json.load(file)["workflow"]
    specification = workflow["specification"]
    sizes = {file["id"]: file.get("sizeInBytes", 0) for file in specification.get("files", [])}
    by_id = {task["id"]: task for task in specification["tasks"]}

    def moved(parent, child):
        files = set(by_id[parent].get("outputFiles", [])) & set(child.get("inputFiles", []))
        return float(sum(sizes.get(file, 0) for file in files))

    # SAGA divides by run times.
    times = [(task["id"], max(task.get("runtimeInSeconds", 0), 1e-9)) for task in workflow["execution"]["tasks"]]
    edges = [(parent, child["id"], moved(parent, child)) for child in by_id.values() for parent in child.get("parents", [])]
    return TaskGraph.create(tasks=times, dependencies=edges)


def network():
    nodes = [(f"m{i}", speed) for i, speed in enumerate(SPEEDS)]
    links = [(a, b, BANDWIDTH) for i, (a, _) in enumerate(nodes) for b, _ in nodes[i + 1:]]
    return Network.create(nodes=nodes, edges=links)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    machines, graph = network(), task_graph(sys.argv[1])
    for name in sys.argv[2:]:
        begin = time.process_time()
        schedule = getattr(saga.schedulers, name)().schedule(machines, graph)
        print(f"{name}: {(time.process_time() - begin) * 1e3:.0f} ms of CPU time, makespan {schedule.makespan:.4f} s")
