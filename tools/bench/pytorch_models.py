"""The models of `oneflow bench` in PyTorch, as one would write them for speed: a function from weights and a batch to a
loss.

Weights come by the engine's names. What a model wants otherwise (linear layers as [out, in], queries, keys and values
as one product) it makes once, before the first step.
"""
import json
import mmap
import struct

import torch
import torch.nn.functional as F


def read_safetensors(path, device):
    """By name, on the device; f32 as they are in the file."""
    with open(path, "rb") as file:
        raw = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + length].decode())
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert entry["dtype"] == "F32", entry
        data = torch.frombuffer(raw, dtype=torch.float32, count=(end - begin) // 4, offset=8 + length + begin)
        tensors[name] = data.reshape(entry["shape"]).to(device, copy=True)
    return tensors


def join_qkv(weights):
    """One product instead of three: "attn/q", "attn/k" and "attn/v" become "attn/qkv"."""
    for name in [n for n in weights if n.endswith("attn/q/weight")]:
        stem = name[: -len("q/weight")]
        for part in ("weight", "bias"):
            parts = [weights.pop(f"{stem}{n}/{part}") for n in "qkv" if f"{stem}{n}/{part}" in weights]
            if parts:
                weights[f"{stem}qkv/{part}"] = torch.cat(parts, dim=-1)
    return weights


def linear_weights(weights, tables=()):
    """Matrices as F.linear wants them, [out, in]; tables and all else as they are."""
    return {n: w.t().contiguous() if w.dim() == 2 and n not in tables else w for n, w in weights.items()}


def linear(p, name, x):
    return F.linear(x, p[name + "/weight"], p.get(name + "/bias"))


def norm(p, name, x, epsilon=1e-5):
    return F.layer_norm(x, x.shape[-1:], p[name + "/weight"], p[name + "/bias"], epsilon)


def attention(q, k, v, causal):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        time = q.shape[-2]
        scores = scores.masked_fill(torch.ones(time, time, dtype=torch.bool).triu(1), float("-inf"))
    return scores.softmax(-1) @ v


def self_attention(p, name, x, heads, causal):
    batch, length, width = x.shape
    q, k, v = linear(p, name + "/qkv", x).view(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4).unbind(0)
    mixed = attention(q, k, v, causal).transpose(1, 2).reshape(batch, length, width)
    return linear(p, name + "/o", mixed)


def mlp(p, name, x):
    return linear(p, name + "/down", F.gelu(linear(p, name + "/up", x)))


LAYER = [f"{part}/{kind}" for part in ("ln1", "attn/qkv", "attn/o", "ln2", "mlp/up", "mlp/down")
         for kind in ("weight", "bias")]


def drop(x, rate):
    return F.dropout(x, rate) if rate > 0 else x


def block(x, p, heads, dropout):
    """A layer of a GPT."""
    x = x + drop(self_attention(p, "attn", norm(p, "ln1", x), heads, causal=True), dropout)
    return x + drop(mlp(p, "mlp", norm(p, "ln2", x)), dropout)


class Gpt:
    tables = ("wte/weight", "wpe/weight")

    def __init__(self, request):
        self.layers, self.heads, self.dropout = request["layers"], request["heads"], request["dropout"]
        self.batch_shape = (2, request["batch"], request["context"])
        self.block = block
        if request["mode"] == "compile-layers":
            self.block = torch.compile(block, dynamic=False)

    def weights(self, weights):
        return linear_weights(join_qkv(weights), self.tables)

    def read(self, raw, steps):
        """Of every step tokens and labels."""
        tokens = torch.frombuffer(raw, dtype=torch.uint8).reshape(steps, *self.batch_shape).long()
        return [(one[0].contiguous(), one[1].contiguous()) for one in tokens]

    def loss(self, p, tokens, labels):
        x = drop(F.embedding(tokens, p["wte/weight"]) + p["wpe/weight"], self.dropout)
        for i in range(self.layers):
            # By names that all layers have, so that what is compiled for one is for all.
            x = self.block(x, {part: p[f"h{i}/{part}"] for part in LAYER}, self.heads, self.dropout)
        x = norm(p, "ln_f", x)
        logits = linear(p, "head", x) if "head/weight" in p else F.linear(x, p["wte/weight"])
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


class Llama(Gpt):
    """Grouped heads, rotary positions, RMS norms and gated MLPs; gate and up are one product."""
    tables = ("wte/weight",)

    def __init__(self, request):
        super().__init__({**request, "dropout": 0.0})
        self.kv_heads = request["kv_heads"] or self.heads
        self.epsilon, self.theta = request["epsilon"], request["rope_theta"]
        self.turns = None

    def weights(self, weights):
        for name in [n for n in weights if n.endswith("mlp/gate/weight")]:
            stem = name[: -len("gate/weight")]
            weights[stem + "gate_up/weight"] = torch.cat([weights.pop(f"{stem}{n}/weight") for n in ("gate", "up")], -1)
        return super().weights(weights)

    def norm(self, p, name, x):
        return F.rms_norm(x, x.shape[-1:], p[name + "/weight"].to(x.dtype), self.epsilon)

    def turned(self, x):
        """x [batch, heads, time, width]; cos and sin are made once."""
        half = x.shape[-1] // 2
        if self.turns is None:
            inverse = self.theta ** (-torch.arange(half, device=x.device) / half)
            angles = torch.arange(x.shape[-2], device=x.device)[:, None] * inverse
            self.turns = angles.cos(), angles.sin()
        cos, sin = (turn.to(x.dtype) for turn in self.turns)
        x0, x1 = x[..., :half], x[..., half:]
        return torch.cat((x0 * cos - x1 * sin, x1 * cos + x0 * sin), -1)

    def attended(self, p, name, x):
        batch, time, width = x.shape
        size = width // self.heads
        q, k, v = linear(p, name + "/qkv", x).split([width] + 2 * [self.kv_heads * size], -1)
        q, k, v = (y.view(batch, time, -1, size).transpose(1, 2) for y in (q, k, v))
        mixed = F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True,
                                               enable_gqa=self.kv_heads != self.heads)
        return linear(p, name + "/o", mixed.transpose(1, 2).reshape(batch, time, width))

    def loss(self, p, tokens, labels):
        x = F.embedding(tokens, p["wte/weight"])
        for i in range(self.layers):
            h = f"h{i}/"
            x = x + self.attended(p, h + "attn", self.norm(p, h + "norm1", x))
            gate, up = linear(p, h + "mlp/gate_up", self.norm(p, h + "norm2", x)).chunk(2, -1)
            x = x + linear(p, h + "mlp/down", F.silu(gate) * up)
        x = self.norm(p, "norm_f", x)
        logits = linear(p, "head", x) if "head/weight" in p else F.linear(x, p["wte/weight"])
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


