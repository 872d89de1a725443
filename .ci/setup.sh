#!/usr/bin/env bash
# Brings this tree to the point where it can run: `.ci/setup.sh demo|test|check`.
#
#   demo   a virtual environment in .venv with bubblewatch and its pinned dependencies
#   test   that, the journal extra and the test tools, what they need from the system, and Prometheus with its
#          Alertmanager unpacked in .tools
#   check  that of demo, and the linters
#
# Does nothing, quickly and without the network, when everything is there. System packages come from apt, and only where
# root or sudo is at hand; elsewhere it lists what is missing and exits 2. Prometheus is unpacked and never installed,
# since Debian's packages start services.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TARGET=${1:?usage: .ci/setup.sh demo|test|check}
readonly VENV=.venv TOOLS=.tools CACHE=.cache
readonly LOG=$CACHE/setup.log
# The prompt of a package's configuration would wait for an answer that nobody gives; another apt may hold the lock.
readonly APT=(env DEBIAN_FRONTEND=noninteractive apt-get -y -o DPkg::Lock::Timeout=120)

missing_packages=()
missing_reasons=()

say() { printf 'bubblewatch set-up: %s\n' "$*" >&2; }

die() {
  say "$*"
  exit 2
}

# Runs a command with its output in the log, so that a first run reads as a few lines. Shows the end of it on failure.
quietly() {
  "$@" >>"$LOG" 2>&1
}

show_log() {
  say "the end of $LOG:"
  tail -n 15 "$LOG" >&2
}

# --- Python -----------------------------------------------------------------------------------------------------------

# Prints the first interpreter of a version that pyproject.toml accepts. A name may be there and not run (pyenv's shims).
find_python() {
  local candidate
  for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.14; do
    if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  die "no Python from 3.11 to 3.14 found; install one, or name it: make $TARGET PYTHON=/path/to/python3.12"
}

python_has() { "$1" -c "import $2" 2>/dev/null; }

python_package() { "$1" -c 'import sys; print("python%d.%d" % sys.version_info[:2])'; }

has_python_headers() {
  "$1" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'
}

# --- System packages --------------------------------------------------------------------------------------------------

need() { # package, what for
  missing_packages+=("$1")
  missing_reasons+=("$1 ($2)")
}

has() { command -v "$1" >/dev/null; }

has_c_headers() { echo '#include <stdio.h>' | gcc -E - >/dev/null 2>&1; }

look_for_venv() {
  python_has "$PYTHON_FOUND" ensurepip || need "$(python_package "$PYTHON_FOUND")-venv" "to make a virtual environment"
}

look_for_test_needs() {
  has gcc || need gcc "compiles systemd-python and the stand-in for NVML"
  has_c_headers || need libc6-dev "headers for gcc"
  has pkg-config || need pkg-config "finds libsystemd"
  pkg-config --exists libsystemd 2>/dev/null || need libsystemd-dev "systemd-python is built against it"
  has_python_headers "$PYTHON_FOUND" || need "$(python_package "$PYTHON_FOUND")-dev" "systemd-python is built against it"
  { has journalctl && [[ -x /lib/systemd/systemd-journald ]]; } || need systemd "a real journal to read"
  [[ -x /lib/systemd/systemd-journal-remote ]] || need systemd-journal-remote "makes journal files"
  has systemd-nspawn || need systemd-container "a host with a real systemd, for the service"
  has openssl || need openssl "certificates for the tests of TLS"
  has chromium || has google-chrome || need chromium "opens reports as people do"
  has tmux || need tmux "a terminal to look at"
}

as_root() {
  if [[ $(id -u) == 0 ]]; then "$@"; else sudo "$@"; fi
}

# sudo may ask for a password only where somebody can type it.
may_become_root() {
  [[ $(id -u) == 0 ]] || { has sudo && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; }
}

die_of_missing() {
  say "missing: $(printf '%s; ' "${missing_reasons[@]}")$1"
  die "install with: apt-get install --no-install-recommends ${missing_packages[*]}   then run make $TARGET again"
}

