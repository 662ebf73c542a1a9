"""The slowest kernels of a training step, by NVIDIA's ncu."""

import csv

from gpu import programs
from gpu.runner import Fail, Overdue

# What ncu measures of a kernel.
DURATION = "gpu__time_duration.sum"
RATES = {
    "dram": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
}


def profile(c, oneflow, text, on):
    """Kernels of one step of a GPT of one layer as wide as GPT-2, by how long they take."""
    ncu = programs.needed_tool(c, "ncu", "; what steps of contests show of their kernels stands")
    job, log = c.temporary / "profiled.pbtxt", c.temporary / "ncu.csv"
    job.write_text(f"""
model {{ gpt {{ layers: 1 width: 768 heads: 12 context: 1024 vocabulary: 50257 tied_embedding: true }} }}
data {{ text {{ path: "{text}" }} }}
train {{
  steps: 1 batch_size: 16
  optimizer {{ adamw {{ weight_decay: 0.1 }} clip_norm: 1 }} schedule {{ learning_rate: 1e-3 }}
}}
precision {{ compute: BF16 }}
""")
    arguments = [
        ncu,
        "--clock-control",
        "none",
        "--target-processes",
        "all",
        "--csv",
        "--page",
        "raw",
        "--print-units",
        "base",
        "--log-file",
        log,
        "--metrics",
        ",".join([DURATION, *RATES.values()]),
        oneflow,
        "run",
        job,
        *on,
        "--set",
        "uncaptured=true",
        "--lost-after",
        120,
    ]
    try:
        done = c.command(arguments)
    except Overdue:
        done = None
    kernels = kernels_of(log.read_text(errors="replace")) if log.exists() else []
    if not kernels:
        raise Fail(f"ncu told of no kernel: {done.last() if done else 'it was not over in time'}")
    total = sum(k["ns"] for k in kernels)
    rows = [f"{'us':>10} {'calls':>6} {'share':>6} {'dram %':>7} {'sm %':>6}  kernel"]
    for k in kernels[:30]:
        rows.append(
            f"{1e-3 * k['ns']:10.1f} {k['calls']:6d} {100 * k['ns'] / total:5.1f}% {k['dram']:7.1f} {k['sm']:6.1f}"
            f"  {k['name'][:110]}"
        )
    c.show("\n".join(rows))
    c.figures["kernels"] = kernels[:30]
    return (
        f"{len(kernels)} kernels, {1e-6 * total:.2f} ms"
        + ("" if done else " until its time was up")
        + f"; the slowest: {kernels[0]['name'][:60]} {100 * kernels[0]['ns'] / total:.0f}%"
    )


def kernels_of(text):
    """The kernels that ncu's raw page tells of, by name, the slowest first; of rates the means over their time."""
    kernels = {}
    for row in csv.DictReader(line for line in text.splitlines() if line.startswith('"')):
        ns = number(row.get(DURATION))
        if ns is None:
            continue  # the line of units
        one = kernels.setdefault(
            row["Kernel Name"], {"name": row["Kernel Name"], "ns": 0.0, "calls": 0, "dram": 0.0, "sm": 0.0}
        )
        for key, column in RATES.items():
            one[key] = (one[key] * one["ns"] + (number(row.get(column)) or 0.0) * ns) / max(one["ns"] + ns, 1e-9)
        one["ns"] += ns
        one["calls"] += 1
    return sorted(kernels.values(), key=lambda one: -one["ns"])


def number(text):
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None
