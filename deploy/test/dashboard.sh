#!/usr/bin/env bash
# Asks every query of the dashboard: starts three nodes with gateways and a Prometheus that scrapes them, makes calls, streams and
# failures, and prints one line for each panel. Fails if a query has no data, or if a rule can't be evaluated. Needs a treefold
# (the variable TREEFOLD, or on PATH), prometheus, curl and jq; exits with 77 if one is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
treefold=${TREEFOLD:-treefold}
for tool in "$treefold" prometheus curl jq; do
	command -v "$tool" >/dev/null || { echo "skipped: $tool is missing, so the dashboard was not tried" >&2; exit 77; }
done

work=$(mktemp -d)
started=()
end() {
	kill "${started[@]}" 2>/dev/null || true
	wait 2>/dev/null || true
	rm -r "$work"
}
trap end EXIT
# waits until a command succeeds, and says which one did not
until_true() {
	local what=$1
	shift
	for ((try = 0; try < 600; try++)); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.1
	done
	echo "no $what within a minute" >&2
	tail -n 20 "$work"/*.log >&2
	exit 1
}

# every partition lies on two of the three nodes
partitions=("0-10/16" "5-15/16" "0-4,11-15/16")
join=()
for n in 0 1 2; do
	traced=(--trace-file "$work/traces$n.jsonl" --trace-sample 1 --slow-call 1ms)
	"$treefold" node --listen 127.0.0.1:0 "${join[@]}" "${traced[@]}" --serve "micro:partitions=${partitions[n]}" --zone "z$n" --gateway 127.0.0.1:0 \
		>"$work/node$n.out" 2>"$work/node$n.log" &
	started+=($!)
	until_true "gateway of node $n" grep -q '^gateway at ' "$work/node$n.out"
	[ "$n" -gt 0 ] || join=(--join "$(sed -n 's/^listening on //p' "$work/node0.out")")
done
gateways=()
for n in 0 1 2; do gateways+=("$(sed -n 's#^gateway at http://##p' "$work/node$n.out")"); done
sees_all() { curl -sf "http://$1/metrics" | grep -qx 'treefold_members 3'; }
for gateway in "${gateways[@]}"; do until_true "view of three members at $gateway" sees_all "$gateway"; done

port=$((20000 + RANDOM % 10000))
while (: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
prometheus=http://127.0.0.1:$port
cat >"$work/prometheus.yaml" <<EOF
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [$PWD/prometheus/alerts.yaml]
scrape_configs:
  - job_name: treefold
    static_configs: [{targets: [$(IFS=,; echo "${gateways[*]}")]}]
EOF
prometheus --config.file="$work/prometheus.yaml" --storage.tsdb.path="$work/data" --web.listen-address="127.0.0.1:$port" \
	>"$work/prometheus.log" 2>&1 &
started+=($!)
until_true "ready Prometheus" curl -sf "$prometheus/-/ready"

call() { curl -sf -o "$work/answer" -X POST "http://$1/v1/call/$2" "${@:3}"; }
json=(-H 'content-type: application/json')
curl -sNG "http://${gateways[0]}/v1/streams/micro" -d filter=count --data-urlencode 'params="echo"' \
	--data-urlencode 'send={"format":"u64","values":[1]}' -d every=50ms >"$work/stream" &
started+=($!)
# the health of gRPC: one empty message
grpc() {
	printf '\0\0\0\0\0' | curl -sf --http2-prior-knowledge -H 'content-type: application/grpc' -H 'te: trailers' --data-binary @- \
		-o "$work/health" "http://$1/grpc.health.v1.Health/Check"
}
for ((second = 0; second < 12; second++)); do
	for gateway in "${gateways[@]}"; do
		for ((one = 0; one < 10; one++)); do call "$gateway" micro/sum; done
		call "$gateway" micro/spin "${json[@]}" -d '{"local_ms": 2}'
		# failed partitions, with reasons, and an answer of another status
		call "$gateway" 'micro/spin?min_coverage=0.5' "${json[@]}" -d '{"local_ms": 1, "fail": [3]}'
		call "$gateway" 'micro/sum?min_coverage=2' && exit 1
		grpc "$gateway"
	done
	sleep 1
done

# the panels' queries, with Grafana's variables filled in
ask() {
	local query=$1
	query=${query//\$__rate_interval/10s}
	query=${query//\$job/treefold}
	query=${query//\$instance/.*}
	curl -sf --data-urlencode "query=$query" "$prometheus/api/v1/query"
}
failed=0
panels=0
while IFS=$'\t' read -r title queries; do
	found=() empty=0
	while read -r query; do
		series=$(ask "$query" | jq '[.data.result[] | select(.value[1] != "NaN")] | length')
		found+=("$series")
		[ "$series" -gt 0 ] || { empty=1; echo "no data: $query" >&2; }
	done < <(jq -r '.[]' <<<"$queries")
	panels=$((panels + 1))
	failed=$((failed + empty))
	printf '%-5s %-48s series: %s\n' "$([ "$empty" = 0 ] && echo ok || echo EMPTY)" "$title" "${found[*]}"
done < <(jq -r '.panels[] | select(.type != "row") | [.title, (.targets | map(.expr) | tojson)] | join("\t")' grafana/treefold.json)

rules=$(curl -sf "$prometheus/api/v1/rules" | jq '[.data.groups[].rules[] | select(.health == "ok")] | length')
wanted=$(grep -c -- '- alert: ' prometheus/alerts.yaml)
echo "$((panels - failed)) of $panels panels have data; $rules of $wanted alert rules are evaluated"
[ "$failed" = 0 ] && [ "$rules" = "$wanted" ]
