# shellcheck shell=bash
# Sourced from the repository root by the other scripts: finds what tools/setup.sh put into .venv/ and .deps/,
# before what the system has. Where everything came from the system this changes nothing.
export PATH=$PWD/.venv/bin:$PWD/.deps/usr/bin:$PATH
if [ -d .deps/usr ]; then
  export CMAKE_PREFIX_PATH=$PWD/.deps/usr
  LD_LIBRARY_PATH=$PWD/.deps/usr/lib/$(uname -m)-linux-gnu:$PWD/.deps/lib/$(uname -m)-linux-gnu
  export LD_LIBRARY_PATH
fi
