"""Mails through Pombo and through Postfix, in turns."""
import base64, email.policy, json, os, pwd, re, resource, shutil, subprocess, sys, tempfile, threading, time
from email.message import EmailMessage
from pathlib import Path

from .machine import CACHE, ROOT, Servers, Trouble, cpu_s_of, family_cpu_s, find, free_port, install, say
from .pombo import KEY, PATIENCE, Served
from .report import summary

# How many are sent before the clock runs, how many share a request, over how many connections.
WARMING, BATCH, POSTERS = 500, 100, 4
SUBJECT = "Confirmação da sua consulta"
TEXT = """Olá, Ana!

Sua consulta com a Dra. Beatriz Nogueira está marcada para terça-feira, dia 24, às 14h30, na unidade Jardins.
Chegue quinze minutos antes, com documento de identificação e a carteirinha do convênio.

""" + "Se não puder comparecer, avise com um dia de antecedência, para que outra pessoa seja atendida.\n" * 18
# Sessions in which mails are handed in over SMTP; each is measured with the number that suits it best.
SESSIONS = [5, 10, 20, 50, 100]
# Postfix as it comes, and with what throttles it or ends its processes early out of the way.
POSTFIX = {
    "postfix": {},
    "postfix-raised": {
        "default_process_limit": "300", "default_destination_concurrency_limit": "100",
        "initial_destination_concurrency": "20", "in_flow_delay": "0", "max_use": "10000",
        "smtpd_peername_lookup": "no",
    },
}
SERVICES = """
cleanup   unix  n - n - 0 cleanup
qmgr      unix  n - n 300 1 qmgr
rewrite   unix  - - n - - trivial-rewrite
bounce    unix  - - n - 0 bounce
defer     unix  - - n - 0 bounce
trace     unix  - - n - 0 bounce
flush     unix  n - n 1000? 0 flush
proxymap  unix  - - n - - proxymap
anvil     unix  - - n - 1 anvil
scache    unix  - - n - 1 scache
smtp      unix  - - n - - smtp
error     unix  - - n - - error
retry     unix  - - n - - error
"""


class Sink:
    """An smtp-sink that counts what it takes."""

    def __init__(self, servers):
        self.port = free_port()
        user = ["-u", "postfix"] if os.geteuid() == 0 else []
        command = [install("smtp-sink", "postfix"), "-c", *user, f"127.0.0.1:{self.port}", "1000"]
        self.words = servers.start("smtp-sink", self.port, command, quietly=True)

    def mails(self):
        with self.words.open("rb") as words:
            words.seek(max(0, self.words.stat().st_size - 200))
            counts = re.findall(rb"mesg=(\d+)\r", words.read())
        return int(counts[-1]) if counts else 0


def client():
    """The program that hands mails in over SMTP, the same for both."""
    source, made = ROOT / "crates" / "testbed" / "examples" / "mails.rs", CACHE / "mails"
    if not made.is_file() or made.stat().st_mtime < source.stat().st_mtime:
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["rustc", "--edition", "2024", "-O", "-o", made, source], check=True)
    return made


class OverSmtp:
    """Hands the finished mail in over sessions that stay open."""

    def __init__(self, folder, port, sessions, login=None):
        self.folder, self.port, self.sessions = folder, port, sessions
        self.env = {**os.environ, **({"AUTH_PLAIN": login} if login else {})}

    def prepare(self, mails):
        mail = EmailMessage(policy=email.policy.SMTP)
        mail["From"], mail["To"] = "Clínica <mail@clinic.example>", "paciente@example.net"
        mail["Subject"], mail["Date"] = SUBJECT, "Mon, 16 Nov 2026 12:00:00 +0000"
        mail.set_content(TEXT, cte="quoted-printable")
        (self.folder / "mail").write_bytes(mail.as_bytes())
        self.command = [client(), f"127.0.0.1:{self.port}", str(self.sessions), str(mails), self.folder / "mail"]

    def hand_in(self):
        try:
            subprocess.run(self.command, check=True, stdout=sys.stderr, env=self.env, timeout=PATIENCE)
        except subprocess.SubprocessError as error:
            raise Trouble(f"mails could not be handed in: {error}", "see the words above") from None


