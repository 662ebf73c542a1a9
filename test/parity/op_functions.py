"""What every op is in PyTorch: OPS, a table from op to function, and NO_COUNTERPART, the ops that have none, with the
reason.

A function takes the attributes of a node and its operands, and returns the results followed by the operands that the op
overwrites. Operands that are f32 in a job are f64 here. It is written as somebody would who knows PyTorch and not our
kernels: gradients are left to autograd, and an op that is a gradient itself is autograd of what it is the gradient of,
or PyTorch's own backward function.
"""
import functools
import math

import torch
import torch.nn.functional as F

from op_helpers import column, drawn_numbers, dropout, gradient, normal_like, uniform_like
from sequence_functions import (attention, attention_grad, ctc_loss, ctc_loss_grad, gru, gru_grad, lstm, lstm_grad,
                                merge_attention, rotary)

aten = torch.ops.aten


def along(t, x, axis):
    """A vector, shaped to be broadcast along dimension `axis` of x."""
    return t.view([-1 if d == axis % x.dim() else 1 for d in range(x.dim())])


def per_channel(t, x):
    return along(t, x, 1)


def but(x, axis):
    """All dimensions of x but one."""
    return [d for d in range(x.dim()) if d != axis % x.dim()]


def reduction(function):
    # PyTorch takes no axes for all axes.
    return lambda a, x: function(x, a["axes"], a["keepdims"]) if a["axes"] else x.clone()


def cast(a, x):
    types = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i32": torch.int32, "i64": torch.int64}
    return x.to(types[a["dtype"]])


def heaviside(a, x, y):
    """The slope of maximum in its first operand."""
    x, y = torch.broadcast_tensors(x, y)
    return gradient(lambda x: torch.maximum(x, y), x, torch.ones_like(x))


def pad(a, x):
    # PyTorch begins with the last dimension.
    widths = [w for pair in zip(reversed(a["before"]), reversed(a["after"])) for w in pair]
    return F.pad(x, widths, value=a["value"])


def orthonormalize(a, x):
    """Gram-Schmidt is the QR decomposition whose R has a positive diagonal."""
    q, r = torch.linalg.qr(x)
    return q * r.diagonal().sign()


def quantize(a, x):
    """QSGD's levels between a row's least and largest value; eight levels of b bits are b bytes."""
    bits, levels = a["bits"], 2 ** a["bits"] - 1
    x = x.float()
    least = x.min(-1, keepdim=True).values
    unit = (x.max(-1, keepdim=True).values - least) / levels
    shift = drawn_numbers(a, x.numel()).view(x.shape) if a.get("stochastic") else 0.5
    level = ((x - least) / unit + shift).floor().clamp(max=levels).long()
    word = (level.unflatten(-1, (-1, 8)) << bits * torch.arange(8)).sum(-1)
    codes = (word[..., None] >> 8 * torch.arange(bits)) & 255
    return codes.flatten(-2), torch.cat([least, unit], -1).double()


def dequantize(a, codes, ranges):
    bits = a["bits"]
    word = (codes.long().unflatten(-1, (-1, bits)) << 8 * torch.arange(bits)).sum(-1)
    level = (word[..., None] >> bits * torch.arange(8)) & (2**bits - 1)
    return ranges[..., :1] + level.flatten(-2) * ranges[..., 1:]


def cumsum(a, x):
    if a["reverse"]:
        return cumsum({**a, "reverse": False}, x.flip(a["axis"])).flip(a["axis"])
    y = x.cumsum(a["axis"])
    return y - x if a["exclusive"] else y


def filled(x, counts):
    """Whether an element lies in the filled rows of its group."""
    rows = torch.arange(x.shape[counts.dim()])
    is_filled = rows < counts.unsqueeze(-1)
    return is_filled.reshape(is_filled.shape + (1,) * (x.dim() - is_filled.dim())).expand(x.shape)


def keep_rows(a, x, counts):
    return torch.where(filled(x, counts), x, x.detach())


def pad_rows(a, x, counts):
    return torch.where(filled(x, counts), x, torch.zeros_like(x))


def row_counts(a, ids):
    return F.one_hot(ids.long(), a["size"]).sum(-2).int()


def slice_grad(a, dy):
    sizes = list(dy.shape)
    sizes[a["axis"]] = a["size"]
    zeros = torch.zeros(sizes, dtype=dy.dtype)
    return torch.slice_scatter(zeros, dy, a["axis"], a["start"], a["start"] + dy.shape[a["axis"]], 1)


