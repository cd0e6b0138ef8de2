# What ./dev installs: packages of Debian, and an environment of Python with torch. Sourced by ./dev.
# shellcheck shell=bash

readonly build_packages=(cmake ninja-build ccache pkg-config libgtest-dev libbenchmark-dev libzstd-dev libdeflate-dev
  libjpeg62-turbo-dev liblz4-dev liblzma-dev libpng-dev libsentencepiece-dev libblosc-dev libcurl4-openssl-dev libssl-dev libcli11-dev libeigen3-dev nlohmann-json3-dev libtomlplusplus-dev
  libasio-dev libfmt-dev libhwy-dev libopenmpi-dev openmpi-bin
  iproute2 util-linux)
readonly test_packages=(slurmctld slurmd slurm-client munge) # a Slurm of the tests' own
readonly ssh_packages=(openssh-server openssh-client) # hosts of the tests' own, in network namespaces
readonly page_packages=(chromium) # looks at the pages of `sotto report`
readonly lint_packages=(clang-19 clang-format clang-tidy)
readonly sanitizer_packages=(clang-19 libclang-rt-19-dev)
torch_version="$(sed -n 's/^torch==//p' requirements.txt)"
readonly torch_version
readonly cache="${XDG_CACHE_HOME:-$HOME/.cache}/sotto"
readonly venv="$cache/venv-torch$torch_version"
readonly venv_python="$venv/bin/python"
readonly docs_venv="$cache/venv-docs"
readonly zig_venv="$cache/venv-ziglang0.17.1"

install_packages() {
  command -v dpkg-query > /dev/null || {
    say "not a Debian system: these must be there already: $*"
    return
  }
  local installed missing=() package
  installed=" $(dpkg-query -W -f='${db:Status-Status} ${Package} ' "$@" 2> /dev/null || true) "
  for package in "$@"; do
    [[ $installed == *" installed $package "* ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  ((EUID == 0)) || die "these packages are missing; as root: apt-get install --no-install-recommends ${missing[*]}"
  say "installing packages: ${missing[*]}"
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  "${apt[@]}" update >&2 || die "apt-get update failed; see above"
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >&2 || die "apt-get install failed; see above"
}

base_python() {
  local candidate
  for candidate in python3.11 python3; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2> /dev/null; then
      echo "$candidate"
      return
    fi
  done
  die "Python 3.10 or later is needed"
}

venv_stamp() { sha256sum < requirements.txt; }
venv_is_ready() { [[ -x $venv_python && -f $venv/.complete && $(< "$venv/.complete") == "$(venv_stamp)" ]]; }

venv_has_torch() {
  [[ -x $venv_python ]] && "$venv_python" -c 'import importlib.metadata, sys
sys.exit(importlib.metadata.version("torch").partition("+")[0] != sys.argv[1])' "$torch_version" 2> /dev/null
}

# Whether an environment without our stamp has just what requirements.txt says.
venv_fits() {
  [[ -x $venv_python ]] && "$venv_python" - requirements.txt << 'PYTHON' 2> /dev/null
import importlib.metadata, sys
for line in open(sys.argv[1]):
    name, equals, version = line.strip().partition("==")
    if equals and importlib.metadata.version(name).partition("+")[0] != version:
        sys.exit(1)
PYTHON
}

# pip writes the folder that an environment was made in into the scripts of its programs: it must name the folder that they are in.
mend_scripts() {
  local scripts name="${venv##*/}"
  mapfile -t scripts < <(grep -lIF "$name.new" "$venv"/bin/* || true)
  ((!${#scripts[@]})) || sed -i "s|$name\.new|$name|g" "${scripts[@]}"
}

# Made under another name and renamed when complete, so that nobody ever sees half of one. One that has the right torch
# is completed in place.
make_venv() {
  venv_is_ready && return
  if ! venv_fits && venv_has_torch; then
    say "adding to the Python environment in $venv what requirements.txt says"
    "$venv_python" -m pip install -q --no-input --disable-pip-version-check --retries 5 -r requirements.txt >&2 ||
      die "pip install failed; see above"
  fi
  if venv_fits; then
    venv_stamp > "$venv/.complete"
    return
  fi
  local python new="$venv.new"
  python="$(base_python)"
  say "making a Python environment with torch $torch_version in $venv (once a machine, about 1 GB)"
  rm -rf "$new"
  "$python" -m venv "$new" || die "python -m venv failed; see above"
  "$new/bin/python" -m pip install -q --no-input --disable-pip-version-check --retries 5 -r requirements.txt >&2 ||
    die "pip install failed; see above"
  venv_stamp > "$new/.complete"
  rm -rf "$venv"
  mv "$new" "$venv"
}

# make_side_venv VENV REQUIREMENTS WHAT: packages that would bring other versions into the environment of the tests.
make_side_venv() {
  local side="$1" stamp
  stamp="$(sha256sum < "$2")"
  [[ ! -x $side/bin/python || ! -f $side/.complete || $(< "$side/.complete") != "$stamp" ]] || return 0
  if ! "$side/bin/python" -m pip --version > /dev/null 2>&1; then
    say "making a Python environment with $3 in $side (once a machine)"
    rm -rf "$side"
    "$(base_python)" -m venv "$side" || die "python -m venv failed; see above"
  fi
  "$side/bin/python" -m pip install -q --no-input --disable-pip-version-check --retries 5 -r "$2" >&2 ||
    die "pip install failed; see above"
  echo "$stamp" > "$side/.complete"
}

# setup_side_venv VENV REQUIREMENTS WHAT
setup_side_venv() {
  "$(base_python)" -c 'import ensurepip' 2> /dev/null || install_packages python3-venv
  mkdir -p "$cache"
  (
    flock 9
    make_side_venv "$@"
  ) 9> "$1.lock"
}

setup_docs() { setup_side_venv "$docs_venv" tools/docs_requirements.txt "mkdocs (about 170 MB)"; }

# The compiler's version is part of the path, since cmake/portable/zig-clang is what ccache knows of it.
setup_portable() {
  setup_side_venv "$zig_venv" cmake/portable/requirements.txt "ziglang (about 440 MB)"
  ln -sf "$(echo "$zig_venv"/lib/python3*/site-packages/ziglang/zig)" "$zig_venv/bin/zig"
}

setup() {
  local packages=("${build_packages[@]}")
  command -v g++ > /dev/null || packages+=(g++)
  "$(base_python)" -c 'import ensurepip' 2> /dev/null || packages+=(python3-venv)
  "$(base_python)" -c 'import os, sysconfig as s; os.stat(s.get_path("include") + "/Python.h")' 2> /dev/null ||
    packages+=(python3-dev)
  install_packages "${packages[@]}"
  mkdir -p "$cache"
  (
    flock 9
    make_venv
    mend_scripts # also those of an environment that is older than this line
  ) 9> "$cache/venv.lock"
}
