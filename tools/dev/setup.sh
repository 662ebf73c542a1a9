# Sourced by tools/quickstart and tools/test: installs what is missing and builds. Safe to repeat.
#
#   install_packages [tests | gpu]   distribution packages; also those of the tests, or of tools/dev/gpu_pack
#   build_oneflow DIR [cmake arguments...] -- targets...
#   python_package NAME VERSION
#   python_toolkit DIR               the CUDA toolkit, of Python's packages

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

say() { printf '\n== %s\n' "$*"; }

has_toolkit() { command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc || -x ${CUDACXX:-} ]]; }

install_packages() {
  local packages=(
    build-essential cmake ninja-build ccache mold pkg-config
    libabsl-dev libgoogle-glog-dev libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
    libdnnl-dev ocl-icd-opencl-dev opencl-headers libsqlite3-dev libssl-dev zlib1g-dev libcli11-dev nlohmann-json3-dev
    libxxhash-dev liburing-dev libucx-dev
    libcpp-httplib-dev prometheus-cpp-dev
    bible-kjv bible-kjv-text dataset-fashion-mnist
  )
  if [[ ${1:-} == tests ]]; then
    packages+=(
      chromium iproute2 libgtest-dev libgmock-dev libboost-context-dev clang-format git slurmctld slurmd slurm-client
      openmpi-bin
      python3 python3-numpy python3-torch python3-pip python3-protobuf python3-absl python3-six
      python3-jsonschema python3-yaml python3-prometheus-client
    )
  fi
  if [[ ${1:-} == gpu ]]; then
    packages+=(libgtest-dev libgmock-dev libboost-context-dev git patchelf python3 python3-pip)
  fi
  if has_toolkit; then packages+=(python3-pip); fi
  local missing=()
  local package
  for package in "${packages[@]}"; do
    dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$package")
  done
  if [[ ${#missing[@]} -eq 0 ]]; then return; fi
  say "installing ${#missing[@]} packages: ${missing[*]}"
  local sudo=()
  if [[ $EUID -ne 0 ]]; then sudo=(sudo); fi
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" |
    awk 'NR % 50 == 0 { printf "." > "/dev/stderr" } END { print "" > "/dev/stderr" }'
}

# python_package NAME VERSION: into build/python, for what Debian does not have.
python_package() {
  if [[ -d build/python/$1-$2.dist-info ]]; then return; fi
  say "installing the Python package $1"
  python3 -m pip install -q --break-system-packages --target build/python --no-deps "$1==$2" 2>/dev/null ||
    python3 -m pip install -q --target build/python --no-deps "$1==$2"
}

# python_toolkit DIR: what is compiled with and linked, as one folder such as /usr/local/cuda; names it in CUDACXX.
python_toolkit() {
  local dir=$1 packages=$1.packages folder library
  if [[ ! -e $dir/done ]]; then
    say "installing the CUDA toolkit of Python's packages"
    python3 -m pip install -q --break-system-packages --no-deps --target "$packages" \
      nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96 \
      nvidia-cuda-cccl==13.0.85 nvidia-cuda-nvrtc==13.0.88 nvidia-cublas==13.1.0.3 nvidia-cudnn-cu13==9.19.0.56 \
      nvidia-nccl-cu13==2.28.9
    mkdir -p "$dir"
    for folder in "$packages"/nvidia/*/; do cp -rlf "$folder"/* "$dir/"; done
    [[ -e $dir/lib64 ]] || ln -s lib "$dir/lib64"
    for library in "$dir"/lib/*.so.*; do ln -sf "${library##*/}" "${library%%.so.*}.so"; done
    touch "$dir/done"
  fi
  CUDACXX=$(realpath "$dir")/bin/nvcc
  export CUDACXX
}

build_oneflow() {
  local dir=$1
  shift
  if has_toolkit; then python_package nvidia_cudnn_frontend 1.14.1; fi  # of which only the headers are used
  local arguments=()
  while [[ $# -gt 0 && $1 != -- ]]; do
    arguments+=("$1")
    shift
  done
  shift
  mkdir -p "$dir"
  if ! cmake -S . -B "$dir" -G Ninja "${arguments[@]}" >"$dir/configure.log" 2>&1; then
    tail -n 40 "$dir/configure.log" >&2
    return 1
  fi
  NINJA_STATUS='[%f/%t, %es] ' ninja -C "$dir" "$@"
}
