#!/usr/bin/env bash
# Runs the training loops of bench/live on the GPU of a machine without a package registry:
#   bench/gpu/live.sh OUT WHEELS [ARGUMENTS OF bench/live/run.py]
# WHEELS is a folder with what this Python lacks of bench/live/requirements.txt. Results and logs go to OUT.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly out=$1 wheels=$2
shift 2
libraries=$(mktemp -d)
readonly libraries
trap 'rm -rf "$libraries"' EXIT
python3 -m pip --quiet install --no-index --no-deps --target "$libraries" "$wheels"/*.whl
PYTHONPATH=$libraries python3 bench/live/run.py --device --out "$out" "$@"
