#!/usr/bin/env bash
# Load from several machines by plain ssh. Run it on the machine that keeps the rows (the master).
# Usage: ssh.sh MY_ADDRESS URL OUT HOST... [-- LOCUST_ARGUMENTS]
# Each HOST has this project, set up, in ~/headtohead (or $FOLDER); PROCESSES load processes are started on each.
set -uo pipefail
address=$1 url=$2 out=$3
shift 3
hosts=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do hosts+=("$1"); shift; done
[ $# -eq 0 ] || shift

processes=${PROCESSES:-1} port=${PORT:-5557} file=${FILE:-locustfiles/acceptance.py}
trap 'kill $(jobs -p) 2>/dev/null' EXIT
for host in "${hosts[@]}"; do
  ${REMOTE_SHELL:-ssh} "$host" "cd ${FOLDER:-headtohead} && exec .venv/bin/python -m locust -f $file --worker \
    --processes $processes --master-host $address --master-port $port" &
done
.venv/bin/python -m locust -f "$file" --headless --master --master-bind-port "$port" \
  --expect-workers $((${#hosts[@]} * processes)) --host "$url" --out "$out" "$@"
