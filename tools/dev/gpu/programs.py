"""How the programs of a pack are started: which CUDA libraries they are shown, and where tools are."""

import glob
import os
import pathlib
import shutil
import site
import subprocess
import sys

from gpu.runner import Skip

# Of CUDA, cuDNN and NCCL, which a pack leaves to the machine. The programs name the first three; the others are opened
# when they are called.
CUDA_LIBRARIES = ("libcudart.so.13", "libcudnn.so.9", "libnccl.so.2", "libcublasLt.so.13", "libnvrtc.so.13")
PROGRAMS = ("oneflow", "kernels_test", "cuda_jobs_test")


def python_with_pytorch():
    """The interpreter that has PyTorch, and its version; this one and "" if none has."""
    found = [
        sys.executable,
        shutil.which("python3") or "",
        *sorted(glob.glob("/opt/*/.venv/bin/python3")),
        *sorted(glob.glob("/opt/*/bin/python3")),
        "/usr/bin/python3",
    ]
    for python in dict.fromkeys(x for x in found if x and os.access(x, os.X_OK)):
        try:
            asked = subprocess.run(
                [python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, timeout=60
            )
        except subprocess.TimeoutExpired:
            continue
        if asked.returncode == 0:
            return python, asked.stdout.strip()
    return sys.executable, ""


def site_folders(python):
    """Where its packages lie."""
    asked = subprocess.run([python, "-c", "import sys; print('\\n'.join(sys.path))"], capture_output=True, text=True)
    folders = [line for line in asked.stdout.splitlines() if line.endswith(("site-packages", "dist-packages"))]
    return folders or site.getsitepackages()


def cuda_folders(python, root):
    """Folders with CUDA's libraries. Those of Python's packages come before a toolkit's: PyTorch uses them too, and
    what they have beside one another fits together."""
    found = []
    for folder in site_folders(python):
        found += sorted(glob.glob(folder + "/nvidia/*/lib")) + [folder + "/torch/lib"]
    found += [
        "/usr/local/cuda/lib64",
        "/usr/local/cuda/lib",
        "/usr/local/cuda/targets/x86_64-linux/lib",
        str(root / "build/gpu/cuda/lib"),
        "/usr/local/nvidia/lib64",
    ]
    names = CUDA_LIBRARIES + ("libcuda.so.1",)
    return [folder for folder in found if any(os.path.exists(f"{folder}/{name}") for name in names)]


def environment(folders, temporary):
    """For all that is started. Only CUDA's libraries are named: where its own lie, each program knows, and no other
    shall find them."""
    env = dict(os.environ)
    env["LD_LIBRARY_PATH"] = ":".join([*folders, *filter(None, [env.get("LD_LIBRARY_PATH")])])
    env["TMPDIR"] = str(temporary)
    env.setdefault("HOME", str(temporary))
    env["PATH"] = f"{env.get('PATH', os.defpath)}:/usr/local/nvidia/bin"  # daemons ask nvidia-smi
    for name in ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy"):  # for processes of this machine
        env.pop(name, None)
        env.pop(name.upper(), None)
    env["PYTHONUNBUFFERED"] = "1"
    env["TORCHINDUCTOR_CACHE_DIR"] = f"{temporary}/inductor"
    env["TRITON_CACHE_DIR"] = f"{temporary}/triton"
    return env


def tool(name):
    """A program of CUDA's tools, or None."""
    places = [shutil.which(name)]
    for pattern in (
        "/usr/local/cuda*/bin",
        "/usr/local/cuda*/*",
        "/usr/local/nvidia/bin",
        "/opt/nvidia/*/*",
        "/opt/nvidia/*/*/*",
    ):
        places += sorted(glob.glob(f"{pattern}/{name}"))
    for place in places:
        if place and os.access(place, os.X_OK) and pathlib.Path(place).is_file():
            return place
    return None


def needed_tool(c, name, instead=""):
    """The same for a step that needs it, and a GPU: without either the step is skipped."""
    found = tool(name)
    if found is None:
        raise Skip(f"there is no {name}{instead}")
    if c.without_gpu:
        raise Skip(c.without_gpu)
    return found
