#!/bin/sh
# Builds the fuzzers and runs each for SECONDS (60 unless told): run.sh [SECONDS]
# Fails on a finding; the input that shows it is left in build/fuzz/findings.
set -eu

seconds=${1:-60}
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/fuzz
seeds=$build/seeds
findings=$build/findings

cmake --preset fuzz -S "$root" >/dev/null
cmake --build "$build" --target fuzzers

python3 "$root/tests/fuzz/make_seeds.py" "$root/examples" "$seeds"
"$(find "$build" -type f -name make_trace_seeds)" "$seeds/trace_file" "$seeds"/pickle/*.pickle
"$(find "$build" -type f -name make_plan_seeds)" "$seeds/plan_file" "$seeds"/pickle/*.pickle
mkdir -p "$findings"

# Everything the fuzzers of the readers may do: 10 seconds for one input of at most 64 KiB, 2 GiB with what the sanitizers keep.
for fuzzer in $(find "$build" -type f -name '*_fuzz' -perm -u+x | sort); do
  name=$(basename "$fuzzer" _fuzz)
  corpus=$build/corpus/$name
  mkdir -p "$corpus" "$seeds/$name"
  echo "fuzzing $name for $seconds s"
  log=$build/$name.log
  if ! "$fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
    -artifact_prefix="$findings/$name-" "$corpus" "$seeds/$name" >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "a finding in $name: $findings/$name-*" >&2
    exit 1
  fi
  grep -E '^Done|cov:' "$log" | tail -n 2
done
