"""The engine against PyTorch: the same weights and data give the same losses, gradients and weights, element by
element.

    python3 test/parity/parity_test.py PATH_TO_ONEFLOW PATH_TO_PYTHON_PACKAGES

The jobs are the project's examples with smaller models, each under several layouts.
"""
import functools
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ONEFLOW = os.path.abspath(sys.argv[1])
sys.path.append(os.path.abspath(sys.argv[2]))
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))

import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

import reference_data as data  # noqa: E402
import reference_models as ref  # noqa: E402
from reference_training import GradScaler, cosine, decayed, train, train_scaled  # noqa: E402

STEPS = 20
FASHION = "/usr/share/datasets/fashion-mnist/"
UNPACKED = tempfile.TemporaryDirectory()  # FASHION's files: a process takes a second to inflate them
ONE_DEVICE = ["mesh={}", "cluster.processes=1"]


@functools.cache
def unpacked(name):
    path = os.path.join(UNPACKED.name, name)
    with gzip.open(FASHION + name + ".gz") as packed, open(path, "wb") as file:
        shutil.copyfileobj(packed, file)
    return path


def unpacked_fashion():
    """Settings of jobs whose example reads FASHION."""
    return [f"data.images.{part}_{kind}='{unpacked(f'{prefix}-{kind}-{shape}-ubyte')}'"
            for part, prefix in (("train", "train"), ("test", "t10k"))
            for kind, shape in (("images", "idx3"), ("labels", "idx1"))]


def fashion_batches(seed, batch):
    return data.ImageBatches(unpacked("train-images-idx3-ubyte"), unpacked("train-labels-idx1-ubyte"), seed, batch)


def oneflow(job, folder, *settings):
    """Runs a job of the project; returns its metrics lines."""
    metrics = os.path.join(folder, "metrics.jsonl")
    command = [ONEFLOW, "run", os.path.join(ROOT, "tools/examples", job), "--metrics", metrics]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=300)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    with open(metrics) as lines:
        return [json.loads(line) for line in lines]


def text(field, **values):
    """A field of the job config in text format."""
    return f"{field}={{{' '.join(f'{name}:{value}' for name, value in values.items())}}}"


