#!/usr/bin/env bash
# The main job on real training jobs that ship with the project: look, plan, prove, compare.
set -euo pipefail
cd "$(dirname "$0")/.."
stweaver=build/release/stweaver
job=examples/traces/llama7b_VR.pickle.xz
plan=build/demo.plan

show() {
  printf '\n$ %s\n' "$*"
  "$@"
}

echo "A Llama2-7B training job (one of four pipeline ranks, virtual pipeline, recomputation) was recorded on a GPU."
show $stweaver inspect $job
echo
echo "Where should every tensor of it live?"
show $stweaver plan $job -o $plan
echo
echo "Is that plan right? The checker shares no code with the planner."
show $stweaver check $plan $job
echo
echo "What would plans have saved? The same jobs under PyTorch's default allocator, its expandable segments, and STWeaver:"
printf '\n$ %s\n' "$stweaver compare examples/traces/*.pickle.xz"
$stweaver compare examples/traces/*.pickle.xz
echo
echo "And to look at: memory over time, the address space, who is alive at the peak."
show $stweaver report $job -o build/demo.html
