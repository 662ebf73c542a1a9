"""Every op and composed function against PyTorch: the same operands give the same values, and the same gradients of all
operands.

    python3 test/parity/op_parity_test.py PATH_TO_OP_DUMP PATH_TO_PYTHON_PACKAGES [cuda]

op_dump writes what our kernels compute for the cases of the laws, and for cases with ties, where an op may choose among
slopes. op_functions.py says what each op is in PyTorch, which computes in f64 what is f32 in a job; what is narrower is
only moved and rounded here, which both do alike.

Elements are compared one by one. An error may be a few roundings of the element itself, and what the rounding of the
operands can do to it: PyTorch computes each case again on operands that are moved in their last bit, and the spread of
an element says how much of it is left after cancellation. What an op rounds in between beyond that is in INTERMEDIATE,
with the reason.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

OP_DUMP = os.path.abspath(sys.argv[1])
sys.path.append(os.path.abspath(sys.argv[2]))
DEVICE = sys.argv[3:]

import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

from composed_functions import COMPOSED  # noqa: E402
from op_functions import NO_COUNTERPART, OPS, by_name  # noqa: E402
from random_numbers import philox  # noqa: E402

ROUNDING = 2.0**-24  # of an f32, relative
OF_ELEMENT = 32  # roundings of the element: chains of functions, polynomials of exp, tanh and erf
OF_OPERANDS = 32  # times the spread, which is that of single roundings: sums round once per addend
SMALLEST = 2.0**-126  # below it an f32 has fewer bits, and our kernels flush to zero
TRIALS = 16

# Absolute errors in units of ROUNDING, of ops that round something between that is larger than what comes out.
INTERMEDIATE = {
    "attention": 64, "attention_grad": 64,  # p (dp - delta): both are sums over the columns of a head, and may be equal
    "ScoredAttention": 64,  # likewise
    "tanh": 32,  # 1 - y^2, where y is a few roundings from 1
    "sigmoid": 4,  # y (1 - y), likewise
    "gelu": 4,  # x / 2 (1 + erf), likewise
    "softmax": 4,  # y (dy - sum of dy y), where one y is 1
    "softmax_cross_entropy": 32,  # exp(x - lse) - 1, where x and lse are large
}

# What compares elements for equality is not moved: it would compute something else. These ops only choose and divide.
UNMOVED_OPS = {"extremum_count", "extremum_grad", "first_index"}
UNMOVED_CASES = {"ties", "narrow"}

# The dtypes that an operand has in PyTorch: f32 is computed in f64.
DTYPES = {"f32": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16, "i32": torch.int32, "i64": torch.int64,
          "u8": torch.uint8, "bool": torch.bool}


def dump():
    """The list of ops with a gradient, and all cases with their tensors: case["in"] and so on map operand numbers to
    tensors."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([OP_DUMP, folder, *DEVICE], check=True, timeout=300)
        tensors = load_file(os.path.join(folder, "ops.safetensors"))
        with open(os.path.join(folder, "ops.json")) as file:
            description = json.load(file)
    for i, case in enumerate(description["cases"]):
        case["seed"] = description["seed"]
        for kind in ("in", "out", "after", "dy", "dx"):
            case[kind] = {int(k): tensors[f"{i}/{kind}{k}"].to(DTYPES[dtype]) for k,
                          dtype in case.get(kind, {}).items()}
    return description["differentiable"], description["cases"]


def in_pytorch(case):
    """The results followed by the overwritten operands, and the gradients by operand number, as PyTorch computes
    them."""
    attrs = {**case["attrs"], "node": case["node"], "job seed": case["seed"]}
    operands = [x.detach() for x in case["in"].values()]
    variables = {k: x.requires_grad_() for k, x in enumerate(operands) if case["dy"] and x.is_floating_point()}
    results = OPS[case["op"]](attrs, *operands)
    results = [results] if isinstance(results, torch.Tensor) else list(results)
    gradients = {}
    if case["dy"]:
        found = torch.autograd.grad(results[0], list(variables.values()), case["dy"][0].to(results[0].dtype),
                                    allow_unused=True)
        gradients = {k: dx for k, dx in zip(variables, found) if dx is not None}
    return [result.detach() for result in results], gradients


def moved(x, generator):
    """x with every element moved by one rounding, up or down."""
    if x.dtype != torch.float64:
        return x
    signs = torch.randint(0, 2, x.shape, generator=generator) * 2 - 1
    return x.detach() * (1 + ROUNDING * signs)


