"""What the functions of several ops (oneflow_core/composed.h, einsum.h) are in PyTorch, as op_functions.py says."""
import torch
import torch.nn.functional as F

from op_helpers import column
from sequence_functions import attention


def margins(a):
    """As F.pad has them: of the last two dimensions, the last one first."""
    return [m for pair in reversed(list(zip(a["before"], a["after"]))[2:]) for m in pair]


def scored_attention(a, q, k, v, more=None):
    if more is None or not more.is_floating_point():
        return attention(a, q, k, v, *([] if more is None else [more, more]))[0]
    # What attention() does, with scores that something is added to.
    heads, kv_heads = a["heads"], a["kv_heads"]
    q, k, v = (x.unflatten(-1, (n, -1)).transpose(1, 2) for x, n in ((q, heads), (k, kv_heads), (v, kv_heads)))
    k, v = (x.repeat_interleave(heads // kv_heads, 1) for x in (k, v))
    scores = q @ k.mT / q.shape[-1]**0.5
    scores = a["soft_cap"] * torch.tanh(scores / a["soft_cap"]) + more
    if a["causal"]:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(-2)


def cross_entropy(a, logits, labels):
    losses = F.cross_entropy(logits.flatten(0, -2), labels.flatten().long(), reduction="none",
                             label_smoothing=a["label_smoothing"]).view(labels.shape)
    return losses + a["z_loss"] * logits.logsumexp(-1).square()


def mean_cross_entropy(a, logits, labels):
    counts = labels != -100
    return cross_entropy(a, logits, labels * counts)[counts].mean()


def sort(a, x):
    values, indices = x.sort(stable=True, dim=-1, descending=a["descending"])
    return values, indices.int()


COMPOSED = {
    "Clip": lambda a, x: x.clamp(a["low"], a["high"]),
    "Pow": lambda a, x: x**a["power"],
    "SoftCap": lambda a, x: a["cap"] * torch.tanh(x / a["cap"]) if a["cap"] else x + 0,
    "SoftmaxAlong": lambda a, x: x.softmax(a["axis"]),
    "LogSoftmax": lambda a, x: x.log_softmax(a["axis"]),
    "LogSumExp": lambda a, x: x.logsumexp(a["axis"], a["keepdims"]),
    "ArgMax": lambda a, x: x.argmax(-1).int(),
    "OneHot": lambda a, ids: F.one_hot(ids.long(), a["classes"]).double(),
    "Sort": sort,
    "Split": lambda a, x: x.split(a["sizes"], a["axis"]),
    "Stack": lambda a, *x: torch.stack(x, a["axis"]),
    "Tile": lambda a, x: x.tile(a["repeats"]),
    "PadReflect": lambda a, x: F.pad(x, margins(a), mode="reflect"),
    "PadEdge": lambda a, x: F.pad(x, margins(a), mode="replicate"),
    "Einsum": lambda a, *x: torch.einsum(a["letters"], *x),
    "GroupNorm": lambda a, x, gamma, beta: F.group_norm(x, a["groups"], gamma, beta, a["epsilon"]),
    "ResizeBilinear": lambda a, x: F.interpolate(x, (a["height"], a["width"]), mode="bilinear",
                                                 align_corners=a["align_corners"]),
    "ScoredAttention": scored_attention,
    "SquaredError": lambda a, x, target: F.mse_loss(x, target, reduction="none"),
    "BinaryCrossEntropy": lambda a, x, target: F.binary_cross_entropy_with_logits(x, target, reduction="none"),
    "HingeLoss": lambda a, x, target: F.relu(a["margin"] - target * x),
    "KlDivergence": lambda a, x, target: F.kl_div(x, target, reduction="none"),
    "CrossEntropy": cross_entropy,
    "MeanCrossEntropy": mean_cross_entropy,
}