class OverHttp:
    """Hands mails in by hundreds, as JSON that is still to be made a mail of."""

    def __init__(self, served):
        self.served = served

    def prepare(self, mails):
        mail = lambda number: {"channel": "mail", "to": f"{number}paciente@example.net",
                               "content": {"subject": SUBJECT, "text": TEXT}}
        parts = [range(first, min(first + BATCH, mails)) for first in range(0, mails, BATCH)]
        self.batches = [json.dumps([mail(number) for number in part], ensure_ascii=False).encode() for part in parts]

    def hand_in(self):
        troubles = []

        def post(mine):
            line = self.served.line()
            for batch in mine:
                answer, said = line.ask("POST", "/v1/messages/batch", batch)
                if answer.status != 200 or b'"error":' in said:
                    troubles.append((answer.status, said[:500]))
                    return

        posters = [threading.Thread(target=post, args=(self.batches[first::POSTERS],)) for first in range(POSTERS)]
        for poster in posters:
            poster.start()
        for poster in posters:
            poster.join()
        if troubles:
            raise Trouble(f"Pombo refused mails: {troubles[0]}", "see its words above")


class PomboServer:
    """The real server, with a channel to the sink and otherwise as it comes."""

    def __init__(self, binary, door, sessions, servers, sink):
        mails = free_port()
        config = f'''[channels.mail]
kind = "smtp"
url = "smtp://127.0.0.1:{sink.port}"
tls = "none"
from = "Clínica <mail@clinic.example>"
[smtp]
listen = "127.0.0.1:{mails}"
connections_per_address = 200
'''
        self.served = Served(binary, servers, config, ["--data", servers.folder / "data"])
        login = base64.b64encode(f"\0mail\0{KEY}".encode()).decode()
        self.client = OverHttp(self.served) if door == "HTTP" else OverSmtp(servers.folder, mails, sessions, login)
        how = {"batch": BATCH, "posters": POSTERS} if door == "HTTP" else {"sessions": sessions}
        self.facts = {"durability": "wal, synchronous=FULL, audit record per transition", "workers": 16,
                      "connections": 16, "door": door, **how}

    def is_done(self):
        line = self.served.line()
        total = line.total()
        line.wire.close()
        if total["failed"] or total["retries"]:
            raise Trouble(f"mails failed or were sent again: {total}", "the sink should have taken them")
        return total["waiting"] == 0

    def cpu_s(self):
        return self.served.cpu_s()


class PostfixServer:
    """A Postfix whose configuration and queue are in a folder of their own, and that relays to the sink.

    It logs to the system's log, which is its default, and costs it least where nobody listens there.
    """

    def __init__(self, name, sessions, servers, sink):
        port, self.folder = free_port(), servers.folder
        self.client = OverSmtp(servers.folder, port, sessions)
        self.facts = {"durability": "fsync of each queue file", "sessions": sessions, "settings": POSTFIX[name]}
        for part in ("etc", "queue", "data"):
            (self.folder / part).mkdir()
        user = pwd.getpwnam("postfix")
        os.chown(self.folder / "data", user.pw_uid, user.pw_gid)
        settings = {
            "compatibility_level": "3.6", "queue_directory": self.folder / "queue",
            "data_directory": self.folder / "data", "mail_owner": "postfix", "setgid_group": "postdrop",
            "import_environment": f"MAIL_CONFIG={self.folder}/etc", "myhostname": "mail.example",
            "mydestination": "", "mynetworks": "127.0.0.0/8", "inet_interfaces": "127.0.0.1",
            "inet_protocols": "ipv4", "alias_maps": "", "alias_database": "",
            "relayhost": f"[127.0.0.1]:{sink.port}", **POSTFIX[name],
        }
        main = "".join(f"{setting} = {value}\n" for setting, value in settings.items())
        (self.folder / "etc" / "main.cf").write_text(main)
        (self.folder / "etc" / "master.cf").write_text(f"127.0.0.1:{port} inet n - n - - smtpd{SERVICES}")
        self.tell("start")
        servers.endings.append(self.stop)
        self.master = int((self.folder / "queue" / "pid" / "master.pid").read_text())

    def tell(self, word):
        told = subprocess.run([find("postfix"), "-c", self.folder / "etc", word], capture_output=True, cwd="/")
        if told.returncode != 0:
            raise Trouble(f"postfix {word}: {told.stderr.decode()}", "Postfix has to be run as root")

    def is_done(self):
        incoming, active, deferred = (self.folder / "queue" / name for name in ("incoming", "active", "deferred"))
        if any(file.is_file() for file in deferred.rglob("*")):
            raise Trouble("Postfix put a mail off", "the sink should have taken it")
        return not any(os.scandir(incoming)) and not any(os.scandir(active))

    def cpu_s(self):
        return family_cpu_s(self.master)

    def stop(self):
        self.tell("abort")
        # It is not our child, so that whoever has to take note of its end may be late.
        while (left := cpu_s_of(self.master)) and left[5] != "Z":
            time.sleep(0.05)