class Bert(Gpt):
    tables = ("wte/weight", "wpe/weight", "types/weight")

    def __init__(self, request):
        super().__init__(request)
        self.epsilon = request["epsilon"]

    def loss(self, p, tokens, labels):
        x = F.embedding(tokens, p["wte/weight"]) + p["wpe/weight"] + p["types/weight"][0]
        x = norm(p, "ln", x, self.epsilon)
        for i in range(self.layers):
            h = f"h{i}/"
            x = norm(p, h + "ln1", x + self_attention(p, h + "attn", x, self.heads, causal=False), self.epsilon)
            x = norm(p, h + "ln2", x + mlp(p, h + "mlp", x), self.epsilon)
        x = norm(p, "transform_ln", F.gelu(linear(p, "transform", x)), self.epsilon)
        logits = F.linear(x, p["wte/weight"], p["head/bias"])
        return F.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())


def read_images(raw, steps, batch, *dims):
    """Of every step images and labels, which files have as f32 and i32."""
    pixels = torch.Size(dims).numel() * batch
    words = torch.frombuffer(raw, dtype=torch.float32).reshape(steps, pixels + batch)
    images = words[:, :pixels].reshape(steps, batch, *dims)
    labels = words[:, pixels:].contiguous().view(torch.int32).long()
    return [(images[step].clone(), labels[step]) for step in range(steps)]


