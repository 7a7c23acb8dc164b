#!/usr/bin/env bash
# Checks everything below deploy/ with the tools that this machine has, and prints a line for each one that is missing. Fails if a
# check fails, not if a tool is missing. deploy/test/tools.sh installs the tools.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
PATH=${TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/treefold/tools}/bin:$PATH
failed=()

# runs a check that needs a tool
check() {
	local name=$1 tool=$2
	shift 2
	if ! command -v "$tool" >/dev/null; then
		echo "skipped: $tool is missing, so this was not checked: $name" >&2
		return
	fi
	local status=0
	"$@" || status=$?
	case $status in
		0) echo "ok: $name" ;;
		# the check has said what it lacks
		77) ;;
		*) failed+=("$name") ;;
	esac
}

# the image's compiler is the one that the project is tested with
versions() {
	local image project
	image=$(sed -n 's/^FROM rust:\([0-9.]*\)-.*/\1/p' deploy/Dockerfile)
	project=$(sed -n 's/^channel = "\([0-9]*\.[0-9]*\).*"/\1/p' rust-toolchain.toml)
	[ "$image" = "$project" ] || { echo "deploy/Dockerfile has Rust $image, rust-toolchain.toml $project" >&2; return 1; }
}
rules() { (cd deploy/prometheus && promtool check rules alerts.yaml && promtool test rules alerts_test.yaml); }

check 'scripts' shellcheck shellcheck deploy/test/*.sh deploy/slurm/treefold.sbatch
check 'Dockerfile' hadolint hadolint deploy/Dockerfile
check 'version of Rust' sed versions
check 'systemd unit' systemd-analyze deploy/test/unit.sh
check 'Helm chart' helm deploy/test/chart.sh
check 'alert rules' promtool rules
check 'Slurm script' bash deploy/test/slurm.sh
check 'dashboard' prometheus deploy/test/dashboard.sh

if [ ${#failed[@]} -gt 0 ]; then
	printf 'failed: %s\n' "${failed[@]}" >&2
	exit 1
fi
