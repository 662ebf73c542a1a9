"""Training in PyTorch as the engine does it: losses, the first gradients, weights, schedules, scaled losses."""
import math

import torch
import torch.nn.functional as F


def train(weights, model, batches, steps, optimizer, clip_norm, schedule, frozen=lambda name: False):
    """Trains a copy; returns the losses, the gradients of the first step and the weights after the last, with the
    statistics that the model keeps among them, and what is frozen. A model returns logits or its loss."""
    statistics = {name: value.double() for name, value in weights.items() if "/running_" in name or frozen(name)}
    params = {name: value.double().requires_grad_() for name, value in weights.items() if name not in statistics}
    opt = optimizer(params)
    losses, first_gradients = [], None
    for step in range(steps):
        for group in opt.param_groups:
            group["lr"] = schedule(step)
        inputs, labels = batches(step)
        made = model({**params, **statistics}, step, inputs, labels)
        loss = made if made.dim() == 0 else F.cross_entropy(made.reshape(-1, made.shape[-1]), labels.reshape(-1))
        opt.zero_grad()
        loss.backward()
        if first_gradients is None:
            first_gradients = {name: p.grad.clone() for name, p in params.items()}
        if clip_norm > 0:
            torch.nn.utils.clip_grad_norm_(list(params.values()), clip_norm)
        opt.step()
        losses.append(loss.item())
    return losses, first_gradients, {**{name: p.detach() for name, p in params.items()}, **statistics}


class GradScaler:
    """What torch.cuda.amp.GradScaler does, which does nothing without a GPU."""

    def __init__(self, init_scale, growth_interval):
        self.scale, self.growth_interval, self.good_steps = init_scale, growth_interval, 0

    def unscale(self, params):
        """Divides the gradients; whether all are finite."""
        for p in params:
            p.grad /= self.scale
        return all(p.grad.isfinite().all() for p in params)

    def update(self, good):
        self.good_steps = self.good_steps + 1 if good else 0
        if not good:
            self.scale *= 0.5
        elif self.good_steps == self.growth_interval:
            self.scale, self.good_steps = self.scale * 2, 0


def train_scaled(weights, model, batches, steps, optimizer, clip_norm, schedule, scaler):
    """Trains a copy by gradients of a scaled loss; returns of every step its loss, its scale and whether it was
    skipped, and the weights after the last. The schedule counts the steps that were not skipped."""
    params = {name: value.double().requires_grad_() for name, value in weights.items()}
    opt = optimizer(params)
    told, taken = [], 0
    for step in range(steps):
        for group in opt.param_groups:
            group["lr"] = schedule(taken)
        inputs, labels = batches(step)
        loss = F.cross_entropy(model(params, step, inputs, labels), labels)
        opt.zero_grad()
        (loss * scaler.scale).backward()
        scale, good = scaler.scale, scaler.unscale(list(params.values()))
        if good:
            torch.nn.utils.clip_grad_norm_(list(params.values()), clip_norm)
            opt.step()
            taken += 1
        scaler.update(good)
        told.append((loss.item(), scale, 0 if good else 1))
    return told, {name: p.detach() for name, p in params.items()}


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
