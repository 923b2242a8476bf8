#!/usr/bin/env python3
"""Measures a sync between sites: seconds from BEGIN until all sites have applied, beside the limit of the wire and
beside gloo's fp32 all-reduce in the same network. Needs root (network namespaces); run by `make bench-sync`.

  bench_sync.py [--short] [--json FILE]      TORCH_PYTHON=... measures the peer too
  bench_sync.py --training data/gcide        what two sites that train `small` lose to their meetings

A row a line, as JSON: sites, codec, rate_mbit, latency_ms, parameters, seconds (median of the rounds after the first),
limit_seconds (1.0456 x bytes that a site must send / rate; the factor is Ethernet's and TCP/IP's headers, left out
over the emulated link, whose rate counts payload), ratio_to_limit, peer_seconds, encrypted, utilisation (of a round of 30 s of
training), predicted_seconds (limit + k one-way latencies), peak_bytes, cpu_seconds (of one site, a round).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = os.path.join(ROOT, "build", "bench_sync")
ISTHMUS = os.path.join(ROOT, "build", "isthmus")
HEADERS = 1.0456
PARAMETERS = 4_951_296
LATENCIES = {2: 5}  # one-way latencies in a round; 6 where pieces have owners
PEER = """
import os, sys, time, torch, torch.distributed as dist
rank, world, n = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
os.environ.update(MASTER_ADDR="10.78.0.1", MASTER_PORT="29517", GLOO_SOCKET_IFNAME="v%d" % rank)
torch.set_num_threads(1)
dist.init_process_group("gloo", rank=rank, world_size=world)
x = torch.randn(n); dist.barrier(); times = []
for _ in range(4):
    t = time.perf_counter(); dist.all_reduce(x); times.append(time.perf_counter() - t)
