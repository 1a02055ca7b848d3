"""Medians, ratios and targets, as tables in Markdown."""
import statistics

LESS_IS_BETTER = {"call_p99_ms", "return_p99_ms", "client_server_us"}
# Does not flush to disk before it answers, so it is no measure for those that do.
DO_NOT_FLUSH = {"bunqueue"}
# What the ratio against the best of the others has to be.
RATIOS = {
    "embedded": {"W1": 3, "W1s": 4, "W2": 2, "W5": 2, "W3": 1},
    "postgres": {"W1": 2, "W1s": 6, "W2": 1.5, "W5": 1.5},
    "smtp": {"SMTP to SMTP": 5, "HTTP to SMTP": 5},
}
UNITS = {"jobs_per_s": "messages/s", "calls_per_s": "attempts/s", "mails_per_s": "mails/s",
         "call_p99_ms": "call to start, p99 ms", "return_p99_ms": "return to start, p99 ms",
         "client_server_us": "CPU µs a message"}
TITLES = {
    "embedded": "Embedded store, against job queues",
    "postgres": "On PostgreSQL, against job queues on the same server",
    "smtp": "Mail, against Postfix",
    "self": "Pombo alone",
    "pages": "What people look at",
}


def summary(workload, peer, figure, pairs):
    """One row: medians of both, and the median of the rounds' own ratios."""
    ours, theirs = [pair[0][figure] for pair in pairs], [pair[1][figure] for pair in pairs]
    ratios = [b / a if figure in LESS_IS_BETTER else a / b for a, b in zip(ours, theirs)]
    cpu = [statistics.median(line["client_server_us"] for line in side) for side in zip(*pairs)]
    return {
        "row": workload, "peer": peer, "figure": figure, "rounds": len(pairs),
        "pombo": round(statistics.median(ours), 2), "theirs": round(statistics.median(theirs), 2),
        "ratio": round(statistics.median(ratios), 2),
        "ratio_min": round(min(ratios), 2), "ratio_max": round(max(ratios), 2),
        "pombo_cpu_us": cpu[0], "their_cpu_us": cpu[1],
    }


def judged(part, rows, left_out=()):
    """Marks the best of the others in each workload, and says whether the ratio against it is what it should be. Where
    one of the others failed, nobody knows which is the best."""
    targets = RATIOS.get(part, {})
    for workload in {row["row"] for row in rows if "peer" in row}:
        same = [row for row in rows if row["row"] == workload and row["figure"] != "return_p99_ms"
                and row["peer"] not in DO_NOT_FLUSH]
        if not same:
            continue
        key = lambda row: row["theirs"]
        best = min(same, key=key) if same[0]["figure"] in LESS_IS_BETTER else max(same, key=key)
        absent = sorted({line["peer"] for line in left_out if line["row"] == workload} - DO_NOT_FLUSH)
        if absent:
            best["not_judged"] = f"{', '.join(absent)} failed"
            continue
        best["best"] = True
        if (target := targets.get(workload)) is not None:
            best["target"] = "below it" if best["figure"] in LESS_IS_BETTER else f"≥ {target}×"
            best["reached"] = best["ratio"] >= target
    return rows


def number(value):
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" if abs(value) >= 10 else f"{value:,.2f}"


def failure(part, line):
    """What failed and why, in a line."""
    what = [TITLES[part], *(line[name] for name in ("row", "peer", "store") if name in line)]
    return f"- {', '.join(what)}: {line['failed']}".replace("\n", "; ")


def verdict(row):
    if "not_judged" in row:
        return f"not judged: {row['not_judged']}"
    if "target" not in row:
        return ""
    return f"{row['target']}: {'reached' if row['reached'] else '**not reached**'}"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def ratios(rows):
    def cells(row):
        who = row["peer"]
        if row["peer"] in DO_NOT_FLUSH:
            who += " (no flush)"
        if row.get("best"):
            who = f"**{who}** (best)"
        ratio = f"{number(row['ratio'])} ({number(row['ratio_min'])} to {number(row['ratio_max'])})"
        cpu = f"{number(row['pombo_cpu_us'])} / {number(row['their_cpu_us'])}"
        return [row["row"], UNITS[row["figure"]], who, row["rounds"], number(row["pombo"]), number(row["theirs"]),
                ratio, cpu, verdict(row)]

    return table(["workload", "figure", "against", "rounds", "Pombo", "the other", "ratio (range)",
                  "CPU µs, Pombo / other", "target"], map(cells, rows))


def values(rows):
    def cells(row):
        spread = f"{number(row['min'])} to {number(row['max'])}" if row.get("rounds", 1) > 1 else ""
        return [row["row"], row["store"], row["figure"], row.get("rounds", 1), number(row["value"]), spread,
                verdict(row)]

    return table(["what", "store", "figure", "rounds", "value", "range", "target"], map(cells, rows))


def pages(rows):
    def cells(row):
        times = [f"{row[name]:.1f}" for name in ("first_ms", "p50_ms", "p99_ms", "max_ms")]
        return [row["store"], f"`{row['path']}`", *times, f"{row['bytes'] / 1000:.0f}", verdict(row)]

    return table(["store", "page", "first, ms", "median, ms", "p99, ms", "longest, ms", "KB", "target, median and p99"],
                 map(cells, rows))


def chapter(part, rows):
    """One part of the report."""
    tables = [make(some) for make, some in (
        (ratios, [row for row in rows if "peer" in row]),
        (values, [row for row in rows if "value" in row]),
        (pages, [row for row in rows if "path" in row]),
    ) if some]
    return f"## {TITLES[part]}\n\n" + "\n\n".join(tables or ["Nothing was measured."]) + "\n"


def missed(rows):
    """What was not reached, in a line each."""
    def line(row):
        value = row.get("ratio", row.get("value", row.get("p99_ms")))
        what = row.get("row", row.get("path"))
        return f"- {what}, {row.get('peer', row.get('store'))}: {number(value)}, target {row['target']}"

    return [line(row) for row in rows if row.get("reached") is False]
