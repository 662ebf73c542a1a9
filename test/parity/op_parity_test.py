"""Every op against PyTorch: the same operands give the same values, and the same gradients of all operands.

    python3 test/parity/op_parity_test.py PATH_TO_OP_DUMP PATH_TO_PYTHON_PACKAGES

op_dump writes what our kernels compute for the cases of the laws, and for cases with ties, where an op may choose among slopes.
op_functions.py says what each op is in PyTorch, which computes in f64 what is f32 in a job; what is narrower is only
moved and rounded here, which both do alike.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

OP_DUMP = os.path.abspath(sys.argv[1])
sys.path.append(os.path.abspath(sys.argv[2]))

import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

from op_functions import NO_COUNTERPART, OPS  # noqa: E402

TOLERANCE = 1e-5  # relative to the largest element; integers agree exactly

# The dtypes that an operand has in PyTorch: f32 is computed in f64.
DTYPES = {"f32": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16, "i32": torch.int32, "i64": torch.int64,
          "u8": torch.uint8, "bool": torch.bool}


def dump():
    """The list of ops with a gradient, and all cases with their tensors: case["in"] and so on map operand numbers to tensors."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([OP_DUMP, folder], check=True, timeout=120)
        tensors = load_file(os.path.join(folder, "ops.safetensors"))
        with open(os.path.join(folder, "ops.json")) as file:
            description = json.load(file)
    for i, case in enumerate(description["cases"]):
        for kind in ("in", "out", "after", "dy", "dx"):
            case[kind] = {int(k): tensors[f"{i}/{kind}{k}"].to(DTYPES[dtype]) for k, dtype in case.get(kind, {}).items()}
    return description["differentiable"], description["cases"]


def in_pytorch(case):
    """The results followed by the overwritten operands, and the gradients by operand number, as PyTorch computes them."""
    attrs = dict(case["attrs"])
    if case["op"] == "dropout":
        attrs["mask"] = case["out"][0] != 0
    operands = list(case["in"].values())
    variables = {k: x.requires_grad_() for k, x in enumerate(operands) if case["dy"] and x.is_floating_point()}
    results = OPS[case["op"]](attrs, *operands)
    results = [results] if isinstance(results, torch.Tensor) else list(results)
    gradients = {}
    if case["dy"]:
        found = torch.autograd.grad(results[0], list(variables.values()), case["dy"][0].to(results[0].dtype), allow_unused=True)
        gradients = {k: dx for k, dx in zip(variables, found) if dx is not None}
    return [result.detach() for result in results], gradients


class OpParityTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.differentiable, cls.cases = dump()
        cls.worst = (0, "none")

    def compare(self, got, want, what):
        self.assertEqual(list(got.shape), list(want.shape), what)
        tolerance = TOLERANCE if got.is_floating_point() else 0
        got, want = got.double().flatten(), want.double().flatten()
        # The error is none where infinities and NaNs agree, and NaN where they do not.
        error = torch.where((got == want) | (got.isnan() & want.isnan()), torch.zeros_like(got), (got - want).abs())
        scale = want[want.isfinite()].abs().max().item() if want.isfinite().any() else 0
        at = error.nan_to_num(torch.inf).argmax().item()
        self.assertLessEqual(error[at].item(), tolerance * scale,
                             f"{what}: element {at} is {got[at].item()}, not {want[at].item()}, where the largest is {scale}")
        if scale > 0:
            type(self).worst = max(self.worst, (error[at].item() / scale, what))

    def test_ops_have_the_values_and_gradients_of_pytorch(self):
        for i, case in enumerate(self.cases):
            if case["op"] not in OPS:
                continue
            what = f"case {i}, {case['text']} {case['attrs']}"
            with self.subTest(what):
                results, gradients = in_pytorch(case)
                ours = list(case["out"].values()) + list(case["after"].values())
                self.assertEqual(len(ours), len(results), "results")
                for k, (got, want) in enumerate(zip(ours, results)):
                    self.compare(got, want, f"result {k} of {what}")
                self.assertEqual(list(case["dx"]), list(gradients), "operands with a gradient")
                for k, want in gradients.items():
                    self.compare(case["dx"][k], want, f"gradient of operand {k} of {what}")
        values = sum(len(case["out"]) + len(case["after"]) for case in self.cases if case["op"] in OPS)
        gradients = sum(len(case["dx"]) for case in self.cases)
        print(f"{len(OPS)} ops: {values} values and {gradients} gradients; the largest error is {self.worst[0]:.1e}, of {self.worst[1]}")

    def test_every_op_of_the_dump_is_compared_or_has_a_reason_not_to_be(self):
        dumped = {case["op"] for case in self.cases}
        self.assertEqual(sorted(dumped - set(OPS) - set(NO_COUNTERPART)), [], "neither a function nor a reason")
        self.assertEqual(sorted((set(OPS) | set(NO_COUNTERPART)) - dumped), [], "no case in the dump")
        self.assertEqual(sorted(set(OPS) & set(NO_COUNTERPART)), [], "a function and a reason")

    def test_every_op_with_a_gradient_has_one_compared(self):
        compared = {case["op"] for case in self.cases if case["dx"] and case["op"] in OPS}
        self.assertEqual(sorted(compared), sorted(self.differentiable))


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(argv=[sys.argv[0]])