def spread(case):
    """How far results and gradients move when operands do: lists like those of in_pytorch, of standard deviations."""
    generator = torch.Generator().manual_seed(case["seed"])
    results, gradients = in_pytorch(case)
    squares = [torch.zeros(r.shape, dtype=torch.float64) for r in results]
    of_gradients = {k: torch.zeros_like(g) for k, g in gradients.items()}
    if case["op"] in UNMOVED_OPS or case["what"] in UNMOVED_CASES:
        return squares, of_gradients
    for _ in range(TRIALS):
        trial = {**case, **{kind: {k: moved(x, generator) for k, x in case[kind].items()} for kind in ("in", "dy")}}
        other_results, other_gradients = in_pytorch(trial)
        for square, here, there in zip(squares, results, other_results):
            square += (there.double() - here.double()).nan_to_num(0, 0, 0) ** 2 / TRIALS
        for k, square in of_gradients.items():
            square += (other_gradients[k] - gradients[k]).nan_to_num(0, 0, 0) ** 2 / TRIALS
    return [square.sqrt() for square in squares], {k: square.sqrt() for k, square in of_gradients.items()}


class OpParityTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.differentiable, cls.cases = dump()
        OPS.update(COMPOSED)
        for op in {case["op"] for case in cls.cases} - set(OPS) - set(NO_COUNTERPART):
            if by_name(op):
                OPS[op] = by_name(op)
        cls.worst = (0, "none")

    def compare(self, got, want, spread, what, op):
        self.assertEqual(list(got.shape), list(want.shape), what)
        exact = not got.is_floating_point() or got.dtype != torch.float64
        got, want, spread = got.double().flatten(), want.double().flatten(), spread.flatten()
        # The error is none where infinities and NaNs agree, and NaN where they do not.
        error = torch.where((got == want) | (got.isnan() & want.isnan()), torch.zeros_like(got), (got - want).abs())
        bound = OF_ELEMENT * ROUNDING * want.abs() + OF_OPERANDS * spread
        bound += INTERMEDIATE.get(op, 0) * ROUNDING + SMALLEST
        bound = torch.where(want.isfinite() & torch.tensor(not exact), bound, torch.zeros_like(bound))
        share = torch.where(error == 0, error, error / bound).nan_to_num(torch.inf)
        if share.numel() == 0:
            return
        at = share.argmax().item()
        self.assertLessEqual(share[at].item(), 1,
                             f"{what}: element {at} is {got[at].item()}, not {want[at].item()} +- {bound[at].item()}")
        type(self).worst = max(self.worst, (share[at].item(), what))

    def test_ops_have_the_values_and_gradients_of_pytorch(self):
        for i, case in enumerate(self.cases):
            if case["op"] not in OPS:
                continue
            what = f"case {i}, {case['text']} {case['attrs']}"
            with self.subTest(what):
                results, gradients = in_pytorch(case)
                of_results, of_gradients = spread(case)
                ours = list(case["out"].values()) + list(case["after"].values())
                self.assertEqual(len(ours), len(results), "results")
                for k, (got, want) in enumerate(zip(ours, results)):
                    self.compare(got, want, of_results[k], f"result {k} of {what}", case["op"])
                self.assertEqual(list(case["dx"]), list(gradients), "operands with a gradient")
                for k, want in gradients.items():
                    self.compare(case["dx"][k], want, of_gradients[k], f"gradient of operand {k} of {what}", case["op"])
        values = sum(len(case["out"]) + len(case["after"]) for case in self.cases if case["op"] in OPS)
        gradients = sum(len(case["dx"]) for case in self.cases)
        print(f"{len(OPS)} ops: {values} values and {gradients} gradients; the largest error is {self.worst[0]:.0%} of "
              f"its bound, in {self.worst[1]}")

    def test_every_op_of_the_dump_is_compared_or_has_a_reason_not_to_be(self):
        dumped = {case["op"] for case in self.cases}
        self.assertEqual(sorted(dumped - set(OPS) - set(NO_COUNTERPART)), [], "neither a function nor a reason")
        self.assertEqual(sorted((set(OPS) | set(NO_COUNTERPART)) - dumped), [], "no case in the dump")
        self.assertEqual(sorted(set(OPS) & set(NO_COUNTERPART)), [], "a function and a reason")

    def test_every_op_with_a_gradient_has_one_compared(self):
        compared = {case["op"] for case in self.cases if case["dx"] and case["op"] in OPS}
        self.assertEqual(sorted(compared), sorted(self.differentiable))


    def test_every_composed_function_is_compared(self):
        declared = set()
        for header in ("composed.h", "einsum.h"):
            with open(os.path.join(os.path.dirname(__file__), "../../oneflow_core", header)) as file:
                declared |= set(re.findall(r"^(?:Tensor|Sorted|std::vector<Tensor>) (\w+)\(", file.read(), re.M))
        self.assertEqual(declared, set(COMPOSED))

    def test_random_numbers_are_those_of_the_paper(self):
        # Known answers of the authors' library for Philox4x32-10.
        ones = 0xFFFFFFFF
        self.assertEqual(philox((0, 0), (0, 0, 0, 0)), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8))
        self.assertEqual(philox((ones, ones), (ones,) * 4), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD))


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(argv=[sys.argv[0]])
