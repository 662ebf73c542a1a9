"""A model of `oneflow bench` in PyTorch, on given weights, batches and learning rates: what the bench compares with.

    python pytorch_peer.py REQUEST.json ANSWER.json

Exit code 3: this Python has no PyTorch; 4: it cannot run in the mode asked for, ANSWER.json says why.

Modes: "eager", "compile" (torch.compile of loss and gradients), "compile-layers" (of a layer, for models of many that
are alike); behind them "-channels-last", for models of images. Precision "bf16" is autocast over f32 weights; "f32" is
f32 on a GPU too, without TF32. A step is forward, backward, clipping, a fused optimizer, and gradients set to None.

On a GPU nobody waits for a step: the losses are read when the last is done, and a step takes the time of all divided by
their number.
"""
import json
import resource
import sys
import time

try:
    import torch
except ImportError:
    sys.exit(3)

from pytorch_models import MODELS, read_safetensors

CANNOT = 4


class Cannot(Exception):
    pass


def make_optimizer(params, o, device):
    """Matrices are decayed, vectors are not. The fastest variant that this PyTorch offers on the device, and its
    name."""
    groups = [
        {"params": [p for p in params.values() if p.dim() >= 2], "weight_decay": o["weight_decay"]},
        {"params": [p for p in params.values() if p.dim() < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if o["kind"] == "sgd":
        kind, name, options = torch.optim.SGD, "SGD", {"momentum": o["momentum"], "nesterov": o["nesterov"]}
    else:
        kind, name, options = torch.optim.AdamW, "AdamW", {"betas": (o["beta1"], o["beta2"]), "eps": o["epsilon"]}
    for variant in ({"fused": True}, {"foreach": True}, {}):
        try:
            trial = [torch.zeros(2, requires_grad=True, device=device)]
            trial[0].grad = torch.zeros(2, device=device)
            kind(trial, lr=0.1, **options, **variant).step()
            return kind(groups, lr=0.1, **options, **variant), " ".join([*variant, name])
        except (RuntimeError, TypeError):
            continue
    raise RuntimeError(f"no variant of {name} works")


def loss_function(model, r):
    def loss(params, *batch):
        if r["precision"] == "f32":
            return model.loss(params, *batch)
        with torch.autocast(r["device"], dtype=torch.bfloat16):
            return model.loss(params, *batch)

    if r["mode"].startswith(("eager", "compile-layers")):
        return loss
    return torch.compile(loss, dynamic=False)


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak_bytes():
    """Of this process alone: what getrusage says may be of the one that forked it."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


class Training:
    def __init__(self, r):
        self.r = r
        device = r["device"]
        if device == "cuda" and not torch.cuda.is_available():
            raise Cannot(f"PyTorch {torch.__version__} finds no GPU")
        if r["mode"].startswith("compile") and not hasattr(torch, "compile"):
            raise Cannot(f"PyTorch {torch.__version__} has no torch.compile")
        torch.backends.cudnn.allow_tf32 = False  # unlike that of products, it is on by default
        model = MODELS[r["model"]](r)
        self.loss = loss_function(model, r)
        self.params = {n: w.requires_grad_() for n, w in model.weights(read_safetensors(r["weights"], device)).items()}
        self.optimizer, self.optimizer_name = make_optimizer(self.params, r["optimizer"], device)
        with open(r["batches"], "rb") as file:
            batches = model.read(bytearray(file.read()), r["warmup"] + r["steps"])
        self.batches = [tuple(x.to(device) for x in batch) for batch in batches]

    def step(self, step):
        for group in self.optimizer.param_groups:
            group["lr"] = self.r["learning_rates"][step]
        loss = self.loss(self.params, *self.batches[step])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self.r["clip_norm"] > 0:
            torch.nn.utils.clip_grad_norm_(list(self.params.values()), self.r["clip_norm"])
        self.optimizer.step()
        return loss.detach() if self.r["device"] == "cuda" else loss.item()

    def first_step(self):
        if self.r["mode"].startswith("eager"):
            return self.step(0)
        try:
            return self.step(0)
        except Exception as error:  # of whatever kind: no compiler, an op that this version cannot compile
            said = str(error).strip().splitlines()[0]
            raise Cannot(f"torch.compile failed: {type(error).__name__}: {said}") from error

    def run(self):
        losses, seconds, cpu, peak = self.on_cuda() if self.r["device"] == "cuda" else self.on_cpu()
        where = f", {torch.cuda.get_device_name()}" if self.r["device"] == "cuda" else ""
        return {
            "title": f"PyTorch {torch.__version__} {self.r['mode']}, {self.optimizer_name}{where}",
            "losses": losses,
            "step_seconds": seconds,
            "cpu_seconds": cpu,
            "peak_bytes": peak,
        }

    def on_cuda(self):
        warmup, steps = self.r["warmup"], self.r["steps"]
        losses = [self.first_step()]
        losses += [self.step(step) for step in range(1, warmup)]
        torch.cuda.synchronize()
        began, cpu_began = time.perf_counter(), cpu_seconds()
        losses += [self.step(step) for step in range(warmup, warmup + steps)]
        torch.cuda.synchronize()
        seconds, cpu = (time.perf_counter() - began) / steps, (cpu_seconds() - cpu_began) / steps
        return torch.stack(losses).tolist(), [seconds], cpu, torch.cuda.max_memory_allocated()

    def on_cpu(self):
        warmup = self.r["warmup"]
        losses, seconds, cpu = [self.first_step()], [], []
        for step in range(1, warmup + self.r["steps"]):
            began, cpu_began = time.perf_counter(), cpu_seconds()
            losses.append(self.step(step))
            seconds.append(time.perf_counter() - began)
            cpu.append(cpu_seconds() - cpu_began)
        return losses, seconds[warmup - 1 :], sum(cpu[warmup - 1 :]) / self.r["steps"], peak_bytes()


def main():
    with open(sys.argv[1]) as file:
        r = json.load(file)
    torch.set_num_threads(r["threads"])
    code = 0
    try:
        answer = Training(r).run()
    except Cannot as reason:
        answer, code = {"reason": str(reason)}, CANNOT
    with open(sys.argv[2], "w") as file:
        json.dump(answer, file)
    return code


if __name__ == "__main__":
    sys.exit(main())
