{{/*
A StatefulSet of nodes or relays. Takes a dict: root, role (node or relay), zone (a name, or empty), replicas.
A pod cannot read the labels of the machine that it runs on, so each zone has a StatefulSet of its own that names it.
*/}}
{{- define "treefold.statefulset" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
{{- $isRelay := eq .role "relay" -}}
{{- $name := include "treefold.fullname" $root -}}
{{- if $isRelay }}{{ $name = printf "%s-relay" $name }}{{ end -}}
{{- if .zone }}{{ $name = printf "%s-%s" $name .zone }}{{ end -}}
{{- $resources := $values.resources -}}
{{- if and $isRelay $values.relays.resources }}{{ $resources = $values.relays.resources }}{{ end -}}
{{- $drain := and $values.drain.enabled (not $isRelay) -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "treefold.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
spec:
  replicas: {{ .replicas }}
  serviceName: {{ include "treefold.peers" $root }}
  # nodes find each other in any order
  podManagementPolicy: Parallel
  updateStrategy: {{ toYaml $values.updateStrategy | nindent 4 }}
  minReadySeconds: {{ $values.minReadySeconds }}
  selector:
    matchLabels:
      {{- include "treefold.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .role }}
      {{- with .zone }}
      treefold/zone: {{ . }}
      {{- end }}
  template:
    metadata:
      labels:
        {{- include "treefold.selector" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .role }}
        {{- with .zone }}
        treefold/zone: {{ . }}
        {{- end }}
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        checksum/config: {{ include "treefold.config" $root | sha256sum }}
        {{- if $values.metrics.annotations }}
        prometheus.io/scrape: "true"
        prometheus.io/port: {{ $values.gateway.port | quote }}
        prometheus.io/scheme: {{ include "treefold.scheme" $root | lower }}
        {{- end }}
        {{- with $values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "treefold.serviceAccount" $root }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      # more than draining, the notice to balancers and the grace together
      terminationGracePeriodSeconds: {{ add (ternary (int $values.drain.timeoutSeconds) 0 $drain) $values.gateway.drainNoticeSeconds $values.graceSeconds 10 }}
      securityContext: {{ toYaml $values.podSecurityContext | nindent 8 }}
      {{- with $values.image.pullSecrets }}
      imagePullSecrets: {{ toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector: {{ toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations: {{ toYaml . | nindent 8 }}
      {{- end }}
      {{- with .zone }}
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
              - matchExpressions:
                  - key: {{ $values.zoneLabel }}
                    operator: In
                    values: [{{ . | quote }}]
      {{- end }}
      topologySpreadConstraints:
        {{- if $values.topologySpreadConstraints }}
        {{- toYaml $values.topologySpreadConstraints | nindent 8 }}
        {{- else }}
        {{- $keys := ternary (list "kubernetes.io/hostname") (list $values.zoneLabel "kubernetes.io/hostname") (ne .zone "") }}
        {{- $role := .role }}
        {{- range $keys }}
        - maxSkew: 1
          topologyKey: {{ . }}
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "treefold.selector" $root | nindent 14 }}
              app.kubernetes.io/component: {{ $role }}
        {{- end }}
        {{- end }}
      containers:
        - name: treefold
          image: {{ include "treefold.image" $root }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          command: [treefold]
          args:
            - node
            - --listen={{ include "treefold.any" $root }}:{{ $values.port }}
            - --advertise={{ include "treefold.own" $root }}:{{ $values.port }}
            # the placement of partitions knows a node by its name, which outlasts the pod
            - --name=$(POD_NAME)
            - --join=dns:{{ include "treefold.peers" $root }}.{{ $root.Release.Namespace }}.svc:{{ $values.port }}
            - --gateway={{ include "treefold.any" $root }}:{{ $values.gateway.port }}
            - --grace={{ $values.graceSeconds }}s
            - --config=/etc/treefold/node.toml
            {{- with $values.clusterName }}
            - --cluster={{ . }}
            {{- end }}
            {{- with .zone }}
            - --zone={{ . }}
            {{- end }}
            {{- if $isRelay }}
            - --relay
            {{- else }}
            {{- range $values.serve }}
            - {{ printf "--serve=%s" . | quote }}
            {{- end }}
            {{- end }}
            {{- if $values.gateway.tokensSecret }}
            - --gateway-tokens=/etc/treefold/gateway-tokens/{{ $values.gateway.tokensKey }}
            {{- end }}
            {{- if $values.gateway.tlsSecret }}
            - --gateway-tls-cert=/etc/treefold/gateway-tls/tls.crt
            - --gateway-tls-key=/etc/treefold/gateway-tls/tls.key
            {{- end }}
            {{- if $values.gateway.insecure }}
            - --insecure
            {{- end }}
            {{- range $values.extraArgs }}
            - {{ . | quote }}
            {{- end }}
          env:
            - name: POD_NAME
              valueFrom: {fieldRef: {fieldPath: metadata.name}}
            - name: POD_IP
              valueFrom: {fieldRef: {fieldPath: status.podIP}}
            # commands that are run in the container ask its node
            - name: TREEFOLD_AT
              value: "{{ include "treefold.loopback" $root }}:{{ $values.port }}"
            # the index of `search`
            - name: XDG_DATA_HOME
              value: /data
            {{- if $values.auth.keysSecret }}
            - name: TREEFOLD_KEYS
              value: /etc/treefold/trust/{{ $values.auth.keysKey }}
            {{- else }}
            - name: TREEFOLD_TOKEN_FILE
              value: /etc/treefold/trust/{{ $values.auth.tokenKey }}
            {{- end }}
            {{- with $values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - {name: tree-tcp, containerPort: {{ $values.port }}, protocol: TCP}
            - {name: tree-udp, containerPort: {{ $values.port }}, protocol: UDP}
            - {name: gateway, containerPort: {{ $values.gateway.port }}, protocol: TCP}
          startupProbe:
            httpGet: {path: /readyz, port: gateway, scheme: {{ include "treefold.scheme" $root }}}
            {{- toYaml $values.startupProbe | nindent 12 }}
          readinessProbe:
            httpGet: {path: /readyz, port: gateway, scheme: {{ include "treefold.scheme" $root }}}
            {{- toYaml $values.readinessProbe | nindent 12 }}
          livenessProbe:
            httpGet: {path: /healthz, port: gateway, scheme: {{ include "treefold.scheme" $root }}}
            {{- toYaml $values.livenessProbe | nindent 12 }}
          {{- if $drain }}
          lifecycle:
            preStop:
              exec:
                command:
                  - treefold
                  - drain
                  - "{{ include "treefold.loopback" $root }}:{{ $values.port }}"
                  - --timeout={{ $values.drain.timeoutSeconds }}s
                  {{- with $values.clusterName }}
                  - --cluster={{ . }}
                  {{- end }}
          {{- end }}
          resources: {{ toYaml $resources | nindent 12 }}
          securityContext: {{ toYaml $values.securityContext | nindent 12 }}
          volumeMounts:
            - {name: config, mountPath: /etc/treefold/node.toml, subPath: node.toml, readOnly: true}
            - {name: trust, mountPath: /etc/treefold/trust, readOnly: true}
            - {name: data, mountPath: /data}
            - {name: tmp, mountPath: /tmp}
            {{- if and $values.corpus.volume (not $isRelay) }}
            - {name: corpus, mountPath: {{ $values.corpus.mountPath }}, readOnly: true}
            {{- end }}
            {{- if $values.gateway.tokensSecret }}
            - {name: gateway-tokens, mountPath: /etc/treefold/gateway-tokens, readOnly: true}
            {{- end }}
            {{- if $values.gateway.tlsSecret }}
            - {name: gateway-tls, mountPath: /etc/treefold/gateway-tls, readOnly: true}
            {{- end }}
            {{- with $values.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - name: config
          configMap: {name: {{ include "treefold.fullname" $root }}}
        - name: trust
          secret:
            secretName: {{ $values.auth.keysSecret | default (include "treefold.tokenSecret" $root) }}
            defaultMode: 0440
        - name: tmp
          emptyDir: {}
        {{- if or $isRelay (not $values.persistence.enabled) }}
        - name: data
          emptyDir: {}
        {{- end }}
        {{- if and $values.corpus.volume (not $isRelay) }}
        - name: corpus
          {{- toYaml $values.corpus.volume | nindent 10 }}
        {{- end }}
        {{- with $values.gateway.tokensSecret }}
        - name: gateway-tokens
          secret: {secretName: {{ . }}, defaultMode: 0440}
        {{- end }}
        {{- with $values.gateway.tlsSecret }}
        - name: gateway-tls
          secret: {secretName: {{ . }}, defaultMode: 0440}
        {{- end }}
        {{- with $values.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  {{- if and $values.persistence.enabled (not $isRelay) }}
  volumeClaimTemplates:
    - apiVersion: v1
      kind: PersistentVolumeClaim
      metadata:
        name: data
      spec:
        accessModes: {{ toYaml $values.persistence.accessModes | nindent 10 }}
        {{- with $values.persistence.storageClass }}
        storageClassName: {{ . }}
        {{- end }}
        resources: {requests: {storage: {{ $values.persistence.size }}}}
  {{- end }}
{{- end -}}

{{/* The nodes' configuration file. */}}
{{- define "treefold.config" -}}
[gateway.limits]
drain_notice = "{{ .Values.gateway.drainNoticeSeconds }}s"
{{- range $limit, $value := .Values.gateway.limits }}
{{ $limit }} = {{ if kindIs "float64" $value }}{{ int64 $value }}{{ else }}{{ toJson $value }}{{ end }}
{{- end }}
{{- with .Values.config }}

{{ . }}
{{- end }}
{{- end -}}
