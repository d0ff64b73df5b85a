#!/usr/bin/env bash
# Prints the path of a Python of one of the given minor versions, the first that is found.
#
#   third_party/find_python.sh [--install] VERSION...
#
# Looks on PATH, in pyenv's folder and with uv. A Python counts if it runs and can make a virtual environment with pip. This
# leaves out pyenv's shims of versions that are not selected, and Debian's python3 without python3-venv. With --install, uv
# installs the first version if none is found.
set -uo pipefail

install=
[[ ${1:-} == --install ]] && { install=yes; shift; }
: "${1:?usage: find_python.sh [--install] VERSION...}"
readonly PROBE='import sys, venv, ensurepip; print("%d.%d" % sys.version_info[:2])'
skipped=()

# Succeeds if the interpreter $1 has the version $2, and notes an interpreter of that name that cannot be used.
usable() {
  [[ -x $1 ]] || return 1
  local seen
  seen=$("$1" -c "$PROBE" 2>&1) && [[ $seen == "$2" ]] && return
  [[ $1 == */python3 ]] || skipped+=("$1: ${seen##*$'\n'}")
  return 1
}

# Prints the Python of version $1 that uv knows.
from_uv() {
  local python
  python=$(uv python find "$1" 2>/dev/null) && usable "$python" "$1" && echo "$python"
}

for version; do
  # More than one may be on PATH: a shim that does not run may hide an interpreter that does.
  mapfile -t candidates < <(type -aP "python$version" python3)
  candidates+=("${PYENV_ROOT:-${HOME:-}/.pyenv}/versions/$version".*/bin/python)
  for python in "${candidates[@]}"; do
    usable "$python" "$version" && { echo "$python"; exit; }
  done
done

if [[ $(type -P uv) ]]; then
  for version; do
    from_uv "$version" && exit
  done
  [[ $install ]] && uv python install "$1" >&2 && from_uv "$1" && exit
fi

{
  echo "No usable Python found; one of these versions is needed, with venv and pip: $*."
  ((${#skipped[@]})) && printf '  found, but not usable: %s\n' "${skipped[@]}"
  echo "Install one, for example with 'apt-get install python3 python3-venv', 'pyenv install $1' or 'uv python install $1',"
  echo "or name one: make PYTHON=/path/to/python$1"
} >&2
exit 1
