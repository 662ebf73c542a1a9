"""Steps one after the other, each within a limit, whatever becomes of the others.

A step that is not over at its limit is killed with all that it started, and the next begins. A line is printed when a
step has ended, and the files of the results are written anew, so that they are whole whenever this ends.
"""

import json
import os
import pathlib
import shlex
import signal
import subprocess
import threading
import time

LOG_BYTES = 400_000  # of a command's output; of more the middle is left out


class Skip(Exception):
    """The machine lacks what the step needs."""


class Fail(Exception):
    """It ran, and not as it must."""


class Overdue(Exception):
    """Its time is up."""


class Step:
    """`run(context)` returns what is worth a line. One that stretches also has what steps before it left of theirs."""

    def __init__(self, name, limit, run, stretches=False):
        self.name, self.limit, self.run, self.stretches = name, limit, run, stretches


class Done:
    """A command that has ended."""

    def __init__(self, code, text):
        self.code, self.text = code, text

    def last(self):
        """The line that says most: the last that is an error's, or else the last."""
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        said = [
            line[max(0, line.find("oneflow: ")) :] for line in lines if "oneflow: " in line or "error" in line.lower()
        ]
        return (said or lines or ["it said nothing"])[-1][:300]


class Context:
    """What a step has: commands, a folder for its files, a place for what the report shows of it."""

    def __init__(self, env, temporary, results):
        self.env, self.temporary, self.results = env, temporary, results
        self.without_gpu = ""  # why there is none; then what fails for that is skipped
        self.shown = []  # blocks of text of the step, for the report
        self.outputs = []  # of its commands, files
        self.figures = {}  # by name, for programs
        self.deadline = 0.0
        self.log = None
        self._running = []

    def left(self):
        return self.deadline - time.monotonic()

    def show(self, text):
        self.shown.append(text.rstrip("\n"))

    def start(self, arguments, env=None, output=None, pass_fds=()):
        """A process in a session of its own; it is killed when the step ends."""
        if output is None:
            output = self.temporary / f"output-{len(os.listdir(self.temporary))}"
        with open(output, "wb") as file:
            process = subprocess.Popen(
                [str(x) for x in arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**self.env, **(env or {})},
                start_new_session=True,
                pass_fds=pass_fds,
            )
        self.outputs.append(pathlib.Path(output))
        process.output, process.arguments, process.own_env = (
            pathlib.Path(output),
            [str(x) for x in arguments],
            env or {},
        )
        self._running.append(process)
        return process

    def wait(self, process, limit=None):
        """Done, when it has ended; Overdue if that is not before the limit, in seconds, or the step's end."""
        until = self.deadline if limit is None else min(self.deadline, time.monotonic() + limit)
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill(process)
            raise Overdue(self._said(process)) from None
        self.kill(process)  # what it left behind
        return Done(process.returncode, process.output.read_text(errors="replace"))

    def command(self, arguments, env=None, limit=None):
        return self.wait(self.start(arguments, env), limit)

    def succeed(self, arguments, env=None, limit=None):
        """As command, of one that must; Skip where there is no GPU, else Fail, with its last words."""
        done = self.command(arguments, env, limit)
        if done.code == 0:
            return done
        if self.without_gpu:
            raise Skip(done.last())
        how = f"signal {-done.code}" if done.code < 0 else f"code {done.code}"
        raise Fail(f"{pathlib.Path(str(arguments[0])).name} ended with {how}: {done.last()}")

    def _said(self, process):
        return Done(None, process.output.read_text(errors="replace")).last()

    def kill(self, process):
        if process not in self._running:
            return
        self._running.remove(process)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        if self.log is not None:
            text = process.output.read_text(errors="replace")
            if len(text) > LOG_BYTES:
                text = text[: LOG_BYTES // 2] + "\n[...]\n" + text[-LOG_BYTES // 2 :]
            said = " ".join(
                [f"{k}={v}" for k, v in process.own_env.items()] + [shlex.quote(x) for x in process.arguments]
            )
            self.log.write(f"\n$ {said}\n{text}\n[ended with {process.returncode}]\n")
            self.log.flush()

    def kill_all(self):
        for process in list(self._running):
            self.kill(process)


class Sampler(threading.Thread):
    """The most memory of the GPU that was in use, in MiB, as nvidia-smi says four times a second."""

    def __init__(self, nvidia_smi):
        super().__init__(daemon=True)
        self.most = 0
        self.process = subprocess.Popen(
            [nvidia_smi, "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "250"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.start()

    def run(self):
        for line in self.process.stdout:
            if line.strip().isdigit():
                self.most = max(self.most, int(line))

    def take(self):
        most, self.most = self.most, 0
        return most

    def stop(self):
        self.process.kill()
        self.process.wait()


class Runner:
    def __init__(self, steps, context, say=print, sampler=None):
        self.steps, self.context, self.say, self.sampler = steps, context, say, sampler
        self.rows = []
        self.saved = 0.0  # seconds that steps left of their limits
        self.began = time.monotonic()

    def run(self):
        """0 if nothing failed, else 1."""
        results = self.context.results
        results.mkdir(parents=True, exist_ok=True)
        with open(results / "log.txt", "w") as log:
            self.context.log = log
            self.write()
            for step in self.steps:
                self.run_step(step)
                self.write()
        failed = sum(row["status"] == "failed" for row in self.rows)
        self.say(
            f"{len(self.rows)} steps in {time.monotonic() - self.began:.0f} s: "
            + ", ".join(f"{sum(row['status'] == s for row in self.rows)} {s}" for s in ("passed", "failed", "skipped"))
        )
        return 1 if failed else 0

    def run_step(self, step):
        context = self.context
        limit = step.limit + (self.saved if step.stretches else 0.0)
        began = time.monotonic()
        context.deadline, context.shown, context.figures, context.outputs = began + limit, [], {}, []
        context.log.write(f"\n==== {step.name}\n")
        if self.sampler:
            self.sampler.take()
        try:
            status, text = "passed", step.run(context) or ""
        except Skip as reason:
            status, text = "skipped", str(reason)
        except Fail as reason:
            status, text = "failed", str(reason)
        except Overdue as said:
            status, text = "failed", f"not over within {limit:.0f} s; it last said: {said}"
        except Exception as error:  # a fault of the step's own: the next shall run all the same
            status, text = "failed", f"{type(error).__name__}: {error}"
        context.kill_all()
        seconds = time.monotonic() - began
        self.saved += step.limit - seconds
        row = {
            "name": step.name,
            "status": status,
            "seconds": round(seconds, 1),
            "limit": round(limit),
            "text": text,
            "figures": context.figures,
            "shown": context.shown,
        }
        if self.sampler and self.sampler.most:
            row["gpu_mib"] = self.sampler.take()
        self.rows.append(row)
        self.say(self.line(row))

    @staticmethod
    def line(row):
        memory = f"  [{row['gpu_mib']} MiB]" if "gpu_mib" in row else ""
        text = " ".join(row["text"].split())
        return f"{row['name']:<24} {row['status']:<8} {row['seconds']:6.1f} s  {text}{memory}"

    def write(self):
        """report.txt: the lines, then what steps show. results.json: the same for programs."""
        results = self.context.results
        lines = [self.line(row) for row in self.rows]
        blocks = [f"\n---- {row['name']}\n" + "\n".join(row["shown"]) for row in self.rows if row["shown"]]
        (results / "report.txt").write_text("\n".join(lines + blocks) + "\n")
        (results / "results.json").write_text(json.dumps(self.rows, indent=1) + "\n")
