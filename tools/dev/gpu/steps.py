"""What gpu_run does, in this order: the least time for what says most if it fails."""

import json
import os
import pathlib
import re
import shutil
from functools import partial

from gpu import jobs, ncu, programs
from gpu.runner import Fail, Overdue, Skip, Step

# Of a step that trains: what a GPU takes.
ON_CUDA = ["--set", "cluster.device=cuda"]
# Ranks that share a GPU: NCCL takes them for ranks of as many hosts, which send through the loopback interface.
ONE_HOST_EACH = {
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_NET": "Socket",
    "NCCL_IB_DISABLE": "1",
    "NCCL_CUMEM_ENABLE": "0",
    "NCCL_MNNVL_ENABLE": "0",
    "NCCL_NVLS_ENABLE": "0",
    "NCCL_DEBUG": "WARN",
}
# Of kernels_test: what runs in many processes, each with its part of the cases, since references are the processor's
# work; and what runs in a few.
SHARDED = "Devices/ConformanceTest.KernelsAgree*/cuda:Devices/ConformanceTest.TwoRuns*/cuda"
# What compute-sanitizer watches, by test; memory also in all cases of kernels. It is 10 to 100 times as slow.
SANITIZED = "Devices/PathsTest.*/cuda:Devices/SoftmaxPartsTest.*/cuda"
SANITIZED_CASES = "Devices/ConformanceTest.KernelsAgree*/cuda"
# GPT-2 124M as it is trained on GPUs; the case's own batch is a processor's.
GPT_SIZES = ("model.gpt.context=1024", "train.batch_size=16")
JOB_SECONDS = 20  # for one of several jobs: what the others need is not used up by one that hangs
RANKS_APART = 1e-4  # relative to the first, of the losses of several ranks and of one, in f32


