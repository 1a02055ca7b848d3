"""The dashboard's pages and the API's lists, on a real server with a long history."""
import os, shutil, statistics, sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import urlencode

from .machine import Servers, Trouble, free_port, need_room, say
from .pombo import KEY, Served, patiently

BATCH, POSTERS = 2_000, 4
# Waiting at most, while it is filled: so that what is sent does not fall behind what comes in.
AHEAD = 1_000_000
# What fails, and how often in turn: the groups of dead letters.
CAUSES = [400, 404, 405, 410, 413, 415, 422]
# Bytes that an ended message needs on disk at most.
ENDED_BYTES = {"sqlite": 1_200, "postgres": 2_000}
LIMIT_MS = 100
# People that are written to, each several times.
RECIPIENTS = 1_000_000
SEARCHES = ["/v1/messages?recipient=https://crm.example/78", "/v1/messages?reference=order-78"]
API = ["/v1/stats", "/v1/stats?since=24h", "/v1/stats?since=7d", "/v1/stats?since=90d", "/v1/messages",
       "/v1/messages?state=failed", SEARCHES[0], SEARCHES[1], "/v1/dead-letters", "/v1/dead-letters/groups", "/v1/campaigns", "/v1/channels",
       "/v1/alerts", "/v1/audit", "/metrics"]
# What is sent takes a channel that does nothing, so that the filling is quick; what fails is really refused.
CONFIG = """[lanes.default]
workers = 2000
[lanes.refused]
workers = 128
[channels.crm]
kind = "null"
[channels.broken]
kind = "webhook"
allow_private = true
[channels.broken.breaker]
failures = 0
percent = 0
[channels.whatsapp]
kind = "evolution"
instance = "bench"
api_key = "${{BENCH_KEY}}"
base_url = "http://127.0.0.1:{evolution}"
"""


