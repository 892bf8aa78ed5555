#!/usr/bin/env python3
"""Makespan through a real Slurm: placements of mdts against Slurm's own, on nodes of speeds 4, 2, 1 and 1.

    slurm_makespan.py MDTS [--repeats N] [--scale X] [--policy P] [--mode graph|live] [--weights] [--json]

Starts a cluster with integration-tests/slurm/up.sh. Tasks sleep for their work over the speed of the node that they are on.
Both ways submit the same graph at once (or when tasks are ready), with --placement hard and with --placement none, in turn. Slurm takes nodes of equal weight,
as it does by default, or prefers the faster ones with --weights. Prints one line per graph, and the submissions per wave.
"""
import argparse, json, os, random, subprocess, sys, tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
SPEEDS = {"fast": 4.0, "middle": 2.0, "slow": 1.0, "big": 1.0}


def task(name, work, after, scale):
    times = {node: work * scale / speed for node, speed in SPEEDS.items()}
    cases = " ".join(f"{node}) sleep {seconds:.3f};;" for node, seconds in times.items())
    return {"name": name, "work": round(work * scale, 4), "after": after, "kind": name.split("_")[0],
            "command": ["sh", "-c", f"case $SLURMD_NODENAME in {cases} esac"]}


def montage(scale):
    """Bands of projections, pairwise differences, a fit, backgrounds, a sum."""
    rng, tasks = random.Random(1), []
    width = 16
    add = lambda *a: tasks.append(task(*a, scale))
    for i in range(width):
        add(f"project_{i}", rng.uniform(8, 16), [])
    for i in range(2 * width):
        add(f"diff_{i}", rng.uniform(2, 6), [f"project_{i % width}", f"project_{(i * 7 + 3) % width}"])
    add("fit", 6, [f"diff_{i}" for i in range(2 * width)])
    for i in range(width):
        add(f"background_{i}", rng.uniform(4, 8), ["fit"])
    add("sum", 12, [f"background_{i}" for i in range(width)])
    return tasks


def chains(scale):
    """A long chain beside many short tasks that are ready first."""
    rng, tasks = random.Random(2), []
    for i in range(60):
        tasks.append(task(f"side_{i}", rng.uniform(6, 12), [], scale))
    for chain in range(3):
        for i in range(6):
            after = [f"chain_{chain}_{i - 1}"] if i else []
            tasks.append(task(f"chain_{chain}_{i}", 12, after, scale))
    return tasks


def layers(scale):
    """Random layers of very unequal tasks."""
    rng, tasks = random.Random(3), []
    for layer in range(5):
        for i in range(14):
            after = rng.sample([f"t_{layer - 1}_{j}" for j in range(14)], 2) if layer else []
            tasks.append(task(f"t_{layer}_{i}", rng.choice([2, 3, 4, 20]), after, scale))
    return tasks


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mdts")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--policy", default="heft")
    parser.add_argument("--mode", default="graph")
    parser.add_argument("--weights", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    mdts = str(Path(args.mdts).resolve())
    rows = []
    with tempfile.TemporaryDirectory(prefix="mdts-makespan-") as place:
        cluster = Path(place) / "slurm"
        up = [HERE / "slurm/up.sh", cluster, "--owner", str(os.getpid())] + ([] if args.weights else ["--equal-weights"])
        conf = subprocess.run(up, check=True, capture_output=True, text=True).stdout.strip()
        env = {**os.environ, "SLURM_CONF": conf}
        try:
            for name, graph in [("montage", montage), ("chains", chains), ("layers", layers)]:
                flow = Path(place) / f"{name}.json"
                flow.write_text(json.dumps({"name": name, "tasks": graph(args.scale)}))
                seconds, waves, submissions = {"hard": [], "none": []}, 0, 0
                for repeat in range(args.repeats):
                    for placement in ["hard", "none"]:
                        run = [mdts, "run", flow, "--on", "slurm", "--mode", args.mode, "--policy", args.policy, "--placement", placement,
                               "--journal", Path(place) / f"{name}-{placement}-{repeat}", "--json"]
                        done = subprocess.run(run, env=env, capture_output=True, text=True, cwd=place)
                        if done.returncode != 0:
                            sys.exit(f"{name}, {placement}: {done.stderr or done.stdout}")
                        report = json.loads(done.stdout)
                        seconds[placement].append(report["makespan"])
                        waves += report["slurm"]["waves"]
                        submissions += report["slurm"]["submissions"]
                mean = {key: sum(values) / len(values) for key, values in seconds.items()}
                rows.append({"graph": name, "planned": report["planned_makespan"], "mdts": seconds["hard"], "slurm": seconds["none"],
                             "shorter": 1 - mean["hard"] / mean["none"], "submissions_per_wave": submissions / waves})
                if not args.json:
                    row = rows[-1]
                    show = lambda values: " ".join(f"{v:.1f}" for v in values)
                    print(f"{name:8} planned {row['planned']:.1f} s; mdts {show(row['mdts'])}; Slurm {show(row['slurm'])}; "
                          f"{row['shorter']:.1%} shorter; {row['submissions_per_wave']:.2f} sbatch per wave", flush=True)
        finally:
            subprocess.run([HERE / "slurm/down.sh", cluster], check=False)
    if args.json:
        print(json.dumps({"rows": rows}))


main()
