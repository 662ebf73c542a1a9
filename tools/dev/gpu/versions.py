"""Tells which of CUDA's libraries this process finds; the first line has their versions.

A program of its own: a library that is broken must not take gpu_run along.
"""

import ctypes


def load(name, missing):
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        missing.append(str(error))
        return None


def place(name):
    with open("/proc/self/maps") as maps:
        for line in maps:
            if name in line:
                return line.split()[-1]
    return "?"


def number(library, function, by_pointer=True):
    """What a library says of its version."""
    call = getattr(library, function)
    if by_pointer:
        value = ctypes.c_int()
        return value.value if call(ctypes.byref(value)) == 0 else None
    call.restype = ctypes.c_size_t
    return call()


def main():
    said, places, missing = [], [], []
    for name, what, function, by_pointer in (
        ("libcudart.so.13", "CUDA", "cudaRuntimeGetVersion", True),
        ("libcudart.so.13", "driver", "cudaDriverGetVersion", True),
        ("libcublasLt.so.13", "cuBLASLt", "cublasLtGetVersion", False),
        ("libcudnn.so.9", "cuDNN", "cudnnGetVersion", False),
        ("libnccl.so.2", "NCCL", "ncclGetVersion", True),
        ("libnvrtc.so.13", "NVRTC", None, True),
    ):
        library = load(name, missing)
        if library is None:
            continue
        said.append(f"{what} {number(library, function, by_pointer)}" if function else what)
        places.append(place(name.split(".so")[0]))
    print(", ".join(said) or "no CUDA libraries")
    print("\n".join(dict.fromkeys(places + missing)))


main()
