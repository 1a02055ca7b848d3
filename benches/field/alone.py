"""Pombo alone, on both stores: HTTP in and out, idle, looked at, with a million waiting, and behind a deep backlog."""
import contextlib, datetime, json, os, shutil, statistics, subprocess, time
from pathlib import Path
from tempfile import mkdtemp

from . import looked
from .machine import Servers, Trouble, family_cpu_s, need_room, say
from .pombo import KEY, Served, of_pombo

ROWS = ["HTTP", "idle", "looked", "memory", "W4"]
IDLE_S, SETTLING_S = 30, 5
WAITING = 1_000_000
# Behind so many that are due tomorrow, so many are sent: enough that ticks of 10 ms tell a hundredth.
BACKLOG, READY = 10_000_000, 200_000
DEEP_PATIENCE = 1_800
# Bytes that a message needs on disk at most, with its audit records and what the log has of it meanwhile.
WAITING_BYTES = {"sqlite": 800, "postgres": 1_600}
CONFIG = '[channels.crm]\nkind = "webhook"\n'


def value(row, store, figure, values, target=None, reached=None):
    values = list(values)
    middle = statistics.median(values)
    line = {"row": row, "store": store, "figure": figure, "rounds": len(values), "value": round(middle, 3),
            "min": min(values), "max": max(values)}
    return line | ({"target": target, "reached": reached(middle)} if target else {})


