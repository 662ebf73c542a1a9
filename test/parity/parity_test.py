"""The engine against PyTorch: the same weights and data give the same losses and gradients.

    python3 test/parity/parity_test.py PATH_TO_ONEFLOW PATH_TO_PYTHON_PACKAGES
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ONEFLOW = os.path.abspath(sys.argv[1])
sys.path.append(os.path.abspath(sys.argv[2]))
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))

import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

import reference_models as ref  # noqa: E402

STEPS = 20
FASHION = "/usr/share/datasets/fashion-mnist/"


def oneflow(job, folder, *settings):
    """Runs a job of the project; returns its metrics lines."""
    metrics = os.path.join(folder, "metrics.jsonl")
    command = [ONEFLOW, "run", os.path.join(ROOT, "tools/examples", job), "--metrics", metrics]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    with open(metrics) as lines:
        return [json.loads(line) for line in lines]


class ParityTest(unittest.TestCase):
    def check(self, job, model, batches, optimizer, clip_norm, schedule, settings, layouts):
        with tempfile.TemporaryDirectory() as folder:
            initial = os.path.join(folder, "initial.safetensors")
            final = os.path.join(folder, "final.safetensors")
            gradients = os.path.join(folder, "gradients.safetensors")
            first = oneflow(job, folder, f"train.steps={STEPS}", f"save_initial_weights={initial}", f"save_weights={final}",
                            *settings, *layouts[0])
            losses, want_gradients, want_final = ref.train(load_file(initial), model, batches, STEPS, optimizer, clip_norm, schedule)
            for layout in layouts:
                # Gradients of the first step, from the same weights.
                lines = oneflow(job, folder, "train.steps=1", f"weights={initial}", f"save_gradients={gradients}", *settings, *layout)
                got = load_file(gradients)
                self.assertEqual(sorted(got), sorted(want_gradients))
                for name, want in want_gradients.items():
                    error = (got[name] - want).abs().max().item()
                    self.assertLess(error, 1e-4 * want.abs().max().item() + 1e-9, f"gradient of {name} under {layout}")
                norm = torch.stack([g.norm() for g in want_gradients.values()]).norm().item()
                self.assertLess(abs(lines[0]["grad_norm"] / norm - 1), 1e-4)
                # Losses of 20 steps, from the same weights.
                lines = oneflow(job, folder, f"train.steps={STEPS}", f"weights={initial}", *settings, *layout)
                self.assertEqual([line["step"] for line in lines], list(range(1, STEPS + 1)))
                if layout is layouts[0]:
                    self.assertEqual([line["loss"] for line in lines], [line["loss"] for line in first], "saved and loaded weights")
                for step, (line, want) in enumerate(zip(lines, losses)):
                    bar = 1e-5 if step == 0 else 1e-4
                    self.assertLess(abs(line["loss"] / want - 1), bar, f"loss of step {step + 1} under {layout}")
                    self.assertLess(abs(line["lr"] / schedule(step) - 1), 1e-6)
            got = load_file(final)
            for name, want in want_final.items():
                # A gradient that is zero but for rounding (the bias of keys: softmax does not see it) becomes noise in AdamW.
                if want_gradients[name].abs().max().item() < 1e-6:
                    continue
                scale = want.abs().max().item() + 1e-3
                self.assertLess((got[name] - want).abs().max().item(), 1e-2 * scale, f"{name} after {STEPS} steps")

    def test_gpt_with_adamw_clipping_and_cosine_schedule(self):
        settings = ["train.batch_size=8", "train.schedule.warmup_steps=5", "evaluate={batches:1}", "generate={tokens:1 prompt:\"a\"}"]
        for tied in (False, True):
            with self.subTest(tied=tied):
                self.check(
                    "gpt_dp2_tp2.pbtxt",
                    lambda w, x: ref.gpt(w, x, layers=4, heads=4),
                    ref.TextBatches(os.path.join(ROOT, "data/kjv.txt"), 0.05, 1, 8, 128),
                    lambda p: torch.optim.AdamW(ref.decayed(p, 0.1), betas=(0.9, 0.95), eps=1e-8),
                    1.0,
                    ref.cosine(2e-3, 5, STEPS, 0.1),
                    settings + [f"model.gpt.tied_embedding={str(tied).lower()}"],
                    [["mesh={}", "cluster.processes=1"], ["mesh={dp:2 tp:2}", "cluster.processes=2"]],
                )

    def test_convnet_with_adamw(self):
        self.check(
            "fashion_mnist.pbtxt",
            ref.convnet,
            ref.ImageBatches(FASHION + "train-images-idx3-ubyte.gz", FASHION + "train-labels-idx1-ubyte.gz", 1, 24),
            lambda p: torch.optim.AdamW(ref.decayed(p, 0.0), betas=(0.9, 0.999), eps=1e-8),
            0.0,
            ref.cosine(2e-3, 5, STEPS, 0.05),
            ["train.batch_size=24", "train.schedule.warmup_steps=5", "evaluate={batches:1}"],
            [["mesh={}", "cluster.processes=1"], ["mesh={dp:4}", "cluster.processes=2"]],
        )

    def test_mlp_with_sgd_and_nesterov_momentum(self):
        self.check(
            "mlp_fashion_mnist.pbtxt",
            ref.mlp,
            ref.ImageBatches(FASHION + "train-images-idx3-ubyte.gz", FASHION + "train-labels-idx1-ubyte.gz", 1, 24),
            lambda p: torch.optim.SGD(ref.decayed(p, 0.01), lr=1, momentum=0.9, nesterov=True),
            0.5,
            ref.cosine(0.05, 5, STEPS, 0.05),
            ["train.batch_size=24", "train.schedule.warmup_steps=5", "evaluate={batches:1}",
             "train.optimizer={sgd {momentum: 0.9 nesterov: true weight_decay: 0.01} clip_norm: 0.5}"],
            [["mesh={}", "cluster.processes=1"], ["mesh={dp:3}", "cluster.processes=1"]],
        )


if __name__ == "__main__":
    torch.set_num_threads(2)
    unittest.main(argv=[sys.argv[0]])
