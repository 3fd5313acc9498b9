#!/bin/sh
# make demo: benchmarks a throwaway cluster with example/quickstart.yaml into a fresh archive, then reports on it.
set -eu
cd "$(dirname -- "$0")/.."

archive=demo/$(date +%Y-%m-%d_%H%M%S)
mkdir -p demo
status=0
.venv/bin/python cbt.py --archive "$archive" example/quickstart.yaml || status=$?
# 1: some points failed, and the report says which. Anything else left nothing to report on.
[ "$status" -le 1 ] || exit "$status"
# Refused or broken off before the first point: the lines above say why, and a report could only say that it is empty.
[ -n "$(find "$archive" -name point.json 2>/dev/null | head -n 1)" ] || exit "$status"

files=$(.venv/bin/python tools/generate_performance_report.py --archive "$archive" --output_directory "$archive-report") ||
    status=$?
echo
printf '%s\n' "$files" | grep -v '\.pdf$' || true
printf '%s\n' "$files" | grep '\.pdf$' || status=1
exit "$status"
