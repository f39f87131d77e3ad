#!/usr/bin/env bash
# Tries the wheel of build/wheel/dist in a Debian that has Python and nothing else: no compiler, no library that the
# build had, no network. By hand, as root, with Debian's package debootstrap:  tests/wheel/clean_room.sh
# First: make wheel TORCH="2.8 2.15", tools/cuda_torch.sh 2.8.0, tools/cuda_torch.sh 2.15.0.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly room=$PWD/build/clean-room suite=bookworm  # whose Python is 3.11

die() { echo "clean_room: $*" >&2; exit 1; }

# In the room, with the paths that were mounted there.
# shellcheck disable=SC2016  # its variables are those of the other bash
inside() {
  unshare --mount --net bash -euc '
    room=$1 repository=$2
    shift 2
    for folder in build/wheel/dist build/cuda-torch build/nullcuda nullcuda tests examples; do
      mkdir -p "$room/mnt/$folder"
      mount --bind -o ro "$repository/$folder" "$room/mnt/$folder"
    done
    mount -t proc proc "$room/proc"
    exec chroot "$room" env --ignore-environment HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin OMP_NUM_THREADS=1 \
      NULLCUDA_CACHE=/mnt/build/nullcuda PYTHONPATH=/mnt/nullcuda/python "$@"' inside "$room" "$PWD" "$@"
}

# The wheel beside the PyTorch of build/cuda-torch/$1.
try_torch() {
  local home=/root/$1 packages python device
  packages=/mnt/build/cuda-torch/$1/lib/python3.11/site-packages
  python=$home/bin/python
  inside python3 -m venv --clear "$home"
  inside sh -c "$python -m pip --quiet install --no-index /mnt/build/wheel/dist/stweaver-*.whl"
  inside sh -c "printf '%s\n' $packages /mnt/build/cuda-torch/shared > $home/lib/python3.11/site-packages/torch.pth"
  inside "$home/bin/stweaver" plan /mnt/examples/snapshots/steps.pickle.xz
  for device in cpu cuda; do
    inside "$python" -m nullcuda run -- "$python" -c "
import stweaver, torch
stweaver.enable(device='$device')
torch.ones(1 << 20, device='$device')
print('torch', torch.__version__, 'on $device:', stweaver.stats().misses, 'request served')"
  done
  inside "$python" -m nullcuda run -- "$python" /mnt/tests/python/small_transformer.py enable >"$room/root/losses"
  echo "a transformer on the CPU: $(head -c 120 "$room/root/losses")"
  inside sh -c "[ ! -e /root/.cache/stweaver ]" || die "an adapter was built"
}

[ "$(id -u)" = 0 ] || die "must be root, to make another root"
command -v debootstrap >/dev/null || die "no debootstrap: apt-get install debootstrap"
[ -d build/wheel/dist ] || die "no wheel: run make wheel"
if [ ! -e "$room/done" ]; then
  rm -rf "$room"
  mkdir -p build
  debootstrap --variant=minbase --include=python3,python3-venv "$suite" "$room" >/dev/null
  touch "$room/done"
fi
# shellcheck disable=SC2016  # the same
inside sh -c 'for name in cc c++ gcc g++ clang cmake ninja; do ! command -v $name || exit 1; done' || die "a compiler"
for python in build/cuda-torch/*/bin/python; do
  try_torch "$(basename "${python%/bin/python}")"
done
echo "clean room: all passed"
