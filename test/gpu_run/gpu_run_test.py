"""tools/dev/gpu_run and what it is made of, without a GPU.

gpu_run_test.py BUILD_FOLDER        with the programs of a build: on software devices too
"""

import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/dev"))
sys.dont_write_bytecode = True

from gpu import jobs, ncu  # noqa: E402
from gpu.runner import Context, Done, Fail, Runner, Skip, Step  # noqa: E402
from gpu.steps import Steps  # noqa: E402

BUILD = None  # a folder, if one is named

NO_GPU = """#!/bin/sh
case "$*" in
  --version | --gtest_list_tests) echo fine ;;
  --gtest_filter*)
    printf 'skipped_test.cc:1: Skipped\\ncuda:0: no CUDA-capable device is detected\\n\\n'
    printf '[  PASSED  ] 0 tests.\\n[  SKIPPED ] 7 tests, listed below:\\n' ;;
  *) echo "oneflow: cuda:0: no CUDA-capable device is detected" >&2; exit 1 ;;
esac
"""
DOES_NOT_START = """#!/bin/sh
echo "$0: error while loading shared libraries: libcudart.so.13: cannot open shared object file" >&2
exit 127
"""


def text_pack(file, program):
    """A pack whose programs are this script."""
    with tarfile.open(file, "w:xz") as archive:
        members = {f"bin/{name}": program for name in ("oneflow", "kernels_test", "cuda_jobs_test")}
        members.update(
            {
                "pack.txt": "a pack of scripts\n",
                "goldens.json": json.dumps({"losses": {"mlp-f32": [2.0, 1.0]}}),
                "data/text": "text",
            }
        )
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text.encode()), 0o755
            archive.addfile(member, io.BytesIO(text.encode()))


class InAFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        self.said = []

    def run_steps(self, steps):
        temporary = self.path / "temporary"
        temporary.mkdir()
        self.context = Context(dict(os.environ), temporary, self.path / "results")
        return Runner(steps, self.context, say=self.said.append).run()

    def rows(self):
        return json.loads((self.path / "results/results.json").read_text())


class RunnerTest(InAFolder):
    def test_a_step_that_hangs_is_killed_with_its_children_and_the_next_runs(self):
        alive = self.path / "alive"

        def hang(c):
            c.command(
                ["sh", "-c", f"echo on its way; (sleep 600; touch {alive}) & echo $! >{self.path}/child; sleep 600"]
            )

        code = self.run_steps([Step("hangs", 0.5, hang), Step("next", 5, lambda c: "good")])
        self.assertEqual(code, 1)
        hung, after = self.rows()
        self.assertEqual((hung["status"], after["status"]), ("failed", "passed"))
        self.assertIn("not over within 0 s; it last said: on its way", hung["text"].replace("within 1 s", "within 0 s"))
        child = int((self.path / "child").read_text())
        with self.assertRaises(ProcessLookupError):
            # Reaped by whoever it was left to, or about to be.
            status = pathlib.Path(f"/proc/{child}/stat")
            if status.exists() and status.read_text().split()[2] != "Z":
                self.fail("its child lives")
            raise ProcessLookupError

    def test_what_becomes_of_a_step_is_said_in_its_line_and_in_both_files(self):
        def skip(c):
            raise Skip("there is no such thing")

        def fail(c):
            c.succeed(["sh", "-c", "echo oneflow: it broke; echo and more; exit 3"])

        def stumble(c):
            return [][0]

        def show(c):
            c.figures["speed"] = 7
            c.show("a table")
            return "seven"

        code = self.run_steps(
            [Step("skips", 5, skip), Step("fails", 5, fail), Step("stumbles", 5, stumble), Step("shows", 5, show)]
        )
        self.assertEqual(code, 1)
        rows = self.rows()
        self.assertEqual([row["status"] for row in rows], ["skipped", "failed", "failed", "passed"])
        self.assertEqual(rows[1]["text"], "sh ended with code 3: oneflow: it broke")
        self.assertIn("IndexError", rows[2]["text"])
        self.assertEqual(rows[3]["figures"], {"speed": 7})
        report = (self.path / "results/report.txt").read_text()
        for line in self.said[:4]:
            self.assertIn(line, report)
        self.assertIn("---- shows\na table", report)
        self.assertIn("oneflow: it broke\nand more", (self.path / "results/log.txt").read_text())
        self.assertEqual(self.said[4].split(": ")[1], "1 passed, 2 failed, 1 skipped")

    def test_without_a_gpu_what_fails_is_skipped_with_its_words(self):
        def fail(c):
            c.without_gpu = "no GPU"
            c.succeed(["sh", "-c", "echo oneflow: cuda:0: no device; exit 1"])

        self.assertEqual(self.run_steps([Step("fails", 5, fail)]), 0)
        self.assertEqual((self.rows()[0]["status"], self.rows()[0]["text"]), ("skipped", "oneflow: cuda:0: no device"))

    def test_a_step_that_may_stretch_has_what_others_left(self):
        left = []
        quick = Step("quick", 50, lambda c: "")
        self.run_steps(
            [
                quick,
                Step("other", 1, lambda c: left.append(c.left())),
                Step("long", 1, lambda c: left.append(c.left()), stretches=True),
            ]
        )
        self.assertLess(left[0], 1.1)
        self.assertGreater(left[1], 45)
        self.assertLess(left[1], 52.1)

    def test_a_long_log_keeps_its_beginning_and_its_end(self):
        self.run_steps(
            [
                Step(
                    "talks",
                    20,
                    lambda c: c.command(["sh", "-c", "echo first; yes | head -c 2000000; echo last"]) and "",
                )
            ]
        )
        log = (self.path / "results/log.txt").read_text()
        self.assertLess(len(log), 500_000)
        self.assertIn("first\n", log)
        self.assertIn("last\n", log)


