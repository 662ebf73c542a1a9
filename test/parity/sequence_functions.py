"""What the ops of sequences are in PyTorch, as op_functions.py says: positions, attention, recurrences, alignments."""
import math

import torch
import torch.nn.functional as F

from op_helpers import column, dropout, gradient


def rotary_angles(a, width, length):
    """[length, width/2] in f32, and the factor of cos and sin, as transformers' modeling_rope_utils has them."""
    theta, factor, scaling = a.get("theta", 10000.0), a.get("factor", 1.0), a.get("scaling", "none")
    context = a.get("original_context", length)
    if scaling == "dynamic":
        theta *= (factor * max(length, context) / context - (factor - 1))**(width / (width - 2))
    inverse = 1.0 / theta**(torch.arange(0, width, 2, dtype=torch.float64) / width)
    amplitude = 1.0
    if scaling == "linear":
        inverse = inverse / factor
    elif scaling == "yarn":
        def pair(rotations):
            return width * math.log(context / (rotations * 2 * math.pi)) / (2 * math.log(theta))
        low, high = max(math.floor(pair(32)), 0), min(math.ceil(pair(1)), width - 1)
        span = 0.001 if low == high else high - low
        ramp = ((torch.arange(width // 2, dtype=torch.float64) - low) / span).clamp(0, 1)
        inverse = inverse / factor * ramp + inverse * (1 - ramp)
        amplitude = a.get("attention_factor", 0) or 0.1 * math.log(factor) + 1
    elif scaling == "llama3":
        low, high = a.get("low_frequency", 1.0), a.get("high_frequency", 4.0)
        wavelength = 2 * math.pi / inverse
        smooth = (context / wavelength - low) / (high - low)
        between = (1 - smooth) * inverse / factor + smooth * inverse
        inverse = torch.where(wavelength < context / high, inverse,
                              torch.where(wavelength > context / low, inverse / factor, between))
    return torch.arange(length, dtype=torch.float32)[:, None] * inverse.float(), amplitude


def rotary(a, x):
    b, t, columns = x.shape
    heads = x.view(b, t, a["heads"], columns // a["heads"])
    width = a.get("width", heads.shape[-1])
    angles, amplitude = rotary_angles(a, width, t)
    cos, sin = ((f(angles) * amplitude).to(x.dtype)[:, None, :] for f in (torch.cos, torch.sin))
    sin = -sin if a.get("back") else sin
    pairs = heads[..., :width]
    if a.get("interleaved"):
        x0, x1 = pairs[..., ::2], pairs[..., 1::2]
        turned = torch.stack((x0 * cos - x1 * sin, x1 * cos + x0 * sin), dim=-1).flatten(-2)
    else:
        x0, x1 = pairs.chunk(2, dim=-1)
        turned = torch.cat((x0 * cos - x1 * sin, x1 * cos + x0 * sin), dim=-1)
    return torch.cat((turned, heads[..., width:]), dim=-1).view(b, t, columns)


def attention(a, q, k, v, query_documents=None, key_documents=None):
    b, t, width = q.shape
    s, heads = k.shape[1], a["heads"]
    kv_heads, size = a.get("kv_heads", heads), width // heads
    q = q.view(b, t, heads, size).transpose(1, 2)
    k, v = (x.view(b, s, kv_heads, size).transpose(1, 2).repeat_interleave(heads // kv_heads, 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * a.get("scale", size**-0.5)
    if a.get("soft_cap"):
        scores = a["soft_cap"] * torch.tanh(scores / a["soft_cap"])
    hidden = torch.zeros(b, 1, t, s, dtype=torch.bool)
    if a["causal"]:
        hidden |= torch.ones(t, t, dtype=torch.bool).triu(1)
        if a.get("window"):
            hidden |= torch.ones(t, t, dtype=torch.bool).tril(-a["window"])
    if query_documents is not None:
        hidden |= (column(query_documents) != key_documents.unsqueeze(1)).unsqueeze(1)
    scores = scores.masked_fill(hidden, -torch.inf)
    p = scores.softmax(-1)
    if a.get("dropout"):
        p = dropout({**a, "rate": a["dropout"]}, p)
    out, lse = p @ v, scores.logsumexp(-1)
    if a.get("share"):
        idle = slice(heads // 2, heads) if a["share"] == 1 else slice(0, heads // 2)
        out, lse = out.clone(), lse.clone()
        out[:, idle], lse[:, idle] = 0, -torch.inf
    return out.transpose(1, 2).reshape(b, t, width), lse


def merge_attention(a, out_a, lse_a, out_b, lse_b):
    """Of two sets of keys that have none in common."""
    lse = torch.stack((lse_a, lse_b))
    shares = lse.softmax(0).nan_to_num(0)  # of neither set

    def by_heads(out):
        heads = lse_a.shape[1]
        return out.view(out.shape[:2] + (heads, out.shape[2] // heads)).transpose(1, 2)

    out = shares[0, ..., None] * by_heads(out_a) + shares[1, ..., None] * by_heads(out_b)
    return out.transpose(1, 2).reshape(out_a.shape), lse.logsumexp(0)


def attention_grad(a, dout, q, k, v, out, lse, *rest):
    qkv = [x.detach().requires_grad_() for x in (q, k, v)]
    documents, dlse = rest[:len(rest) // 2 * 2], rest[len(rest) // 2 * 2:]
    results = attention(a, *qkv, *documents)
    # Its operand `out` need not be what is drawn here: what dout . out then lacks, a gradient of lse has.
    lacks = (dout * (results[0].detach() - out)).unflatten(-1, (a["heads"], -1)).sum(-1).transpose(1, 2)
    return torch.autograd.grad(results, qkv, (dout, lacks + sum(dlse)))


def recurrence(function, x, w, bias, states):
    """What torch.nn.LSTM or GRU calls, of one layer whose inputs are what x gives the gates: y and the last states."""
    columns = w.shape[1]
    weights = (torch.eye(columns, dtype=x.dtype), w.t(), torch.zeros(columns, dtype=x.dtype), bias)
    return function(x, states, weights, True, 1, 0.0, False, False, True)


def states_before(y, initial):
    return torch.cat((initial.unsqueeze(1), y[:, :-1]), 1)


def lstm(a, x, w, bias, h0, c0):
    cells, states = [], (h0[None], c0[None])
    for t in range(x.shape[1]):  # step by step, because the cells of the last one alone are given
        _, *states = recurrence(torch._VF.lstm, x[:, t:t + 1], w, bias, states)
        cells.append(states[1][0])
    y, _, _ = recurrence(torch._VF.lstm, x, w, bias, (h0[None], c0[None]))
    i, f, g, o = (x + states_before(y, h0) @ w + bias).chunk(4, -1)
    return y, torch.stack(cells, 1), torch.cat((i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()), -1)


def gru(a, x, w, bias, h0):
    y, _ = recurrence(torch._VF.gru, x, w, bias, h0[None])
    (r, z, n), (of_r, of_z, of_n) = x.chunk(3, -1), (states_before(y, h0) @ w + bias).chunk(3, -1)
    r = (r + of_r).sigmoid()
    return y, torch.cat((r, (z + of_z).sigmoid(), (n + r * of_n).tanh(), of_n), -1)


def lstm_grad(a, dy, dcells, gates, cells, w, c0):
    h = w.shape[0]
    i, f, g, o = gates.chunk(4, -1)
    # x that gives these gates where the first states are zeros.
    h0 = torch.zeros_like(c0)
    x = torch.cat((i.logit(), f.logit(), g.atanh(), o.logit()), -1) - states_before(o * cells.tanh(), h0) @ w
    x, h0, c0 = (t.detach().requires_grad_() for t in (x, h0, c0))
    y, cells, _ = lstm(a, x, w, torch.zeros(4 * h, dtype=x.dtype), h0, c0)
    return torch.autograd.grad((y, cells), (x, h0, c0), (dy, dcells))


def gru_grad(a, dy, gates, y, w, h0):
    r, z, n, of_state = gates.chunk(4, -1)
    of_r, of_z, of_n = (states_before(y, h0) @ w).chunk(3, -1)
    # x, and a bias of each step and sample, that give these gates.
    x = torch.cat((r.logit() - of_r, z.logit() - of_z, n.atanh() - r * of_state), -1)
    bias = torch.cat((torch.zeros_like(r), torch.zeros_like(z), of_state - of_n), -1)
    x, bias, h0 = (t.detach().requires_grad_() for t in (x, bias, h0))
    state, states = h0, []
    for t in range(x.shape[1]):
        (x_r, x_z, x_n), (of_r, of_z, of_n) = x[:, t].chunk(3, -1), (state @ w + bias[:, t]).chunk(3, -1)
        z = (x_z + of_z).sigmoid()
        state = (1 - z) * (x_n + (x_r + of_r).sigmoid() * of_n).tanh() + z * state
        states.append(state)
    return torch.autograd.grad(torch.stack(states, 1), (x, bias, h0), dy)


def ctc_loss(a, log_probs, labels, input_lengths, label_lengths):
    losses = F.ctc_loss(log_probs.transpose(0, 1), labels, input_lengths, label_lengths, reduction="none",
                        zero_infinity=a.get("zero_infinity", False))
    # PyTorch's gradient takes a softmax before for granted: it has exp(log_probs) in it, which is taken off here.
    used = torch.arange(log_probs.shape[1]) < column(input_lengths)
    used = used & column(losses.isfinite() & (losses != 0))
    too_much = (log_probs.exp().sum(-1) * used).sum(-1)
    return losses - too_much + too_much.detach()


def ctc_loss_grad(a, dloss, log_probs, *rest):
    return gradient(lambda x: ctc_loss(a, x, *rest), log_probs, dloss)