def client_cpu_s():
    uses = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


def of_mails(who, start, mails, scratch):
    """Sends mails through a server that `start` starts beside a sink: some to warm up, the rest by the clock."""
    folder = Path(tempfile.mkdtemp(prefix="mails-", dir=scratch))
    folder.chmod(0o755)
    servers, load = Servers(folder), os.getloadavg()[0]
    try:
        sink = Sink(servers)
        server = start(servers, sink)

        def send(count, expected):
            server.client.prepare(count)
            began, client = time.monotonic(), client_cpu_s()
            server.client.hand_in()
            handed_in, client = time.monotonic() - began, client_cpu_s() - client
            while sink.mails() < expected or not server.is_done():
                if time.monotonic() - began > PATIENCE:
                    raise Trouble(f"{who} did not send {count} mails in {PATIENCE} s", "see what holds it up")
                time.sleep(0.005)
            return handed_in, time.monotonic() - began, client

        send(WARMING, WARMING)
        before = server.cpu_s()
        handed_in, seconds, client = send(mails, WARMING + mails)
        cpu = server.cpu_s() - before
        if sink.mails() != WARMING + mails:
            raise Trouble(f"the sink has {sink.mails()} mails, not {WARMING + mails}", "some were sent twice")
        return {
            "who": who, "workload": "SMTP", "n": mails, "secs": round(seconds, 3),
            "handed_in_secs": round(handed_in, 3), "mails_per_s": round(mails / seconds, 1),
            "server_us": round(cpu * 1e6 / mails, 1), "client_server_us": round((cpu + client) * 1e6 / mails, 1),
            "load_before": load, **server.facts,
        }
    finally:
        servers.stop()
        shutil.rmtree(folder, ignore_errors=True)


def measured(args, binary, servers, record):
    scratch, mails = servers.folder, max(100, round(args.mails * args.scale))
    ours = lambda door, sessions=None: lambda servers, sink: PomboServer(binary, door, sessions, servers, sink)
    theirs = lambda name, sessions: lambda servers, sink: PostfixServer(name, sessions, servers, sink)
    best = {}
    for name in ["pombo", *POSTFIX]:
        tries = []
        for sessions in SESSIONS:
            start = ours("SMTP", sessions) if name == "pombo" else theirs(name, sessions)
            line = of_mails(name, start, mails if name == "pombo" else mails // 4, scratch)
            tries.append(line)
            record({"round": 0, **line})
            say(f"{name}, {sessions} sessions: {line['mails_per_s']:,} mails/s")
        best[name] = max(tries, key=lambda line: line["mails_per_s"])["sessions"]
    pairs = {}
    for number in range(1, args.pairs + 1):
        for name in POSTFIX:
            turns = {"SMTP to SMTP": ours("SMTP", best["pombo"]), "HTTP to SMTP": ours("HTTP"),
                     name: theirs(name, best[name])}
            # Who goes first changes, as with the queues.
            order = list(turns) if number % 2 else list(turns)[::-1]
            lines = {}
            try:
                for which in order:
                    lines[which] = of_mails(which if which == name else "pombo", turns[which], mails, scratch)
                    record({"round": number, "against": name, **lines[which]})
            except Trouble as trouble:
                say(f"round {number}: {name} failed and is left out: {trouble}")
                for row in [row for row in turns if row != name]:
                    record({"round": number, "row": row, "peer": name, "failed": str(trouble)})
                continue
            for row in [row for row in turns if row != name]:
                pairs.setdefault((row, name), []).append((lines[row], lines[name]))
            said = ", ".join(f"{which} {line['mails_per_s']:,}" for which, line in lines.items())
            say(f"round {number}/{args.pairs}: mails/s: {said}")
    return [summary(row, name, "mails_per_s", some) for (row, name), some in sorted(pairs.items(), reverse=True)]