class BertLayer:
    def __init__(self, request):
        self.heads = request["heads"]
        self.dims = (request["batch"], 2, request["tokens"], request["width"])

    def weights(self, weights):
        return linear_weights(join_qkv(weights))

    def read(self, raw, steps):
        return [(x[:, 0].contiguous(), x[:, 1].contiguous()) for x, _ in read_images(raw, steps, *self.dims)]

    def loss(self, p, x, target):
        y = norm(p, "ln1", x + self_attention(p, "attn", x, self.heads, causal=False))
        y = norm(p, "ln2", y + mlp(p, "mlp", y))
        return F.mse_loss(y.float(), target)


class ResNet:
    def __init__(self, request):
        self.blocks = request["blocks"]
        self.dims = (request["batch"], 3, request["side"], request["side"])
        self.layout = torch.channels_last if request["mode"].endswith("channels-last") else torch.contiguous_format
        self.running = {}

    def weights(self, weights):
        for name in [n for n in weights if n.endswith("norm/weight")]:
            stem = name[: -len("weight")]
            self.running[name] = weights.pop(stem + "running_mean"), weights.pop(stem + "running_var")
        weights = linear_weights(weights)
        return {n: w.contiguous(memory_format=self.layout) if w.dim() == 4 else w for n, w in weights.items()}

    def read(self, raw, steps):
        batches = read_images(raw, steps, *self.dims)
        return [(x.contiguous(memory_format=self.layout), labels) for x, labels in batches]

    def conv_norm(self, p, name, x, stride=1):
        w = p[name + "/conv/weight"]
        y = F.conv2d(x, w, stride=stride, padding=w.shape[-1] // 2)
        scale = name + "/norm/weight"
        return F.batch_norm(y, *self.running[scale], p[scale], p[name + "/norm/bias"], True, 0.1, 1e-5)

    def bottleneck(self, p, name, x, stride):
        y = F.relu(self.conv_norm(p, name + "/a", x), inplace=True)
        y = F.relu(self.conv_norm(p, name + "/b", y, stride), inplace=True)
        y = self.conv_norm(p, name + "/c", y)
        shortcut = self.conv_norm(p, name + "/shortcut", x, stride) if name + "/shortcut/conv/weight" in p else x
        return F.relu(y + shortcut, inplace=True)

    def loss(self, p, images, labels):
        x = F.relu(self.conv_norm(p, "stem", images, 2), inplace=True)
        x = F.max_pool2d(x, 3, 2, 1)
        for stage, blocks in enumerate(self.blocks):
            for block in range(blocks):
                x = self.bottleneck(p, f"s{stage}b{block}", x, 2 if stage > 0 and block == 0 else 1)
        return F.cross_entropy(linear(p, "head", x.mean((2, 3))).float(), labels)


class Vit:
    def __init__(self, request):
        self.patch, self.layers, self.heads = request["patch"], request["layers"], request["heads"]
        self.epsilon = request["epsilon"]
        self.dims = (request["batch"], 3, request["side"], request["side"])

    def weights(self, weights):
        return linear_weights(join_qkv(weights))

    def read(self, raw, steps):
        return read_images(raw, steps, *self.dims)

    def loss(self, p, images, labels):
        x = F.conv2d(images, p["patches/weight"], p["patches/bias"], stride=self.patch).flatten(2).transpose(1, 2)
        x = torch.cat((p["class_token"].to(x.dtype).expand(len(x), -1, -1), x), 1) + p["positions"]
        for i in range(self.layers):
            h = f"h{i}/"
            y = norm(p, h + "ln1", x, self.epsilon)
            x = x + self_attention(p, h + "attn", y, self.heads, causal=False)
            x = x + mlp(p, h + "mlp", norm(p, h + "ln2", x, self.epsilon))
        return F.cross_entropy(linear(p, "head", norm(p, "ln_f", x, self.epsilon)[:, 0]).float(), labels)


MODELS = {"gpt": Gpt, "llama": Llama, "bert": Bert, "bert-layer": BertLayer, "resnet": ResNet, "vit": Vit}
