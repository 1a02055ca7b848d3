"""This machine: its programs, scratch servers on its disk, and what its processes use."""
import os, pwd, shutil, signal, socket, subprocess, sys, time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CARGO_TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# What is installed for the benchmark alone, kept between runs.
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pombo-bench"


class Trouble(Exception):
    """What is wrong, and what to do about it."""

    def __init__(self, what, hint):
        super().__init__(f"{what}\nhint: {hint}")


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def find(*names):
    """The first of these programs that is there, also where Debian hides PostgreSQL's."""
    hidden = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    path = os.pathsep.join([os.environ.get("PATH", ""), *hidden])
    return next((found for name in names if (found := shutil.which(name, path=path))), None)


def install(program, package):
    if found := find(program):
        return found
    if not shutil.which("apt-get") or os.geteuid() != 0:
        raise Trouble(f"{program} is not there", f"install {package}, or run this as root on Debian")
    say(f"installing {package}")
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    subprocess.run(["apt-get", "update", "-qq"], check=True, env=env, stdout=sys.stderr)
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
    subprocess.run(command, check=True, env=env, stdout=sys.stderr)
    if found := find(program):
        return found
    raise Trouble(f"{program} is still not there", f"look at what {package} brings")


def pombo_binary(given):
    """The program to measure: the one that was named, or the release build of this tree."""
    if given is None:
        subprocess.run(["cargo", "build", "--release", "--locked", "-p", "pombo"], cwd=ROOT, check=True)
        given = CARGO_TARGET / "release" / "pombo"
    return Path(given).resolve()


def in_memory(folder):
    kind = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True).stdout.strip()
    return kind in ("tmpfs", "ramfs")


def need_room(folder, gigabytes, what):
    free = shutil.disk_usage(folder).free / 1e9
    if free < gigabytes:
        raise Trouble(f"{what} needs {gigabytes:.0f} GB of disk, and {folder} has {free:.0f} GB",
                      "name another folder with --scratch, or fewer messages")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def wait_for(port, process):
    for _ in range(600):
        if process.poll() is not None:
            return False
        if answers(port):
            return True
        time.sleep(0.05)
    return False


def end(process):
    """Ends a process, as a person would, and after half a minute as a person would then."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Servers:
    """Scratch servers, on disk, each in a folder of its own."""

    def __init__(self, folder):
        self.folder, self.running, self.env, self.pids = folder, [], {}, {}
        # What ends servers that are not our children.
        self.endings = []

    def redis(self):
        if "REDIS_URL" in self.env:
            return
        program, port = install("redis-server", "redis-server"), free_port()
        folder = self.folder / "redis"
        folder.mkdir()
        self.start("Redis", port, [
            program, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", "",
            "--appendonly", "yes", "--appendfsync", "always", "--daemonize", "no", "--loglevel", "warning",
        ])
        self.env["REDIS_URL"] = f"redis://127.0.0.1:{port}"

    def postgres(self):
        if "PG_URL" in self.env:
            return
        install("initdb", "postgresql")
        folder, port, user = self.folder / "postgres", free_port(), None
        folder.mkdir()
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root.
            user = pwd.getpwnam("postgres")
            os.chown(folder, user.pw_uid, user.pw_gid)
        as_user = {"user": user.pw_uid, "group": user.pw_gid} if user else {}
        init = [find("initdb"), "-D", str(folder), "-U", "bench", "-A", "trust", "-E", "UTF8", "--no-locale"]
        subprocess.run(init, check=True, stdout=subprocess.DEVNULL, cwd="/", **as_user)
        settings = [
            "fsync=on", "synchronous_commit=on", "full_page_writes=on", "shared_buffers=512MB",
            "max_wal_size=4GB", "max_connections=200", "log_min_messages=error", "listen_addresses=127.0.0.1",
            f"port={port}", f"unix_socket_directories={folder}",
        ]
        command = [find("postgres"), "-D", str(folder), *(part for it in settings for part in ("-c", it))]
        self.start("PostgreSQL", port, command, **as_user)
        self.server_url = f"postgres://bench@127.0.0.1:{port}"
        self.env["PG_URL"] = self.new_database("bench")

    def new_database(self, name):
        """A database without anything in it; whoever had the name before is gone."""
        for command in (f"DROP DATABASE IF EXISTS {name} WITH (FORCE)", f"CREATE DATABASE {name}", "CHECKPOINT"):
            self.sql(command)
        return f"{self.server_url}/{name}"

    def drop_database(self, name):
        self.sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self.sql("CHECKPOINT")

    def sql(self, command):
        subprocess.run([find("psql"), f"{self.server_url}/postgres", "-qc", command], check=True,
                       stdout=sys.stderr, stderr=subprocess.DEVNULL)

    def start(self, what, port, command, quietly=False, **options):
        if not quietly:
            say(f"starting {what} on 127.0.0.1:{port}")
        log = self.folder / f"{what}.log"
        with log.open("ab") as words:
            process = subprocess.Popen(command, stdout=words, stderr=words, cwd="/", **options)
        self.running.append(process)
        self.pids[what] = process.pid
        if not wait_for(port, process):
            raise Trouble(f"{what} did not start: {log.read_text()[-2000:]}", "see its words above")
        return log

    def stop(self):
        for ending in self.endings:
            ending()
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        for process in self.running:
            if process.poll() is None:
                end(process)


def cpu_s_of(pid):
    """User and system time of a process, those of its ended children, its parent and state; nothing if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    tick = os.sysconf("SC_CLK_TCK")
    return [int(field) / tick for field in fields[11:15]] + [int(fields[1]), fields[0]]


def family_cpu_s(pid):
    """CPU seconds of a process, of its children that are there, and of those that are gone."""
    pids = [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]
    living = [times for child in pids if (times := cpu_s_of(child)) and times[4] == pid]
    return sum(cpu_s_of(pid)[:4]) + sum(sum(times[:2]) for times in living)


def memory_mb(pid, what):
    """A line of a process's status, such as VmRSS, in millions of bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return round(int(line.split()[1]) * 1024 / 1e6, 1)
    return None
