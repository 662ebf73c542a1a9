"""The jobs that gpu_pack trains on this machine's processor and gpu_run on a GPU, and the data that they read.

Both begin with the same initial values and draw the same random numbers, so their losses differ by rounding only.
"""

import json
import random
import struct

STEPS = 10

GPT = """
model { gpt { layers: 4 width: 128 heads: 4 context: 128 vocabulary: 256 dropout: 0.1 } }
data { text { path: "DATA/text" } }
train {
  steps: STEPS batch_size: 16
  optimizer { adamw { weight_decay: 0.1 } clip_norm: 1 } schedule { learning_rate: 1e-3 }
}
"""
CONVNET = """
model { convnet { channels: [16, 32] hidden: 64 dropout: 0.1 } }
data {
  images {
    train_images: "DATA/images" train_labels: "DATA/labels" test_images: "DATA/images" test_labels: "DATA/labels"
  }
}
train { steps: STEPS batch_size: 40 optimizer { sgd { momentum: 0.9 } } schedule { learning_rate: 0.02 } }
"""
MLP = """
model { mlp { widths: [256, 128] classes: 10 } }
data {
  images {
    train_images: "DATA/images" train_labels: "DATA/labels" test_images: "DATA/images" test_labels: "DATA/labels"
  }
}
train { steps: STEPS batch_size: 40 optimizer { adamw {} clip_norm: 1 } schedule { learning_rate: 1e-3 } }
"""
MARGIN = """
model { margin_classifier { widths: [64] embedding: 16 scale: 8 } }
data { prototypes { classes: 37 samples: 400 noise: 0.2 } }
train { steps: STEPS batch_size: 40 optimizer { adamw {} clip_norm: 1 } schedule { learning_rate: 1e-2 } }
"""
WIDE_DEEP = """
model { wide_deep { embedding: 16 widths: [64, 32] } }
data { clicks { fields: 8 vocabulary: 5000 numbers: 4 } }
train { steps: STEPS batch_size: 200 optimizer { adamw { beta2: 0.99 } } schedule { learning_rate: 2e-3 } }
"""

# name: config, and how far losses may be apart in any step, relative to the first. f32 is f32 on both; 16-bit values
# are rounded at other places where sums are taken in another order.
JOBS = {
    "gpt-f32": (GPT, 1e-4),
    "gpt-bf16": (GPT + "precision { compute: BF16 }", 5e-3),
    "gpt-f16": (GPT + "precision { compute: F16 }", 2e-3),
    "convnet-f32": (CONVNET, 1e-3),
    "convnet-bf16": (CONVNET + "precision { compute: BF16 }", 2e-2),
    "mlp-f32": (MLP, 1e-4),
    "margin-f32": (MARGIN, 1e-4),
    "wide-deep-f32": (WIDE_DEEP, 1e-4),
}


def config(name, data):
    """The job's config, on data in that folder."""
    return JOBS[name][0].replace("DATA", str(data)).replace("STEPS", str(STEPS))


def write_data(folder):
    """Text and images, the same wherever this runs."""
    draw = random.Random(7)
    words = ["".join(draw.choice("etaoinshrdlu") for _ in range(draw.randint(2, 8))) for _ in range(300)]
    text = []
    for _ in range(40000):
        text.append(words[min(int(draw.expovariate(1 / 40)), len(words) - 1)])
    (folder / "text").write_text(" ".join(text))
    images, labels = bytearray(struct.pack(">iiii", 0x803, 200, 28, 28)), bytearray(struct.pack(">ii", 0x801, 200))
    for i in range(200):
        labels.append(i % 10)
        for pixel in range(28 * 28):
            stripe = pixel // 28 // 3 == i % 10
            images.append(draw.randint(200, 250) if stripe else draw.randint(0, 60))
    (folder / "images").write_bytes(images)
    (folder / "labels").write_bytes(labels)


def losses(metrics):
    """Of every step, from a file that `oneflow run --metrics` wrote."""
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def gap(got, want):
    """The largest distance of losses, relative to the first; None if they are of other steps, or no numbers."""
    if len(got) != len(want) or not got:
        return None
    apart = [abs(a - b) / abs(want[0]) for a, b in zip(got, want)]
    return max(apart) if all(x == x for x in apart) else None
