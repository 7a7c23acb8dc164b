{{- define "treefold.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of a StatefulSet may have 52 characters, so this leaves room for "-relay-" and a zone of 23. */}}
{{- define "treefold.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 22 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 22 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "treefold.name" .) | trunc 22 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "treefold.peers" -}}
{{ include "treefold.fullname" . }}-peers
{{- end -}}

{{- define "treefold.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "treefold.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "treefold.tokenSecret" -}}
{{- default (printf "%s-token" (include "treefold.fullname" .)) .Values.auth.tokenSecret -}}
{{- end -}}

{{- define "treefold.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{/* Labels of the chart's pods: nodes and relays. */}}
{{- define "treefold.selector" -}}
app.kubernetes.io/name: {{ include "treefold.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "treefold.labels" -}}
{{ include "treefold.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "treefold.scheme" -}}
{{ if .Values.gateway.tlsSecret }}HTTPS{{ else }}HTTP{{ end }}
{{- end -}}

{{/* The address of all interfaces, and the pod's own. */}}
{{- define "treefold.any" -}}
{{ if .Values.ipv6 }}[::]{{ else }}0.0.0.0{{ end }}
{{- end -}}
{{- define "treefold.own" -}}
{{ if .Values.ipv6 }}[$(POD_IP)]{{ else }}$(POD_IP){{ end }}
{{- end -}}
{{- define "treefold.loopback" -}}
{{ if .Values.ipv6 }}[::1]{{ else }}127.0.0.1{{ end }}
{{- end -}}

{{/* Refuses settings that contradict each other, as the program would. */}}
{{- define "treefold.check" -}}
{{- $gateway := .Values.gateway -}}
{{- if and (not $gateway.insecure) (not (and $gateway.tlsSecret $gateway.tokensSecret)) -}}
{{- fail "the gateway is reached by other machines: set gateway.tlsSecret and gateway.tokensSecret, or gateway.insecure=true" -}}
{{- end -}}
{{- if and .Values.auth.tokenSecret .Values.auth.keysSecret -}}
{{- fail "set auth.tokenSecret or auth.keysSecret, not both" -}}
{{- end -}}
{{- $seen := dict -}}
{{- range .Values.zones -}}
{{- if hasKey $seen .name -}}
{{- fail (printf "zones has %s twice" .name) -}}
{{- end -}}
{{- $_ := set $seen .name true -}}
{{- end -}}
{{- end -}}
