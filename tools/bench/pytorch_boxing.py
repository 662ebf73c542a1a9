"""torch.distributed's collectives on CPUs (gloo) for `oneflow bench --cases boxing`: as many processes as there are
ranks.

    python pytorch_boxing.py REQUEST.json ANSWER.json        exit code 3: this Python has no PyTorch

Of each way and size the seconds of one call, of many between two barriers; what arrives is compared with what was sent
first. A way that gloo does not have is told with its reason. Of four ranks the first two send to the last two, half of
the bytes each.
"""
import json
import os
import sys
import tempfile
import time

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
except ImportError:
    sys.exit(3)


def operands(way, count, rank, ranks):
    """What this rank gives and a tensor for what it gets; then what it must get."""
    whole = torch.arange(count, dtype=torch.float32) % 1021 + 1
    part = count // ranks
    mine = slice(rank * part, (rank + 1) * part)
    if way == "all-reduce":
        return whole * (rank + 1), None, whole * (ranks * (ranks + 1) // 2)
    if way == "all-gather":
        return whole[mine].clone(), torch.empty(count), whole
    if way == "reduce-scatter":
        return whole * (rank + 1), torch.empty(part), whole[mine] * (ranks * (ranks + 1) // 2)
    if way == "all-to-all":
        return whole[mine].clone(), torch.empty(part), whole.view(ranks, ranks, -1)[:, rank].reshape(-1)
    half = count // 2
    piece = whole[(rank % 2) * half : (rank % 2 + 1) * half]
    return piece.clone(), torch.empty(half), piece


def call(way, given, got, rank, ranks):
    if way == "all-reduce":
        dist.all_reduce(given)
    elif way == "all-gather":
        dist.all_gather_into_tensor(got, given)
    elif way == "reduce-scatter":
        dist.reduce_scatter_tensor(got, given)
    elif way == "all-to-all":
        dist.all_to_all_single(got, given)
    elif rank < ranks // 2:
        dist.send(given, rank + ranks // 2)
    else:
        dist.recv(got, rank - ranks // 2)


def check(way, given, got, wanted, rank, ranks):
    call(way, given, got, rank, ranks)
    if way == "send" and rank < ranks // 2:
        return
    if not torch.equal(given if way == "all-reduce" else got, wanted):
        raise AssertionError(f"{way}: other values arrived")


def seconds_of(way, num_bytes, calls, rank, ranks):
    given, got, wanted = operands(way, num_bytes // 4, rank, ranks)
    check(way, given, got, wanted, rank, ranks)
    call(way, given, got, rank, ranks)
    dist.barrier()  # sums of sums come to infinity, which is added as fast as any number
    begin = time.perf_counter()
    for _ in range(calls):
        call(way, given, got, rank, ranks)
    dist.barrier()
    return (time.perf_counter() - begin) / calls


def work(rank, request, answer, meeting):
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    ranks = request["ranks"]
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    seconds, cannot = {}, {}
    for row in request["rows"]:
        way, num_bytes, calls = row["way"], row["bytes"], row["calls"]
        if way in cannot:
            continue
        try:
            seconds[f"{way} {num_bytes}"] = seconds_of(way, num_bytes, calls, rank, ranks)
        except (RuntimeError, NotImplementedError) as error:
            cannot[way] = str(error).splitlines()[0]
    if rank == 0:
        with open(answer, "w") as file:
            json.dump({"title": f"PyTorch {torch.__version__}, gloo", "seconds": seconds, "cannot": cannot}, file)
    dist.destroy_process_group()


def main():
    with open(sys.argv[1]) as file:
        request = json.load(file)
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (request, sys.argv[2], os.path.join(folder, "meeting")), nprocs=request["ranks"])


if __name__ == "__main__":
    main()
