# Sourced by tools/quickstart and tools/test: installs what is missing and builds. Safe to repeat.
#
#   install_packages [tests]   distribution packages; with "tests" also what only the tests need
#   build_oneflow DIR [cmake arguments...] -- targets...
#   python_package NAME VERSION

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

say() { printf '\n== %s\n' "$*"; }

has_toolkit() { command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; }

install_packages() {
  local packages=(
    build-essential cmake ninja-build ccache mold pkg-config
    libabsl-dev libgoogle-glog-dev libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
    libdnnl-dev ocl-icd-opencl-dev opencl-headers libsqlite3-dev libssl-dev zlib1g-dev libcli11-dev nlohmann-json3-dev libxxhash-dev libucx-dev
    libcpp-httplib-dev prometheus-cpp-dev
    bible-kjv bible-kjv-text dataset-fashion-mnist
  )
  if [[ ${1:-} == tests ]]; then
    packages+=(
      chromium iproute2 libgtest-dev libgmock-dev libboost-context-dev clang-format git slurmctld slurmd slurm-client openmpi-bin
      python3 python3-numpy python3-torch python3-pip python3-protobuf python3-absl python3-six
      python3-jsonschema python3-yaml python3-prometheus-client
    )
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
