"""What the functions of several ops in PyTorch share."""
import torch

from random_numbers import key_of, uniform


def gradient(function, at, dy):
    """The gradient of `function` in `at`, whose result has the gradient `dy`."""
    at = at.detach().requires_grad_()
    return torch.autograd.grad(function(at), at, dy)[0]


def column(t):
    return t.unsqueeze(-1)


def dropout(a, x):
    key = a["key"] if isinstance(a.get("key"), str) else a["node"]
    drawn = torch.tensor(uniform(key_of(a["job seed"], key), 0, x.numel())).view(x.shape)
    return x * (drawn >= torch.tensor(a["rate"], dtype=torch.float32)) / (1 - a["rate"])
