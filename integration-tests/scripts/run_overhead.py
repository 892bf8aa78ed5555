#!/usr/bin/env python3
"""Measures what mdts itself costs per task of /bin/true, tasks not counted.

usage: run_overhead.py MDTS [FOLDER]      FOLDER: where journal and logs go; /dev/shm leaves the disk out

Prints, for 10,000 independent tasks and a chain of 1,000, without and with a journal: processor time of the runner (its
own report) and of the keeper (/proc, to 10 ms in all), and the time of the run, all per task.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time


def flow(tasks, is_chain):
    lines = ["name: overhead", "tasks:"]
    for i in range(tasks):
        after = f", after: [t{i - 1}]" if is_chain and i else ""
        lines.append(f"  - {{name: t{i}, work: 0.001, command: [/bin/true]{after}}}")
    return "\n".join(lines) + "\n"


def keeper_seconds(run, journal, seconds):
    """Keeps the keeper's processor time so far in seconds[0] until the run ends."""
    number = None
    while run.poll() is None:
        try:
            if number is None:
                with open(os.path.join(journal, "attempts")) as register:
                    number = register.read(200).split("keeper ")[1].split()[0]
            with open(f"/proc/{number}/stat") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
            seconds[0] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError):
            pass
        time.sleep(0.02)


def measure(mdts, folder, name, has_journal):
    journal = os.path.join(folder, "journal")
    command = [mdts, "run", os.path.join(folder, name), "--policy", "eft", "--json", "-q"]
    command += ["--logs", os.path.join(folder, "logs")] + (["--journal", journal] if has_journal else [])
    run = subprocess.Popen(command, stdout=subprocess.PIPE)
    seconds = [0.0]
    watch = threading.Thread(target=keeper_seconds, args=(run, journal, seconds))
    watch.start()
    report = json.loads(run.stdout.read())
    watch.join()
    tasks = report["tasks"]
    print(f"{name:12} journal {'on ' if has_journal else 'off'}  runner {report['overhead_per_task_us']:4.0f} us, "
          f"keeper {seconds[0] / tasks * 1e6:4.0f} us, run {report['makespan'] / tasks * 1e3:.3f} ms, "
          f"{report['succeeded']} of {tasks} succeeded", flush=True)
    shutil.rmtree(journal, ignore_errors=True)
    shutil.rmtree(os.path.join(folder, "logs"), ignore_errors=True)


def main():
    mdts = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as folder:
        for name, tasks, is_chain in [("flat.yaml", 10_000, False), ("chain.yaml", 1_000, True)]:
            with open(os.path.join(folder, name), "w") as file:
                file.write(flow(tasks, is_chain))
            for has_journal in [False, True]:
                measure(mdts, folder, name, has_journal)


main()
