"""Reads a report back: report_page.py PAGE METRICS...: each run's curves are those of its metrics.jsonl."""
import json
import re
import sys

page = open(sys.argv[1], encoding="utf-8").read()
assert "http://" not in page.replace("http://www.w3.org/2000/svg", "") and "https://" not in page, "a link"
data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))
assert len(data["runs"]) == len(sys.argv) - 2
for run, path in zip(data["runs"], sys.argv[2:]):
    expected: dict[str, tuple[list[int], list[float]]] = {}
    for line in open(path, encoding="utf-8"):
        entry = json.loads(line)
        step = entry.pop("step")
        flat = {}
        for key, value in entry.items():
            flat.update({f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value})
        for key, value in flat.items():
            if isinstance(value, (int, float)):
                steps, values = expected.setdefault(key, ([], []))
                steps.append(step)
                values.append(value)
    assert run["curves"].keys() == expected.keys(), run["curves"].keys() ^ expected.keys()
    for key, (steps, values) in expected.items():
        got = run["curves"][key]
        assert got[0] == steps, key
        assert all(abs(a - b) <= 1e-8 * abs(b) for a, b in zip(got[1], values)), key
        assert abs(got[3] - values[-1]) <= 1e-8 * abs(values[-1]), key
        assert abs(got[2] - sum(values) / len(values)) <= 1e-8 * abs(got[2]) + 1e-300, key
    print(run["name"], run["about"].get("state"), run["step"])
