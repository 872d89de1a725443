#!/usr/bin/env bash
# The story, fix by fix, on simulated GPUs: record before and after each change, report it, and ask whether it helped.
#
#   examples/story/run.sh [FOLDER]     recordings and reports go there; a temporary folder when not given
#
# Takes about a minute on two free cores. What it prints is in expected.txt (FOLDER stands for the folder).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly SECONDS_EACH=125 # four blocks of 30 s: the least that a comparison takes
folder=${1:-$(mktemp -d)}
if [[ -x .venv/bin/python ]]; then python=.venv/bin/python; else python=python3; fi
bubblewatch() { "$python" -m bubblewatch "$@"; }

record() { # name, scenario, requests in flight
  bubblewatch record --demo "$2" --running "$3" --seconds "$SECONDS_EACH" --output "$folder/$1" >"$folder/$1.log"
  bubblewatch report "$folder/$1" --output "$folder/$1.html" >>"$folder/$1.log"
}

compare() { # what was changed, before, after
  printf '\n== %s\n' "$1"
  bubblewatch compare "$folder/$2" "$folder/$3" || echo "exit $?"
}

mkdir -p "$folder"
record story pp8-story 8 &
record graphs-on pp8-graphs-on 8
wait $!
record graphs-on-busy pp8-graphs-on 32 &
record slots-filled pp8-filled 32
wait $!
record depth-1 pp8-depth1 32 &
record tensor-parallel tp8 32
wait $!

printf '== before: 8 requests, what is wrong, and what would help\n'
bubblewatch replay "$folder/story" | sed -n '/^VERDICT/,/^FIRST/p' || true
bubblewatch predict "$folder/story" | sed -n '/^FIRST/p'
compare "first change: --disable-cuda-graph taken out, 8 requests" story graphs-on
compare "more requests are another load: 8 against 32" graphs-on graphs-on-busy
compare "second change: --pp-max-micro-batch-size 4, 32 requests" graphs-on-busy slots-filled
compare "third change: --pp-async-batch-depth 1, 32 requests" slots-filled depth-1
compare "another way: the same model over 8 tensor-parallel ranks, 32 requests" depth-1 tensor-parallel
printf '\n== GPU-hours lost in each\n'
for name in story graphs-on graphs-on-busy slots-filled depth-1 tensor-parallel; do
  printf '%-16s ' "$name"
  bubblewatch lost "$folder/$name" | head -n 1
done
echo
echo "recordings and pages (open story.html): $folder" >&2
