"""Pombo: one workload of `pombo bench`, or the real server."""
import http.client, json, os, subprocess, time

from .machine import Trouble, cpu_s_of, end, free_port, memory_mb

KEY = "pombo_bench_key_of_this_run_only"
# How many jobs there are, by the peers' name for it and by ours.
SIZES = {"JOBS": ("--jobs", 100_000), "SINGLE": ("--single", 20_000), "LAT": ("--latency", 2_000),
         "BACKLOG": ("--backlog", 1_000_000), "READY": ("--ready", 50_000), "RETRY": ("--retry", 20_000)}
PATIENCE = 300  # seconds for one run of one workload


def sizes_of(scale, own=None):
    """The sizes by the peers' names, of which some have their own. All are whole tens, which some peers ask for."""
    usual = {name: size for name, (_, size) in SIZES.items()} | (own or {})
    return {name: str(max(1, round(int(usual[name]) * scale / 10)) * 10) for name in SIZES}


def lines_of(command, patience=PATIENCE, **options):
    """Runs a program and reads the JSON lines that it prints."""
    shown = " ".join(map(str, command))
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=patience, text=True, **options)
    except subprocess.TimeoutExpired:
        raise Trouble(f"{shown} took longer than {patience} s", "see what holds it up") from None
    if done.returncode != 0:
        raise Trouble(f"{shown} ended with {done.returncode}", "look at what it said above")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise Trouble(f"{shown} printed no result", "look at what it said above")
    return lines


def of_pombo(binary, workload, where, scale=1.0, patience=PATIENCE, **own):
    sizes = [part for name, size in sizes_of(scale, own).items() for part in (SIZES[name][0], size)]
    line = lines_of([binary, "bench", workload, *where, *sizes], patience)[0]
    line["client_server_us"] = round(line["cpu_us_per_job"] + line.get("server_cpu_us_per_job", 0), 2)
    for name, quantiles in (("return_p99_ms", "return_to_start_ms"), ("call_p99_ms", "call_to_start_ms")):
        if quantiles in line:
            line[name] = line[quantiles]["p99"]
    return {"who": "pombo", "workload": workload, **line}


class Line:
    """One connection to a server."""

    def __init__(self, port):
        self.wire = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        self.headers = {"Authorization": f"Bearer {KEY}"}

    def ask(self, method, path, body=None, kind="application/json"):
        self.wire.request(method, path, body, {**self.headers, **({"Content-Type": kind} if body else {})})
        answer = self.wire.getresponse()
        return answer, answer.read()

    def need(self, method, path, body=None):
        if not isinstance(body, (bytes, str, type(None))):
            body = json.dumps(body)
        answer, said = self.ask(method, path, body)
        if answer.status >= 300:
            raise Trouble(f"{method} {path} answered {answer.status}: {said[:300].decode(errors='replace')}",
                          "look at the server's log")
        return json.loads(said or b"null")

    def total(self):
        return self.need("GET", "/v1/stats")["total"]


class Served:
    """A `pombo serve` of its own, on a free port."""

    def __init__(self, binary, servers, config, store, arguments=(), **env):
        self.servers, self.port = servers, free_port()
        file = servers.folder / "pombo.toml"
        file.write_text(config)
        command = [binary, "serve", "--config", file, "--listen", f"127.0.0.1:{self.port}", *store, *arguments]
        env = {**os.environ, "POMBO_ADMIN_KEY": KEY, **env}
        self.log = servers.start("Pombo", self.port, command, quietly=True, env=env)
        self.process = servers.running[-1]
        patiently("the start", lambda: self.line().ask("GET", "/readyz")[0].status == 200, self.is_alive)

    def is_alive(self):
        if self.process.poll() is not None:
            raise Trouble(f"the server ended: {self.log.read_text()[-2000:]}", "see its words above")

    def line(self):
        return Line(self.port)

    def cpu_s(self):
        return sum(cpu_s_of(self.process.pid)[:2])

    def memory_mb(self, what="VmRSS"):
        return memory_mb(self.process.pid, what)

    def stop(self):
        if self.process.poll() is None:
            end(self.process)


def patiently(what, is_so, is_well=lambda: None, seconds=300):
    """Waits until it is so."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        is_well()
        try:
            if is_so():
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise Trouble(f"{what} took longer than {seconds} s", "see what holds it up")
