#!/usr/bin/env bash
# Runs the project's tests and checks and says for each how long it took:
#   tools/test.sh             all of them
#   tools/test.sh STAGE...    only these, e.g. `tools/test.sh format tidy`; the functions below are the stages
# In brackets, how long the processors were busy for it. Two stages run at a time, each when what it needs is there:
# hardly one keeps all processors busy to its end. A stage that fails is shown and the rest still runs. Skipped tests,
# which have neither passed nor failed, are shown with the reason. The last line is "N passed, N failed".
# FUZZ_SECONDS (30) is how long each fuzzer runs, JOBS (the number of cores) how many processes at once. SINCE, a commit
# or a branch, leaves only the files that changed since to `format`, `tidy` and `shell_lint`.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
# shellcheck source=tools/environment.sh
. tools/environment.sh
# Those of one process come before others that can fill the processor that it leaves free.
readonly all=(python_packages release asan null_cuda tsan fuzzers null_tests format shell_lint docs python_lint tidy
              release_tests asan_tests tsan_tests asan_command python_tests wheel wheel_tests fuzz)
readonly -A needs=([docs]=python_packages [python_lint]=python_packages [tidy]=python_packages
                   [null_cuda]=python_packages [wheel]="python_packages release" [release_tests]=release
                   [quick_tests]=release [quick_python]=release [asan_tests]=asan [tsan_tests]=tsan [wheel_tests]=wheel
                   [python_tests]="python_packages release" [asan_command]="python_packages release asan"
                   [null_tests]="release null_cuda" [fuzz]="release fuzzers")
readonly jobs=${JOBS:-$(nproc)} results=$PWD/build/results
export CMAKE_BUILD_PARALLEL_LEVEL=$jobs

# Python's packages, in `.venv`: fetched while the first builds run.
python_packages() { tools/setup.sh python; }

# Builds. A build that breaks fails the stages that need it too, and its own log says why.
# All but the benches, which `tidy` reads, and the tests that run under the sanitizers alone.
release() {
  tools/build.sh release stweaver stweaver_library stweaver_pluggable stweaver_host_kernels "${served[@]/%/_test}"
}
asan() { tools/build.sh asan stweaver stweaver_tests; }
tsan() { tools/build.sh tsan plan_test device_test arena_test runtime_test session_test conformance_test; }
fuzzers() { tools/build.sh fuzz fuzzers; }

