#!/usr/bin/env bash
# Configures and builds a preset of CMakePresets.json:  tools/build.sh PRESET [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/environment.sh
. tools/environment.sh
preset=${1:?usage: tools/build.sh PRESET [TARGET...]}
shift
cmake --preset "$preset" --log-level=WARNING >/dev/null
cmake --build --preset "$preset" ${1:+--target "$@"}