def scatter_add(a, updates, ids):
    axis = a["axis"]
    rows = updates.reshape(*updates.shape[:axis], -1, *updates.shape[axis + ids.dim():])
    zeros = torch.zeros(*rows.shape[:axis], a["size"], *rows.shape[axis + 1:], dtype=rows.dtype)
    return zeros.index_add(axis, ids.flatten(), rows)


def put_along(a, dy, ids):
    return torch.zeros(*dy.shape[:-1], a["columns"], dtype=dy.dtype).scatter_add(-1, ids.long(), dy)


def top_k(a, x):
    # topk() leaves open which of equal elements it takes.
    values, indices = x.sort(dim=-1, descending=True, stable=True)
    return values[..., :a["k"]], indices[..., :a["k"]]


def layer_norm(a, x, gamma, beta):
    mean, var = x.mean(-1), x.var(-1, unbiased=False)
    return F.layer_norm(x, gamma.shape, gamma, beta, a["epsilon"]), mean, torch.rsqrt(var + a["epsilon"])


def layer_norm_grad(a, dy, x, gamma, mean, rstd):
    beta = torch.zeros_like(gamma)
    return aten.native_layer_norm_backward(dy, x, gamma.shape, column(mean), column(rstd), gamma, beta, [True] * 3)


def rms_norm(a, x, gamma):
    rstd = torch.rsqrt(x.square().mean(-1) + a["epsilon"])
    return x * column(rstd) * gamma, rstd


def batch_norm(a, x, gamma, beta, mean, var):
    if a.get("training"):
        return F.batch_norm(x, None, None, gamma, beta, training=True, eps=a["epsilon"])
    # F.batch_norm has no gradients of given statistics.
    normal = (x - per_channel(mean, x)) / torch.sqrt(per_channel(var, x) + a["epsilon"])
    y = normal * per_channel(gamma, x) + per_channel(beta, x)
    torch.testing.assert_close(y, F.batch_norm(x, mean.detach(), var.detach(), gamma, beta, training=False,
                                               eps=a["epsilon"]))
    return y


def gelu_tanh(x):
    """F.gelu's approximation without its cancellation of 1 + tanh far below 0."""
    y = x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    torch.testing.assert_close(y, F.gelu(x, approximate="tanh"), equal_nan=True)
    return y


def cross_entropy(a, logits, labels):
    classes = logits.shape[-1]
    loss = F.cross_entropy(logits.reshape(-1, classes), labels.long().flatten(), reduction="none").view(labels.shape)
    return loss, logits.logsumexp(-1)


def cross_entropy_grad(a, dloss, logits, labels, lse):
    return column(dloss) * ((logits - column(lse)).exp() - F.one_hot(labels.long(), logits.shape[-1]))


def max_pool2d_grad(a, dy, index):
    flat = torch.zeros(*dy.shape[:2], a["height"] * a["width"], dtype=dy.dtype)
    return flat.scatter_add(2, index.long().flatten(2), dy.flatten(2)).unflatten(2, (a["height"], a["width"]))


def avg_pool2d(a, x):
    return F.avg_pool2d(x, a["kernel"], a["stride"], a.get("padding", 0))


def zeros_of_plane(a, dy):
    return torch.zeros(*dy.shape[:2], a["height"], a["width"], dtype=dy.dtype)


def window(a):
    return {"stride": a["stride"], "padding": a["padding"], "dilation": a.get("dilation", 1),
            "groups": a.get("groups", 1)}


def conv2d_dgrad(a, dy, k):
    """A transposed convolution, as large as asked for."""
    if dy.numel() == 0:
        return torch.zeros(dy.shape[0], k.shape[1] * a.get("groups", 1), a["height"], a["width"], dtype=dy.dtype)
    smallest = F.conv_transpose2d(dy, k, **window(a)).shape
    return F.conv_transpose2d(dy, k, output_padding=(a["height"] - smallest[2], a["width"] - smallest[3]), **window(a))


def extremum_count(a, x, y):
    # y is the maximum of x.
    return reduction(torch.sum)(a, (x == reduction(torch.amax)({**a, "keepdims": True}, x)).double())


def extremum_grad(a, dy, x, y, n):
    # y is the maximum of x.
    return gradient(lambda x: OPS["reduce_max"](a, x), x, dy)


def softmax_sums(a, x, labels, m):
    return (x - column(m)).exp().sum(-1), x.gather(-1, column(labels.long())).squeeze(-1) - m


def first_index(a, x, m):
    columns = torch.arange(x.shape[-1]).expand_as(x)
    return columns.masked_fill(x != column(m), torch.iinfo(torch.int32).max).amin(-1)


