#!/usr/bin/env python3
"""Puts every mutation into its source, one at a time, and runs the tests that must see it.

    run.py BUILD_FOLDER [part of a name]     compiles and runs; exits with 1 if a mutation is not seen
    run.py BUILD_FOLDER --turn N             only every N-th mutation: another N-th each day, all of them in N days
    run.py --check                           only whether every text still occurs once in its file
"""

import concurrent.futures
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

from compiler_mutations import PLANS
from mutations import COMMAND, JOBS, MUTATIONS as RUNTIME

MUTATIONS = RUNTIME + PLANS

SOURCE = pathlib.Path(__file__).resolve().parents[2]
# A test that works takes seconds; one that waits for ever is ended: when it and its children have hardly used a
# processor for some seconds (devices in software look around a hundred times a second while they wait; where a test
# gives products their times, they sleep for five), or after so long.
LIMIT_SECONDS = 60
QUIET_SECONDS = 8
QUIET_SHARE = 0.05  # of a core

# What compiles the sources below a folder: a part of the commands' outputs. The first that matches.
LIBRARIES = [
    ("kernels/cuda/*.cu",
     r"software_cuda_kernels\.dir/.*\.cu\.o$|software_cuda_kernels\.dir/.*groups/kernels/cuda/.*\.o$"),
    ("kernels/cuda/*.cc", r"software_cuda_kernels\.dir/.*/kernels/cuda/[a-z_0-9]*\.cc\.o$"),
    ("actor/collective/nccl_*", r"software_cuda_collectives\.dir/.*\.o$"),
    ("actor/**", r"CMakeFiles/actor\.dir/.*\.o$"),
    ("compiler/**", r"CMakeFiles/compiler\.dir/.*\.o$"),
    ("oneflow_core/**", r"CMakeFiles/oneflow_core\.dir/.*\.o$"),
    ("sbp/**", r"CMakeFiles/sbp\.dir/.*\.o$"),
]


def mutated(mutation):
    text = (SOURCE / mutation.file).read_text()
    count = text.count(mutation.text)
    if count != 1:
        raise SystemExit(f"'{mutation.name}': the text occurs {count} times in {mutation.file}")
    return text.replace(mutation.text, mutation.by)


def library_of(path):
    for pattern, output in LIBRARIES:
        if pathlib.PurePath(path).match(pattern) or (pattern.endswith("**") and path.startswith(pattern[:-2])):
            return output
    raise SystemExit(f"{path}: nothing is known to compile it")


def output_of(line):
    words = line.split()
    return words[words.index("-o") + 1] if "-o" in words else ""


def seconds_used(session):
    """Of processors, by all processes of a session and those that they have waited for."""
    used = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[3]) == session:
            used += sum(int(field) for field in fields[11:15])
    return used / os.sysconf("SC_CLK_TCK")