class Bench:
    def __init__(self, args, binary, servers, record):
        self.args, self.binary, self.servers, self.record = args, binary, servers, record

    def bench_place(self, store):
        """Where `pombo bench` makes its store."""
        if store == "sqlite":
            return ["--data", str(self.servers.folder)]
        self.servers.sql("CHECKPOINT")
        return ["--database-url", self.servers.env["PG_URL"]]

    @contextlib.contextmanager
    def ground(self, store):
        """A folder for a server that is started more than once, and where its store is; both go again."""
        folder = Path(mkdtemp(prefix=f"{store}-", dir=self.servers.folder))
        own = Servers(folder)
        place = (["--data", folder / "data"] if store == "sqlite"
                 else ["--database-url", self.servers.new_database("served")])
        try:
            yield own, place
        finally:
            own.stop()
            if store == "postgres":
                self.servers.drop_database("served")
            shutil.rmtree(folder, ignore_errors=True)

    def kept(self, rows):
        for row in rows:
            say(f"{row['row']}, {row['store']}: {row['value']:,} {row['figure']}")
        return rows

    def http(self, store):
        rates = {"HTTP": [], "HTTPs": []}
        for number in range(1, self.args.pairs + 1):
            for workload, of in rates.items():
                line = of_pombo(self.binary, workload, self.bench_place(store), self.args.scale)
                self.record({"round": number, **line})
                of.append(line["jobs_per_s"])
        return [value("HTTP in, HTTP out", store, "messages/s", rates["HTTP"], "≥ 15,000/s", lambda it: it >= 15_000),
                value("HTTP in one by one, HTTP out", store, "messages/s", rates["HTTPs"])]

    def idle(self, store):
        """Ticks of a server that nobody asks for anything, some seconds after its start."""
        with self.ground(store) as (own, place):
            served = Served(self.binary, own, CONFIG, place)
            time.sleep(SETTLING_S)
            database = self.servers.pids.get("PostgreSQL")
            before, server, began = served.cpu_s(), family_cpu_s(database) if database else 0, time.monotonic()
            time.sleep(IDLE_S)
            seconds = time.monotonic() - began
            share = (served.cpu_s() - before) / seconds * 100
            beside = (family_cpu_s(database) - server) / seconds * 100 if database else 0
            memory, private = served.memory_mb(), served.memory_mb("RssAnon")
            self.record({"workload": "idle", "store": store, "seconds": round(seconds, 1), "cpu_percent": share,
                         "server_cpu_percent": beside, "rss_mb": memory, "private_mb": private})
        rows = [value("idle", store, "% of a core", [share], "< 0.5 %", lambda it: it < 0.5),
                value("idle", store, "MB of memory", [memory], "< 40 MB", lambda it: it < 40),
                value("idle", store, "MB of it without the program itself", [private])]
        if store == "postgres":
            rows.append(value("idle", store, "% of a core, its server", [beside]))
        return rows

    def looked(self, store):
        with self.ground(store) as (own, place):
            lines = looked.rates(self, store, own, place)
        rows = []
        for who, what, *target in [("people", "while ten heavy pages a second are loaded", "≥ 0.90", lambda it: it >= 0.9),
                                   ("program", "while heavy pages are loaded without a pause")]:
            rows += [value(what, store, "messages/s", [line[who]["messages_per_s"] for line in lines]),
                     value(what, store, "pages/s", [line[who]["pages_per_s"] for line in lines]),
                     value(what, store, "times what is sent otherwise", looked.ratio(lines, who), *target)]
        return rows

    def memory(self, store):
        """A million messages for tomorrow, imported from a file by `pombo messages import`."""
        count = max(1_000, round(WAITING * self.args.scale))
        need_room(self.servers.folder, count * (WAITING_BYTES[store] + 300) / 1e9, "a million that wait")
        tomorrow = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        with self.ground(store) as (own, place):
            file = own.folder / "messages.ndjson"
            with file.open("w") as out:
                for number in range(count):
                    body = {"number": number, "pad": "x" * 170}
                    out.write(json.dumps({"channel": "crm", "to": "https://example.com/hook", "send_at": tomorrow,
                                          "reference": f"order-{number}", "content": {"body": body}}) + "\n")
            served = Served(self.binary, own, CONFIG, place)
            began = time.monotonic()
            self.imported(served, file)
            seconds = time.monotonic() - began
            waiting = served.line().total()["waiting"]
            if waiting != count:
                raise Trouble(f"{waiting} wait, not {count}", "some were refused")
            time.sleep(SETTLING_S)
            peak, after = served.memory_mb("VmHWM"), served.memory_mb()
            served.stop()
            began = time.monotonic()
            served = Served(self.binary, own, CONFIG, place)
            ready = time.monotonic() - began
            time.sleep(SETTLING_S)
            again = served.memory_mb()
            served.stop()
        self.record({"workload": "memory", "store": store, "waiting": count, "import_seconds": round(seconds, 1),
                     "peak_mb": peak, "after_mb": after, "started_again_mb": again, "ready_s": round(ready, 2)})
        what = f"{count:,} waiting"
        return [value(what, store, "MB at most, while imported", [peak], "< 150 MB", lambda it: it < 150),
                value(what, store, "MB afterwards", [after], "< 150 MB", lambda it: it < 150),
                value(what, store, "MB when started again", [again], "< 150 MB", lambda it: it < 150),
                value(what, store, "messages/s imported", [count / seconds])]

    def imported(self, served, file):
        env = {**os.environ, "POMBO_API_KEY": KEY}
        command = [self.binary, "messages", "import", file, "--server", f"http://127.0.0.1:{served.port}"]
        try:
            subprocess.run(command, env=env, check=True, timeout=900, stdout=subprocess.DEVNULL)
        except subprocess.SubprocessError as error:
            raise Trouble(f"the import failed: {error}", "see its words above") from None

    def deep(self, store):
        """W4 between W2s of as many, so that a machine that changes changes for both."""
        backlog = max(1_000, round(BACKLOG * self.args.scale))
        need_room(self.servers.folder, backlog * WAITING_BYTES[store] / 1e9, f"a backlog of {backlog:,}")
        ready, ratios, rates = {"JOBS": READY, "READY": READY, "BACKLOG": BACKLOG}, [], []
        run = lambda workload: of_pombo(self.binary, workload, self.bench_place(store), self.args.scale,
                                        DEEP_PATIENCE, **ready)
        for number in range(1, self.args.pairs + 1):
            say(f"round {number}: W4 behind {backlog:,}, {store}")
            lines = [run("W2"), run("W2"), run("W4"), run("W2"), run("W2")]
            for line in lines:
                self.record({"round": number, **line})
            usual = statistics.median(line["client_server_us"] for line in lines if line["workload"] == "W2")
            ratios.append(round(lines[2]["client_server_us"] / usual, 3))
            rates.append(lines[2]["jobs_per_s"])
            say(f"W4 {lines[2]['client_server_us']} µs, W2 {usual} µs")
        what = f"W4 behind {backlog:,}"
        return [value(what, store, "CPU a message, times that of W2", ratios, "≤ 1.10", lambda it: it <= 1.1),
                value(what, store, "messages/s", rates)]


def measured(args, binary, servers, record):
    bench, rows = Bench(args, binary, servers, record), []
    if "postgres" in args.stores:
        servers.postgres()
    makers = {"HTTP": bench.http, "idle": bench.idle, "looked": bench.looked, "memory": bench.memory, "W4": bench.deep}
    for name in [name for name in ROWS if name in (args.only or ROWS)]:
        for store in args.stores:
            say(f"{name}, {store}")
            try:
                rows += bench.kept(makers[name](store))
            except Trouble as trouble:
                say(f"{name}, {store} failed and is left out: {trouble}")
                record({"row": name, "store": store, "failed": str(trouble)})
    return rows
