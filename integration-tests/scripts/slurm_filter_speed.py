#!/usr/bin/env python3
"""Measures what the submit filter costs, on a real Slurm of this machine.

    integration-tests/scripts/slurm_filter_speed.py MDTS PLUGIN.so [JOBS]

1. The call itself, at 4 clients: four processes call the plugin's job_submit on a description made by Slurm, or mdts.lua's by an
   interpreter of Lua 5.1, and ask one sidecar that sees a cluster. Microseconds of a call.
2. A real slurmctld at 4 submitting clients, through Lua and through the plugin, with the sidecar at work, absent, hung and slow: the
   time of an sbatch by the clock. slurmctld calls one filter at a time, so that clients wait for each other.

Needs Slurm's packages, version 22.05.8 for the plugin, lua-socket, lua5.1 and root.
"""
import ctypes
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
UP, DOWN = HERE.parent / "slurm/up.sh", HERE.parent / "slurm/down.sh"
CLIENTS = 4
CALLS = 3000
SPEEDS = '[[node]]\nname = "fast"\nspeed = 4.0\n[[node]]\nname = "middle"\nspeed = 2.0\n'


def show(name, values, unit="us"):
    values = sorted(values)
    at = lambda share: values[min(len(values) - 1, int(share * len(values)))]
    print(f"  {name:<34} median {at(0.5):9.1f} {unit}   99 % {at(0.99):9.1f}   most {values[-1]:9.1f}   ({len(values)})", flush=True)
    return at(0.5)


