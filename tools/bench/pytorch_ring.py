"""Causal attention over a sample whose tokens lie on several processes, by PyTorch's ring attention over gloo, for
`oneflow bench --cases context`.

    python pytorch_ring.py REQUEST.json ANSWER.json      starts a process for each rank and waits for all

PyTorch's context_parallel knows no kernel for CPUs; its ring is called with that kernel by hand, balanced, each rank
with a chunk from the front and one from the back. Each process has one thread. Exit code 3: this Python has no PyTorch.
The answer: the median seconds of attention and its gradient.
"""
import statistics
import sys
import time

try:
    import torch
except ImportError:
    sys.exit(3)

import torch.distributed as dist
from pytorch_ranks import run_ranks
from torch.distributed.tensor.experimental._context_parallel import _attention as ring

aten = torch.ops.aten
TOKENS = 2  # the dimension of [batch, heads, tokens, columns]


def step_seconds(group, q, k, v, dout):
    begin = time.perf_counter()
    out, lse = ring._templated_ring_attention(group, TOKENS, aten._scaled_dot_product_flash_attention_for_cpu, query=q,
                                              key=k, value=v, is_causal=True, dropout_p=0.0)[:2]
    ring._templated_ring_attention_backward(group, TOKENS,
                                            aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
                                            grad_out=dout, grad_out_name="grad_out", query=q, key=k, value=v, out=out,
                                            logsumexp=lse, is_causal=True, dropout_p=0.0)
    return time.perf_counter() - begin


def run_rank(r, rank):
    ring.set_rotate_method(r["rotation"])
    group = dist.group.WORLD
    shape = (1, r["heads"], r["tokens"] // r["processes"], r["width"])
    q, k, v, dout = (torch.randn(shape) for _ in range(4))
    seconds = []
    for _ in range(r["warmup"] + r["steps"]):
        dist.barrier()
        seconds.append(step_seconds(group, q, k, v, dout))
    return {"seconds": statistics.median(seconds[r["warmup"]:])}


if __name__ == "__main__":
    run_ranks(__file__, run_rank, lambda r, told: {
        "title": f"PyTorch {torch.__version__}, ring by {r['rotation']}",
        "seconds": max(rank["seconds"] for rank in told)})
