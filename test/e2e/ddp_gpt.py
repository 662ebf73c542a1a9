"""A rank of two of DistributedDataParallel over gloo, for links_test.cc and coded_links_test.cc: the GPT that they
train, one thread, on made tokens.

    python ddp_gpt.py RANK ADDRESS ANSWER        rank 0 writes the median seconds of a step there
        --sizes LAYERS WIDTH HEADS CONTEXT BATCH    of the model, and the samples of a rank
        --steps N
        --powersgd RANK                          gradients as thin factors, by PyTorch's own hook, from step 2 on

Gradients go in DDP's buckets of 25 MB while backward goes on, straight out of them (gradient_as_bucket_view).
"""
import argparse
import os
import statistics
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/bench"))
from pytorch_fsdp import Block, step_seconds  # noqa: E402

VOCABULARY, WARMUP = 256, 2


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, context):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, width), nn.Parameter(torch.zeros(context, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY)

    def forward(self, tokens, labels):
        x = self.wte(tokens) + self.wpe
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.ln_f(x)).flatten(0, 1), labels.flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rank", type=int)
    parser.add_argument("address")
    parser.add_argument("answer")
    parser.add_argument("--sizes", type=int, nargs=5, default=[6, 512, 8, 256, 4])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--powersgd", type=int)
    arguments = parser.parse_args()
    rank, address = arguments.rank, arguments.address
    layers, width, heads, context, batch = arguments.sizes
    os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    dist.init_process_group("gloo", init_method=f"tcp://{address}:29500", rank=rank, world_size=2)
    model = nn.parallel.DistributedDataParallel(Gpt(layers, width, heads, context), gradient_as_bucket_view=True)
    if arguments.powersgd:
        state = powerSGD_hook.PowerSGDState(process_group=None, matrix_approximation_rank=arguments.powersgd,
                                            start_powerSGD_iter=WARMUP)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, fused=True)
    tokens = torch.randint(0, VOCABULARY, (batch, context + 1))
    seconds = [step_seconds(model, optimizer, tokens) for _ in range(arguments.steps)]
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        with open(arguments.answer, "w") as file:
            file.write(str(statistics.median(seconds[WARMUP:])))


if __name__ == "__main__":
    main()
