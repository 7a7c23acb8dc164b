#!/usr/bin/env bash
# Lints the chart, renders it with each file of values in ci/, and checks the result against the schemas of Kubernetes. Needs
# helm; without kubeconform the last step is left out with a message.
set -euo pipefail
cd "$(dirname "$0")/.."
chart=helm/treefold
# helm built from source believes in an old Kubernetes unless it is told
helm() {
	local status=0
	command helm "$@" --kube-version 1.37.0 2>"$rendered/messages" || status=$?
	grep -v 'found symbolic link' "$rendered/messages" >&2 || true
	return "$status"
}

rendered=$(mktemp -d)
trap 'rm -r "$rendered"' EXIT
for values in "$chart"/ci/*-values.yaml; do
	name=$(basename "$values" -values.yaml)
	helm lint --strict --quiet "$chart" --values "$values"
	helm template "$name" "$chart" --namespace prod --values "$values" >"$rendered/$name.yaml"
	echo "chart: $name: linted and rendered: $(grep -c '^kind:' "$rendered/$name.yaml") objects"
done

# settings that the chart must refuse, with a part of the message
refused() {
	local message=$1
	shift
	if helm template refused "$chart" "$@" >/dev/null 2>"$rendered/error"; then
		echo "chart: $* was not refused" >&2
		exit 1
	fi
	grep -qF -- "$message" "$rendered/error" || {
		echo "chart: $* was refused without '$message':" >&2
		cat "$rendered/error" >&2
		exit 1
	}
	echo "chart: refused: $message"
}
open=(--set gateway.insecure=true)
refused 'set gateway.tlsSecret and gateway.tokensSecret, or gateway.insecure=true'
refused 'set auth.tokenSecret or auth.keysSecret, not both' "${open[@]}" --set auth.tokenSecret=a,auth.keysSecret=b
refused 'zones has a twice' "${open[@]}" --set 'zones[0].name=a,zones[1].name=a'
refused 'replica' "${open[@]}" --set replica=5
refused 'does not match pattern' "${open[@]}" --set 'zones[0].name=EU_1'

# a pod has more time to end than its node takes
times_to_end() { grep -F terminationGracePeriodSeconds "$rendered/$1.yaml" | sort -u | awk '{ print $2 }' | paste -sd ' '; }
if [ "$(times_to_end plain)" != 35 ] || [ "$(times_to_end zones)" != '155 35' ]; then
	echo "chart: wrong times to end: $(times_to_end plain), $(times_to_end zones)" >&2
	exit 1
fi

# the program has every flag that the pods give it
treefold=${TREEFOLD:-treefold}
if command -v "$treefold" >/dev/null; then
	flags=$("$treefold" node --help)
	mapfile -t given < <(sed -n '/^ *- node$/,/^ *env:/p' "$rendered"/*.yaml | grep -oE '^ +- "?--[a-z-]+' | grep -oE -- '--[a-z-]+' | sort -u)
	for flag in "${given[@]}"; do
		grep -qE -- "^ +(-., )?$flag( |\$)" <<<"$flags" || { echo "chart: treefold node has no flag $flag" >&2; exit 1; }
	done
	echo "chart: treefold node has all flags of the pods"
else
	echo "skipped: there is no command $treefold, so the flags of the pods were not compared with it" >&2
fi

if ! command -v kubeconform >/dev/null; then
	echo "skipped: kubeconform is missing, so the chart's objects were not compared with schemas" >&2
	exit 0
fi
# the Prometheus operator's kinds have no schema here
kubeconform -strict -summary -skip ServiceMonitor,PrometheusRule \
	-schema-location 'test/schemas/{{.ResourceKind}}{{.KindSuffix}}.json' "$rendered"/*.yaml
