#!/usr/bin/env bash
# Compiles the adapters of torch/ against the headers of each PyTorch release in build/torch-headers/, which
# tools/torch_headers.py gets; nothing is linked or run, so no GPU is needed:
#   tools/torch_matrix.sh           every source of torch/ that includes a header of PyTorch
#   tools/torch_matrix.sh FILE...   only these
# A subclass of PyTorch's CUDA allocator must also override each virtual function: one that is not pure throws or
# does nothing, and a release that adds one would break a feature silently. One line for each release and source.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly compiler=${CXX:-g++} headers=build/torch-headers log=build/log/torch_matrix

# Compiles the source $1 against release $2; the classes as the compiler laid them out go to $log.class (g++ only).
compiles() {
  rm -f "$log.class"
  "$compiler" -std=c++20 -fsyntax-only "-fdump-lang-class=$log.class" \
    -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Woverloaded-virtual -Werror -Isrc -Itorch \
    -isystem "$headers/$2/include" -isystem "$headers/$2/include/torch/csrc/api/include" \
    -isystem "$headers/$2/cuda" "$1" 2>"$log.log"
}

# Names the functions that our own classes in $log.class still have from PyTorch's.
inherited() {
  awk '/^Vtable for /{ours = $3 !~ /^(c10|at|torch|caffe2|std)::/}
       ours && /c10::(cuda::CUDACachingAllocator::CUDA|Device)Allocator::/{sub(/.*::/, ""); print}' "$log.class"
}

# Prints what is wrong with the source $1 for release $2 in one line, nothing when it is right.
verdict() {
  local left
  if ! compiles "$1" "$2"; then
    grep -m 1 -E 'error|fatal' "$log.log" || head -n 1 "$log.log"
    return
  fi
  left=$(inherited | xargs) || left='(nobody knows: no class dump)'
  if [ -n "$left" ]; then echo "does not override: $left"; fi
}

if [ $# = 0 ]; then mapfile -t sources < <(grep -lE '^#include <(ATen|c10|torch)/' torch/*.cc); else sources=("$@"); fi
[ ${#sources[@]} != 0 ] || { echo "torch_matrix: no source of torch/ includes a header of PyTorch" >&2; exit 1; }
mapfile -t releases < <(find "$headers" -mindepth 1 -maxdepth 1 -name '2.*' -not -name '*.part' -printf '%f\n' | sort -V)
[ ${#releases[@]} != 0 ] || { echo "torch_matrix: no headers; run tools/torch_headers.py" >&2; exit 1; }

mkdir -p "${log%/*}"
status=0
for release in "${releases[@]}"; do
  for source in "${sources[@]}"; do
    wrong=$(verdict "$source" "$release")
    if [ -n "$wrong" ]; then status=1; fi
    printf 'torch %-5s %s %s\n' "$release" "$source" "${wrong:+failed: }${wrong:-ok}"
  done
done
exit "$status"
