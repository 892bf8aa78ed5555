#!/usr/bin/env python3
"""Loads a placement service for some minutes and prints its memory and latencies at every minute.

usage: service_soak.py MDTS MEASURE [MINUTES [POLICY]]
MDTS: the program; MEASURE: the example `measure` of mdts-service, built the same way; 10 minutes and `mdts` by default. Jobs
fail, grow, are cancelled and are left alone by their clients while nodes come and go; ended jobs are remembered for ten minutes or
100,000 tasks, whichever is less, so memory grows until there are so many. The exit status is 1 if the service has died or memory at
the end is over that at half time by more than a tenth.
"""
import os
import subprocess
import sys
import tempfile

from service_speed import Service, memory_mib


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    mdts, measure = sys.argv[1:3]
    minutes = int(sys.argv[3]) if len(sys.argv) > 3 else 10
    policy = sys.argv[4] if len(sys.argv) > 4 else "mdts"
    kept = []
    print("| minute | memory, MiB | journal, MiB | calls | median, ms | 90 % | 99 % | longest |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, Service(mdts, policy, folder) as service:
        command = [measure, service.socket, "soak", str(minutes * 60)]
        load = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in load.stdout:
            minute, calls, *latencies = line.split()
            memory = memory_mib(service.process.pid)
            journal = os.path.getsize(os.path.join(folder, "journal", "events")) / 2**20
            kept.append(memory)
            print(f"| {minute} | {memory:.1f} | {journal:.1f} | {calls} | {' | '.join(latencies)} |", flush=True)
        if load.wait() or service.process.poll() is not None:
            sys.exit("the load or the service has ended before its time")
    if len(kept) >= 4 and kept[-1] > 1.1 * kept[len(kept) // 2 - 1]:
        sys.exit("memory grows")


if __name__ == "__main__":
    main()
