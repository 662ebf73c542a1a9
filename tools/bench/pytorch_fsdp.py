"""A GPT trained by PyTorch on several processes over gloo, for `oneflow bench --cases zero`: its weights, gradients and
optimizer state in parts (FSDP2, fully_shard of every block and then of the rest) or as copies (DDP).

    python pytorch_fsdp.py REQUEST.json ANSWER.json      starts a process for each rank and waits for all

Each process has one thread, as each of ours has. Tokens are made; the head is the token table (tied). Exit code 3: this
Python has no PyTorch. The answer: the median seconds of a step, and the most memory that the processes held, added up.
"""
import statistics
import sys
import time

try:
    import torch
except ImportError:
    sys.exit(3)

import torch.nn.functional as F
from pytorch_peer import peak_bytes
from pytorch_ranks import run_ranks
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, context, width = x.shape
        parts = self.qkv(self.ln1(x)).view(batch, context, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(batch, context, width))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Gpt(nn.Module):
    def __init__(self, r):
        super().__init__()
        width = r["width"]
        self.wte, self.wpe = nn.Embedding(r["vocabulary"], width), nn.Embedding(r["context"], width)
        self.blocks = nn.ModuleList(Block(width, r["heads"]) for _ in range(r["layers"]))
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, r["vocabulary"], bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens, labels):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.ln_f(x)).flatten(0, 1), labels.flatten())


def make_model(r):
    if r["mode"] == "ddp":
        return nn.parallel.DistributedDataParallel(Gpt(r), gradient_as_bucket_view=True)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard  # not of every version

    mesh = init_device_mesh("cpu", (r["processes"],))
    with torch.device("meta"):
        model = Gpt(r)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    model.to_empty(device="cpu")
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.02)
    return model


def step_seconds(model, optimizer, tokens):
    """Of one step of training, clipped; the labels are the tokens behind."""
    begin = time.perf_counter()
    model(tokens[:, :-1], tokens[:, 1:]).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return time.perf_counter() - begin


def run_rank(r, rank):
    model = make_model(r)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, foreach=True)
    seconds = []
    for _ in range(r["warmup"] + r["steps"]):
        tokens = torch.randint(0, r["vocabulary"], (r["batch"], r["context"] + 1))
        seconds.append(step_seconds(model, optimizer, tokens))
    return {"seconds": statistics.median(seconds[r["warmup"]:]), "peak_bytes": peak_bytes()}


if __name__ == "__main__":
    run_ranks(__file__, run_rank, lambda r, told: {
        "title": f"PyTorch {torch.__version__} {r['mode']}",
        "seconds": told[0]["seconds"],
        "peak_bytes": sum(rank["peak_bytes"] for rank in told)})
