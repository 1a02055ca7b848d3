"""How much is sent while somebody loads the dashboard's heaviest pages, ten a second or without a pause, and while nobody
does."""
import multiprocessing, time
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor

from . import pages
from .machine import Trouble, need_room, say
from .pombo import Line, Served, patiently

# What lies behind the pages, and what is handed in and sent in each run.
MESSAGES, DEAD, CAMPAIGNS = 1_000_000, 100_000, 1_000
SENT = 200_000
# The pages that read most, and one that computes.
HEAVY = ["/", "/?range=7d", "/messages?state=failed", "/messages?recipient=https://crm.example/78", "/dead",
         "/dead/letters", "/campaigns", "/audit", "/audit/chain?check=1"]


# Who looks, and for how many seconds each page is looked at: more than a roomful of people, and a program.
PAUSES = {"nobody": None, "people": 0.1, "program": 0}


def gaze(port, cookie, pause, stop, seen):
    """Loads one heavy page after another, over one connection, until it is told to stop."""
    line = Line(port)
    line.headers = {"Cookie": cookie}
    while True:
        for path in HEAVY:
            if stop.wait(pause):
                return
            answer, _ = line.ask("GET", path)
            if answer.status != 200:
                seen.value = -1
                return
            seen.value += 1


class Somebody:
    """Whoever has a dashboard, in a process of their own: what they read costs the callers nothing but the machine."""

    def __init__(self, served, pause):
        self.stop, self.seen = multiprocessing.Event(), multiprocessing.Value("q", 0)
        cookie = pages.log_in(served).headers["Cookie"]
        self.process = multiprocessing.Process(target=gaze, daemon=True,
                                               args=(served.port, cookie, pause, self.stop, self.seen))

    def __enter__(self):
        self.process.start()
        patiently("the first page", lambda: self.seen.value != 0)
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.process.join(60)
        if self.process.is_alive():
            self.process.kill()
        if self.seen.value < 0:
            raise Trouble("a page was refused", "look at the server's log")


def rate(served, bodies, count):
    """Messages a second, from the first that is handed in until none waits."""
    def post(turn):
        line = served.line()
        for body in bodies[turn::pages.POSTERS]:
            answer, said = line.ask("POST", "/v1/messages/batch", body)
            if answer.status != 200 or b'"error":' in said:
                raise Trouble(f"messages are refused: {answer.status} {said[:300]}", "look at the server's log")

    began = time.monotonic()
    with ThreadPoolExecutor(pages.POSTERS) as posters:
        list(posters.map(post, range(pages.POSTERS)))
    line = served.line()
    patiently("sending", lambda: line.total()["waiting"] == 0, served.is_alive)
    return count / (time.monotonic() - began)


def rates(bench, store, own, place):
    """By round: messages a second by who looks, and pages a second."""
    scaled = lambda size, least: max(least, round(size * bench.args.scale))
    past = Namespace(messages=scaled(MESSAGES, 1_000), dead=scaled(DEAD, 100), campaigns=scaled(CAMPAIGNS, 10))
    count = scaled(SENT, 2_000)
    runs = len(PAUSES) * bench.args.pairs + 1
    need_room(own.folder, (past.messages + past.dead + runs * count) * pages.ENDED_BYTES[store] / 1e9, "the history")
    port = pages.sandbox(bench.binary, own)
    served = Served(bench.binary, own, pages.CONFIG.format(evolution=port + 1), place, BENCH_KEY="bench", POMBO_LOG="error")
    filler = pages.Filler(served, past, f"http://127.0.0.1:{port}")
    filler.fill()
    filler.dead = 0
    bodies = ["[" + ",".join(map(filler.message, range(first, min(first + pages.BATCH, count)))) + "]"
              for first in range(0, count, pages.BATCH)]
    rate(served, bodies, count)
    found = []
    for number in range(1, bench.args.pairs + 1):
        line = {"workload": "looked", "store": store, "round": number, "messages": count}
        for who in list(PAUSES)[:: 1 if number % 2 else -1]:
            if PAUSES[who] is None:
                line[who] = {"messages_per_s": rate(served, bodies, count)}
                continue
            with Somebody(served, PAUSES[who]) as somebody:
                before, began = somebody.seen.value, time.monotonic()
                messages = rate(served, bodies, count)
                pages_per_s = (somebody.seen.value - before) / (time.monotonic() - began)
                line[who] = {"messages_per_s": messages, "pages_per_s": pages_per_s}
        bench.record(line)
        say(", ".join(f"{who} {line[who]['messages_per_s']:,.0f}" for who in PAUSES) + " messages/s")
        found.append(line)
    return found


def ratio(lines, who):
    return [round(line[who]["messages_per_s"] / line["nobody"]["messages_per_s"], 3) for line in lines]
