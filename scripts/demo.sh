#!/usr/bin/env bash
# Real English text, two sites behind a thin link, about two minutes, each round's traffic, the share of
# time lost to the link, then a sample of what the model writes.
# Run by `make demo`, which has built the program.
set -euo pipefail
cd "$(dirname "$0")/.."

program=build/isthmus
text=data/gcide/gcide.dict.dz
config=experiments/demo.toml

# The package would pull in a dictionary server; only its one file is wanted.
if [[ ! -f $text ]]; then
    echo "demo: fetching the dictionary (Debian package dict-gcide)"
    folder=$(mktemp -d data-gcide.XXXXXX)
    trap 'rm -rf "$folder"' EXIT
    if ! (cd "$folder" && apt-get download -qq dict-gcide); then
        [[ $(id -u) -eq 0 ]] || {
            echo "demo: apt-get download dict-gcide failed; run: sudo apt-get update" >&2
            exit 1
        }
        apt-get update -qq
        (cd "$folder" && apt-get download -qq dict-gcide)
    fi
    dpkg -x "$folder"/dict-gcide_*.deb "$folder/root"
    mkdir -p data/gcide
    mv "$folder/root/usr/share/dictd/gcide.dict.dz" "$text"
fi

if [[ ! -f data/gcide/tokens.isthmus ]]; then
    "$program" data prepare "$text" --out data/gcide
fi

# Each run has its own keys: who has none cannot join it.
rm -rf runs/demo runs/demo.keys
mkdir -p runs
coordinator_key=$("$program" keys new runs/demo.keys --sites paris,oslo)

echo "demo: two sites train one model over an emulated link of 20 Mbit/s and 50 ms ($config);"
echo "demo: \`$program status demo\` in another terminal shows how it goes"
"$program" train "$config" \
    --set net.keys=runs/demo.keys "net.coordinator_key='$coordinator_key'"

echo
"$program" status demo
echo
echo "demo: the model writes"
"$program" generate runs/demo/model --prompt "The word "
