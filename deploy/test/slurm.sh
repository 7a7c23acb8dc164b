#!/usr/bin/env bash
# Runs the Slurm script with stand-ins for srun and scontrol, which start the tasks here, at addresses of loopback: with a command,
# with a node that is killed meanwhile, with nodes that can't start, and with a signal. Needs a treefold (the variable TREEFOLD, or
# on PATH); exits with 77 without one.
set -euo pipefail
cd "$(dirname "$0")/.."
treefold=$(command -v "${TREEFOLD:-treefold}") || { echo "skipped: there is no treefold, so the Slurm script was not tried" >&2; exit 77; }

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
ln -s "$treefold" "$work/treefold"
cat >"$work/scontrol" <<'EOF'
#!/usr/bin/env bash
[ "$1 $2" = 'show hostnames' ] || exit 1
tr ',' '\n' <<<"$3"
EOF
# as srun does, passes a signal on to its tasks, and ends when the last one has ended
cat >"$work/srun" <<'EOF'
#!/usr/bin/env bash
while [[ $1 = --* ]]; do shift; done
tasks=()
trap 'kill -TERM "${tasks[@]}"' TERM
IFS=, read -ra hosts <<<"$SLURM_JOB_NODELIST"
for task in "${!hosts[@]}"; do
	SLURM_PROCID=$task SLURMD_NODENAME=${hosts[task]} "$@" &
	tasks+=($!)
	echo "$!" >"$WORK/task$task"
done
while wait; [ -n "$(jobs -pr)" ]; do :; done
EOF
chmod +x "$work"/scontrol "$work"/srun
export WORK=$work PATH=$work:$PATH
export SLURM_JOB_ID=$((RANDOM % 10000)) SLURM_JOB_NODELIST=127.1.0.1,127.1.0.2,127.1.0.3 SLURM_NTASKS=3

ended() {
	for task in 0 1 2; do
		if kill -0 "$(<"$work/task$task")" 2>/dev/null; then
			echo "slurm: $1: a node is still there" >&2
			exit 1
		fi
	done
	echo "slurm: $1"
}

# shellcheck disable=SC2016 # the job's shell expands it
slurm/treefold.sbatch sh -c 'treefold call micro/sum --at "$TREEFOLD_AT"' >"$work/out" 2>"$work/log"
grep -qx '3 nodes see each other; a node is at .*' "$work/out"
# 0 + 1 + 2, one of each task
grep -qx 3 "$work/out" && grep -q 'full: coverage 1.000 (3 of 3 partitions)' "$work/out" "$work/log"
ended 'three nodes answered a call in full, and ended after it'

# shellcheck disable=SC2016
slurm/treefold.sbatch sh -c 'kill -9 $(cat $WORK/task2); treefold call micro/sum --at "$TREEFOLD_AT" --min-coverage 0.5' \
	>"$work/out" 2>"$work/log" && status=0 || status=$?
if [ "$status" != 3 ] || ! grep -q 'coverage 0.667 (2 of 3 partitions)' "$work/out" "$work/log"; then
	echo "slurm: a killed node: exit $status" >&2
	cat "$work/out" "$work/log" >&2
	exit 1
fi
ended 'the others answered in part after one was killed, and the job has the exit code of its command'

if TREEFOLD_SERVE=nothing:partitions=0/1 slurm/treefold.sbatch true >"$work/out" 2>"$work/log"; then
	echo "slurm: a wrong service was not reported" >&2
	exit 1
fi
grep -q 'the nodes ended before they saw each other' "$work/log"
ended 'a service that does not exist ends the job with the reason'

slurm/treefold.sbatch >"$work/out" 2>"$work/log" &
job=$!
for ((try = 0; try < 600; try++)); do
	grep -q 'see each other' "$work/out" && break
	sleep 0.1
done
kill -TERM "$job"
wait "$job" && status=0 || status=$?
[ "$status" = 143 ]
ended 'SIGTERM ends the nodes of a job without a command'
