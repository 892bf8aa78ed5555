#!/usr/bin/env python3
"""Measures the placement service: latency of place, tasks per second, memory of idle clients.

usage: service_speed.py MDTS MEASURE [POLICY...]
MDTS: the program; MEASURE: the example `measure` of mdts-service, built the same way; policies: default eft heft mdts.
With SOAK=SECONDS in the environment, the first policy also gets load for so long, and its memory is printed each minute.
"""
import os
import socket
import subprocess
import sys
import tempfile
import time

IDLE = 1000


def memory_mib(number):
    with open(f"/proc/{number}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) / 1024


def cpu_seconds(number):
    with open(f"/proc/{number}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Service:
    def __init__(self, mdts, policy, folder):
        self.socket = os.path.join(folder, "s")
        journal = os.path.join(folder, "journal")
        command = [mdts, "serve", "--quiet", "--policy", policy, "--socket", self.socket, "--journal", journal]
        self.process = subprocess.Popen(command)
        deadline = time.monotonic() + 20
        while not os.path.exists(self.socket):
            if time.monotonic() > deadline or self.process.poll() is not None:
                sys.exit("the service does not begin")
            time.sleep(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)


def idle_clients(service):
    before = memory_mib(service.process.pid)
    clients = []
    for _ in range(IDLE):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(10)
        client.connect(service.socket)
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: mdts\r\n\r\n")
        assert b" 200 " in client.recv(65536).split(b"\r\n")[0]
        clients.append(client)
    print(f"  {IDLE} idle clients: {memory_mib(service.process.pid):.1f} MiB, {before:.1f} MiB without them")


def soak(service, measure, seconds):
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        minute = time.monotonic()
        while time.monotonic() - minute < min(60, seconds):
            subprocess.run([measure, service.socket, "throughput", "50000"], check=True, stdout=subprocess.DEVNULL)
        journal = os.path.getsize(os.path.join(os.path.dirname(service.socket), "journal", "events")) / 2**20
        memory = memory_mib(service.process.pid)
        print(f"  after {time.monotonic() - begin:.0f} s: {memory:.1f} MiB, journal {journal:.1f} MiB", flush=True)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    mdts, measure = sys.argv[1:3]
    soak_seconds = float(os.environ.get("SOAK", 0))
    for i, policy in enumerate(sys.argv[3:] or ["eft", "heft", "mdts"]):
        print(policy)
        with tempfile.TemporaryDirectory() as folder, Service(mdts, policy, folder) as service:
            for what in ["latency", "throughput"]:
                before = cpu_seconds(service.process.pid)
                output = subprocess.run([measure, service.socket, what], check=True, capture_output=True, text=True)
                used = cpu_seconds(service.process.pid) - before
                print(f"  {output.stdout.strip()}; processor time of the service {used:.2f} s")
            idle_clients(service)
            if i == 0 and soak_seconds:
                soak(service, measure, soak_seconds)


if __name__ == "__main__":
    main()
