"""What the functions of several ops in PyTorch share."""
import torch

from random_numbers import key_of, uniform


def gradient(function, at, dy):
    """The gradient of `function` in `at`, whose result has the gradient `dy`."""
    at = at.detach().requires_grad_()
    return torch.autograd.grad(function(at), at, dy)[0]


def column(t):
    return t.unsqueeze(-1)


def drawn_numbers(a, count):
    """The first `count` numbers in [0, 1) that a node draws in step 0."""
    key = a["key"] if isinstance(a.get("key"), str) else a["node"]
    return torch.tensor(uniform(key_of(a["job seed"], key), 0, count))


def uniform_like(a, x):
    return drawn_numbers(a, x.numel()).view(x.shape).double()


def normal_like(a, x):
    """Box and Muller's, of two numbers each."""
    u, v = drawn_numbers(a, 2 * x.numel()).double().view(-1, 2).unbind(1)
    return ((-2 * torch.log(1 - u)).sqrt() * torch.cos(2 * torch.pi * v)).view(x.shape)


def dropout(a, x):
    drawn = drawn_numbers(a, x.numel()).view(x.shape)
    return x * (drawn >= torch.tensor(a["rate"], dtype=torch.float32)) / (1 - a["rate"])