class Cluster:
    def __init__(self, *flags):
        self.folder = Path(tempfile.mkdtemp(prefix="mdtsm", dir="/tmp"))
        subprocess.run([UP, self.folder, "--owner", str(os.getpid()), *flags], check=True, stdout=subprocess.DEVNULL)
        self.env = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def submit(self, jobs):
        """Jobs for later, from several clients; microseconds of each sbatch."""
        clocks = []

        def client():
            for _ in range(jobs // CLIENTS):
                started = time.monotonic()
                done = subprocess.run(["sbatch", "--parsable", "-c2", "-t5", "--begin=now+1hour", "--wrap", "true"],
                                      env=self.env, capture_output=True, text=True)
                assert done.returncode == 0, done.stderr
                clocks.append((time.monotonic() - started) * 1e6)

        clients = [threading.Thread(target=client) for _ in range(CLIENTS)]
        [one.start() for one in clients]
        [one.join() for one in clients]
        subprocess.run(["scancel", "-u", "root"], env=self.env)
        return clocks

    def down(self):
        subprocess.run([DOWN, self.folder, "--purge"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)


class Sidecar:
    def __init__(self, mdts, cluster, path):
        speeds = path.parent / "speeds.toml"
        speeds.write_text(SPEEDS)
        self.process = subprocess.Popen([mdts, "-q", "serve", "--slurm", "--no-lead", "--socket", path, "--cluster", speeds], env=cluster.env)
        for _ in range(100):
            time.sleep(0.1)
            if path.exists() and b"age=none" not in question(path, b"ask=status\n\n"):
                return
        raise SystemExit("the sidecar does not see the cluster")

    def end(self):
        self.process.terminate()
        self.process.wait()


def question(path, message):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(message)
        answer = b""
        while not answer.endswith(b"\n\n"):
            answer += connection.recv(4096)
        return answer


def inside(plugin, path):
    """Calls job_submit as slurmctld would."""
    os.environ["MDTS_SLURM_SOCKET"] = str(path)
    found = subprocess.run("ls /usr/lib/*/slurm-wlm/libslurmfull.so", shell=True, capture_output=True, text=True)
    slurm = ctypes.CDLL(found.stdout.split()[0], mode=ctypes.RTLD_GLOBAL)
    module = ctypes.CDLL(str(plugin))
    assert module.init() == 0
    layout = {}
    for line in (ROOT / "adapters/slurm/plugin/layout-22.05.8.txt").read_text().splitlines():
        name, offset, size = line.split()
        layout[name] = (int(offset), int(size))
    job = ctypes.create_string_buffer(layout["SIZE"][0])
    slurm.slurm_xstrdup.restype = ctypes.c_void_p

    def reset():
        slurm.slurm_init_job_desc_msg(job)
        ctypes.c_uint32.from_buffer(job, layout["user_id"][0]).value = 0
        ctypes.c_uint32.from_buffer(job, layout["time_limit"][0]).value = 5
        ctypes.c_uint16.from_buffer(job, layout["cpus_per_task"][0]).value = 2
        ctypes.c_uint64.from_buffer(job, layout["begin_time"][0]).value = int(time.time()) + 3600
        ctypes.c_void_p.from_buffer(job, layout["name"][0]).value = slurm.slurm_xstrdup(b"measure")

    message, times = ctypes.c_void_p(), []
    for _ in range(CALLS):
        reset()
        started = time.perf_counter_ns()
        code = module.job_submit(job, 0, ctypes.byref(message))
        times.append((time.perf_counter_ns() - started) / 1e3)
        assert code == 0
    return times


LUA = """
slurm = { NO_VAL = 4294967294, NO_VAL16 = 65534, NO_VAL64 = 18446744073709551614, NO_VAL8 = 254, INFINITE = 4294967295,
          NICE_OFFSET = 2147483648, SUCCESS = 0, log_error = function(...) error(string.format(...)) end, log_user = print }
local socket, mdts = require("socket"), dofile(arg[1])
for i = 1, tonumber(arg[2]) do
    local job = { name = "measure", user_id = 0, time_limit = 5, cpus_per_task = 2, min_cpus = 2, nice = 2147483648,
                  priority = 4294967294, begin_time = os.time() + 3600, min_nodes = 4294967294 }
    local started = socket.gettime()
    assert(mdts.job_submit(job, 0) == 0)
    print((socket.gettime() - started) * 1e6)
end
"""


def calls(command):
    """What several processes print, one number a line."""
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(CLIENTS)]
    outputs = [worker.communicate()[0] for worker in workers]
    assert all(worker.returncode == 0 for worker in workers)
    return [float(line) for output in outputs for line in output.split()]


class Deaf:
    """Listens; says nothing, or a letter every 10 ms."""

    def __init__(self, path, trickles):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(64)
        self.kept, self.path = [], path
        threading.Thread(target=self.serve, args=(trickles,), daemon=True).start()

    def serve(self, trickles):
        try:
            while True:
                connection, _ = self.listener.accept()
                self.kept.append(connection)
                if trickles:
                    threading.Thread(target=self.trickle, args=(connection,), daemon=True).start()
        except OSError:
            pass

    @staticmethod
    def trickle(connection):
        try:
            for letter in b"note=slowly\n\n":
                connection.sendall(bytes([letter]))
                time.sleep(0.01)
        except OSError:
            pass

    def end(self):
        self.listener.close()
        os.unlink(self.path)


def lua_files(path):
    folder = Path(tempfile.mkdtemp(prefix="mdtsl", dir="/tmp"))
    source = ROOT / "adapters/slurm/lua"
    (folder / "mdts.lua").write_text((source / "mdts.lua").read_text().replace("/run/mdts/slurm.sock", str(path)))
    (folder / "measure.lua").write_text(LUA)
    return folder, ["--file", folder / "mdts.lua", "--file", source / "job_submit.lua", "--package", "lua-socket", "--line", "JobSubmitPlugins=lua"]


def main():
    if sys.argv[1:2] == ["--calls"]:
        print("\n".join(map(str, inside(*sys.argv[2:4]))))
        return
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    mdts, plugin = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    jobs = int(sys.argv[3]) if len(sys.argv) > 3 else 200
    path = Path(tempfile.mkdtemp(prefix="mdtss", dir="/tmp")) / "s"
    lua, lua_flags = lua_files(path)
    plugin_flags = ["--plugin", f"job_submit_mdts.so={plugin}", "--variable", f"MDTS_SLURM_SOCKET={path}", "--line", "JobSubmitPlugins=mdts"]
    print(f"{CLIENTS} clients, {jobs} jobs; load {os.getloadavg()[0]:.1f}")
    for name, flags in [("lua", lua_flags), ("plugin", plugin_flags)]:
        cluster = Cluster(*flags)
        try:
            print(f"{name}:")
            sidecar = Sidecar(mdts, cluster, path)
            if name == "plugin":
                show("a call", calls([sys.executable, __file__, "--calls", str(plugin), str(path)]))
            else:
                show("a call", calls(["lua5.1", lua / "measure.lua", lua / "mdts.lua", str(CALLS)]))
            absent = []
            show("sbatch, sidecar at work", cluster.submit(jobs))
            sidecar.end()
            for what in ["absent", "hung", "slow"]:
                deaf = None if what == "absent" else Deaf(path, what == "slow")
                clocks = cluster.submit(jobs)
                show(f"sbatch, sidecar {what}", clocks)
                absent = absent or clocks
                more = [a - b for a, b in zip(sorted(clocks), sorted(absent))]
                print(f"    more than absent: median {statistics.median(more):.0f} us, at most {max(more):.0f} us, rank by rank")
                if deaf:
                    deaf.end()
        finally:
            cluster.down()


if __name__ == "__main__":
    main()
