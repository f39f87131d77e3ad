#!/usr/bin/env bash
# Gets what the project needs from Debian's and Python's registries:  tools/setup.sh build|test|python
#
# `build` is what the command and the C++ tests need of Debian, `test` that and the tools of the checks; `python` is
# what Python's registry has for the tests and checks, and can be fetched while the first builds run.
# As root (or with a sudo that asks no password) apt installs the packages of tools/packages.txt. Anybody else gets
# them unpacked into .deps/, and CMake and Ninja into .venv/; only a C++20 compiler must be there already.
# Whatever is there is left alone, so a second run does nothing and says nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tools/environment.sh
. tools/environment.sh
readonly group=${1:?usage: tools/setup.sh build|test|python}
readonly deps=$PWD/.deps venv=$PWD/.venv

say() { echo "setup: $*" >&2; }
die() { say "$*"; exit 1; }

# The stamp $1 says that a step was done for exactly the content of the file $2.
is_current() { [ "$(cat "$1" 2>/dev/null)" = "$(sha256sum <"$2")" ]; }
mark_current() { sha256sum <"$2" >"$1"; }

missing_packages() {
  local wanted
  wanted=$(awk -v group="$group" '$1 == "build" || $1 == group {print $2}' tools/packages.txt | sort)
  # shellcheck disable=SC2086  # one word per package
  comm -23 <(echo "$wanted") <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2>/dev/null |
    awk '$1 == "installed" {print $2}' | sort)
}

# Prints what to put before a command that needs root; fails where there is no way to become root.
root_prefix() {
  [ "$(id -u)" = 0 ] || { sudo -n true 2>/dev/null && echo sudo; }
}

install_on_system() {
  local prefix=$1; shift
  say "installing $*"
  # A third-party source that is down must not keep us from Debian's own packages.
  $prefix apt-get -qq update || say "apt-get update failed; trying with the lists that are there"
  $prefix env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" >/dev/null
}

# Unpacks packages, and whatever they need that the system lacks, into .deps/. apt itself works out what that is;
# its lists are our own because the system's may be missing or old, and only root may refresh those.
install_privately() {
  local stamp=$deps/$group.stamp names deb
  if [ $# = 0 ] || is_current "$stamp" tools/packages.txt; then return; fi
  say "no root: unpacking $* into .deps/"
  mkdir -p "$deps"/apt/{lists,cache/archives}/partial "$deps/debs"
  local apt=(apt-get -qq -o "Dir::State::lists=$deps/apt/lists" -o "Dir::Cache=$deps/apt/cache"
             -o Debug::NoLocking=true --no-install-recommends)
  "${apt[@]}" update
  # "Inst NAME (version ...)" is new here; "Inst NAME [old] (new ...)" would replace what the system has.
  names=$("${apt[@]}" --simulate install "$@" | awk '$1 == "Inst" && $3 !~ /^\[/ {print $2}')
  # shellcheck disable=SC2086  # one word per package
  (cd "$deps/debs" && "${apt[@]}" download $names)
  for deb in "$deps"/debs/*.deb; do dpkg -x "$deb" "$deps"; done
  mend_links
  rm -rf "$deps/debs" "$deps/apt"
  mark_current "$stamp" tools/packages.txt
}

# An absolute link dangles when its target was unpacked into .deps/ too.
mend_links() {
  local link target
  find "$deps" -lname '/*' | while read -r link; do
    target=$(readlink "$link")
    if [ ! -e "$target" ] && [ -e "$deps$target" ]; then ln -sfn "$deps$target" "$link"; fi
  done
}

has_compiler() {
  echo '#include <span>' | "${CXX:-c++}" -std=c++20 -fsyntax-only -x c++ - 2>/dev/null
}

has_build_tools() {
  local oldest
  oldest=$(printf '%s\n' 3.25 "$(cmake --version 2>/dev/null | awk 'NR == 1 {print $3}')" | sort -V | head -1)
  [ "$oldest" = 3.25 ] && command -v ninja >/dev/null
}

# Makes .venv/ hold what the requirements file $1 names. The system's own Python is never touched (PEP 668).
install_python() {
  local stamp=$venv/${1##*/}.stamp
  is_current "$stamp" "$1" && "$venv/bin/python" -c '' 2>/dev/null && return
  "$venv/bin/python" -m pip --version >/dev/null 2>&1 || make_venv
  say "installing $(sed '/^#/d; s/=.*//' "$1" | xargs) into .venv/"
  "$venv/bin/python" -m pip --quiet --disable-pip-version-check install -r "$1"
  mark_current "$stamp" "$1"
}

make_venv() {
  local wheel
  rm -rf "$venv"
  hash -r
  command -v python3 >/dev/null || die "no python3: install it (Debian: apt-get install python3)"
  python3 -m venv "$venv" >/dev/null 2>&1 && return
  # Debian keeps the pip of virtual environments in a package of its own, which may be here in .deps/ only.
  wheel=$(find "$deps/usr/share/python-wheels" -name 'pip-*.whl' 2>/dev/null | head -1)
  [ -n "$wheel" ] || die "python3 cannot make virtual environments (Debian: apt-get install python3-venv)"
  python3 -m venv --clear --without-pip "$venv"
  "$venv/bin/python" "$wheel/pip" --quiet --disable-pip-version-check install pip
}

main() {
  local missing='' prefix
  if [ "$group" = python ]; then install_python tools/requirements.txt; return; fi
  if command -v apt-get >/dev/null; then
    missing=$(missing_packages)
  else
    say "no apt-get here: what tools/packages.txt lists must be installed by hand"
  fi
  # shellcheck disable=SC2086,SC2046  # one word per package
  if [ -z "$missing" ]; then
    :
  elif prefix=$(root_prefix); then
    install_on_system "$prefix" $missing
  else
    has_compiler || die "no C++20 compiler: install g++ 12 or later (Debian: apt-get install g++) or set CXX"
    install_privately $(grep -vxE 'cmake|ninja-build|g\+\+' <<<"$missing")
    . tools/environment.sh
  fi
  has_build_tools || install_python tools/requirements-build.txt
}

main
