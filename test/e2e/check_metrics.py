"""Reads what a process tells Prometheus as Prometheus does, and holds its names against the rules that promtool knows.

    python3 test/e2e/check_metrics.py < METRICS        prints the values as JSON: {"name{label=\\"value\\"}": 1.0, ...}
"""
import json
import re
import sys

from prometheus_client.parser import text_string_to_metric_families

UNITS = ("_seconds", "_bytes", "_ratio", "_total")
KINDS = {"counter", "gauge", "histogram"}
wrong, values, families = [], {}, set()
for family in text_string_to_metric_families(sys.stdin.read()):
    name = family.name + ("_total" if family.type == "counter" else "")
    if family.name in families:
        wrong.append(f"{name} comes twice")
    families.add(family.name)
    if family.type not in KINDS:
        wrong.append(f"{name} is of kind {family.type}")
    if not family.documentation:
        wrong.append(f"{name} has no help")
    if not re.fullmatch(r"oneflow_[a-z0-9_]+", name):
        wrong.append(f"{name} is no name of ours")
    if family.type == "gauge" and name.endswith(("_total", "_count", "_sum", "_bucket")):
        wrong.append(f"{name} is a gauge and ends as what it is not")
    if re.search(r"_(milliseconds|ms|minutes|kilobytes|mb|percent)\b", name):
        wrong.append(f"{name} has no base unit")
    if family.type == "histogram" and not name.endswith(UNITS):
        wrong.append(f"{name} has no unit")
    for sample in family.samples:
        key = sample.name + ("{" + ",".join(f'{k}="{v}"' for k, v in sorted(sample.labels.items())) + "}"
                             if sample.labels else "")
        if key in values:
            wrong.append(f"{key} comes twice")
        values[key] = sample.value
if wrong:
    sys.exit("\n".join(wrong))
print(json.dumps(values))