class ParityTest(unittest.TestCase):
    def assert_close(self, got, want, tolerance, what):
        """Every element, each with its own tolerance."""
        over = ((got.double() - want).abs() - tolerance).flatten()
        worst = over.argmax().item()
        self.assertLessEqual(
            over[worst].item(), 0,
            f"{what}, element {worst} of {over.numel()}: {got.flatten()[worst]} and not {want.flatten()[worst]}")

    # PyTorch computes in 64 bits, so that the tolerances are for our rounding alone. Measured: 6e-6 of a gradient's
    # root mean square, which is what its sums round to, however small an element is; nothing where the whole gradient
    # is zero but for rounding.
    def check_gradients(self, got, want, floor, spread):
        self.assertEqual(sorted(got), sorted(want))
        for name, g in want.items():
            self.assert_close(got[name], g, 1e-4 * g.abs() + spread * data.rms(g) + floor, f"gradient of {name}")

    # Measured: 9e-5 of how far the tensor's elements have moved, in the root mean square. A tensor whose gradient is
    # zero (the bias of keys: softmax does not see it) should not have moved; AdamW makes steps of its rounding, which
    # stay far below a learning rate. Each step rounds a weight.
    def check_weights(self, got, want, initial, gradients):
        self.assertEqual(sorted(got), sorted(want))
        for name, w in want.items():
            moved = data.rms(w - initial[name].double())
            tolerance = 2e-4 * moved + STEPS * 2.0**-24 * w.abs() if data.rms(gradients.get(name, w)) > 1e-12 else 1e-5
            self.assert_close(got[name], w, tolerance, f"{name} after {STEPS} steps")

    def check_metrics(self, lines, losses, gradients, schedule, tolerance):
        self.assertEqual([line["step"] for line in lines], list(range(1, STEPS + 1)))
        norm = torch.stack([g.norm() for g in gradients.values()]).norm().item()
        self.assertLess(abs(lines[0]["grad_norm"] / norm - 1), tolerance)
        for step, (line, want) in enumerate(zip(lines, losses)):
            self.assertLess(abs(line["loss"] / want - 1), tolerance, f"loss of step {step + 1}")
            self.assertLess(abs(line["lr"] / schedule(step) - 1), 1e-6)

    def check(self, job, model, batches, optimizer, schedule, settings, layouts, clip_norm=0.0, floor=1e-10,
              spread=2e-5, tolerance=1e-6, soften=None, frozen=lambda name: False):
        """`spread` is for gradients, in their root mean square, `tolerance` for losses and the norm of gradients;
        `soften` changes the weights to start from; what is `frozen` stays the same to the bit."""
        settings = settings + [f"train.batch_size={batches.batch}", "train.schedule.warmup_steps=5",
                               "evaluate={batches:1}"]
        with tempfile.TemporaryDirectory() as folder:
            initial, final, gradients = (os.path.join(folder, name) for name in ("initial", "final", "gradients"))
            fresh = oneflow(job, folder, "train.steps=1", f"save_initial_weights={initial}", *settings, *ONE_DEVICE)
            start = load_file(initial)
            if soften is not None:
                soften(start)
                save_file(start, initial)
            losses, want_gradients, want = train(start, model, batches, STEPS, optimizer, clip_norm, schedule,
                                                     frozen)
            for layout in [ONE_DEVICE] + layouts:
                with self.subTest(job=job, layout=" ".join(layout)):
                    first = oneflow(job, folder, "train.steps=1", f"weights={initial}", f"save_gradients={gradients}",
                                    *settings, *layout)
                    if layout is ONE_DEVICE and soften is None:
                        self.assertEqual(first[0]["loss"], fresh[0]["loss"], "saved and loaded weights")
                    self.check_gradients(load_file(gradients), want_gradients, floor, spread)
                    lines = oneflow(job, folder, f"train.steps={STEPS}", f"weights={initial}", f"save_weights={final}",
                                    *settings, *layout)
                    self.check_metrics(lines, losses, want_gradients, schedule, tolerance)
                    ended = load_file(final)
                    self.check_weights(ended, want, start, want_gradients)
                    for name in filter(frozen, start):
                        self.assertTrue(torch.equal(ended[name], start[name]), f"{name} is frozen")

    def check_gpt(self, job, layouts, tied=False, rate=0.0):
        self.check(
            job,
            ref.gpt(layers=2, heads=4, rate=rate),
            data.TextBatches(os.path.join(ROOT, "data/kjv.txt"), 0.05, 1, 8, 32),
            lambda p: torch.optim.AdamW(decayed(p, 0.1), betas=(0.9, 0.95), eps=1e-8),
            cosine(2e-3, 5, STEPS, 0.1),
            [text("model.gpt", layers=2, width=32, heads=4, context=32, dropout=rate, tied_embedding=str(tied).lower()),
             text("generate", tokens=1, prompt="'a'")],
            layouts,
            clip_norm=1.0,
        )

    def test_gpt_with_adamw_clipping_and_cosine_schedule(self):
        self.check_gpt("gpt_dp2_tp2.pbtxt", [["mesh={dp:2 tp:2}", "cluster.processes=2"],
                                             ["mesh={pp:2}", "cluster.processes=1", "train.micro_batches=4"]])

    def test_gpt_with_tied_embedding_in_a_pipeline_of_micro_batches(self):
        self.check_gpt("gpt_pp2_dp2.pbtxt", [["mesh={pp:2 dp:2}", "cluster.processes=2", "train.micro_batches=4"]],
                       tied=True)

    # LoRA: W + alpha / rank A B in the place of W. Both factors begin with numbers, so that both have gradients.
    def test_gpt_with_adapters(self):
        def begin(weights):
            generator = torch.Generator().manual_seed(7)
            for name, value in weights.items():
                if name.endswith("/lora_b"):
                    value.copy_(torch.randn(value.shape, generator=generator) * 0.1)

        self.check("gpt_dp2_tp2.pbtxt", ref.adapted(ref.gpt(layers=2, heads=4), 2.0),
                   data.TextBatches(os.path.join(ROOT, "data/kjv.txt"), 0.05, 1, 8, 32),
                   lambda p: torch.optim.AdamW(decayed(p, 0.1), betas=(0.9, 0.95), eps=1e-8),
                   cosine(2e-3, 5, STEPS, 0.1),
                   [text("model.gpt", layers=2, width=32, heads=4, context=32),
                    text("generate", tokens=1, prompt="'a'"),
                    "train.lora={match: 'h*/attn/*/weight' match: 'h*/mlp/*/weight' rank: 4 alpha: 8 also: 'head/*'}"],
                   [["mesh={dp:2 tp:2}", "cluster.processes=2"],
                    ["mesh={pp:2}", "cluster.processes=1", "train.micro_batches=4"]],
                   clip_norm=1.0, soften=begin,
                   frozen=lambda name: "/lora_" not in name and not name.startswith("head/"))

    def check_kin(self, model, reference, **fields):
        """A decoder of 2 layers, 4 heads and a width of 32, trained on a text."""
        self.check(
            "gpt_dp2_tp2.pbtxt",
            reference,
            data.TextBatches(os.path.join(ROOT, "data/kjv.txt"), 0.05, 1, 8, 32),
            lambda p: torch.optim.AdamW(decayed(p, 0.1), betas=(0.9, 0.95), eps=1e-8),
            cosine(2e-3, 5, STEPS, 0.1),
            [text("model." + model, layers=2, width=32, heads=4, hidden=80, context=32, **fields),
             text("generate", tokens=1, prompt="'a'")],
            [["mesh={dp:2 tp:2}", "cluster.processes=2"],
             ["mesh={pp:2}", "cluster.processes=1", "train.micro_batches=4"]],
            clip_norm=1.0,
        )

    # Grouped heads, biases and norms of queries and keys, a window, heads wider than the width divided: what Llama,
    # Mistral, Qwen2 and Qwen3 are made of.
    def test_llama_and_its_kin(self):
        for kin in ({"kv_heads": 2, "rope_theta": 500000.0}, {"kv_heads": 2, "qkv_bias": "true", "window": 9},
                    {"kv_heads": 4, "qk_norm": "true", "head_width": 16, "tied_embedding": "true"}):
            with self.subTest(**kin):
                self.check_kin("llama", ref.llama(layers=2, heads=4, kv_heads=kin["kv_heads"],
                                                  theta=kin.get("rope_theta", 10000.0), window=kin.get("window", 0)),
                               **kin)

    # Gemma 2 and 3. The caps are low, so that they bend.
    def test_gemma(self):
        self.check_kin("gemma", ref.gemma(layers=2, heads=4, kv_heads=2, query_scale=5, score_cap=3, logit_cap=8,
                                          window=9),
                       kv_heads=2, head_width=16, query_scale=5, score_cap=3, logit_cap=8, window=9)
        self.check_kin("gemma", ref.gemma(layers=2, heads=4, kv_heads=1, query_scale=8, score_cap=0, logit_cap=0,
                                          window=9, theta=1e6, theta_of_windows=1e4),
                       kv_heads=1, head_width=8, score_cap=0, logit_cap=0, window=9, qk_norm="true", rope_theta=1e6,
                       rope_theta_of_windows=1e4)

    # Queries that are narrowed, and values narrower than keys; neither, with YaRN and what it does to sines and scores.
    def test_deepseek(self):
        heads = {"plain_width": 6, "rotary_width": 4, "value_width": 7}
        self.check_kin("deepseek", ref.deepseek(layers=2, heads=4, plain=6, rotary=4, value=7),
                       query_rank=12, kv_rank=14, **heads)
        heads = {"plain_width": 4, "rotary_width": 8, "value_width": 16}
        self.check_kin("deepseek", ref.deepseek(layers=2, heads=4, plain=4, rotary=8, value=16, theta=100.0,
                                                yarn=(4.0, 16, 1.0, 0.7)),
                       kv_rank=10, **heads, rope_theta=100.0, rope_scaling="'yarn'", rope_factor=4,
                       rope_original_context=16, rope_magnitude=1, rope_score_magnitude=0.7, tied_embedding="true")

    def test_recurrent_networks(self):
        for cell, chunk in (("lstm", 0), ("lstm", 7), ("gru", 10)):
            with self.subTest(cell=cell, chunk=chunk):
                self.check(
                    "gpt_dp2_tp2.pbtxt",
                    ref.recurrent(layers=2, cell=cell),
                    data.TextBatches(os.path.join(ROOT, "data/kjv.txt"), 0.05, 1, 8, 32),
                    lambda p: torch.optim.AdamW(decayed(p, 0.1), betas=(0.9, 0.95), eps=1e-8),
                    cosine(2e-3, 5, STEPS, 0.1),
                    [text("model.recurrent", layers=2, width=24, context=32, cell=f"'{cell}'", chunk=chunk,
                          tied_embedding=str(cell == "gru").lower()),
                     text("generate", tokens=1, prompt="'a'")],
                    [["mesh={dp:2 tp:2}", "cluster.processes=2"],
                     ["mesh={pp:2}", "cluster.processes=1", "train.micro_batches=4"]],
                    clip_norm=1.0,
                )

    def check_text(self, model, reference, of_stages, source="text {path: 'data/kjv.txt' validation_fraction: 0.05}",
                   batches=data.TextBatches(os.path.join(ROOT, "data/kjv.txt"), 0.05, 1, 8, 32)):
        """A model that brings its own loss of windows of 32 tokens; `of_stages`: settings of its pipeline."""
        self.check("mlp_fashion_mnist.pbtxt", reference, batches,
                   lambda p: torch.optim.AdamW(decayed(p, 0.1), betas=(0.9, 0.95), eps=1e-5),
                   cosine(2e-3, 5, STEPS, 0.05),
                   [f"data={{{source}}}",
                    "train.optimizer={adamw {beta2: 0.95 epsilon: 1e-5 weight_decay: 0.1} clip_norm: 1}",
                    "train.schedule.learning_rate=2e-3", model],
                   [["mesh={dp:2 tp:2}", "cluster.processes=2"], ["mesh={pp:2}", "cluster.processes=1", *of_stages]],
                   clip_norm=1.0, floor=1e-9)  # the biases of keys have gradients of rounding size

    # A step of micro-batches would be of the mean of their means, over as many masked tokens as each has.
    def test_bert_on_masked_tokens(self):
        self.check_text(text("model.bert", layers=2, width=32, heads=4, context=32, mask_rate=0.3, mask_token=3),
                        ref.bert(layers=2, heads=4, mask_rate=0.3, mask_token=3), [])

    # Whether a verse is of Genesis. Most are longer than the context, some shorter.
    def test_bert_on_labelled_texts(self):
        with open(os.path.join(ROOT, "data/kjv.txt")) as verses:
            rows = [(words[:12 + 7 * (i % 5)], int(place.startswith("Ge")))
                    for i, (place, words) in enumerate(line.strip().split(" ", 1) for line in verses) if i % 23 == 0]
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write("genesis|verse\n" + "".join(f"{label}|{text}\n" for text, label in rows))
            file.flush()
            self.check_text(text("model.bert", layers=2, width=32, heads=4, context=32, vocabulary=257),
                            ref.bert_classifier(layers=2, heads=4), ["train.micro_batches=4"],
                            f"texts {{path: '{file.name}' text: 'verse' label: 'genesis' separator: '|' "
                            "first_token: 256 padding_token: 7}",
                            data.LabelledTexts(rows, 0.1, 1, 8, 32, first_token=256))

    # As of versions 1.1 and 1.0.
    def test_t5_says_what_follows(self):
        for more in ({}, {"activation": "'relu'", "tied_embedding": "true"}):
            with self.subTest(**more):
                self.check_text(text("model.t5", layers=2, decoder_layers=1, width=32, heads=4, head_width=6, hidden=40,
                                     source=20, target=12, buckets=8, most_distance=12, start_token=3, **more),
                                ref.t5(layers=2, decoder_layers=1, heads=4, source=20, buckets=8, most_distance=12,
                                       start_token=3), ["train.micro_batches=4"])

    # Every element of an activation is rounded to 8 bits of precision, a gradient once per product on its way.
    # Measured: losses 6e-5 apart, gradients 0.70% of their own size in the root mean square. The loss and all sums are
    # f32, so nothing drifts.
    def test_gpt_in_bf16(self):
        settings = ["train.batch_size=8", "train.schedule.warmup_steps=5", "evaluate={batches:1}",
                    text("generate", tokens=1, prompt="'a'"),
                    text("model.gpt", layers=2, width=32, heads=4, context=32)]
        batches = data.TextBatches(os.path.join(ROOT, "data/kjv.txt"), 0.05, 1, 8, 32)
        with tempfile.TemporaryDirectory() as folder:
            initial, gradients = (os.path.join(folder, name) for name in ("initial", "gradients"))
            oneflow("gpt_dp2_tp2.pbtxt", folder, "train.steps=1", f"save_initial_weights={initial}", *settings,
                    *ONE_DEVICE)
            start = load_file(initial)
            losses, want, _ = train(start, ref.gpt(layers=2, heads=4, rate=0.0), batches, STEPS,
                                        lambda p: torch.optim.AdamW(decayed(p, 0.1), betas=(0.9, 0.95), eps=1e-8),
                                        1.0,
                                        cosine(2e-3, 5, STEPS, 0.1))
            for layout in [ONE_DEVICE, ["mesh={dp:2 tp:2}", "cluster.processes=2"]]:
                with self.subTest(layout=" ".join(layout)):
                    narrow = [f"weights={initial}", "precision.compute=BF16", *settings, *layout]
                    oneflow("gpt_dp2_tp2.pbtxt", folder, "train.steps=1", f"save_gradients={gradients}", *narrow)
                    for name, got in load_file(gradients).items():
                        self.assertEqual(got.dtype, torch.float32, name)
                        apart = data.rms(got.double() - want[name])
                        self.assertLessEqual(apart, 0.02 * data.rms(want[name]) + 1e-7, f"gradient of {name}")
                    lines = oneflow("gpt_dp2_tp2.pbtxt", folder, f"train.steps={STEPS}", *narrow)
                    for line, loss in zip(lines, losses):
                        self.assertLess(abs(line["loss"] / loss - 1), 2e-4, f"loss of step {line['step']}")

    # The scale begins too large and grows again after four steps. Measured: losses 3.5e-4 apart, weights 1.8% of how
    # far they moved.
    def test_mlp_in_f16_with_a_scaled_loss(self):
        settings = ["train.batch_size=24", "train.schedule.warmup_steps=5", "evaluate={batches:1}",
                    "train.optimizer={adamw {beta2: 0.99 epsilon: 1e-5 weight_decay: 0.1} clip_norm: 1}",
                    "train.schedule.learning_rate=3e-4",
                    "precision={compute: F16 initial_scale: 8388608 growth_interval: 4}", *unpacked_fashion()]
        batches = fashion_batches(1, 24)
        with tempfile.TemporaryDirectory() as folder:
            initial, final = (os.path.join(folder, name) for name in ("initial", "final"))
            oneflow("mlp_fashion_mnist.pbtxt", folder, "train.steps=1", f"save_initial_weights={initial}", *settings,
                    *ONE_DEVICE)
            start = load_file(initial)
            told, want = train_scaled(start, ref.mlp_in_f16, batches, STEPS,
                                          lambda p: torch.optim.AdamW(decayed(p, 0.1), betas=(0.9, 0.99), eps=1e-5),
                                          1.0,
                                          cosine(3e-4, 5, STEPS, 0.05), GradScaler(2.0**23, 4))
            skipped = [step for step, (_, _, skips) in enumerate(told) if skips]
            self.assertGreater(len(skipped), 2)
            self.assertGreater(skipped[-1], 4, "skipped steps at the beginning alone")
            for layout in [ONE_DEVICE, ["mesh={dp:2}", "cluster.processes=2"],
                           ["mesh={pp:2}", "cluster.processes=1", "train.micro_batches=3"]]:
                with self.subTest(layout=" ".join(layout)):
                    lines = oneflow("mlp_fashion_mnist.pbtxt", folder, f"train.steps={STEPS}", f"weights={initial}",
                                    f"save_weights={final}",
                                    *settings, *layout)
                    self.assertEqual([line["loss_scale"] for line in lines], [scale for _, scale, _ in told])
                    self.assertEqual([line["skipped"] for line in lines], [skips for _, _, skips in told])
                    for line, (loss, _, _) in zip(lines, told):
                        self.assertLess(abs(line["loss"] / loss - 1), 1e-3, f"loss of step {line['step']}")
                    for name, got in load_file(final).items():
                        moved = data.rms(want[name] - start[name].double())
                        self.assertLess(data.rms(got.double() - want[name]), 0.05 * moved, name)

    def test_gpt_with_dropout(self):
        self.check_gpt("gpt_pp2_dp2.pbtxt", [["mesh={dp:2 tp:2}", "cluster.processes=2"],
                                             ["mesh={pp:2 dp:2}", "cluster.processes=2", "train.micro_batches=2"]],
                                             rate=0.2)

    def test_convnet_with_adamw(self):
        # Some weights of fc get gradients of rounding size: with an epsilon of 1e-8 AdamW makes whole steps of them,
        # and PyTorch in 32 bits is as far from itself in 64 (2e-5 after eight steps) as we are.
        self.check(
            "fashion_mnist.pbtxt",
            ref.convnet,
            fashion_batches(1, 24),
            lambda p: torch.optim.AdamW(decayed(p, 0.0), betas=(0.9, 0.999), eps=1e-5),
            cosine(2e-3, 5, STEPS, 0.05),
            # The files as they are distributed: packed.
            ["model.convnet.channels=[8, 16]", "model.convnet.hidden=32", "train.optimizer.adamw.epsilon=1e-5"],
            [["mesh={dp:4}", "cluster.processes=2"], ["mesh={pp:2 dp:2}", "cluster.processes=2",
                                                      "train.micro_batches=3"]],
        )

    def test_mlp_with_sgd_and_nesterov_momentum(self):
        self.check(
            "mlp_fashion_mnist.pbtxt",
            ref.mlp,
            fashion_batches(1, 24),
            lambda p: torch.optim.SGD(decayed(p, 0.01), lr=1, momentum=0.9, nesterov=True),
            cosine(0.05, 5, STEPS, 0.05),
            ["train.optimizer={sgd {momentum: 0.9 nesterov: true weight_decay: 0.01} clip_norm: 0.5}",
             *unpacked_fashion()],
            [["mesh={dp:3}", "cluster.processes=1"]],
            clip_norm=0.5,
        )

    def check_images(self, model, reference, optimizer, settings, layouts, rate=2e-3, seed=1, batch=24, **more):
        self.check("mlp_fashion_mnist.pbtxt", reference,
                   fashion_batches(seed, batch),
                   optimizer, cosine(rate, 5, STEPS, 0.05),
                   [model, f"train.schedule.learning_rate={rate}", f"seed={seed}", *unpacked_fashion(), *settings],
                   layouts, **more)

    def test_vit_with_adamw(self):
        self.check_images(text("model.vit", patch=7, width=24, layers=2, heads=4), ref.vit(patch=7, layers=2, heads=4),
                          lambda p: torch.optim.AdamW(decayed(p, 0.1), betas=(0.9, 0.99), eps=1e-5),
                          ["train.optimizer={adamw {beta2: 0.99 epsilon: 1e-5 weight_decay: 0.1} clip_norm: 1}"],
                          [["mesh={dp:2 tp:2}", "cluster.processes=2"],
                           ["mesh={pp:2}", "cluster.processes=1", "train.micro_batches=3"]], clip_norm=1.0,
                          floor=1e-9)  # the biases of keys have gradients of rounding size

    def test_unet_restores_images(self):
        for upsampling in ("transposed", "bilinear"):
            self.check_images(text("model.unet", width=4, levels=2, groups=2, noise=0.3, upsampling=f"'{upsampling}'"),
                              ref.unet(levels=2, groups=2, noise=0.3, bilinear=upsampling == "bilinear"),
                              lambda p: torch.optim.AdamW(decayed(p, 0.1), betas=(0.9, 0.99), eps=1e-5),
                              ["train.optimizer={adamw {beta2: 0.99 epsilon: 1e-5 weight_decay: 0.1} clip_norm: 1}"],
                              [["mesh={dp:2}", "cluster.processes=2"], ["mesh={dp:2 tp:2}", "cluster.processes=2"]],
                              batch=8, clip_norm=1.0, floor=1e-9)

    # Of one loss both would want it to be small here: that its gradients are right is what this says.
    def test_gan(self):
        for loss in ("non_saturating", "minimax"):
            self.check_images(text("model.gan", latent=6, widths="[20, 12]", loss=f"'{loss}'"),
                              ref.gan(latent=6, minimax=loss == "minimax"),
                              lambda p: torch.optim.AdamW(decayed(p, 0.1), betas=(0.9, 0.99), eps=1e-5),
                              ["train.optimizer={adamw {beta2: 0.99 epsilon: 1e-5 weight_decay: 0.1} clip_norm: 1}"],
                              [["mesh={dp:2}", "cluster.processes=2"], ["mesh={dp:2 tp:2}", "cluster.processes=2"]],
                              clip_norm=1.0, floor=1e-9)

    def test_vit_on_images_of_three_channels(self):
        with tempfile.TemporaryDirectory() as folder:
            images, labels = os.path.join(folder, "images.gz"), os.path.join(folder, "labels.gz")
            numbers = data.np.random.default_rng(1)
            for path, shape, most in ((images, (60, 3, 8, 12), 256), (labels, (60,), 10)):
                with data.gzip.open(path, "wb") as file:
                    file.write(bytes((0, 0, 8, len(shape))) + data.np.array(shape, ">u4").tobytes())
                    file.write(numbers.integers(0, most, shape, "uint8").tobytes())
            mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]  # those that torchvision's models expect
            rgb = text("data.images", train_images=f"'{images}'", train_labels=f"'{labels}'",
                       test_images=f"'{images}'", test_labels=f"'{labels}'", channels=3, height=8, width=12, mean=mean,
                       std=std)
            self.check("mlp_fashion_mnist.pbtxt", ref.vit(patch=4, layers=2, heads=4),
                       data.ImageBatches(images, labels, 1, 24, mean, std),
                       lambda p: torch.optim.AdamW(decayed(p, 0.1), betas=(0.9, 0.99), eps=1e-5),
                       cosine(2e-3, 5, STEPS, 0.05),
                       [rgb, text("model.vit", patch=4, width=24, layers=2, heads=4),
                        "train.optimizer={adamw {beta2: 0.99 epsilon: 1e-5 weight_decay: 0.1} clip_norm: 1}",
                        "train.schedule.learning_rate=2e-3"],
                       [["mesh={dp:2 tp:2}", "cluster.processes=2"]], clip_norm=1.0, floor=1e-9)

    # The branches of fresh blocks are as large as what they are added to, so that gradients double from block to block
    # and one ReLU that rounding turns over shows in every digit. So the branches are made small, and the samples are
    # such that no input of a ReLU comes nearer to zero than rounding in 32 bits. Measured: losses 6e-7, gradients 8e-6
    # of their root mean square apart.
    # Statistics are of the whole batch, so micro-batches would be another model.
    def test_resnets_with_momentum(self):
        for depth, blocks, last, seed, batch, rate in ((18, (2, 2, 2, 2), "b", 2, 4, 1e-3),
                                                       (50, (3, 4, 6, 3), "c", 10, 8, 1e-4)):
            reference = ref.ResNet(blocks, bottlenecks=depth >= 50, small_images=depth < 50)
            self.check_images(text("model.resnet", depth=depth, width=4, small_images=str(depth < 50).lower()),
                              reference,
                              lambda p: torch.optim.SGD(decayed(p, 1e-4), lr=1, momentum=0.9),
                              ["train.optimizer={sgd {momentum: 0.9 weight_decay: 1e-4}}"],
                              [["mesh={dp:2}", "cluster.processes=2"], ["mesh={dp:2 tp:2}", "cluster.processes=2"]],
                              rate=rate, seed=seed, batch=batch, spread=1e-4, tolerance=2e-6, soften=ref.softened(last))
            self.assertGreater(reference.margin, 4e-7, "an input of a ReLU is too near to zero: take another seed")

    def test_mlp_mixer_with_adamw(self):
        self.check(
            "mlp_fashion_mnist.pbtxt",
            ref.mlp_mixer,
            fashion_batches(1, 24),
            lambda p: torch.optim.AdamW(decayed(p, 0.1), betas=(0.9, 0.99), eps=1e-5),
            cosine(2e-3, 5, STEPS, 0.05),
            [text("model.mlp_mixer", patch=7, width=24, layers=2, token_hidden=20, channel_hidden=40),
             "train.optimizer={adamw {beta2: 0.99 epsilon: 1e-5 weight_decay: 0.1} clip_norm: 1}",
             "train.schedule.learning_rate=2e-3", *unpacked_fashion()],
            [["mesh={dp:2 tp:2}", "cluster.processes=2"], ["mesh={pp:2}", "cluster.processes=1",
                                                           "train.micro_batches=3"]],
            clip_norm=1.0,
            # A bias of "tokens/down" adds the same to all channels of a token, which layer norms take away again: its
            # gradient is zero, and the rounding of its addends remains, measured 4e-9.
            floor=2e-8,
        )

    def test_margin_classifier_with_split_classes(self):
        self.check(
            "margin_classifier.pbtxt",
            ref.margin_classifier(scale=24, margin=0.2),
            data.PrototypeBatches(classes=50, noise=0.3, samples=400, seed=1, batch=24),
            lambda p: torch.optim.AdamW(decayed(p, 0.0), betas=(0.9, 0.99), eps=1e-8),
            cosine(8e-3, 5, STEPS, 0.05),
            [text("data.prototypes", classes=50, noise=0.3, samples=400, validation_samples=40),
             text("model.margin_classifier", widths="[32]", embedding=16, scale=24, margin=0.2)],
            [["mesh={tp:4}", "cluster.processes=2"], ["mesh={pp:2 tp:2}", "cluster.processes=1",
                                                      "train.micro_batches=2"]],
        )

    def check_margin(self, network, batch, head, rate=1e-3, **fields):
        """By momentum, under layouts that split classes."""
        self.check(
            "margin_classifier.pbtxt",
            ref.margin_classifier(scale=24, margin=0.2, **network),
            data.PrototypeBatches(classes=50, noise=0.3, samples=400, seed=1, batch=batch),
            lambda p: torch.optim.SGD(decayed(p, 0.0), lr=1, momentum=0.9),
            cosine(rate, 5, STEPS, 0.05),
            [text("data.prototypes", classes=50, noise=0.3, samples=400, validation_samples=40),
             text("model.margin_classifier", embedding=16, scale=24, margin=0.2, **head, **fields),
             "train.optimizer={sgd {momentum: 0.9}}", f"train.schedule.learning_rate={rate}", "seed=1"],
            [["mesh={tp:4}", "cluster.processes=2"], ["mesh={dp:2 tp:2}", "cluster.processes=1"]],
            spread=1e-4, tolerance=1.5e-5 if head else 5e-6, soften=ref.softened("b"), floor=5e-7 if head else 1e-10)

    # As test_resnets_with_momentum. Logits are 24 times cosines. Measured: losses 2.5e-6 apart; 1e-5 with norms of 8
    # samples, which make what is small in their statistics large. The norm behind the embedding takes its bias away:
    # what is left of the bias' gradient is rounding, 1.2e-7.
    def test_margin_classifier_on_a_resnet(self):
        for head in ({}, {"head_norms": "true", "dropout": 0.3}):
            with self.subTest(**head):
                network = ref.ResNet((2, 2, 2, 2), bottlenecks=False, small_images=True)
                of_images = network.pixels if head else network.features
                self.check_margin({"network": of_images, "rate": head.get("dropout", 0.0)}, 8, head,
                                  1e-4 if head else 1e-3, depth=18, width=4, small_images="true")
                self.assertGreater(network.margin, 4e-7, "an input of a ReLU is too near to zero: take another seed")

    def test_margin_classifier_with_norms_around_the_embedding(self):
        self.check_margin({"rate": 0.3}, 24, {"head_norms": "true", "dropout": 0.3}, widths="[32]")

    def check_clicks(self, reference, model, **fields):
        """With tables split by rows and by columns."""
        for split, layout in (("rows", ["mesh={tp:4}", "cluster.processes=2"]),
                              ("columns", ["mesh={dp:2 tp:2}", "cluster.processes=1"])):
            self.check(
                "wide_deep.pbtxt",
                reference,
                data.ClickBatches(fields=4, vocabulary=200, numbers=3, samples=400, seed=1, batch=24),
                lambda p: torch.optim.AdamW(decayed(p, 0.0), betas=(0.9, 0.99), eps=1e-8),
                cosine(2e-3, 5, STEPS, 0.05),
                [text("data.clicks", fields=4, vocabulary=200, numbers=3, samples=400, validation_samples=40),
                 text("model." + model, table_split=f"'{split}'", **fields)],
                [layout],
            )

    def test_wide_deep_with_split_tables(self):
        self.check_clicks(ref.wide_deep, "wide_deep", embedding=4, widths="[16, 8]")

    def test_dlrm_with_split_tables(self):
        self.check_clicks(ref.dlrm, "dlrm", embedding=4, bottom="[8]", top="[16, 8]")


if __name__ == "__main__":
    torch.set_num_threads(1)  # models are small: of two, one would wait
    unittest.main(argv=[sys.argv[0]])