install_missing() {
  ((${#missing_packages[@]})) || return 0
  has apt-get || die_of_missing "and there is no apt-get here (the names are Debian's)"
  may_become_root || die_of_missing "and neither root nor sudo is at hand"
  say "installing with apt: ${missing_packages[*]}"
  local install=("${APT[@]}" install --no-install-recommends "${missing_packages[@]}")
  # Fresh package lists are fetched only when the ones at hand do not do.
  quietly as_root "${install[@]}" ||
    { quietly as_root "${APT[@]}" update && quietly as_root "${install[@]}"; } ||
    { show_log; die_of_missing "and apt-get could not install it"; }
}

# --- Prometheus -------------------------------------------------------------------------------------------------------

download() { # package
  # "apt-get download" writes into the current folder and needs no root.
  (cd "$TOOLS" && apt-get -o APT::Sandbox::User=root download "$1")
}

# Puts the programs of a Debian package on the PATH of make, without installing it.
unpack() { # package, its programs
  local package=$1 program missing=
  shift
  for program in "$@"; do
    has "$program" || [[ -x $TOOLS/usr/bin/$program ]] || missing=$program
  done
  [[ $missing ]] || return 0
  has apt-get || die "missing: $* on the PATH (a real Prometheus and Alertmanager take part in the tests)"
  say "unpacking Debian's $package into $TOOLS (it is not installed and starts nothing)"
  mkdir -p "$TOOLS"
  quietly download "$package" ||
    { may_become_root && quietly as_root "${APT[@]}" update && quietly download "$package"; } ||
    { show_log; die "missing: $package; apt-get could not download it. Put $* on the PATH"; }
  dpkg -x "$TOOLS/${package}"_*.deb "$TOOLS"
  rm "$TOOLS/${package}"_*.deb
}

# --- The virtual environment ------------------------------------------------------------------------------------------

make_venv() {
  "$VENV/bin/python" -c '' 2>/dev/null && return
  say "making a virtual environment in $VENV with $("$PYTHON_FOUND" --version)"
  quietly "$PYTHON_FOUND" -m venv --clear "$VENV" || { show_log; die "could not make the virtual environment"; }
}

pip_install() {
  # Both names: pip before 25.3 holds build tools to the first, later ones to the second. A relative path, because pip
  # splits the value at spaces.
  quietly env PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \
    "$VENV/bin/python" -m pip install "$@" ||
    { show_log; die "pip could not install ($*); is a package index within reach?"; }
}

# Installs once per state of the pins; the path counts, since an editable install and the scripts name it.
install_python_packages() { # name of the set, what to give to pip
  local name=$1 state stamp
  shift
  state=$({ pwd && cat pyproject.toml constraints.txt; } | sha256sum | cut -c1-16)
  stamp=$VENV/.bubblewatch-$name
  [[ -e $stamp && $(<"$stamp") == "$state" ]] && return
  say "installing into $VENV ($name; details in $LOG)"
  # Groups of dependencies (PEP 735) need pip 25.1.
  [[ $name == demo ]] || pip_install --upgrade pip
  pip_install "$@"
  # Each set holds that of the demo, which then needs nothing more.
  echo "$state" | tee "$VENV/.bubblewatch-demo" >"$stamp"
}

mkdir -p "$CACHE"
: >"$LOG"
PYTHON_FOUND=$(find_python)
readonly PYTHON_FOUND

[[ -x $VENV/bin/python ]] || look_for_venv
case $TARGET in
demo)
  install_missing
  make_venv
  install_python_packages demo --editable '.[tui]'
  ;;
test)
  look_for_test_needs
  install_missing
  unpack prometheus prometheus promtool
  unpack prometheus-alertmanager prometheus-alertmanager
  make_venv
  install_python_packages test --editable '.[all]' --group test
  ;;
check)
  install_missing
  unpack prometheus prometheus promtool
  make_venv
  install_python_packages check --editable '.[tui,report]' --group lint
  ;;
*) die "unknown target '$TARGET': demo, test or check" ;;
esac