class StepsTest(InAFolder):
    def setUp(self):
        super().setUp()
        (self.path / "goldens.json").write_text(json.dumps({"losses": {}}))
        self.steps = Steps(ROOT, self.path, self.path, sys.executable, "")

    def test_all_are_over_in_eight_minutes(self):
        self.assertLessEqual(sum(step.limit for step in self.steps.all()), 480)

    def test_what_tests_say_is_counted(self):
        done = Done(
            1, "[  PASSED  ] 5 tests.\n[  FAILED  ] 1 test, listed below:\n[  FAILED  ] A.B\n\n 1 FAILED TEST\n"
        )
        context = Context({}, self.path, self.path)
        with self.assertRaisesRegex(Fail, "1 failed, 5 passed, 0 skipped: A.B"):
            self.steps.told_by_tests(context, [done])
        done.code, done.text = 0, "[  PASSED  ] 5 tests.\n[  SKIPPED ] 2 tests, listed below:\n"
        self.assertEqual(self.steps.told_by_tests(context, [done]), "5 passed, 2 skipped")
        done.code, done.text = -11, "[  PASSED  ] 5 tests.\n"
        with self.assertRaisesRegex(Fail, "ended with -11"):
            self.steps.told_by_tests(context, [done])

    def test_kernels_of_a_profile_are_added_up_by_name(self):
        text = (
            '==PROF== connected\n"ID","Kernel Name","gpu__time_duration.sum",'
            '"dram__throughput.avg.pct_of_peak_sustained_elapsed",'
            '"sm__throughput.avg.pct_of_peak_sustained_elapsed"\n"","","ns","%","%"\n'
            '"0","a<f>(int, int)","1,000","50","10"\n"1","b","500","90","20"\n"2","a<f>(int, int)","3000","70","30"\n'
        )
        kernels = ncu.kernels_of(text)
        self.assertEqual(
            [(k["name"], k["calls"], k["ns"]) for k in kernels], [("a<f>(int, int)", 2, 4000.0), ("b", 1, 500.0)]
        )
        self.assertAlmostEqual(kernels[0]["dram"], 65.0)

    def test_contests_are_found_in_a_report(self):
        one = {"engine": {"rounds": []}}
        self.assertEqual(Steps.contests_in({"others": [{"name": "x", "figures": one}]}), [("", one)])
        self.assertEqual(
            Steps.contests_in({"others": {"resnet": {"f32": one, "bf16": one}}}), [("f32: ", one), ("bf16: ", one)]
        )

    def test_losses_are_apart_by_the_largest_distance(self):
        self.assertAlmostEqual(jobs.gap([4.0, 1.0], [4.0, 1.5]), 0.125)
        self.assertIsNone(jobs.gap([4.0], [4.0, 1.0]))
        self.assertIsNone(jobs.gap([4.0, float("nan")], [4.0, 1.0]))