if rank == 0: print(sorted(times)[len(times) // 2])
"""


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class Network:
    """Namespaces joined by a bridge, each with its own rate both ways."""

    def __init__(self, rates_mbit):
        self.rates = rates_mbit
        self.prefix = "isb%d" % os.getpid()

    def __enter__(self):
        hub = self.prefix + "hub"
        run("ip", "netns", "add", hub)
        run("ip", "-n", hub, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", hub, "link", "set", "br0", "up")
        for i, rate in enumerate(self.rates):
            site = self.name(i)
            run("ip", "netns", "add", site)
            run("ip", "link", "add", f"v{i}", "netns", site, "type", "veth", "peer", "name", f"h{i}", "netns", hub)
            run("ip", "-n", hub, "link", "set", f"h{i}", "master", "br0", "up")
            run("ip", "-n", site, "addr", "add", f"10.78.0.{i + 1}/24", "dev", f"v{i}")
            run("ip", "-n", site, "link", "set", f"v{i}", "up")
            run("ip", "-n", site, "link", "set", "lo", "up")
            for space, device in ((site, f"v{i}"), (hub, f"h{i}")):
                run("ip", "netns", "exec", space, "tc", "qdisc", "add", "dev", device, "root", "tbf",
                    "rate", f"{rate}mbit", "burst", "64kb", "latency", "50ms")
        return self

    def name(self, i):
        return f"{self.prefix}s{i}"

    def inside(self, i):
        return ["ip", "netns", "exec", self.name(i)]

    def __exit__(self, *_):
        for i in range(len(self.rates)):
            subprocess.run(["ip", "netns", "del", self.name(i)], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "netns", "del", self.prefix + "hub"], stderr=subprocess.DEVNULL)


def site_bytes(codec, sites, parameters, rates):
    """Encoded bytes that the most loaded link carries one way, over its rate: seconds x Mbit/s / 8."""
    size = {"fp32": 4 * parameters, "bf16": 2 * parameters, "int8": parameters * (1 + 4 / 256)}[codec]
    slowest, total = min(rates), sum(rates)
    # PROTOCOL 9: T = max(S / min b, 2 (N - 1) S / sum b)
    return max(size / slowest, 2 * (sites - 1) * size / total)


def finish(processes, limit):
    try:
        for p in processes:
            p.wait(timeout=limit)
            if p.returncode != 0:
                raise RuntimeError(f"{p.args} ended with {p.returncode}")
    finally:
        for p in processes:
            if p.poll() is None:
                p.kill()
                p.wait()


def measure(sites, codec, rates, latency_ms, rounds, where):
    with tempfile.TemporaryDirectory() as folder:
        keys = os.path.join(folder, "keys")
        names = ",".join(f"site{i}" for i in range(sites))
        run(ISTHMUS, "keys", "new", keys, "--sites", names)
        common = ["--codec", codec, "--folder", folder, "--keys", keys, "--budget-s", "60", "--sites", str(sites)]
        unequal = len(set(rates)) > 1
        configured = sum((["--rates", f"site{i} {r}mbit"] for i, r in enumerate(rates)), []) if unequal else []
        emulated = ["--rate", f"{rates[0]}mbit", "--latency", f"{latency_ms}ms"] if latency_ms else []

        def address(i):
            return f"10.78.0.{i + 1}:0" if where else "127.0.0.1:0"

        def at(i):
            return where.inside(i) if where else []

        outputs = [open(os.path.join(folder, f"out{i}"), "w+") for i in range(sites)]
        processes = [subprocess.Popen(at(0) + [PROGRAM, "coordinator", *common, *configured, "--rounds", str(rounds),
                                               "--listen", address(0)])]
        for i in range(sites):
            processes.append(subprocess.Popen(
                at(i) + [PROGRAM, "site", "--name", f"site{i}", *common, *emulated, "--listen", address(i)],
                stdout=outputs[i]))
        finish(processes, 300)
        lines = []
        for output in outputs:
            output.seek(0)
            lines.append([json.loads(line) for line in output])
    per_round = [max(site[r]["seconds"] for site in lines) for r in range(rounds)]
    seconds = statistics.median(per_round[1:])
    limit = site_bytes(codec, sites, PARAMETERS, rates) * 8e-6 * (1.0 if latency_ms else HEADERS)
    k = LATENCIES.get(sites, 6)
    predicted = limit + k * latency_ms / 1000
    return {
        "sites": sites, "codec": codec, "rate_mbit": rates[0] if not unequal else rates, "latency_ms": latency_ms,
        "parameters": PARAMETERS, "seconds": round(seconds, 4), "limit_seconds": round(limit, 4),
        "ratio_to_limit": round((seconds - k * latency_ms / 1000) / limit, 4), "k": k, "encrypted": True,
        "utilisation": round(30 / (30 + seconds), 4), "predicted_seconds": round(predicted, 4),
        "peak_bytes": max(s[-1]["peak_bytes"] for s in lines),
        "cpu_seconds": round((lines[0][-1]["cpu_s"] - lines[0][0]["cpu_s"]) / (rounds - 1), 4),
    }


def peer(sites, where):
    python = os.environ.get("TORCH_PYTHON")
    if not python:
        return None
    processes = [subprocess.Popen(where.inside(i) + [python, "-c", PEER, str(i), str(sites), str(PARAMETERS)],
                                  stdout=subprocess.PIPE, text=True) for i in range(sites)]
    try:
        out, _ = processes[0].communicate(timeout=300)
        finish(processes, 60)
        return round(float(out), 4)
    finally:
        for p in processes:
            if p.poll() is None:
                p.kill()
                p.wait()


class Threads:
    """CPU seconds of a process's threads other than its training thread, which is the first."""

    def __init__(self, pid):
        self.pid = pid

    def seconds(self):
        ticks = 0
        for task in os.listdir(f"/proc/{self.pid}/task"):
            if int(task) == self.pid:
                continue
            with open(f"/proc/{self.pid}/task/{task}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


def idle_share(process, rounds_file, seconds=15):
    """Share of a core that the network threads take while the site trains, away from any meeting."""
    deadline = time.monotonic() + 900
    while not os.path.exists(rounds_file) or not open(rounds_file).read():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"no round came: {rounds_file}")
        time.sleep(0.1)
    time.sleep(2)  # the round's last words are said
    threads = Threads(process.pid)
    before, start = threads.seconds(), time.monotonic()
    time.sleep(seconds)
    share = (threads.seconds() - before) / (time.monotonic() - start)
    if len(open(rounds_file).read().splitlines()) != 1:
        raise RuntimeError("a second round came before the network threads were measured")
    return share


def training(data, every, steps, rate_mbit, network):
    """Two sites train `small` in namespaces of their own, a core each: what of their time the outer loop takes."""
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "run")
        run(ISTHMUS, "new", name, "--model", "small", "--data", os.path.abspath(data), "--sites", "paris,oslo")
        config = name + ".toml"
        settings = ["--set", f"train.steps={steps}", "train.batch=16", "train.eval_every=0", "train.threads=1",
                    f"outer.sync_every_steps={every}", "outer.codec=int8",
                    "net.coordinator_listen=10.78.0.1:0", "net.listen=['paris 10.78.0.1:0', 'oslo 10.78.0.2:0']",
                    f"net.rates=['paris {rate_mbit}mbit', 'oslo {rate_mbit}mbit']"]
        log = open(os.path.join(folder, "log"), "w+")
        start = dict(stdout=log, stderr=log)
        processes = [subprocess.Popen(network.inside(0) + [ISTHMUS, "coordinator", config, *settings], **start)]
        for i, site in enumerate(("paris", "oslo")):
            core = ["taskset", "-c", str(i % os.cpu_count())]
            processes.append(subprocess.Popen(
                core + network.inside(i) + [ISTHMUS, "site", config, "--name", site, *settings], **start))
        try:
            records = os.path.join(name, "site-paris")
            # `ip netns exec` becomes the program it starts.
            idle = idle_share(processes[1], os.path.join(records, "rounds.jsonl"))
            finish(processes, 1800)
        except RuntimeError:
            log.seek(0)
            sys.stderr.write(log.read())
            raise
        rounds = []
        for site in ("paris", "oslo"):
            with open(os.path.join(name, "site-" + site, "rounds.jsonl")) as file:
                rounds.append([json.loads(line) for line in file])
    # The first round has connections to build up.
    lost = statistics.median(max(site[r]["lost_s"] for site in rounds) for r in range(1, len(rounds[0])))
    waited = statistics.median(max(site[r]["barrier_s"] for site in rounds) for r in range(1, len(rounds[0])))
    whole = statistics.median(site[r]["seconds"] for site in rounds for r in range(1, len(rounds[0])))
    limit = HEADERS * 8e-6 * site_bytes("int8", 2, PARAMETERS, [rate_mbit] * 2)
    return {
        "bench": "training", "model": "small", "sites": 2, "codec": "int8", "rate_mbit": rate_mbit,
        "sync_every_steps": every, "parameters": PARAMETERS, "round_seconds": round(whole, 3),
        "lost_seconds": round(lost, 4), "waited_for_the_other": round(waited, 4), "limit_seconds": round(limit, 4),
        "ratio_to_limit": round(lost / limit, 4), "utilisation": round(1 - lost / whole, 5),
        "best_utilisation": round(1 - limit / whole, 5), "predicted_seconds": rounds[0][0]["predicted_s"],
        "held_bytes": max(r["held_bytes"] for r in rounds[0]), "network_cpu_between_rounds": round(idle, 5),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="two sites only")
    parser.add_argument("--training", metavar="DATA", help="only the share of training time that is lost, on this data")
    parser.add_argument("--json", help="also into this file")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench_sync.py: network namespaces need root")
    rows = []

    def add(row):
        rows.append(row)
        print(json.dumps(row), flush=True)

    if arguments.training:
        with Network([100, 100]) as network:
            print(json.dumps(training(arguments.training, 100, 400, 100, network)))
        return

    for sites in (2,) if arguments.short else (2, 3, 4, 8):
        with Network([100] * sites) as network:
            gloo = peer(sites, network)
            for codec in ("int8",) if arguments.short else ("int8", "bf16", "fp32"):
                row = measure(sites, codec, [100] * sites, 0, 5, network)
                row["peer_seconds"] = gloo
                if gloo:
                    row["times_faster"] = round(gloo / row["seconds"], 2)
                add(row)
    if not arguments.short:
        with Network([100, 100, 100, 25]) as network:
            row = measure(4, "int8", [100, 100, 100, 25], 0, 5, network)
            row["peer_seconds"] = peer(4, network)
            add(row)
        row = measure(2, "int8", [100, 100], 100, 5, None)
        row["peer_seconds"] = None
        add(row)
    if arguments.json:
        with open(arguments.json, "w") as file:
            for row in rows:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