class Filler:
    """Hands in everything, over several connections, and waits until it has ended."""

    def __init__(self, served, args, sink):
        self.served, self.sink, self.campaigns = served, sink, args.campaigns
        self.all, self.dead = args.messages + args.dead, args.dead
        # Dead letters are spread over the history as they are in life.
        self.every = max(1, self.all // max(1, self.dead))

    def fill(self):
        with ThreadPoolExecutor(POSTERS) as posters:
            list(posters.map(self.post, range(POSTERS)))
        line = self.served.line()
        line.need("PUT", "/v1/templates/bench", {"text": "Olá!"})
        for number in range(self.campaigns):
            wish = {"name": f"campaign {number}", "channel": "whatsapp", "template": "bench"}
            line.need("POST", "/v1/campaigns", wish)
        patiently("sending", lambda: line.total()["waiting"] == 0, self.served.is_alive, 1_800)

    def post(self, turn):
        line, began = self.served.line(), time.monotonic()
        for round, first in enumerate(range(turn * BATCH, self.all, POSTERS * BATCH)):
            numbers = range(first, min(first + BATCH, self.all))
            body = "[" + ",".join(map(self.message, numbers)) + "]"
            answer, said = line.ask("POST", "/v1/messages/batch", body)
            if answer.status != 200 or b'"error":' in said:
                raise Trouble(f"messages are refused: {answer.status} {said[:300]}", "look at the server's log")
            if round % 25 == 0:
                patiently("sending", lambda: line.total()["waiting"] < AHEAD, self.served.is_alive, 1_800)
            if turn == 0 and round % 125 == 0:
                say(f"{first:,} of {self.all:,} handed in, {time.monotonic() - began:.0f} s")

    def message(self, number):
        body = f'"reference":"order-{number}","content":{{"body":{{"number":{number}}}}}'
        if number % self.every or not self.dead:
            return f'{{"channel":"crm","to":"https://crm.example/{number % RECIPIENTS}",{body}}}'
        cause = CAUSES[number // self.every % len(CAUSES)]
        return f'{{"channel":"broken","lane":"refused","to":"{self.sink}/status/{cause}",{body}}}'


def log_in(served):
    line = served.line()
    line.wire.request("POST", "/login", urlencode({"key": KEY}),
                      {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{served.port}"})
    answer = line.wire.getresponse()
    answer.read()
    cookie = answer.getheader("Set-Cookie")
    if not cookie:
        raise Trouble(f"the log-in was answered {answer.status}, without a session", "look at the server's log")
    line.headers = {"Cookie": cookie.split(";")[0]}
    return line


def addresses(line):
    """Every page of the dashboard, at addresses of things that there are."""
    def one(path):
        return line.need("GET", path)["items"][0]

    dead, cause = one("/v1/dead-letters?limit=1")["id"], one("/v1/dead-letters/groups?limit=1")["cause"]
    sent, campaign = one("/v1/messages?state=sent&limit=1")["id"], one("/v1/campaigns?limit=1")["id"]
    people = [{"to": f"+5511987{number:06}"} for number in range(1_000)]
    line.need("POST", f"/v1/campaigns/{campaign}/recipients", people)
    wish = {"filter": {"reference": "order-0"}, "note": "bench"}
    operation, key = line.need("POST", "/v1/dead-letters/discard", wish)["id"], one("/v1/keys")["id"]
    patiently("the alert", lambda: line.need("GET", "/v1/alerts")["items"])
    alert = one("/v1/alerts")["id"]
    return ["/", "/?range=7d", "/messages", "/messages?state=failed", *(path.removeprefix("/v1") for path in SEARCHES),
            f"/messages/{sent}", f"/messages/{dead}",
            "/dead", "/dead/letters", f"/dead/{cause}", f"/dead/letter/{dead}",
            f"/dead/decide?act=reprocess&cause={cause}", "/operations", f"/operations/{operation}",
            "/campaigns", "/campaigns/new", f"/campaigns/{campaign}", f"/campaigns/{campaign}/edit",
            f"/campaigns/{campaign}/list", f"/campaigns/{campaign}/preview",
            f"/campaigns/{campaign}/recipients", f"/campaigns/{campaign}/report",
            "/templates", "/templates/bench", "/templates/bench/preview", "/channels", "/channels/crm",
            "/policies", "/policies/webhook", "/learning", "/learning/simulate?policy=webhook&try=down&from=1m&to=10m",
            "/alerts", f"/alerts/{alert}", "/audit", "/audit/chain", "/audit/chain?check=1", "/keys", f"/keys/{key}"]


def look(line, path, looks):
    times, size = [], 0
    for _ in range(looks + 1):
        began = time.perf_counter()
        answer, said = line.ask("GET", path)
        times.append((time.perf_counter() - began) * 1_000)
        size = len(said)
        if answer.status != 200:
            raise Trouble(f"GET {path} answered {answer.status}: {said[:300].decode(errors='replace')}",
                          "look at the server's log")
        # A page that takes seconds is slow enough without the other looks.
        if sum(times) > 30_000 and len(times) > 5:
            break
    first, rest = times[0], sorted(times[1:])
    return {"path": path, "looks": len(rest), "first_ms": round(first, 2),
            "p50_ms": round(statistics.median(rest), 2),
            "p99_ms": round(rest[int(len(rest) * 0.99)], 2), "max_ms": round(rest[-1], 2), "bytes": size}


def sandbox(binary, own):
    """Pretend providers. They take the four ports after their own too, of which one may be taken."""
    for last in (False, False, False, True):
        port = free_port()
        try:
            own.start("sandbox", port, [binary, "sandbox", "--listen", f"127.0.0.1:{port}"], quietly=True)
            return port
        except Trouble:
            if last:
                raise


def of_store(args, binary, store, place, folder, record):
    """Fills one store and looks at every page."""
    need_room(folder, (args.messages + args.dead) * ENDED_BYTES[store] / 1e9, "the history")
    own, rows = Servers(folder), []
    try:
        port = sandbox(binary, own)
        served = Served(binary, own, CONFIG.format(evolution=port + 1), place, BENCH_KEY="bench", POMBO_LOG="error")
        say(f"{store}: {args.messages:,} messages, {args.dead:,} dead letters, {args.campaigns:,} campaigns")
        began = time.monotonic()
        Filler(served, args, f"http://127.0.0.1:{port}").fill()
        filled = time.monotonic() - began
        say(f"{store}: filled in {filled:.0f} s")
        record({"workload": "pages", "store": store, "messages": args.messages, "dead": args.dead,
                "campaigns": args.campaigns, "filled_in_s": round(filled), "load_before": os.getloadavg()[0],
                "peak_mb": served.memory_mb("VmHWM")})
        seen = [(served.line(), path) for path in API]
        if not args.api_only:
            person = log_in(served)
            seen += [(person, path) for path in addresses(served.line())]
        print(f"{'':72}{'first':>9}{'p50':>9}{'p99':>9}{'max':>9} ms{'KB':>9}", file=sys.stderr)
        for line, path in seen:
            try:
                it = look(line, path, args.looks)
            except Trouble as trouble:
                say(f"{path} failed and is left out: {trouble}")
                record({"row": path, "store": store, "failed": str(trouble)})
                continue
            it |= {"store": store, "target": f"< {LIMIT_MS} ms",
                   "reached": it["p50_ms"] < LIMIT_MS and it["p99_ms"] < LIMIT_MS}
            print(f"{path:72}{it['first_ms']:9.1f}{it['p50_ms']:9.1f}{it['p99_ms']:9.1f}{it['max_ms']:9.1f}   "
                  f"{it['bytes'] / 1000:9.1f}", file=sys.stderr, flush=True)
            rows.append(it)
        say(f"load average {os.getloadavg()[0]:.1f} at the end")
        return rows
    finally:
        own.stop()


def measured(args, binary, servers, record):
    rows = []
    for store in args.stores:
        folder = Path(mkdtemp(prefix=f"pages-{store}-", dir=servers.folder))
        try:
            if store == "sqlite":
                place = ["--data", folder / "data"]
            elif args.database_url:
                place = ["--database-url", args.database_url]
            else:
                servers.postgres()
                place = ["--database-url", servers.new_database("pages")]
            rows += of_store(args, binary, store, place, folder, record)
        except Trouble as trouble:
            say(f"pages, {store} failed: {trouble}")
            record({"row": "pages", "store": store, "failed": str(trouble)})
        finally:
            if store == "postgres" and not args.database_url:
                servers.drop_database("pages")
            shutil.rmtree(folder, ignore_errors=True)
    return rows
