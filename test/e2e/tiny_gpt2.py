"""A tiny GPT-2 as transformers keeps it: written with random weights, and what it says computed from its own tensors.

    tiny_gpt2.py PATH_TO_PYTHON_PACKAGES make FOLDER TEXT SEED      writes it; its loss on the second half of a text
    tiny_gpt2.py PATH_TO_PYTHON_PACKAGES compare FOLDER OTHER       whether two are the same to the bit

The last line that it prints is JSON.
"""
import json
import math
import os
import random
import sys

sys.path.append(sys.argv[1])

import numpy  # noqa: E402
from safetensors import safe_open  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402

VOCABULARY, LAYERS, WIDTH, HEADS, CONTEXT = 40, 2, 24, 4, 12
CONFIG = {
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": VOCABULARY, "n_layer": LAYERS,
    "n_embd": WIDTH, "n_head": HEADS, "n_positions": CONTEXT, "n_inner": None, "layer_norm_epsilon": 1e-5,
    "activation_function": "gelu",
}


def shapes():
    w = WIDTH
    found = {"wte.weight": (VOCABULARY, w), "wpe.weight": (CONTEXT, w), "ln_f.weight": (w,), "ln_f.bias": (w,)}
    for i in range(LAYERS):
        for name, shape in {
                "ln_1.weight": (w,), "ln_1.bias": (w,), "attn.c_attn.weight": (w, 3 * w), "attn.c_attn.bias": (3 * w,),
                "attn.c_proj.weight": (w, w), "attn.c_proj.bias": (w,), "ln_2.weight": (w,), "ln_2.bias": (w,),
                "mlp.c_fc.weight": (w, 4 * w), "mlp.c_fc.bias": (4 * w,), "mlp.c_proj.weight": (4 * w, w),
                "mlp.c_proj.bias": (w,)}.items():
            found[f"h.{i}.{name}"] = shape
    return {"transformer." + name: shape for name, shape in found.items()}


def norm(x, weight, bias):
    x = x - x.mean(-1, keepdims=True)
    return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight + bias


def gelu(x):
    return 0.5 * x * (1 + numpy.vectorize(math.erf)(x / math.sqrt(2)))


def softmax(x):
    e = numpy.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(x, t, at):
    q, k, v = numpy.split(x @ t[at + "c_attn.weight"] + t[at + "c_attn.bias"], 3, axis=-1)
    head = WIDTH // HEADS
    q, k, v = (y.reshape(-1, HEADS, head).transpose(1, 0, 2) for y in (q, k, v))
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(head)
    scores = numpy.where(numpy.tri(len(x), dtype=bool), scores, -numpy.inf)
    mixed = (softmax(scores) @ v).transpose(1, 0, 2).reshape(-1, WIDTH)
    return mixed @ t[at + "c_proj.weight"] + t[at + "c_proj.bias"]


def logits(tokens, t):
    x = t["transformer.wte.weight"][tokens] + t["transformer.wpe.weight"][:len(tokens)]
    for i in range(LAYERS):
        at = f"transformer.h.{i}."
        x = x + attention(norm(x, t[at + "ln_1.weight"], t[at + "ln_1.bias"]), t, at + "attn.")
        up = gelu(norm(x, t[at + "ln_2.weight"], t[at + "ln_2.bias"]) @ t[at + "mlp.c_fc.weight"] +
                  t[at + "mlp.c_fc.bias"])
        x = x + up @ t[at + "mlp.c_proj.weight"] + t[at + "mlp.c_proj.bias"]
    return norm(x, t["transformer.ln_f.weight"], t["transformer.ln_f.bias"]) @ t["transformer.wte.weight"].T


def loss(tensors, text):
    t = {name: tensor.astype(numpy.float64) for name, tensor in tensors.items()}
    losses = []
    for begin in range(0, len(text) - CONTEXT, CONTEXT):
        window = numpy.array(list(text[begin:begin + CONTEXT + 1]))
        probabilities = softmax(logits(window[:-1], t))
        losses += list(-numpy.log(probabilities[numpy.arange(CONTEXT), window[1:]]))
    return sum(losses) / len(losses), len(losses) // CONTEXT


def make(folder, text_file, seed):
    generator = numpy.random.default_rng(seed)
    tensors = {name: generator.normal(0, 0.3, shape).astype("float32") for name, shape in shapes().items()}
    text = bytes(random.Random(seed).randrange(VOCABULARY) for _ in range(402))
    os.makedirs(folder)
    with open(text_file, "wb") as file:
        file.write(text)
    files = {"model-00001-of-00002.safetensors": {}, "model-00002-of-00002.safetensors": {}}
    for i, name in enumerate(tensors):
        files[list(files)[i % 2]][name] = tensors[name]
    # The mask that old files have.
    mask = numpy.tril(numpy.ones((1, 1, CONTEXT, CONTEXT), dtype="uint8"))
    files["model-00001-of-00002.safetensors"]["transformer.h.0.attn.bias"] = mask
    for file, its in files.items():
        save_file(its, os.path.join(folder, file), {"format": "pt"})
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        json.dump({"weight_map": {name: of for of, its in files.items() for name in its}}, file)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(CONFIG, file)
    mean, windows = loss(tensors, text[201:])
    print(json.dumps({"loss": mean, "windows": windows}))


def read(folder):
    files = {"model.safetensors"}
    index = os.path.join(folder, "model.safetensors.index.json")
    if os.path.exists(index):
        with open(index) as file:
            files = set(json.load(file)["weight_map"].values())
    tensors = {}
    for name in files:
        with safe_open(os.path.join(folder, name), "numpy") as file:
            assert file.metadata()["format"] == "pt"
            tensors.update({key: file.get_tensor(key) for key in file.keys()})
    return {name: tensor for name, tensor in tensors.items() if not name.endswith(".attn.bias")}


def compare(folder, other):
    a, b = read(folder), read(other)
    same = a.keys() == b.keys() and all(a[k].dtype == b[k].dtype and a[k].tobytes() == b[k].tobytes() for k in a)
    print(json.dumps({"same": same, "tensors": len(a)}))


if sys.argv[2] == "make":
    make(sys.argv[3], sys.argv[4], int(sys.argv[5]))
else:
    compare(sys.argv[3], sys.argv[4])
