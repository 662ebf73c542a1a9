"""The engine's GPT in eager PyTorch, on given weights, batches and learning rates: what `oneflow bench` compares with.

    python pytorch_gpt.py REQUEST.json ANSWER.json        exit code 3: this Python has no PyTorch

Written as one would write it for speed: fused attention and optimizer where this PyTorch has them, linear layers that hold
[out, in] matrices, gradients set to None. Nothing here is compiled.
"""
import json
import resource
import struct
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit(3)


def read_safetensors(path):
    with open(path, "rb") as file:
        raw = bytearray(file.read())
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + length].decode())
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert entry["dtype"] == "F32", entry
        data = torch.frombuffer(raw, dtype=torch.float32, count=(end - begin) // 4, offset=8 + length + begin)
        tensors[name] = data.reshape(entry["shape"]).clone()
    return tensors


def parameters(weights):
    """Tables and vectors as they are; matrices of linear layers as F.linear wants them, [out, in]."""
    tables = ("wte/weight", "wpe/weight")
    return {
        name: (w.t().contiguous() if w.dim() == 2 and name not in tables else w).requires_grad_()
        for name, w in weights.items()
    }


def attention(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    time = q.shape[-2]
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    hidden = torch.ones(time, time, dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v


def gpt(p, tokens, layers, heads, dropout):
    def linear(name, x):
        return F.linear(x, p[name + "/weight"], p.get(name + "/bias"))

    def norm(name, x):
        return F.layer_norm(x, x.shape[-1:], p[name + "/weight"], p[name + "/bias"], 1e-5)

    def drop(x):
        return F.dropout(x, dropout) if dropout > 0 else x

    batch, length = tokens.shape
    x = drop(F.embedding(tokens, p["wte/weight"]) + p["wpe/weight"])
    for i in range(layers):
        h = f"h{i}/"
        y = norm(h + "ln1", x)
        q, k, v = (linear(h + "attn/" + n, y).view(batch, length, heads, -1).transpose(1, 2) for n in "qkv")
        y = attention(q, k, v).transpose(1, 2).reshape(batch, length, -1)
        x = x + drop(linear(h + "attn/o", y))
        y = linear(h + "mlp/down", F.gelu(linear(h + "mlp/up", norm(h + "ln2", x))))
        x = x + drop(y)
    x = norm("ln_f", x)
    return linear("head", x) if "head/weight" in p else F.linear(x, p["wte/weight"])


def make_optimizer(params, o):
    """Matrices are decayed, vectors are not. The fastest variant that this PyTorch offers on CPUs, and its name."""
    groups = [
        {"params": [p for p in params.values() if p.dim() >= 2], "weight_decay": o["weight_decay"]},
        {"params": [p for p in params.values() if p.dim() < 2], "weight_decay": 0.0},
    ]
    if o["kind"] == "sgd":
        return torch.optim.SGD(groups, lr=0.1, momentum=o["momentum"], nesterov=o["nesterov"]), "SGD"
    options = {"lr": 0.1, "betas": (o["beta1"], o["beta2"]), "eps": o["epsilon"]}
    for variant in ({"fused": True}, {"foreach": True}, {}):
        try:
            trial = [torch.zeros(2, requires_grad=True)]
            trial[0].grad = torch.zeros(2)
            torch.optim.AdamW(trial, **options, **variant).step()
            return torch.optim.AdamW(groups, **options, **variant), " ".join(variant) + " AdamW"
        except (RuntimeError, TypeError):
            continue
    raise RuntimeError("no variant of AdamW works")


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    with open(sys.argv[1]) as file:
        r = json.load(file)
    torch.set_num_threads(r["threads"])
    params = parameters(read_safetensors(r["weights"]))
    optimizer, optimizer_name = make_optimizer(params, r["optimizer"])
    with open(r["batches"], "rb") as file:
        raw = bytearray(file.read())
    total = r["warmup"] + r["steps"]
    batches = torch.frombuffer(raw, dtype=torch.uint8).reshape(total, 2, r["batch"], r["context"]).long()

    losses, step_seconds, cpu = [], [], 0.0
    for step in range(total):
        began, cpu_began = time.perf_counter(), cpu_seconds()
        for group in optimizer.param_groups:
            group["lr"] = r["learning_rates"][step]
        inputs, labels = batches[step]
        logits = gpt(params, inputs, r["layers"], r["heads"], r["dropout"])
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if r["clip_norm"] > 0:
            torch.nn.utils.clip_grad_norm_(list(params.values()), r["clip_norm"])
        optimizer.step()
        losses.append(loss.item())
        if step >= r["warmup"]:
            step_seconds.append(time.perf_counter() - began)
            cpu += cpu_seconds() - cpu_began
    title = f"PyTorch {torch.__version__} eager, {optimizer_name}"
    with open(sys.argv[2], "w") as file:
        json.dump({"title": title, "losses": losses, "step_seconds": step_seconds, "cpu_seconds": cpu / r["steps"]}, file)


if __name__ == "__main__":
    main()