# Tests of C++: a process for each layer, whose tests share the jobs that they read and plan.
# `served` is what plans and serves a training process: its tests run as users have it, too. The others run under the
# sanitizers alone (python_tests tries the command as users have it): they take longer to compile than to run.
readonly served=(plan device arena runtime session simulate conformance)
readonly layers=(base trace profile "${served[@]}" archive pareto advise report nullcuda_model)
release_tests() { side_by_side release_tests_of "${served[@]}"; }
release_tests_of() { run_layer release_tests release "$1" '*'; }
# What `make check` runs: nothing that replays or plans real jobs, and nothing that takes more than a second.
quick_tests() { tools/build.sh release stweaver_tests && side_by_side quick_tests_of "${layers[@]}"; }
quick_tests_of() {
  local long='Divergence/*:Examples/*:*Examples*:*Recorded*:Traces/*:*/ManyGaps.*:*/Conformance.*/Expandable'
  long+=':*.NeverLetsBlocksShareAByte/*:*.GivesBackWhatNobodyUses/*:*.AlignsEveryBlock/*:Constructors.*'
  long+=':Exact.AgreesWith*:Search.MeetsTheBound*:Portfolio.MeetsTheBound*:Ring.HoldsNothing*:MafSearch.*'
  run_layer quick_tests release "$1" "-$long"
}
quick_python() {
  pytest tests/python -m 'not slow' --junitxml "$results/quick_python.xml"
}
# The divergence suite replays real jobs for minutes and touches no memory, and the largest searches take the ways of
# smaller ones: release_tests runs them.
asan_tests() { side_by_side asan_tests_of "${layers[@]}"; }
asan_tests_of() {
  run_layer asan_tests asan "$1" '-Divergence/*:Search.MeetsTheBoundOfAThousand*:Portfolio.MeetsTheBoundOf*OnAnyNumber*'
}
# Where threads and locks are: the planner, devices, the run time, allocators as a whole; and the whole plan of one
# real job. Left out is what takes long here and has one thread: the divergence suite, which replays real jobs,
# the conformance tests that write gigabytes or allocate one block after the other, gaps in thousands, single
# constructors and rings, exact search against trying all orders; the plans of the other real jobs; and the largest
# search and the longest lives of a plan, since smaller ones have as many threads. release_tests runs them.
tsan_tests() { side_by_side tsan_tests_of real_plan plan device arena runtime session conformance; }
tsan_tests_of() {
  local long='Divergence/*:*.NeverLetsBlocksShareAByte/*:Examples/RealPlan.*'
  long+=':*.AlignsEveryBlock/*:*.GivesBackWhatNobodyUses/*:*/ManyGaps.*:*.WithoutAPlanHardlyMore*:*.KeepsAPlanOf*'
  long+=':Constructors.*:Exact.AgreesWith*:Ring.HoldsNothing*:Search.MeetsTheBoundOfAThousand*'
  case $1 in
    real_plan) run_layer tsan_tests tsan plan Examples/RealPlan.IsSoundAndCloseToTheBound/gpt2_15b_N ;;
    *) run_layer tsan_tests tsan "$1" "-$long" ;;
  esac
}
# Runs, for stage $1, the tests of preset $2 and layer $3 that filter $4 leaves. A layer may have several processes.
run_layer() {
  "build/$2/tests/$3_test" --gtest_brief=1 "--gtest_filter=$4" "--gtest_output=xml:$results/$1.$3.$BASHPID.xml"
}
# Processes that have nothing left to do take tests from the others.
python_tests() { pytest tests/python -n "$jobs" --dist worksteal --junitxml "$results/python_tests.xml"; }
# The oldest and the newest PyTorch whose adapters are built, as builds for CUDA; side by side, each on one core.
readonly cuda_torch=(2.8.0 "$(sed -n 's/^torch==//p' tools/requirements-newest-torch.txt)")
null_cuda() { side_by_side tools/cuda_torch.sh "${cuda_torch[@]}"; }
null_tests() { null_cuda && side_by_side null_tests_of "${cuda_torch[@]}"; }
# Run once, for time: driver calls that fail, with the oldest; null CUDA's own tests, with the newest; and with it what
# is of C++ alone, the devices and every allocator on memory that null CUDA checks. Left out are tests that keep a GPU
# busy for real, with gigabytes that would be the host's here.
null_tests_of() {
  local python=build/cuda-torch/$1/bin/python status=0 folders=(tests/nullcuda)
  [ "$1" = "${cuda_torch[0]}" ] || folders+=(nullcuda/tests --ignore tests/nullcuda/failures_test.py)
  export NULLCUDA_CACHE=$PWD/build/nullcuda NULLCUDA_PYTHON=$PWD/$python
  pytest "${folders[@]}" --junitxml "$results/null_tests.$1.xml" || status=1
  [ "$1" = "${cuda_torch[0]}" ] && return "$status"
  local long='*.AnEventBehindLongWork*:*.AStreamThatWaitsSeesTheWork*:*.CountsMoreWordsThan32Bits*'
  local libraries
  libraries=$(PYTHONPATH=nullcuda/python "$python" -m nullcuda build) || return 1
  for layer in device conformance; do
    LD_LIBRARY_PATH=$libraries NULLCUDA_CHECK=1 NULLCUDA_KERNELS=$PWD/build/release/tests/libstweaver_host_kernels.so \
      "build/release/tests/${layer}_test" --gtest_brief=1 "--gtest_filter=*Cuda*:*cuda*:*PlantedErrors*:-$long" \
      "--gtest_output=xml:$results/null_tests.$layer.xml" || status=1
  done
  return "$status"
}
# Runs a command, its first argument, with each of the others, as many at once as there are cores.
side_by_side() {
  local argument status=0 processes=()
  for argument in "${@:2}"; do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do sleep 0.2; done
    "$1" "$argument" &
    processes+=($!)
  done
  for process in "${processes[@]}"; do wait "$process" || status=1; done
  return "$status"
}
# The same two releases: the wheel for users has all of them (make wheel).
wheel() { python3 tools/wheel.py "${cuda_torch[0]%.*}" "${cuda_torch[1]%.*}"; }
wheel_tests() { pytest tests/wheel --junitxml "$results/wheel_tests.xml"; }
# Every bad input once more, under the sanitizers.
asan_command() {
  STWEAVER_COMMAND=build/asan/stweaver pytest tests/python -k refuses --junitxml "$results/asan_command.xml"
}
fuzz() { tests/fuzz/run.sh "${FUZZ_SECONDS:-30}"; }

