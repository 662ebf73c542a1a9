"""The project's models in PyTorch, and its data order in NumPy: what the engine is compared with.

Weights carry the engine's names and layouts: linear weights are [in, out], applied as x @ w + b.
"""
import gzip
import math

import numpy as np
import torch
import torch.nn.functional as F

_U32 = np.uint64(0xFFFFFFFF)


def philox(key, c0, c1, c2, c3):
    """Philox4x32-10 of arrays of counters (uint64 holding 32 bits) under one 64-bit key; four arrays of 32 bits."""
    c0, c1, c2, c3 = (np.asarray(c, np.uint64) & _U32 for c in np.broadcast_arrays(c0, c1, c2, c3))
    k0, k1 = np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> np.uint64(32)) ^ c1 ^ k0, p1 & _U32, (p0 >> np.uint64(32)) ^ c3 ^ k1, p0 & _U32
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & _U32, (k1 + np.uint64(0xBB67AE85)) & _U32
    return c0, c1, c2, c3


def random_key(seed, fingerprint):
    """splitmix64 of the mix of seed and fingerprint."""
    mask = (1 << 64) - 1
    z = (seed * 0x9E3779B97F4A7C15 + fingerprint) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def permuted_index(key, n, position):
    """The position-th element of the pseudo-random permutation of range(n) that `key` chooses."""
    half = 1
    while half < 31 and (1 << (2 * half)) < n:
        half += 1
    mask = (1 << half) - 1
    while True:
        left, right = position >> half, position & mask
        for r in range(4):
            m = philox(key, right, 0, r, 0)
            left, right = right, left ^ (((int(m[1]) << 32) | int(m[0])) & mask)
        position = (left << half) | right
        if position < n:
            return position


class TextBatches:
    """Training batches of a text file, in the engine's order."""

    def __init__(self, path, validation_fraction, seed, batch, context):
        data = np.fromfile(path, np.uint8)
        self.train = data[: len(data) - math.floor(len(data) * validation_fraction)]
        self.seed, self.batch, self.context = seed, batch, context

    def __call__(self, step):
        samples = np.arange(step * self.batch, (step + 1) * self.batch, dtype=np.uint64)
        x = philox(self.seed, samples, samples >> np.uint64(32), 0, 1)
        offsets = ((x[1] << np.uint64(32)) | x[0]) % np.uint64(len(self.train) - self.context)
        windows = np.stack([self.train[int(o): int(o) + self.context + 1] for o in offsets]).astype(np.int64)
        return torch.from_numpy(windows[:, :-1]), torch.from_numpy(windows[:, 1:])


class ImageBatches:
    """Training batches of IDX files, in the engine's order."""

    def __init__(self, images, labels, seed, batch):
        raw = gzip.open(images).read()
        count, height, width = np.frombuffer(raw, ">u4", 3, 4)
        self.images = np.frombuffer(raw, np.uint8, offset=16).reshape(count, 1, height, width)
        self.labels = np.frombuffer(gzip.open(labels).read(), np.uint8, offset=8)
        self.seed, self.batch = seed, batch

    def __call__(self, step):
        n = len(self.labels)
        rows = []
        for sample in range(step * self.batch, (step + 1) * self.batch):
            rows.append(permuted_index(random_key(self.seed, sample // n), n, sample % n))
        images = self.images[rows].astype(np.float32) * np.float32(2 / 255) - 1
        return torch.from_numpy(images), torch.from_numpy(self.labels[rows].astype(np.int64))


def linear(w, name, x):
    y = x @ w[name + "/weight"]
    return y + w[name + "/bias"] if name + "/bias" in w else y


def layer_norm(w, name, x):
    return F.layer_norm(x, x.shape[-1:], w[name + "/weight"], w[name + "/bias"], 1e-5)


def gpt(w, tokens, layers, heads):
    batch, time = tokens.shape
    x = w["wte/weight"][tokens] + w["wpe/weight"]
    for i in range(layers):
        h = f"h{i}/"
        y = layer_norm(w, h + "ln1", x)
        q, k, v = (linear(w, h + "attn/" + n, y).view(batch, time, heads, -1).transpose(1, 2) for n in "qkv")
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        mask = torch.ones(time, time, dtype=torch.bool).tril()
        mixed = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        x = x + linear(w, h + "attn/o", mixed.transpose(1, 2).reshape(batch, time, -1))
        y = F.gelu(linear(w, h + "mlp/up", layer_norm(w, h + "ln2", x)))
        x = x + linear(w, h + "mlp/down", y)
    x = layer_norm(w, "ln_f", x)
    return linear(w, "head", x) if "head/weight" in w else x @ w["wte/weight"].t()


def convnet(w, images):
    x = images
    i = 0
    while f"conv{i}/weight" in w:
        x = F.max_pool2d(F.relu(F.conv2d(x, w[f"conv{i}/weight"], w[f"conv{i}/bias"], padding=2)), 2)
        i += 1
    return linear(w, "head", F.relu(linear(w, "fc", x.flatten(1))))


def mlp(w, images):
    x = images.flatten(1)
    i = 0
    while f"fc{i}/weight" in w:
        x = F.relu(linear(w, f"fc{i}", x))
        i += 1
    return linear(w, "head", x)


def train(weights, model, batches, steps, optimizer, clip_norm, schedule):
    """Trains in place; returns the losses, and the gradients and the gradient norm of the first step."""
    params = {name: value.clone().requires_grad_() for name, value in weights.items()}
    opt = optimizer(params)
    losses, first_gradients = [], None
    for step in range(steps):
        for group in opt.param_groups:
            group["lr"] = schedule(step)
        inputs, labels = batches(step)
        logits = model(params, inputs)
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))
        opt.zero_grad()
        loss.backward()
        if first_gradients is None:
            first_gradients = {name: p.grad.clone() for name, p in params.items()}
        if clip_norm > 0:
            torch.nn.utils.clip_grad_norm_(list(params.values()), clip_norm)
        opt.step()
        losses.append(loss.item())
    return losses, first_gradients, {name: p.detach() for name, p in params.items()}


def decayed(params, decay):
    """Parameter groups as the engine decays them: matrices and kernels, not vectors."""
    return [
        {"params": [p for p in params.values() if p.dim() >= 2], "weight_decay": decay},
        {"params": [p for p in params.values() if p.dim() < 2], "weight_decay": 0.0},
    ]


def cosine(base, warmup, total, min_ratio):
    def at(step):
        if step < warmup:
            return base * (step + 1) / warmup
        done = min(1.0, (step - warmup) / max(1, total - warmup))
        return base * (min_ratio + (1 - min_ratio) * 0.5 * (1 + math.cos(math.pi * done)))

    return at
