"""python3 -m gpu.pack BUILD FILE: gathers the programs of a build folder and what they need into one archive.

bin/            the programs, stripped; they look for libraries in ../lib first
lib/            shared libraries that are not the C or C++ library's, nor CUDA's
data/           what the jobs read (jobs.py)
goldens.json    losses of the jobs on this machine's processor
pack.txt        what this is a pack of
"""

import datetime
import json
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

from gpu import jobs, programs

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Of the system, which has its own or newer ones; and of CUDA, whose libraries are the machine's.
LEFT_OUT = re.compile(
    r"^(ld-linux|lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+|cuda|cudart|cudnn\w*|nccl|cublas\w*|nvrtc)\.so|linux-vdso)"
)
# Of xz. Preset 6 takes five times as long for a tenth less; with a dictionary that holds two of the programs, which
# share their kernels, the pack is a quarter smaller.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 3, "dict_size": 192 << 20}]
MOST_MIB = 60


def libraries(program, env):
    """Files of the shared libraries that go along, by the names under which they are looked for."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True, env=env).stdout
    found = {}
    for line in said.splitlines():
        name, _, place = line.strip().partition(" => ")
        if LEFT_OUT.match(os.path.basename(name.split()[0])):
            continue
        if not place or "not found" in place:
            sys.exit(f"gpu_pack: {program}: {line.strip()}")
        found[name] = pathlib.Path(place.split(" (")[0]).resolve()
    return found


def gather(build, stage, env):
    (stage / "bin").mkdir()
    (stage / "lib").mkdir()
    wanted = {}
    for program in programs.PROGRAMS:
        source = build / program if program == "oneflow" else build / "test" / program
        wanted.update(libraries(source, env))
        copy = stage / "bin" / program
        shutil.copy2(source, copy)
        subprocess.run(["strip", copy], check=True)
        # The older of two ways to say it, which also counts for libraries that libraries need.
        subprocess.run(["patchelf", "--force-rpath", "--set-rpath", "$ORIGIN/../lib", copy], check=True)
    for name, place in wanted.items():
        shutil.copy2(place, stage / "lib" / name)


def golden_losses(stage, env):
    """By the programs as they are packed."""
    losses = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name in jobs.JOBS:
            (folder / "job.pbtxt").write_text(jobs.config(name, stage / "data"))
            metrics = folder / f"{name}.json"
            ran = subprocess.run(
                [stage / "bin/oneflow", "run", folder / "job.pbtxt", "--metrics", metrics],
                capture_output=True,
                text=True,
                env=env,
            )
            if ran.returncode != 0:
                sys.exit(f"gpu_pack: job {name}: {ran.stderr.strip()}")
            losses[name] = jobs.losses(metrics)
            if len(losses[name]) != jobs.STEPS or not losses[name][-1] < losses[name][0]:
                sys.exit(f"gpu_pack: job {name} does not learn, so that equal losses would say nothing: {losses[name]}")
    return losses


def described():
    def git(*arguments):
        asked = subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=ROOT)
        return asked.stdout.strip()

    changed = " and changes" if git("status", "--porcelain", "--untracked-files=no") else ""
    now = datetime.datetime.now().isoformat(" ", "minutes")
    return f"oneflow {git('rev-parse', '--short', 'HEAD')}{changed}, packed {now}\n"


def main():
    build, file = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        stage = pathlib.Path(folder) / "pack"
        stage.mkdir()
        env = programs.environment(programs.cuda_folders(sys.executable, ROOT), folder)
        gather(build, stage, env)
        (stage / "data").mkdir()
        jobs.write_data(stage / "data")
        (stage / "goldens.json").write_text(json.dumps({"losses": golden_losses(stage, env)}, indent=1))
        (stage / "pack.txt").write_text(described())
        file.parent.mkdir(parents=True, exist_ok=True)
        with lzma.open(file, "wb", filters=FILTERS) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(stage, arcname=".")
    mib = file.stat().st_size / (1 << 20)
    print(f"{file}: {mib:.1f} MiB")
    if mib > MOST_MIB:
        sys.exit(f"gpu_pack: more than {MOST_MIB} MiB")


main()
