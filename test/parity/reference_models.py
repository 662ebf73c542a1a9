"""The project's models in PyTorch: what the engine is compared with.

Weights carry the engine's names and layouts: linear weights are [in, out], applied as x @ w + b. All is computed in 64
bits, so that what differs is the engine's own rounding. A model takes (weights, step, inputs, labels) and returns
logits.
"""
import math

import torch
import torch.nn.functional as F

from reference_data import dropout, normal_like


def linear(w, name, x):
    y = x @ w[name + "/weight"]
    return y + w[name + "/bias"] if name + "/bias" in w else y


def layer_norm(w, name, x):
    return F.layer_norm(x, x.shape[-1:], w[name + "/weight"], w[name + "/bias"], 1e-5)


def gpt(layers, heads, rate=0.0, seed=1):
    def logits(w, step, tokens, labels):
        batch, time = tokens.shape
        x = dropout(w["wte/weight"][tokens] + w["wpe/weight"], rate, "dropout", seed, step)
        for i in range(layers):
            h = f"h{i}/"
            y = layer_norm(w, h + "ln1", x)
            q, k, v = (linear(w, h + "attn/" + n, y).view(batch, time, heads, -1).transpose(1, 2) for n in "qkv")
            scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
            mask = torch.ones(time, time, dtype=torch.bool).tril()
            mixed = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
            attended = linear(w, h + "attn/o", mixed.transpose(1, 2).reshape(batch, time, -1))
            x = x + dropout(attended, rate, h + "dropout", seed, step)
            y = F.gelu(linear(w, h + "mlp/up", layer_norm(w, h + "ln2", x)))
            x = x + dropout(linear(w, h + "mlp/down", y), rate, h + "dropout_2", seed, step)
        x = layer_norm(w, "ln_f", x)
        return linear(w, "head", x) if "head/weight" in w else x @ w["wte/weight"].t()

    return logits


def adapted(model, scale):
    """The model with adapters: names of weights lead to them and what is added."""
    class Merged(dict):
        def __getitem__(self, name):
            weight = super().__getitem__(name)
            if name + "/lora_a" not in self:
                return weight
            return weight + scale * super().__getitem__(name + "/lora_a") @ super().__getitem__(name + "/lora_b")

    return lambda w, step, inputs, labels: model(Merged(w), step, inputs, labels)


def recurrent(layers, cell):
    def logits(w, step, tokens, labels):
        x = w["wte/weight"][tokens]
        for i in range(layers):
            h = f"h{i}/l0/"
            weights = [w[h + "x/weight"].t(), w[h + "h/weight"].t(), w[h + "x/bias"], w[h + "h/bias"]]
            zeros = torch.zeros(1, *x[:, 0].shape, dtype=x.dtype)
            # What torch.nn.LSTM and torch.nn.GRU call, with these weights.
            run = getattr(torch._VF, cell)
            x = run(x, (zeros, zeros) if cell == "lstm" else zeros, weights, True, 1, 0.0, False, False, True)[0]
        return linear(w, "head", x) if "head/weight" in w else x @ w["wte/weight"].t()

    return logits


def bert_blocks(w, x, layers, heads, epsilon, hidden=None):
    """What is behind the rows of tokens x; `hidden` [batch, time]: what no token sees."""
    def norm(name, x):
        return F.layer_norm(x, x.shape[-1:], w[name + "/weight"], w[name + "/bias"], epsilon)

    x = norm("ln", x + w["wpe/weight"] + w["types/weight"][0])
    for i in range(layers):
        h = f"h{i}/"
        q, k, v = (linear(w, h + "attn/" + n, x).unflatten(-1, (heads, -1)).transpose(1, 2) for n in "qkv")
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if hidden is not None:
            scores = scores.masked_fill(hidden[:, None, None], float("-inf"))
        x = norm(h + "ln1", x + linear(w, h + "attn/o", (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)))
        x = norm(h + "ln2", x + linear(w, h + "mlp/down", F.gelu(linear(w, h + "mlp/up", x))))
    return x


