#!/usr/bin/env bash
# Builds the fuzzers, and the command, which makes plans for one of them to begin with, and runs each fuzzer for
# SECONDS (30 unless told), as many at once as there are cores:
#   run.sh [SECONDS]
# Fails on a finding; the input that shows it is left in build/fuzz/findings.
set -euo pipefail

seconds=${1:-30}
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/fuzz
seeds=$build/seeds
findings=$build/findings

"$root/tools/build.sh" release stweaver
"$root/tools/build.sh" fuzz fuzzers
python3 "$root/tests/fuzz/make_seeds.py" "$root/examples" "$seeds"
"$build/tests/fuzz/make_trace_seeds" "$seeds/trace_file" "$seeds"/pickle/*.pickle
mkdir -p "$findings" "$seeds/plan_file"
for snapshot in "$seeds"/pickle/*.pickle; do
  "$root/build/release/stweaver" plan "$snapshot" -o "$seeds/plan_file/$(basename "$snapshot" .pickle).plan" >/dev/null
done

# Everything a fuzzer of a reader may do: 10 seconds for one input of at most 64 KiB, and 2 GiB with what the
# sanitizers keep.
fuzz() {
  local name
  name=$(basename "$1" _fuzz)
  mkdir -p "$build/corpus/$name" "$seeds/$name"
  if "$1" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
    -artifact_prefix="$findings/$name-" "$build/corpus/$name" "$seeds/$name" >"$build/$name.log" 2>&1; then
    echo "$name: $(grep '^Done' "$build/$name.log")"
  else
    tail -n 60 "$build/$name.log"
    echo "a finding in $name: $findings/$name-*" >&2
    return 1
  fi
}

status=0
running=()
for fuzzer in "$build"/tests/fuzz/*_fuzz; do
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do sleep 0.2; done
  fuzz "$fuzzer" &
  running+=($!)
done
for process in "${running[@]}"; do wait "$process" || status=1; done
exit "$status"
