"""What PyTorch's peers of several processes share: a process for each rank, with one thread, over gloo."""
import json
import os
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist


def run_ranks(script, run_rank, answer):
    """With REQUEST ANSWER as arguments: runs `script` once more for each of the request's processes, and writes
    answer(request, what each rank told). Of such a process: joins the others and writes run_rank(request, rank)."""
    with open(sys.argv[1]) as file:
        r = json.load(file)
    if len(sys.argv) > 3:
        rank = int(sys.argv[3])
        torch.set_num_threads(1)
        torch.manual_seed(rank)
        dist.init_process_group("gloo", init_method=f"file://{r['store']}", rank=rank, world_size=r["processes"])
        told = run_rank(r, rank)
        dist.barrier()
        dist.destroy_process_group()
        with open(sys.argv[2], "w") as file:
            json.dump(told, file)
        return
    with tempfile.TemporaryDirectory() as folder:
        r["store"] = os.path.join(folder, "store")
        request = os.path.join(folder, "request.json")
        with open(request, "w") as file:
            json.dump(r, file)
        answers = [os.path.join(folder, f"{rank}.json") for rank in range(r["processes"])]
        ranks = [subprocess.Popen([sys.executable, script, request, answers[rank], str(rank)],
                                  env={**os.environ, "OMP_NUM_THREADS": "1"}) for rank in range(r["processes"])]
        codes = [rank.wait() for rank in ranks]
        if any(codes):
            sys.exit(f"ranks ended with {codes}")
        told = []
        for path in answers:
            with open(path) as file:
                told.append(json.load(file))
    with open(sys.argv[2], "w") as file:
        json.dump(answer(r, told), file)