def bert(layers, heads, mask_rate, mask_token, epsilon=1e-12, seed=1):
    """Returns its loss, of the tokens that are masked."""
    def loss(w, step, tokens, labels):
        masked = dropout(torch.ones(tokens.shape, dtype=torch.float64), mask_rate, "dropout", seed, step) == 0
        x = bert_blocks(w, w["wte/weight"][tokens.masked_fill(masked, mask_token)], layers, heads, epsilon)
        x = F.gelu(linear(w, "transform", x))
        x = F.layer_norm(x, x.shape[-1:], w["transform_ln/weight"], w["transform_ln/bias"], epsilon)
        return F.cross_entropy((x @ w["wte/weight"].t() + w["head/bias"])[masked], tokens[masked])

    return loss


def bert_classifier(layers, heads, epsilon=1e-12):
    def logits(w, step, inputs, labels):
        tokens, padding = inputs
        x = bert_blocks(w, w["wte/weight"][tokens], layers, heads, epsilon, padding)
        return linear(w, "classifier", torch.tanh(linear(w, "pooler", x[:, 0])))

    return logits


def rms_norm(w, name, x, epsilon):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + epsilon) * w[name + "/weight"]


def turned(x, theta):
    """Rotary positions of x [batch, heads, time, width]: pairs of columns are half a head apart."""
    half = x.shape[-1] // 2
    inverse = theta**(-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(x.shape[-2], dtype=torch.float32)[:, None] * inverse.float()
    cos, sin = angles.double().cos(), angles.double().sin()
    return torch.cat((x[..., :half] * cos - x[..., half:] * sin, x[..., half:] * cos + x[..., :half] * sin), -1)


def gated_decoder(layers, epsilon, attention):
    """Logits of a decoder around attention(w, name, x)."""
    def logits(w, step, tokens, labels):
        x = w["wte/weight"][tokens]
        for i in range(layers):
            h = f"h{i}/"
            x = x + attention(w, h + "attn/", rms_norm(w, h + "norm1", x, epsilon))
            y = rms_norm(w, h + "norm2", x, epsilon)
            gated = F.silu(linear(w, h + "mlp/gate", y)) * linear(w, h + "mlp/up", y)
            x = x + linear(w, h + "mlp/down", gated)
        x = rms_norm(w, "norm_f", x, epsilon)
        return linear(w, "head", x) if "head/weight" in w else x @ w["wte/weight"].t()

    return logits


def llama(layers, heads, kv_heads, theta=10000.0, epsilon=1e-5, window=0):
    def attention(w, name, x):
        batch, time, _ = x.shape
        hidden = torch.ones(time, time, dtype=torch.bool).triu(1)
        if window > 0:
            hidden |= torch.ones(time, time, dtype=torch.bool).tril(-window)
        q, k, v = (linear(w, name + n, x).view(batch, time, count, -1).transpose(1, 2)
                   for n, count in (("q", heads), ("k", kv_heads), ("v", kv_heads)))
        if name + "q_norm/weight" in w:
            q, k = rms_norm(w, name + "q_norm", q, epsilon), rms_norm(w, name + "k_norm", k, epsilon)
        q, k = turned(q, theta), turned(k, theta)
        k, v = (z.repeat_interleave(heads // kv_heads, 1) for z in (k, v))
        scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(hidden, float("-inf"))
        return linear(w, name + "o", (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, time, -1))

    return gated_decoder(layers, epsilon, attention)


def deepseek(layers, heads, plain, rotary, value, theta=10000.0, yarn=None, epsilon=1e-6):
    """`yarn`: factor, original context, mscale and mscale_all_dim."""
    inverse = theta**(-torch.arange(rotary // 2, dtype=torch.float64) / (rotary // 2))
    amplitude, score_factor = 1.0, 1.0
    if yarn is not None:
        factor, original, of_sines, of_scores = yarn
        low, high = (rotary * math.log(original / (2 * math.pi * turns)) / (2 * math.log(theta)) for turns in (32, 1))
        low, high = max(math.floor(low), 0), min(math.ceil(high), rotary - 1)
        ramp = ((torch.arange(rotary // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
        inverse = inverse * (1 - ramp) + inverse / factor * ramp
        of_sines, of_scores = (0.1 * m * math.log(factor) + 1 for m in (of_sines, of_scores))
        amplitude, score_factor = of_sines / of_scores, of_scores**2

    def neighbours_turned(x):
        """x [batch, heads, time, rotary]: pairs of columns are neighbours."""
        angles = torch.arange(x.shape[-2], dtype=torch.float32)[:, None] * inverse.float()
        cos, sin = amplitude * angles.double().cos(), amplitude * angles.double().sin()
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2)

    def attention(w, name, x):
        narrow = rms_norm(w, name + "q_norm", linear(w, name + "q_down", x), 1e-6) if name + "q_up/weight" in w else x
        q = linear(w, name + ("q_up" if narrow is not x else "q"), narrow).unflatten(-1, (heads, -1)).transpose(1, 2)
        c, k_turned = linear(w, name + "kv_down", x).split((w[name + "kv_up/weight"].shape[0], rotary), -1)
        kv = linear(w, name + "kv_up", rms_norm(w, name + "kv_norm", c, 1e-6)).unflatten(-1, (heads, -1))
        k, v = kv.transpose(1, 2).split((plain, value), -1)
        k = torch.cat((k, neighbours_turned(k_turned[:, None]).expand(-1, heads, -1, -1)), -1)
        q = torch.cat((q[..., :plain], neighbours_turned(q[..., plain:])), -1)
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (q @ k.transpose(-1, -2) * score_factor / math.sqrt(plain + rotary)).masked_fill(hidden, float("-inf"))
        return linear(w, name + "o", (scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    return gated_decoder(layers, epsilon, attention)


def gemma(layers, heads, kv_heads, query_scale, score_cap, logit_cap, window, window_every=2, theta=10000.0,
          theta_of_windows=None, epsilon=1e-6):
    def norm(w, name, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + epsilon) * (1 + w[name + "/weight"])

    def capped(x, cap):
        return cap * torch.tanh(x / cap) if cap > 0 else x

    def attention(w, name, x, sees_all):
        batch, time, _ = x.shape
        q, k, v = (linear(w, name + n, x).view(batch, time, count, -1).transpose(1, 2)
                   for n, count in (("q", heads), ("k", kv_heads), ("v", kv_heads)))
        if name + "q_norm/weight" in w:
            q, k = norm(w, name + "q_norm", q), norm(w, name + "k_norm", k)
        angle = theta if sees_all else theta_of_windows or theta
        q, k = turned(q, angle), turned(k, angle)
        k, v = (z.repeat_interleave(heads // kv_heads, 1) for z in (k, v))
        hidden = torch.ones(time, time, dtype=torch.bool).triu(1)
        if not sees_all:
            hidden |= torch.ones(time, time, dtype=torch.bool).tril(-window)
        scores = capped(q @ k.transpose(-1, -2) / math.sqrt(query_scale), score_cap).masked_fill(hidden, float("-inf"))
        return linear(w, name + "o", (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, time, -1))

    def logits(w, step, tokens, labels):
        x = w["wte/weight"][tokens] * math.sqrt(w["wte/weight"].shape[1])
        for i in range(layers):
            h = f"h{i}/"
            attended = attention(w, h + "attn/", norm(w, h + "norm1", x), (i + 1) % window_every == 0)
            x = x + norm(w, h + "norm1_out", attended)
            y = norm(w, h + "norm2", x)
            gated = F.gelu(linear(w, h + "mlp/gate", y), approximate="tanh") * linear(w, h + "mlp/up", y)
            x = x + norm(w, h + "norm2_out", linear(w, h + "mlp/down", gated))
        return capped(norm(w, "norm_f", x) @ w["wte/weight"].t(), logit_cap)

    return logits


def t5(layers, decoder_layers, heads, source, buckets, most_distance, start_token=0, epsilon=1e-6):
    """Returns its loss."""
    def norm(w, name, x):
        return rms_norm(w, name, x, epsilon)

    def attention(w, name, x, y, added):
        q, k, v = (linear(w, name + n, z).unflatten(-1, (heads, -1)).transpose(1, 2)
                   for n, z in (("q", x), ("k", y), ("v", y)))
        mixed = (q @ k.transpose(-1, -2) + added).softmax(-1) @ v
        return linear(w, name + "o", mixed.transpose(1, 2).flatten(2))

    def of_distances(w, name, time, causal):
        """As transformers computes it."""
        distance = torch.arange(time)[None, :] - torch.arange(time)[:, None]
        groups = buckets if causal else buckets // 2
        first = 0 if causal else (distance > 0).long() * groups
        apart = -distance.clamp(max=0) if causal else distance.abs()
        alone = groups // 2
        far = alone + (torch.log(apart.float() / alone) / math.log(most_distance / alone) * (groups - alone)).long()
        group = first + torch.where(apart < alone, apart, far.clamp(max=groups - 1))
        added = w[name + "distances/weight"][group].permute(2, 0, 1)
        hidden = torch.ones(time, time, dtype=torch.bool).triu(1) & causal
        return added.masked_fill(hidden, float("-inf"))

    def mlp(w, name, x):
        if name + "in/weight" in w:
            return linear(w, name + "down", F.relu(linear(w, name + "in", x)))
        gate = F.gelu(linear(w, name + "gate", x), approximate="tanh")
        return linear(w, name + "down", gate * linear(w, name + "up", x))

    def blocks(w, name, tokens, count, encoded=None):
        x = w["wte/weight"][tokens]
        added = of_distances(w, name, x.shape[1], encoded is not None)
        for i in range(count):
            h = f"{name}h{i}/"
            y = norm(w, h + "norm1", x)
            x = x + attention(w, h + "attn/", y, y, added)
            if encoded is not None:
                x = x + attention(w, h + "cross/", norm(w, h + "norm_cross", x), encoded, 0)
            x = x + mlp(w, h + "mlp/", norm(w, h + "norm2", x))
        return norm(w, name + "norm_f", x)

    def loss(w, step, tokens, labels):
        encoded = blocks(w, "encoder/", tokens[:, :source], layers)
        wanted = tokens[:, source:]
        read = torch.cat((torch.full_like(wanted[:, :1], start_token), wanted[:, :-1]), 1)
        x = blocks(w, "decoder/", read, decoder_layers, encoded)
        table = w["wte/weight"]
        logits = linear(w, "head", x) if "head/weight" in w else x / math.sqrt(table.shape[1]) @ table.t()
        return F.cross_entropy(logits.flatten(0, 1), wanted.flatten())

    return loss


def convnet(w, step, images, labels):
    x = images
    i = 0
    while f"conv{i}/weight" in w:
        x = F.max_pool2d(F.relu(F.conv2d(x, w[f"conv{i}/weight"], w[f"conv{i}/bias"], padding=2)), 2)
        i += 1
    return linear(w, "head", F.relu(linear(w, "fc", x.flatten(1))))


class ResNet:
    """A ReLU whose input is as near to zero as rounding may pass it on in 32 bits and not in 64. That alone changes the
    gradients by 1% where a layer has few pixels. `margin` is how far from zero the inputs stayed."""

    def __init__(self, blocks, bottlenecks, small_images):
        self.blocks, self.bottlenecks, self.small_images = blocks, bottlenecks, small_images
        self.margin = math.inf

    def relu(self, x):
        self.margin = min(self.margin, x.detach().abs().min().item())
        return F.relu(x)

    def conv_norm(self, w, name, x, stride=1):
        k = w[name + "/conv/weight"]
        y = F.conv2d(x, k, stride=stride, padding=k.shape[-1] // 2)
        norm = name + "/norm/"
        return F.batch_norm(y, w[norm + "running_mean"], w[norm + "running_var"], w[norm + "weight"], w[norm + "bias"],
                            True, 0.1, 1e-5)

    def block(self, w, name, x, stride):
        y = self.relu(self.conv_norm(w, name + "a", x, 1 if self.bottlenecks else stride))
        y = self.conv_norm(w, name + "b", y, stride if self.bottlenecks else 1)
        y = self.conv_norm(w, name + "c", self.relu(y)) if self.bottlenecks else y
        shortcut = name + "shortcut"
        return self.relu(y + (self.conv_norm(w, shortcut, x, stride) if shortcut + "/conv/weight" in w else x))

    def pixels(self, w, images):
        x = self.relu(self.conv_norm(w, "stem", images, 1 if self.small_images else 2))
        x = x if self.small_images else F.max_pool2d(x, 3, 2, 1)
        for stage, count in enumerate(self.blocks):
            for block in range(count):
                x = self.block(w, f"s{stage}b{block}/", x, 2 if stage > 0 and block == 0 else 1)
        return x

    def features(self, w, images):
        return self.pixels(w, images).mean((2, 3))

    def __call__(self, w, step, images, labels):
        return linear(w, "head", self.features(w, images))


def vit(patch, layers, heads):
    def norm(w, name, x):
        return F.layer_norm(x, x.shape[-1:], w[name + "/weight"], w[name + "/bias"], 1e-6)

    def logits(w, step, images, labels):
        x = F.conv2d(images, w["patches/weight"], w["patches/bias"], stride=patch).flatten(2).transpose(1, 2)
        x = torch.cat((w["class_token"].expand(len(x), -1, -1), x), 1) + w["positions"]
        for i in range(layers):
            h = f"h{i}/"
            y = norm(w, h + "ln1", x)
            q, k, v = (linear(w, h + "attn/" + n, y).unflatten(-1, (heads, -1)).transpose(1, 2) for n in "qkv")
            mixed = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1) @ v
            x = x + linear(w, h + "attn/o", mixed.transpose(1, 2).flatten(2))
            x = x + linear(w, h + "mlp/down", F.gelu(linear(w, h + "mlp/up", norm(w, h + "ln2", x))))
        return linear(w, "head", norm(w, "ln_f", x)[:, 0])

    return logits


def unet(levels, groups, noise, bilinear, seed=1):
    """Returns its loss."""
    def block(w, name, x):
        for part in (name + "/a/", name + "/b/"):
            x = F.conv2d(x, w[part + "conv/weight"], w[part + "conv/bias"], padding=1)
            x = F.silu(F.group_norm(x, groups, w[part + "norm/weight"], w[part + "norm/bias"]))
        return x

    def twice(w, name, x):
        if bilinear:
            x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
            return F.conv2d(x, w[name + "/weight"], w[name + "/bias"])
        return F.conv_transpose2d(x, w[name + "/weight"], w[name + "/bias"], stride=2)

    def loss(w, step, images, labels):
        x, at_level = dropout(images, noise, "dropout", seed, step), []
        for level in range(levels):
            at_level.append(block(w, f"down{level}", x))
            x = F.max_pool2d(at_level[-1], 2)
        x = block(w, "middle", x)
        for level in reversed(range(levels)):
            x = block(w, f"up{level}", torch.cat((at_level[level], twice(w, f"up{level}/twice", x)), 1))
        return F.mse_loss(F.conv2d(x, w["head/weight"], w["head/bias"]), images)

    return loss


def hidden_layers(w, scope, x):
    i = 0
    while f"{scope}fc{i}/weight" in w:
        x = F.relu(linear(w, f"{scope}fc{i}", x))
        i += 1
    return x


def gan(latent, minimax, seed=1):
    """Returns its loss."""
    def player(w, name, x):
        return linear(w, f"{name}/head", hidden_layers(w, f"{name}/", x))

    def loss(w, step, images, labels):
        fixed = {name: weight.detach() for name, weight in w.items()}
        made = player(w, "generator", normal_like((len(images), latent), "normal_like", seed, step))
        told = F.softplus(-player(w, "discriminator", images.flatten(1))).mean()
        if minimax:
            return -(told + F.softplus(player(w, "discriminator", made)).mean())
        of_made = F.softplus(player(w, "discriminator", made.detach())).mean()
        return told + of_made + F.softplus(-player(fixed, "discriminator", made)).mean()

    return loss


def mlp(w, step, images, labels):
    return linear(w, "head", hidden_layers(w, "", images.flatten(1)))


def margin_classifier(scale, margin, network=lambda w, images: hidden_layers(w, "", images.flatten(1)), rate=0.0,
                      seed=1):
    def directions(x):
        return x * torch.rsqrt((x * x).sum(1, keepdim=True) + 1e-12)

    def batch_norm(w, name, x):
        return F.batch_norm(x, w[name + "/running_mean"], w[name + "/running_var"], w.get(name + "/weight"),
                            w[name + "/bias"], True, 0.1, 1e-5)

    def logits(w, step, images, labels):
        x = network(w, images)
        if "norm_in/weight" in w:
            x = dropout(batch_norm(w, "norm_in", x).flatten(1), rate, "dropout", seed, step)
        x = linear(w, "embedding", x)
        features = batch_norm(w, "norm_out", x) if "norm_out/bias" in w else x
        cosines = directions(features) @ directions(w["classes"]).t()
        return scale * (cosines - margin * F.one_hot(labels, cosines.shape[1]))

    return logits


def wide_deep(w, step, inputs, labels):
    ids, numbers = inputs
    x = hidden_layers(w, "deep/", torch.cat([w["deep/table"][ids].flatten(1), numbers], 1))
    return w["wide/table"][ids].sum(1) + linear(w, "deep/head", x)


def dlrm(w, step, inputs, labels):
    """Returns its loss."""
    ids, numbers = inputs
    x = hidden_layers(w, "bottom/", numbers)
    vectors = torch.cat([x[:, None], w["table"][ids]], 1)
    row, column = torch.tril_indices(vectors.shape[1], vectors.shape[1], offset=-1)
    pairs = (vectors @ vectors.transpose(1, 2))[:, row, column]
    logits = linear(w, "head", hidden_layers(w, "top/", torch.cat([x, pairs], 1)))
    return F.binary_cross_entropy_with_logits(logits[:, 0], labels.double())


class RoundedToHalf(torch.autograd.Function):
    """A value that is kept in f16, and whose gradient is."""

    @staticmethod
    def forward(ctx, x):
        return x.half().double()

    @staticmethod
    def backward(ctx, dy):
        return dy.half().double()


def linear_in_f16(w, name, x):
    half = RoundedToHalf.apply
    weight = w[name + "/weight"]
    rounded = weight + (weight.half().double() - weight).detach()  # its gradient is not rounded
    return half(half(half(x) @ rounded) + w[name + "/bias"])


def mlp_in_f16(w, step, images, labels):
    x = images.flatten(1)
    i = 0
    while f"fc{i}/weight" in w:
        x = F.relu(linear_in_f16(w, f"fc{i}", x))
        i += 1
    return linear_in_f16(w, "head", x)


def gelu_mlp(w, name, x):
    return linear(w, name + "/down", F.gelu(linear(w, name + "/up", x)))


def mlp_mixer(w, step, images, labels):
    """Patches of 7 x 7, two layers."""
    x = F.conv2d(images, w["patches/weight"], w["patches/bias"], stride=7).flatten(2).transpose(1, 2)
    for layer in ("b0/", "b1/"):
        x = x + gelu_mlp(w, layer + "tokens", layer_norm(w, layer + "ln1", x).transpose(1, 2)).transpose(1, 2)
        x = x + gelu_mlp(w, layer + "channels", layer_norm(w, layer + "ln2", x))
    return linear(w, "head", layer_norm(w, "ln", x).mean(1))


def softened(last):
    """What makes the branches of a ResNet small, whose last norm is called so."""
    def soften(weights):
        for name, value in weights.items():
            if name[0] == "s" and name.endswith(f"/{last}/norm/weight"):
                value *= 0.1

    return soften