format() { sources | xargs -0 -r clang-format --dry-run -Werror; }
# What the release build compiles, configured without precompiled headers: GCC's are nothing to clang-tidy. The
# adapters and bench/gpu need PyTorch's headers, which are not there; tools/torch_matrix.sh compiles the former.
tidy() {
  cmake --preset tidy --log-level=WARNING >/dev/null &&
    sources -not -path '*/fuzz/*' -not -path '*/gpu/*' -not -path 'nullcuda/api/*' \
      -not -path 'python/*' -not -path 'nullcuda/observer/*' -not -path 'nullcuda/recorder/*' \
      -not -name cuda_wrapper.cc -not -name cpu_adapter.cc |
    JOBS=$jobs python3 tools/tidy.py
}
shell_lint() { find tools tests bench .ci '(' -name '*.sh' -o -path .ci/run ')' -print0 | changed | xargs -0 -r shellcheck -x; }
# The site of the documents: no warning, every link and anchor leads somewhere.
docs() { NO_MKDOCS_2_WARNING=1 mkdocs build --strict; }
python_lint() { ruff check . && ruff format --check . && mypy; }

sources() { find src torch python tests bench nullcuda '(' -name '*.cc' -o -name '*.h' ')' "$@" -print0 | changed; }

# Of the files on standard input, those that changed since $SINCE, in commits or in the working tree; all without it.
changed() {
  local since
  [ -n "${SINCE:-}" ] || { cat; return; }
  since=$(git merge-base HEAD "$SINCE") || return
  comm -z -12 <(sort -z) <({ git diff -z --name-only "$since"; git ls-files -z --others --exclude-standard; } | sort -z)
}

