#!/usr/bin/env bash
# Finds which Debian packages are missing and installs them; without root it prints the one command that
# does. Starts no service. Usage: scripts/deps.sh [--tests]
set -euo pipefail

# What the program needs. Nothing here starts a daemon.
packages=(
    g++ cmake ninja-build make pkg-config git
    libdnnl-dev libzmq3-dev cppzmq-dev libsodium-dev libboost1.81-dev
    libcereal-dev libtomlplusplus-dev libcli11-dev libspdlog-dev libfmt-dev nlohmann-json3-dev
    libxxhash-dev libzstd-dev zlib1g-dev
)
# What only the tests and their speed need.
test_packages=(libgtest-dev libgmock-dev clang-format python3 binutils ccache)

if [[ "${1:-}" == --tests ]]; then
    packages+=("${test_packages[@]}")
elif [[ $# -gt 0 ]]; then
    echo "deps.sh: unknown argument $1; usage: scripts/deps.sh [--tests]" >&2
    exit 2
fi

if ! command -v dpkg-query >/dev/null; then
    echo "deps.sh: this is not Debian or a relative of it; install what these packages hold: ${packages[*]}" >&2
    exit 1
fi

missing=()
for package in "${packages[@]}"; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [[ "$status" == installed ]] || missing+=("$package")
done

if [[ ${#missing[@]} -eq 0 ]]; then
    echo "deps: all ${#packages[@]} packages are installed"
    exit 0
fi
echo "deps: missing: ${missing[*]}"
install=(apt-get install --yes --no-install-recommends "${missing[@]}")
if [[ $(id -u) -ne 0 ]]; then
    echo "deps: run this, then start again:" >&2
    echo "  sudo apt-get update && sudo ${install[*]}" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
"${install[@]}" >/dev/null
echo "deps: installed ${#missing[@]} packages"
