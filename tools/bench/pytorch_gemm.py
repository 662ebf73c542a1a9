"""PyTorch's products for `oneflow bench --cases gemm`.

    python pytorch_gemm.py REQUEST.json ANSWER.json        exit code 3: this Python has no PyTorch

Of each product the best time of a[m,k] times b[k,n] as it lies, and of b as a linear layer holds it, [n,k].
"""
import json
import sys
import time

try:
    import torch
except ImportError:
    sys.exit(3)

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def best_seconds(work, seconds, repeats):
    work()
    times = []
    while len(times) < repeats or sum(times) < seconds:
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def product(name, seconds, repeats):
    kind, *sizes = name.split()
    m, n, k = map(int, sizes)
    a, b = torch.randn(m, k).to(DTYPES[kind]), torch.randn(k, n).to(DTYPES[kind])
    turned = b.t().contiguous()
    out = torch.empty(m, n, dtype=DTYPES[kind])
    ways = (lambda: torch.mm(a, b, out=out), lambda: torch.mm(a, turned.t(), out=out))
    return min(best_seconds(way, seconds / len(ways), repeats) for way in ways)


def main():
    with open(sys.argv[1]) as file:
        r = json.load(file)
    torch.set_num_threads(r["threads"])
    with torch.no_grad():
        seconds = {name: product(name, r["seconds"], r["repeats"]) for name in r["products"]}
    with open(sys.argv[2], "w") as file:
        json.dump({"title": f"PyTorch {torch.__version__}", "seconds": seconds}, file)


if __name__ == "__main__":
    main()