# Adds the tests of stage $1, which ended with status $2, to the totals: what its JUnit files, one or one for each
# part of it, say, else one. A part in which no test ran counts as one that failed: its filter matches nothing, or all
# were skipped.
count() {
  local file files tests=1 skips=0 ran
  bad=0 detail=''
  files=("$results/$1".*xml)
  if [ -f "${files[0]}" ]; then
    tests=0
    for file in "${files[@]}"; do
      skips=$((skips + $(skips_in "$file" | wc -l)))
      ran=$(($(attribute tests "$file") - $(skips_in "$file" | wc -l)))
      bad=$((bad + $(attribute failures "$file") + $(attribute errors "$file")))
      if [ "$ran" = 0 ]; then ran=1 bad=$((bad + 1)) detail+=", no test ran in ${file##*/}"; fi
      tests=$((tests + ran))
    done
    detail=", $tests tests$detail"
    if [ "$skips" != 0 ]; then
      detail+=", $skips skipped:"$'\n'"$(skips_in "${files[@]}" | sort -u | sed 's/^/    /')"
    fi
  fi
  # A stage can also fail around its tests: a sanitizer's report at exit, a fuzzer's finding.
  if [ "$2" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
  if [ "$tests" -lt "$bad" ]; then tests=$bad; fi
  failed=$((failed + bad))
  skipped=$((skipped + skips))
  passed=$((passed + tests - bad))
}
# The reasons of the tests that JUnit files say were skipped, a line for each.
skips_in() { grep -oh '<skipped[^>]*' "$@" | sed 's/.*message="//; s/".*//'; }
# The attribute $1 of the test suite that begins the JUnit file $2, 0 if it has none.
attribute() {
  local number=0
  if [[ $(head -c 2000 "$2") =~ [[:space:]]$1=\"([0-9]+)\" ]]; then number=${BASH_REMATCH[1]}; fi
  echo "$number"
}

# The end of a log, and where the rest is.
show_log() {
  tail -n 100 "$1" | sed 's/^/    /'
  echo "    (all of it: $1)"
}

# Runs stage $1 and leaves how it ended: status, seconds, and seconds that processors were busy.
run_stage() {
  local stage=$1 begin=$SECONDS status
  : >"$results/$stage.times"  # stays empty where the stage is killed
  ("$stage"; status=$?; times >"$results/$stage.times"; exit "$status") >"build/log/$stage.log" 2>&1 </dev/null
  status=$?
  awk -F '[ms ]+' -v status="$status" -v seconds=$((SECONDS - begin)) \
    'NR == 2 {busy = int(60 * ($1 + $3) + $2 + $4)} END {print status, seconds, busy + 0}' \
    "$results/$stage.times" >"$results/$stage.end"
}

report_stage() {
  local stage=$1 status seconds busy verdict=passed
  read -r status seconds busy <"$results/$stage.end"
  count "$stage" "$status"
  if [ "$bad" != 0 ]; then verdict=FAILED; fi
  printf '%-16s%s in %s s (%s)%s\n' "$stage" "$verdict" "$seconds" "$busy" "$detail"
  if [ "$bad" != 0 ]; then show_log "build/log/$stage.log"; fi
}

# The first of $waiting that needs nothing of what runs or waits.
next_stage() {
  local stage need
  for stage in ${waiting[@]+"${waiting[@]}"}; do
    for need in ${needs[$stage]:-}; do
      if [[ " ${waiting[*]} ${running[*]-} " == *" $need "* ]]; then continue 2; fi
    done
    echo "$stage"
    return
  done
}

# Reports what of $running has ended. What left no word of its end when nothing runs any more was killed.
report_ended() {
  local stage left=() alive
  alive=$(jobs -rp)
  for stage in ${running[@]+"${running[@]}"}; do
    if [ -z "$alive" ] && [ ! -f "$results/$stage.end" ]; then echo "137 0 0" >"$results/$stage.end"; fi
    if [ -f "$results/$stage.end" ]; then report_stage "$stage"; else left+=("$stage"); fi
  done
  running=(${left[@]+"${left[@]}"})
}

# Prints its other arguments without the first.
without() {
  local word
  for word in "${@:2}"; do [ "$word" = "$1" ] || echo "$word"; done
}

passed=0 failed=0 skipped=0 running=() waiting=("${@:-${all[@]}}")
mkdir -p "$results" build/log
for stage in "${waiting[@]}"; do
  [ "$(type -t "$stage")" = function ] || { echo "no stage named $stage; there are: ${all[*]}" >&2; exit 2; }
  rm -f "$results/$stage".*
done
while [ "${#waiting[@]}" -gt 0 ] || [ "${#running[@]}" -gt 0 ]; do
  stage=$(next_stage)
  if [ -n "$stage" ] && [ "${#running[@]}" -lt 2 ]; then
    mapfile -t waiting < <(without "$stage" "${waiting[@]}")
    running+=("$stage")
    run_stage "$stage" &
  else
    wait -n
    report_ended
  fi
done
if [ "$skipped" != 0 ]; then echo "$skipped skipped"; fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
