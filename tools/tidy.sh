#!/usr/bin/env bash
# Runs clang-tidy on one source file, unless neither it nor any header changed since it was last found clean:
#   tools/tidy.sh FILE
set -euo pipefail
cd "$(dirname "$0")/.."
stamp=build/tidy/stamps/${1//\//-}
state=$(find src tests torch nullcuda -name '*.h' -print0 | sort -z | xargs -0 cat .clang-tidy tests/.clang-tidy nullcuda/tests/model/.clang-tidy "$1" | sha256sum)
[ "$(cat "$stamp" 2>/dev/null)" = "$state" ] && exit
clang-tidy --quiet -p build/tidy "$1"
mkdir -p build/tidy/stamps
echo "$state" >"$stamp"
