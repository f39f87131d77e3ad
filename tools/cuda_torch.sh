#!/usr/bin/env bash
# Makes an environment with a CUDA build of PyTorch and none of NVIDIA's libraries, to run on null CUDA:
#   tools/cuda_torch.sh VERSION     builds build/cuda-torch/VERSION, a virtual environment, and prints its Python
# What is there is left alone, and what another process is making waited for.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/environment.sh
. tools/environment.sh
readonly version=${1:?usage: tools/cuda_torch.sh VERSION}
readonly folder=$PWD/build/cuda-torch/$version shared=$PWD/build/cuda-torch/shared
readonly pip=("$folder/bin/python" -m pip --quiet --disable-pip-version-check)
export NULLCUDA_CACHE=${NULLCUDA_CACHE:-$PWD/build/nullcuda} PYTHONPATH=$PWD/nullcuda/python

# The headers of CUDA's run time, which STWeaver's adapter is compiled with, lie where NVIDIA's wheel has them.
link_headers() {
  local packages
  packages=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  mkdir -p "$packages/nvidia/cuda_runtime"
  ln -sfn "$NULLCUDA_CACHE/headers-$("$folder/bin/python" -m nullcuda version)" "$packages/nvidia/cuda_runtime/include"
}

# What every release needs lies where all of them find it: the environments of several are made side by side.
install_shared() {
  local sites=("$folder"/lib/python3*/site-packages)
  (
    flock 9
    [ -e "$shared/done" ] && exit
    rm -rf "$shared"
    "${pip[@]}" install --target "$shared" -r tools/requirements-cuda.txt >&2
    touch "$shared/done"
  ) 9>"$shared.lock"
  echo "$shared" >"${sites[0]}/shared.pth"
}

mkdir -p "${folder%/*}"
exec {lock}>"$folder.lock"
flock "$lock"
if [ ! -e "$folder/done" ]; then
  rm -rf "$folder"
  python3 -m venv "$folder"
  install_shared
  # "===" compares text: 2.11.0+cpu does not match. The CUDA build has no such label.
  "${pip[@]}" install --no-deps "torch===$version" >&2
fi
"$folder/bin/python" -m nullcuda build >/dev/null
[ -e "$folder/done" ] || { link_headers; touch "$folder/done"; }
echo "$folder/bin/python"