def clip_scale(a, s):
    gradients = torch.nn.Parameter(torch.zeros_like(s))
    gradients.grad = s.sqrt()
    norm = torch.nn.utils.clip_grad_norm_([gradients], a["max_norm"])
    return gradients.grad / s.sqrt(), norm


def unscale(a, s, loss_scale):
    good = s.isfinite()
    return s / loss_scale**2, torch.where(good, 1 / loss_scale, torch.nan), (~good).double()


def stepped(optimizer, w, g, state):
    """w after a step of the optimizer that optimizer(parameters) makes, with `state`, which changes too."""
    w = torch.nn.Parameter(w.clone())
    w.grad = g
    optimizer = optimizer([w])
    optimizer.state[w] = state
    optimizer.step()
    return w.detach()


def adamw_update(a, w, m, v, g, lr, scale, step):
    state = {"step": step.float(), "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
    settings = {"lr": lr.item(), "betas": (a["beta1"], a["beta2"]), "eps": a["epsilon"],
                "weight_decay": a["weight_decay"]}
    w = stepped(lambda p: torch.optim.AdamW(p, **settings), w, g * scale, state)
    return w, state["exp_avg"], state["exp_avg_sq"]


def sgd_update(a, w, u, g, lr, scale):
    state = {"momentum_buffer": u.clone()}
    settings = {name: a[name] for name in ("momentum", "weight_decay", "nesterov")}
    direction = g * scale + a["weight_decay"] * w
    w = stepped(lambda p: torch.optim.SGD(p, lr.item(), **settings), w, g * scale, state)
    return w, state["momentum_buffer"] if a["momentum"] else direction  # without momentum PyTorch keeps none


def lion_update(a, w, m, g, lr, scale):
    """PyTorch has no Lion: Chen et al. 2023, algorithm 2, by PyTorch's functions."""
    g = g * scale
    w = w - lr * (torch.sign(a["beta1"] * m + (1 - a["beta1"]) * g) + a["weight_decay"] * w)
    return w, a["beta2"] * m + (1 - a["beta2"]) * g


@functools.lru_cache(maxsize=None)
def scheduled(name, steps, **settings):
    """The first rates that a scheduler of PyTorch gives, of a highest rate of 1."""
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    scheduler = getattr(torch.optim.lr_scheduler, name)(optimizer, **settings)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if len(rates) < steps:
            scheduler.step()
    return rates


def decay_form(form, q):
    """The decays of Megatron-LM's schedule WSD."""
    return {"linear": 1 - q, "cosine": (1 + math.cos(math.pi * q)) / 2, "exponential": 2 * 0.5**q - 1,
            "minus_sqrt": 1 - math.sqrt(q)}[form]


def rate_factor(a, k):
    """The rate of step k as a share of the highest one: by PyTorch's scheduler where it has one. A scheduler is not
    asked for steps behind its last, where some rise again or fail."""
    w, total, low = a.get("warmup_steps", 0), a.get("steps", 0), a.get("min_ratio", 0.0)
    if a["kind"] == "one_cycle":
        start = a.get("start_ratio", 0.04)
        anneal = {"cosine": "cos", "linear": "linear"}[a.get("decay_form", "cosine")]
        rates = scheduled("OneCycleLR", total, max_lr=1.0, total_steps=total, pct_start=w / total,
                          anneal_strategy=anneal, cycle_momentum=False, div_factor=1 / start,
                          final_div_factor=start / low if low else math.inf)
        return rates[min(k, total - 1)]
    if k < w:
        return (k + 1) / w
    since, falls = k - w, total - w
    if a["kind"] == "constant":
        return 1.0
    if a["kind"] == "linear":
        return scheduled("LinearLR", falls + 1, start_factor=1.0, end_factor=low, total_iters=falls)[min(since, falls)]
    if a["kind"] == "cosine":
        return scheduled("CosineAnnealingLR", falls + 1, T_max=falls, eta_min=low)[min(since, falls)]
    if a["kind"] == "restarts":
        return scheduled("CosineAnnealingWarmRestarts", since + 1, T_0=a["cycle_steps"],
                         T_mult=a.get("cycle_growth", 1), eta_min=low)[since]
    if a["kind"] == "inverse_sqrt":  # Hugging Face's get_inverse_sqrt_schedule, which has no lowest rate
        timescale = a.get("timescale_steps") or w or 10000
        return max(low, 1 / math.sqrt((since + timescale) / timescale))
    if a["kind"] == "wsd":
        falls = a.get("decay_steps") or round((a.get("decay_share") or 0.1) * total)
        q = min(1.0, max(0.0, (k - (total - falls)) / falls))
        return low + (1 - low) * decay_form(a.get("decay_form", "linear"), q)
    assert a["kind"] == "piecewise"
    passed = sum(k >= boundary for boundary in a["boundaries"])
    return float(a["factors"].split(",")[passed - 1]) if passed else 1.0


def lr_schedule(a, step):
    return torch.tensor(a["learning_rate"] * rate_factor(a, step.item()), dtype=torch.float64)


def trust_ratio(a, of, by):
    of, by = of.sqrt(), by.sqrt()
    ratio = a.get("coefficient", 1.0) * of / (by + a.get("decay", 0.0) * of + a.get("epsilon", 0.0))
    return torch.where((of > 0) & (by > 0), ratio, torch.ones_like(of))


def by_name(op):
    """PyTorch's own function of that name, of operands alone, or None: elementwise functions need no row below."""
    function = getattr(torch, op, None) or getattr(F, op, None)
    return function and (lambda a, *x: function(*x))


OPS = {
    # Elementwise.
    "to": lambda a, x: x.clone(),
    "accumulate": lambda a, x: x.clone(),
    "neg": lambda a, x: -x,
    "relu_grad": lambda a, dy, y: gradient(F.relu, y, dy),
    "gelu_tanh": lambda a, x: gelu_tanh(x),
    "gelu_grad": lambda a, dy, x: gradient(F.gelu, x, dy),
    "silu_grad": lambda a, dy, x: gradient(F.silu, x, dy),
    "gelu_tanh_grad": lambda a, dy, x: gradient(gelu_tanh, x, dy),
    "scale": lambda a, x: a["alpha"] * x,
    "add_scalar": lambda a, x: x + a["alpha"],
    "cast": cast,
    "dropout": dropout,
    "uniform_like": uniform_like,
    "normal_like": normal_like,
    "add": lambda a, x, y: x + y,
    "sub": lambda a, x, y: x - y,
    "mul": lambda a, x, y: x * y,
    "div": lambda a, x, y: x / y,
    "heaviside": heaviside,
    "same_index": lambda a, x, y: (x == y).double(),
    "equal": lambda a, x, y: x == y,
    "where": lambda a, x, y, condition: torch.where(condition, x, y),
    "step_mean": lambda a, total, weight: torch.where(weight == 0, 0 * total, total / weight),
    "stop_gradient": lambda a, x: x.detach(),
    "add_n": lambda a, *x: sum(x),
    "bias_add": lambda a, x, b: x + along(b, x, a["axis"]),
    "bias_grad": lambda a, dy: dy.sum(but(dy, a["axis"])),
    "constant": lambda a: torch.full(a["shape"], a["value"]),
    "literal": lambda a: torch.tensor([float(v) for v in a["values"].split(",") if v],
                                      dtype=torch.float64).view(a["shape"]),
    "arange": lambda a: a["start"] + a["step"] * torch.arange(a["shape"][0], dtype=torch.float64),
    # Reductions and shapes.
    "reduce_sum": reduction(torch.sum),
    "reduce_mean": reduction(torch.mean),
    "reduce_max": reduction(torch.amax),
    "reduce_min": reduction(torch.amin),
    "square_sum": lambda a, x: x.square().sum(),
    "extremum_count": extremum_count,
    "extremum_grad": extremum_grad,
    "cumsum": cumsum,
    "keep_rows": keep_rows,
    "pad_rows": pad_rows,
    "row_counts": row_counts,
    "sum_to": lambda a, x: x.sum_to_size(a["shape"]),
    "broadcast_to": lambda a, x: x.broadcast_to(a["shape"]),
    "reshape": lambda a, x: x.reshape(a["shape"]),
    "transpose": lambda a, x: x.permute(a["perm"]),
    "slice": lambda a, x: x.narrow(a["axis"], a["start"], a["size"]),
    "flip": lambda a, x: x.flip(a["axis"]),
    "slice_grad": slice_grad,
    "pad": pad,
    "concat": lambda a, *x: torch.cat(x, a["axis"]),
    # Linear algebra.
    "matmul": lambda a, x, w: F.linear(x, w) if a["transpose_b"] else x @ w,
    "matmul_wgrad": lambda a, x, dy: torch.einsum("...k,...n->" + ("nk" if a["transpose"] else "kn"), x, dy),
    "batch_matmul": lambda a, x, y: (x.mT if a["transpose_a"] else x) @ (y.mT if a["transpose_b"] else y),
    "conv2d": lambda a, x, k: F.conv2d(x, k, **window(a)),
    "conv2d_dgrad": conv2d_dgrad,
    "conv2d_wgrad": lambda a, x, dy: torch.nn.grad.conv2d_weight(
        x, (dy.shape[1], x.shape[1] // a.get("groups", 1), a["kernel_height"], a["kernel_width"]), dy, **window(a)),
    "max_pool2d": lambda a, x: F.max_pool2d(x, a["kernel"], a["stride"], return_indices=True),
    "max_pool2d_grad": max_pool2d_grad,
    "avg_pool2d": lambda a, x: avg_pool2d(a, x),
    "avg_pool2d_grad": lambda a, dy: gradient(lambda x: avg_pool2d(a, x), zeros_of_plane(a, dy), dy),
    "adaptive_avg_pool2d": lambda a, x: F.adaptive_avg_pool2d(x, (a["height"], a["width"])),
    "adaptive_avg_pool2d_grad": lambda a, dy: gradient(lambda x: F.adaptive_avg_pool2d(x, dy.shape[2:]),
                                                       zeros_of_plane(a, dy), dy),
    "rotary": rotary,
    "attention": attention,
    "attention_grad": attention_grad,
    "merge_attention": merge_attention,
    "lstm": lstm,
    "lstm_grad": lstm_grad,
    "gru": gru,
    "gru_grad": gru_grad,
    "orthonormalize": orthonormalize,
    "quantize": quantize,
    "dequantize": dequantize,
    "ctc_loss": ctc_loss,
    "ctc_loss_grad": ctc_loss_grad,
    # Softmax and normalisation.
    "softmax": lambda a, x: x.softmax(-1),
    "softmax_grad": lambda a, dy, y: aten._softmax_backward_data(dy, y, -1, y.dtype),
    "softmax_cross_entropy": cross_entropy,
    "softmax_cross_entropy_grad": cross_entropy_grad,
    "top1_correct": lambda a, logits, labels: (logits.argmax(-1) == labels).double(),
    "exp_sum": lambda a, x, m: (x - column(m)).exp().sum(-1),
    "softmax_sums": softmax_sums,
    "softmax_loss": lambda a, m, s, z: (s.log() - z, m + s.log()),
    "softmax_apply": lambda a, x, m, s: (x - column(m)).exp() / column(s),
    "softmax_grad_apply": lambda a, dy, y, d: y * (dy - column(d)),
    "row_dot": lambda a, x, y: (x * y).sum(-1),
    "first_index": first_index,
    "layer_norm": layer_norm,
    "layer_norm_grad": layer_norm_grad,
    "rms_norm": rms_norm,
    "batch_norm": batch_norm,
    "channel_mean": lambda a, x: x.mean(but(x, 1)),
    "channel_variance": lambda a, x, mean: (x - per_channel(mean, x)).square().mean(but(x, 1)),
    # Indices.
    "embedding": lambda a, w, ids: F.embedding(ids, w),
    "embedding_grad": lambda a, dy, ids: aten.embedding_dense_backward(dy, ids, a["rows"], -1, False),
    "gather": lambda a, x, ids: x[(slice(None),) * a["axis"] + (ids.long(),)],
    "scatter_add": scatter_add,
    "take_along": lambda a, x, ids: torch.take_along_dim(x, ids.long(), -1),
    "put_along": put_along,
    "top_k": top_k,
    # Training.
    "clip_scale": clip_scale,
    "unscale": unscale,
    "adamw_update": adamw_update,
    "sgd_update": sgd_update,
    "lion_update": lion_update,
    "ema_update": lambda a, v, x: torch.lerp(x, v, a["decay"]),
    "lr_schedule": lr_schedule,
    "average_update": lambda a, v, x, step, scale: torch.where(
        scale.isnan(), v, x if step.item() == 0 else torch.lerp(x, v, a["decay"])),
    "guarded_assign": lambda a, v, x, scale: torch.where(scale.isnan(), v, x),
    "trust_ratio": trust_ratio,
    "bias_correction": lambda a, step: 1 - a["beta"] ** (step.double() + 1),
    "step_power": lambda a, step: (step.double() + 1) ** a["exponent"],
}

NO_COUNTERPART = {
    "assign": "moves state",
    "increment": "counts steps",
    "append_token": "keeps a window of tokens",
    "sample_token": "draws random numbers by our definition",
    "loss_scale_update": "PyTorch has it for CUDA alone; a whole training compares it",
    "rms_norm_grad": "the rstd of its case is not that of its x; the gradient of rms_norm compares it",
    "batch_norm_sums": "the gradients of both kinds of batch_norm compare it",
    "batch_norm_dx": "the sums of its case are not those of its dy; the gradient of a batch_norm in training compares "
                     "it",
}