class WholeTest(InAFolder):
    def gpu_run(self, *arguments):
        run = subprocess.run(
            [ROOT / "tools/dev/gpu_run", *arguments, self.path / "results"], capture_output=True, text=True, timeout=300
        )
        return run.returncode, run.stdout + run.stderr

    def test_on_a_machine_without_a_gpu_every_step_is_skipped_with_a_line(self):
        for program, reason in ((NO_GPU, "no CUDA-capable device is detected"), (DOES_NOT_START, "libcudart.so.13")):
            text_pack(self.path / "pack.tar.xz", program)
            code, said = self.gpu_run("--pack", self.path / "pack.tar.xz")
            self.assertEqual(code, 0, said)
            rows = self.rows()
            self.assertEqual([row["status"] for row in rows], ["skipped"] * len(rows), said)
            self.assertEqual(len(rows), 16)
            for row in rows:
                if not row["text"].startswith("there is no"):  # a tool of CUDA's
                    self.assertIn(reason, row["text"])

    def test_without_a_pack_it_says_what_makes_one(self):
        code, said = self.gpu_run("--pack", self.path / "none")
        self.assertEqual(code, 1)
        self.assertIn("tools/dev/gpu_pack makes it", said)

    def test_of_the_steps_those_that_are_named_run_and_a_name_of_none_is_an_error(self):
        text_pack(self.path / "pack.tar.xz", NO_GPU)
        code, said = self.gpu_run("--pack", self.path / "pack.tar.xz", "--steps", "resnet,2 ranks")
        self.assertEqual(code, 0, said)
        self.assertEqual(
            [row["name"] for row in self.rows()], ["devices and versions", "2 ranks on one GPU", "resnet-stages"]
        )
        code, said = self.gpu_run("--pack", self.path / "pack.tar.xz", "--steps", "resnet,alexnet")
        self.assertEqual(code, 1)
        self.assertIn("no step's name holds 'alexnet': devices and versions, kernels_test,", said)

    def test_on_software_devices_ranks_share_a_gpu_and_losses_are_a_processors(self):
        if BUILD is None:
            self.skipTest("no build is named")
        data, binaries = self.path / "data", self.path / "bin"
        data.mkdir()
        binaries.mkdir()
        jobs.write_data(data)
        (self.path / "job.pbtxt").write_text(jobs.config("mlp-f32", data))
        subprocess.run(
            [BUILD / "oneflow", "run", self.path / "job.pbtxt", "--metrics", self.path / "metrics"],
            check=True,
            capture_output=True,
        )
        (self.path / "goldens.json").write_text(json.dumps({"losses": {"mlp-f32": jobs.losses(self.path / "metrics")}}))
        (self.path / "pack.txt").write_text("a pack of software devices\n")
        for name, program in (
            ("oneflow", "oneflow_on_software_cuda"),
            ("kernels_test", "kernels_software_cuda_test"),
            ("cuda_jobs_test", "cuda_jobs_software_cuda_test"),
        ):
            (binaries / name).symlink_to(BUILD / "test" / program)
        with tarfile.open(self.path / "pack.tar.xz", "w:xz", preset=0) as archive:
            for name in ("data", "goldens.json", "pack.txt"):
                archive.add(self.path / name, arcname=name)
        code, said = self.gpu_run("--pack", self.path / "pack.tar.xz", "--trial", binaries)
        self.assertEqual(code, 0, said)
        passed = [row["name"] for row in self.rows() if row["status"] == "passed"]
        self.assertEqual(
            passed,
            [
                "devices and versions",
                "kernels_test",
                "jobs on one GPU",
                "2 ranks on one GPU",
                "4 ranks on one GPU",
                "losses against a CPU's",
                "graphs on and off",
            ],
            said,
        )


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and os.path.isdir(sys.argv[1]):
        BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
