#!/usr/bin/env bash
# One CI job: run a plan, keep everything, hold it against a baseline. Usage: check.sh PLAN OUT [BASELINE]
# Exit code: that of the run (0 passed, 1 a verdict failed, 2 the request was wrong), else that of the gate.
set -uo pipefail
plan=$1 out=$2 baseline=${3:-}

headtohead run "$plan" --out "$out" --junit "$out.junit.xml" --quiet >"$out.txt"
status=$?
cat "$out.txt"
[ $status -le 1 ] || exit $status

if [ -n "$baseline" ]; then
  headtohead gate "$out" --baseline "$baseline" --max-regression 5% --junit "$out.gate.junit.xml" >"$out.gate.md"
  gate=$?
  cat "$out.gate.md"
  [ $status -ne 0 ] || status=$gate
fi
exit $status