class Steps:
    """The steps on the programs of a folder. `trial`: on software devices, which are slow and run what they must."""

    def __init__(self, root, pack, bin_folder, python, pytorch, trial=False):
        self.root, self.pack, self.bin, self.trial = root, pack, bin_folder, trial
        self.python, self.pytorch = python, pytorch
        self.oneflow = bin_folder / "oneflow"
        self.goldens = json.loads((pack / "goldens.json").read_text())
        self.data = pack / "data"

    def all(self):
        """Their limits are 480 s together."""
        return [
            Step("devices and versions", 15, self.devices),
            Step("kernels_test", 65, self.kernels),
            Step("jobs on one GPU", 10, self.cuda_jobs),
            Step("2 ranks on one GPU", 20, partial(self.ranks, count=2, meshes=["dp:2", "tp:2", "pp:2"])),
            Step("4 ranks on one GPU", 30, partial(self.ranks, count=4, meshes=["dp:2 tp:2", "pp:2 dp:2"])),
            Step("memcheck", 35, partial(self.sanitizer, kind="memcheck", cases=SANITIZED_CASES)),
            Step("racecheck", 35, partial(self.sanitizer, kind="racecheck")),
            Step("losses against a CPU's", 15, self.against_goldens),
            Step("bench device", 5, self.bench_device),
            Step("gpt2-124m bf16", 55, self.contest_of("gpt2-124m-bf16", "compile", GPT_SIZES), stretches=True),
            Step("gpt2-124m bf16, measured", 10, self.measured, stretches=True),
            Step("gpt2-1.5b bf16", 60, self.contest_of("gpt2-1.5b-bf16", "compile-layers"), stretches=True),
            Step("resnet-stages", 60, self.contest_of("resnet-stages-64", "compile-channels-last"), stretches=True),
            Step("graphs on and off", 10, self.graphs, stretches=True),
            Step("slowest kernels by ncu", 15, self.profile, stretches=True),
            Step("gpt2-124m f32", 40, self.contest_of("gpt2-124m", "compile", GPT_SIZES), stretches=True),
        ]

    # ---- what the machine is

    def devices(self, c):
        smi = programs.tool("nvidia-smi")
        if smi:
            c.show(c.command([smi]).text)
        versions = c.command([self.python, pathlib.Path(__file__).with_name("versions.py")], limit=20)
        c.show(versions.text)
        c.show(
            f"python {self.python}, PyTorch {self.pytorch or 'none'}; "
            + ", ".join(f"{x}: {programs.tool(x)}" for x in ("ncu", "compute-sanitizer", "nvcc"))
        )
        memory = shutil.disk_usage("/dev/shm") if os.path.isdir("/dev/shm") else None
        c.show(
            f"{os.cpu_count()} cores; /dev/shm {memory.free >> 20 if memory else 0} MiB free; "
            f"LD_LIBRARY_PATH {c.env['LD_LIBRARY_PATH']}"
        )
        for program in programs.PROGRAMS:
            arguments = ["--version"] if program == "oneflow" else ["--gtest_list_tests"]
            done = c.command([self.bin / program, *arguments], limit=10)
            if done.code != 0:
                c.without_gpu = f"{program} does not start: {done.last()}"
                raise (Skip if not smi else Fail)(c.without_gpu)
        # The first thing that our code asks of the device: that it is there, and that its kernels are for it.
        done = c.command(
            [self.bin / "kernels_test", "--gtest_filter=Devices/HostTransferTest.MayBeEmpty/cuda"], limit=20
        )
        skipped = re.search(r"Skipped\n(.+)", done.text)
        if skipped:
            c.without_gpu = skipped.group(1).strip()
            raise (Skip if not smi else Fail)(c.without_gpu)
        if done.code != 0:
            raise Fail(done.last())
        return versions.text.strip().splitlines()[0] if versions.text.strip() else ""

    # ---- tests

    def kernels(self, c):
        running = []
        if not self.trial:
            running = self.in_shards(c, [self.bin / "kernels_test", f"--gtest_filter={SHARDED}"], self.by_case)
        wanted = "*Paths*.Nans*/cuda" if self.trial else f"*cuda*:*Cuda*-{SHARDED}"
        running.append(c.start([self.bin / "kernels_test", f"--gtest_filter={wanted}"]))
        try:
            return self.told_by_tests(c, [c.wait(one) for one in running])
        except Overdue:
            self.show_failures(c, "".join(output.read_text(errors="replace") for output in c.outputs))
            raise

    @staticmethod
    def in_shards(c, arguments, part):
        """The command once for each core but one, each with its part of what there is to do."""
        count = max(1, min(15, (os.cpu_count() or 1) - 1))
        return [c.start(arguments, part(i, count)) for i in range(count)]

    @staticmethod
    def by_case(i, count):
        """Of the conformance tests, which go through cases."""
        return {"ONEFLOW_TEST_SHARD": f"{i}/{count}"}

    @staticmethod
    def by_test(i, count):
        return {"GTEST_TOTAL_SHARDS": str(count), "GTEST_SHARD_INDEX": str(i)}

    def cuda_jobs(self, c):
        wanted = "CudaLayouts*:*Ragged*"
        if self.trial:
            wanted = "CudaLayoutsTest.AConvNet*"
        arguments = [self.bin / "cuda_jobs_test", f"--gtest_filter={wanted}"]
        return self.told_by_tests(c, [c.command(arguments, {"ONEFLOW_COMMAND": str(self.oneflow)})])

    @staticmethod
    def show_failures(c, text):
        """Of what tests said; the names of those that failed."""
        names = list(dict.fromkeys(re.findall(r"\[  FAILED  \] ([\w/]+\.[\w/]+)", text)))
        if names:
            blocks = re.findall(r"^.*: Failure\n(?:.*\n){1,6}", text, re.M)
            c.show("\n".join(["failed: " + name for name in names] + blocks[:20]))
        return names

    def told_by_tests(self, c, done):
        text = "".join(one.text for one in done)
        passed, failed, skipped = (
            sum(int(n) for n in re.findall(rf"\[  {word} +\] (\d+) test", text))
            for word in ("PASSED", "FAILED", "SKIPPED")
        )
        c.figures.update({"passed": passed, "failed": failed, "skipped": skipped})
        names = self.show_failures(c, text)
        ended = [one for one in done if one.code != 0 and "FAILED TEST" not in one.text]
        if ended and not c.without_gpu:
            raise Fail(f"a program ended with {ended[0].code}: {ended[0].last()}; {passed} passed, {failed} failed")
        if failed:
            raise Fail(f"{failed} failed, {passed} passed, {skipped} skipped: {', '.join(names)[:400]}")
        if c.without_gpu or passed == 0:
            raise Skip(f"{c.without_gpu or 'all tests skip themselves'} ({passed} tests that need no GPU passed)")
        return f"{passed} passed" + (f", {skipped} skipped" if skipped else "")

    def sanitizer(self, c, kind, cases=None):
        checker = programs.needed_tool(c, "compute-sanitizer")
        watched = [checker, "--tool", kind, "--kernel-name", "kns=oneflow", "--report-api-errors", "no"]
        watched += ["--error-exitcode", "9", "--print-limit", "20", self.bin / "kernels_test"]
        running = self.in_shards(c, [*watched, f"--gtest_filter={SANITIZED}"], self.by_test)
        if cases:
            running += self.in_shards(c, [*watched, f"--gtest_filter={cases}"], self.by_case)
        lines = []
        for done in [c.wait(one) for one in running]:
            said = re.findall(r"^========= .*", done.text, re.M)
            lines += said[-20:]
            if "not supported" in done.text.lower() and done.code != 0:
                raise Skip(done.last())
            if done.code != 0:
                c.show("\n".join(said[-60:]))
                raise Fail((said or [done.last()])[-1])
        c.show("\n".join(sorted(set(lines))))
        summaries = sorted({line.strip("= ") for line in lines if "SUMMARY" in line})
        return f"{len(running)} processes: {'; '.join(summaries)}"

    # ---- jobs

    def train(self, c, name, sets, on, limit=None, scheduler=None, env=None):
        """The losses of a job of jobs.py."""
        job, metrics = c.temporary / f"{name}-{on}.pbtxt", c.temporary / f"{name}-{on}.json"
        job.write_text(jobs.config(name, self.data))
        arguments = [self.oneflow, "run", job, "--metrics", metrics, *ON_CUDA]
        for one in sets:
            arguments += ["--set", one]
        if scheduler:
            arguments += ["--scheduler", scheduler]
        c.succeed(arguments, env, limit)
        return jobs.losses(metrics)

    def against_goldens(self, c):
        names = list(self.goldens["losses"])
        if self.trial:
            names = ["mlp-f32"]
        rows, failed, worst = [], [], {}
        for name in names:
            bar = jobs.JOBS[name][1]
            try:
                got = self.train(c, name, [], "cuda", limit=JOB_SECONDS)
            except (Fail, Overdue) as reason:
                rows.append(f"{name}: {reason}")
                failed.append(name)
                continue
            apart = jobs.gap(got, self.goldens["losses"][name])
            worst[name] = apart
            good = apart is not None and apart <= bar
            failed += [] if good else [name]
            rows.append(
                f"{name}: {'no losses to compare' if apart is None else f'{apart:.1e} apart at most'}, allowed {bar:g}"
                + ("" if good else f"; on the GPU {got}, on the CPU {self.goldens['losses'][name]}")
            )
        c.figures.update(worst)
        c.show("\n".join(rows))
        said = ", ".join(f"{name} {x:.0e}" if x is not None else f"{name} ?" for name, x in worst.items())
        if failed:
            raise Fail(f"{', '.join(failed)} too far off; apart: {said}")
        return f"apart: {said}"

    def ranks(self, c, count, meshes):
        """Each rank is a daemon's that sees the one GPU, and a host of its own for NCCL."""
        name = "mlp-f32" if self.trial else "gpt-f32"
        alone = {1: self.train(c, name, [], "alone")}
        address = self.serve(c, count)
        said, failed = [], False
        for mesh in meshes:
            sets, micro_batches = [f"mesh={{{mesh}}}", f"cluster.processes={count}"], 1
            try:
                if "pp" in mesh:  # of each micro-batch dropout is another
                    micro_batches = 2
                    sets.append("train.micro_batches=2")
                    alone[2] = self.train(c, name, sets[-1:], "alone-in-two")
                got = self.train(c, name, sets, f"{count}-ranks", limit=JOB_SECONDS, scheduler=address)
            except (Fail, Overdue) as reason:
                said.append(f"{mesh}: {reason or 'not over in time'}")
                failed = True
                continue
            apart = c.figures[mesh] = jobs.gap(got, alone[micro_batches])
            if apart is None or apart > RANKS_APART:
                c.show(f"{mesh}: losses {got}; on one rank {alone[micro_batches]}")
                failed = True
            said.append(f"{mesh} {'?' if apart is None else f'{apart:.0e}'} apart")
        if failed:
            for log in sorted(c.temporary.glob(f"cluster-{count}/*/*.log")):  # workers', with what NCCL says
                c.show(
                    f"{log.parent.name}/{log.name}:\n" + "\n".join(log.read_text(errors="replace").splitlines()[-15:])
                )
            raise Fail("; ".join(said))
        return "; ".join(said)

    def serve(self, c, count):
        """The address of a scheduler with so many daemons."""
        folder = c.temporary / f"cluster-{count}"
        folder.mkdir()
        address = self.ready(c, [self.oneflow, "scheduler", "--address", "127.0.0.1:0", "--db", folder / "db"])
        for rank in range(count):
            (folder / str(rank)).mkdir()
            self.ready(
                c,
                [
                    self.oneflow,
                    "daemon",
                    "--scheduler",
                    address,
                    "--name",
                    f"rank{rank}",
                    "--cuda-devices",
                    1,
                    "--cpu-devices",
                    0,
                    "--cores",
                    max(1, (os.cpu_count() or 1) // count),
                    "--work-dir",
                    folder / str(rank),
                    "--lost-after",
                    30,
                ],
                {**ONE_HOST_EACH, "NCCL_HOSTID": f"oneflow-gpu-run-{rank}", "CUDA_VISIBLE_DEVICES": "0"},
            )
        return address

    @staticmethod
    def ready(c, arguments, env=None):
        """Starts a server; what it says when it is ready."""
        reader, writer = os.pipe()
        process = c.start([*arguments, "--ready-fd", writer], env, pass_fds=(writer,))
        os.close(writer)
        with os.fdopen(reader) as said:
            line = said.readline().strip()
        if not line:
            done = c.wait(process, 5)
            raise (Skip if c.without_gpu else Fail)(f"{arguments[1]}: {done.last()}")
        return line.split()[0]

    # ---- speed

    def bench_device(self, c):
        if self.trial:
            raise Skip("4096 x 4096 takes a software device minutes")
        table = c.temporary / "device.pbtxt"
        c.succeed([self.oneflow, "bench", "device", "--device", "cuda", "--kind", "this", "--output", table])
        text = table.read_text()
        c.show(text)
        figures = {key: float(value) for key, value in re.findall(r"(\w+(?:flops|bytes_per_s)\w*): ([\d.eE+-]+)", text)}
        c.figures.update(figures)
        return ", ".join(f"{key} {value:.3g}" for key, value in figures.items())

    def contest_of(self, case, modes, sets=()):
        return partial(self.contest, case=case, modes=modes, sets=sets)

    def contest(self, c, case, modes, sets):
        """A whole training step here and in PyTorch."""
        if self.trial:
            raise Skip("a whole model takes a software device hours")
        figures = c.temporary / f"{case}.json"
        arguments = [self.oneflow, "bench", "--cases", case, "--rounds", 1, "--json", figures, *ON_CUDA]
        for one in sets:
            arguments += ["--set", one]
        if self.pytorch:
            arguments += [
                "--pytorch",
                self.python,
                "--pytorch-script",
                self.root / "tools/bench/pytorch_peer.py",
                "--pytorch-modes",
                modes,
            ]
        try:
            done = c.succeed(arguments)
        except (Fail, Overdue):
            for output in c.outputs:  # what it measured before
                c.show("\n".join(re.findall(r"^ .* s a step.*", output.read_text(errors="replace"), re.M)))
            raise
        report = done.text.split("\n" + case, 1)
        c.show(case + report[1] if len(report) == 2 else done.text)
        said = []
        for title, one in self.contests_in(json.loads(figures.read_text())):
            engine = one["engine"]["rounds"][0]
            c.figures[title] = {"step_seconds": engine["step_seconds"], "plan_bytes": engine["register_bytes"]}
            text = f"{title}{1e3 * engine['step_seconds']:.1f} ms a step"
            for peer in one.get("peers", []):
                if "cannot" in peer:
                    text += f", PyTorch {peer['name']}: {peer['cannot'][:120]}"
            if "speed_over_peer" in one:
                c.figures[title].update({"speed": one["speed_over_peer"], "loss_gap": one["loss_gap"]})
                text += f", {one['speed_over_peer']:.2f} x {one['fastest_peer']}, losses {one['loss_gap']:.0e} apart"
            said.append(text)
        return "; ".join(said)

    @staticmethod
    def contests_in(report):
        """(what tells it apart, its figures), wherever they stand in a bench's report."""
        found = []

        def look(value, key):
            if isinstance(value, dict):
                if "engine" in value and "rounds" in value.get("engine", {}):
                    found.append((key, value))
                    return
                for name, inner in value.items():
                    look(inner, f"{name}: " if name in ("f32", "bf16") else "")
            elif isinstance(value, list):
                for inner in value:
                    look(inner, key)

        look(report, "")
        return found

    def measured(self, c):
        """The same step with the fastest of the library's algorithms for each product, instead of its first choice."""
        if self.trial:
            raise Skip("a whole model takes a software device hours")
        figures = c.temporary / "measured.json"
        arguments = [self.oneflow, "bench", "--cases", "gpt2-124m-bf16", "--rounds", 1, "--json", figures, *ON_CUDA]
        for one in GPT_SIZES:
            arguments += ["--set", one]
        env = {"ONEFLOW_CUDA_MEASURE": "1", "ONEFLOW_CUDA_PRODUCTS": str(c.temporary / "products.txt")}
        done = c.succeed(arguments, env)
        c.show("\n".join(re.findall(r"^ .*(?:engine|matmul).*", done.text, re.M)))
        [(_, one)] = self.contests_in(json.loads(figures.read_text()))
        seconds = c.figures["step_seconds"] = one["engine"]["rounds"][0]["step_seconds"]
        return f"{1e3 * seconds:.1f} ms a step"

    def graphs(self, c):
        seconds = {}
        sizes = (
            ["model.gpt.layers=1", "model.gpt.width=16", "model.gpt.heads=2", "model.gpt.context=8"]
            if self.trial
            else []
        )
        for how in ("false", "true"):
            figures = c.temporary / f"uncaptured-{how}.json"
            arguments = [
                self.oneflow,
                "bench",
                "--cases",
                "one-device",
                "--rounds",
                1,
                "--steps",
                3 if self.trial else 50,
                "--warmup",
                3 if self.trial else 10,
                "--json",
                figures,
                *ON_CUDA,
                "--set",
                "precision.compute=BF16",
                "--set",
                f"uncaptured={how}",
            ]
            for one in sizes:
                arguments += ["--set", one]
            done = c.succeed(arguments)
            c.show(("graphs off\n" if how == "true" else "graphs on\n") + done.text)
            [case] = [x for x in json.loads(figures.read_text())["cases"] if x["name"] == "one-device"]
            seconds[how] = case["rounds"][0]["step_seconds"]
        c.figures.update({"with_graphs": seconds["false"], "without": seconds["true"]})
        graphs, alone = seconds["false"], seconds["true"]
        return f"{1e3 * graphs:.3f} ms a step with graphs, {1e3 * alone:.3f} without: {alone / graphs:.2f} x"

    def profile(self, c):
        return ncu.profile(c, self.oneflow, self.data / "text", ON_CUDA)