def await_end(ran):
    """The exit code of the leader of a session, or None if it waited for ever and was ended."""
    begin = looked = time.monotonic()
    used = 0
    while (code := ran.poll()) is None and looked - begin < LIMIT_SECONDS:
        try:
            return ran.wait(QUIET_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        now, used_now = time.monotonic(), seconds_used(ran.pid)
        if used_now - used < QUIET_SHARE * (now - looked):
            break
        looked, used = now, used_now
    if code is None:
        os.killpg(ran.pid, 9)
        ran.wait()
    return code


class Builder:
    """Compiles one source again, and links it in front of what it stands for."""

    def __init__(self, build):
        self.build = pathlib.Path(build).resolve()
        self.lines = {}
        for program in {m.program for m in MUTATIONS}:
            said = subprocess.run(["ninja", "-C", self.build, "-t", "commands", "test/" + program], check=True,
                                  capture_output=True, text=True)
            self.lines[program] = said.stdout.splitlines()

    def group_of(self, unit):
        """The generated source that includes the unit, with what else is compiled with it."""
        groups = self.build / "generated" / "groups"
        used = " ".join(line for lines in self.lines.values() for line in lines)
        including = [x for x in groups.rglob("*.cc")  # those of an earlier grouping lie there too
                     if f'#include "{unit}"' in x.read_text() and str(x.relative_to(self.build)) in used]
        return including[0] if including else None

    def compile(self, mutation, folder, group=None):
        unit = mutation.unit or mutation.file
        wanted = re.compile(library_of(unit))
        line = next(x for x in self.lines[mutation.program] if " -c " in x and wanted.search(output_of(x)))
        words = shlex.split(line)
        for path in {mutation.file, unit}:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(mutated(mutation) if path == mutation.file else (SOURCE / path).read_text())
        words[words.index("-c") + 1] = str(group or folder / unit)
        for flag in ("-o", "-MF", "-MT"):
            words[words.index(flag) + 1] = str(folder / "mutated.o") + ("" if flag == "-o" else ".d")
        first_include = next(i for i, word in enumerate(words) if word.startswith("-I"))
        words[first_include:first_include] = [f"-I{folder}", "-w"]  # a bug may leave something unused
        subprocess.run(words, check=True, cwd=self.build)
        return folder / "mutated.o"

    def link(self, mutation, made, program):
        line = next(x for x in self.lines[mutation.program] if output_of(x) == "test/" + mutation.program)
        words = shlex.split(line.removeprefix(": && ").removesuffix(" && :"))
        words[words.index("-o") + 1] = str(program)
        first = next(i for i, word in enumerate(words) if word.endswith((".o", ".a")))
        words[first:first] = ["-Wl,--allow-multiple-definition", str(made)]
        subprocess.run(words, check=True, cwd=self.build)

    def run(self, mutation, program):
        """The exit code, or None if it had to be ended, and what it wrote."""
        environment = {**os.environ, "SOFTWARE_CUDA_DEVICES": "4"}
        if mutation.op:
            environment["ONEFLOW_TEST_OP"] = mutation.op
        tests = program
        if mutation.program in (JOBS, COMMAND):
            environment["SOFTWARE_CUDA_UNWATCHED"] = "1"
            environment["ONEFLOW_COMMAND"] = str(program if mutation.program == COMMAND
                                                 else self.build / "test" / COMMAND)
            tests = program if mutation.program == JOBS else self.build / "test" / JOBS
        with open(program.with_suffix(".log"), "w+") as log:
            ran = subprocess.Popen([tests, "--gtest_filter=" + mutation.tests], stdout=log, stderr=subprocess.STDOUT,
                                   env=environment, cwd=program.parent, start_new_session=True)
            code = await_end(ran)
            log.seek(0)
            return code, log.read()


def see(builder, number):
    """None if a test sees the mutation, else what went wrong; and how long it took to compile and link, and to run."""
    began = time.monotonic()
    mutation = MUTATIONS[number]
    folder = builder.build / "mutations" / str(number)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    builder.link(mutation, builder.compile(mutation, folder), folder / "program")
    linked = time.monotonic()
    code, output = builder.run(mutation, folder / "program")
    group = builder.group_of(mutation.unit or mutation.file)
    if code == 0 and group is not None:  # its neighbours may have it inlined
        builder.link(mutation, builder.compile(mutation, folder, group), folder / "program")
        code, output = builder.run(mutation, folder / "program")
    took = f"{linked - began:5.1f} + {time.monotonic() - linked:4.1f} s"
    (folder / "program").unlink()
    if code == 0:
        return "no test fails", took
    if not re.search(mutation.says, output):
        how = "a test fails" if code is not None else "a test waits and was ended"
        return f"{how}, but nothing says /{mutation.says}/:\n{output[-3000:]}", took
    return None, took


def main():
    for mutation in MUTATIONS:
        mutated(mutation)
    if sys.argv[1:] == ["--check"]:
        print(f"{len(MUTATIONS)} mutations can be put in")
        return
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    numbers = [i for i, mutation in enumerate(MUTATIONS) if part in mutation.name]
    if part == "--turn":
        turns = int(sys.argv[3])
        turn = int(time.time() // 86400) % turns
        numbers = list(range(turn, len(MUTATIONS), turns))
        print(f"turn {turn} of {turns}: the others are those of other days; tools/dev/mutations runs all")
    builder = Builder(sys.argv[1])
    missed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for number, (problem, took) in zip(numbers, pool.map(lambda i: see(builder, i), numbers)):
            mutation = MUTATIONS[number]
            print(f"{'MISSED' if problem else 'seen  '}  {took}  {mutation.name} "
                  f"({mutation.file}){': ' + problem if problem else ''}", flush=True)
            missed += problem is not None
    print(f"{len(numbers) - missed} of {len(numbers)} mutations are seen")
    sys.exit(missed > 0 or not numbers)


if __name__ == "__main__":
    main()
