{{/* The labels of the objects, and of the pods that they select. */}}
{{- define "rowhouse.labels" -}}
app.kubernetes.io/name: rowhouse
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The value of an option as the variable has it. Helm reads every number as a floating-point number. */}}
{{- define "rowhouse.option" -}}
{{- if kindIs "slice" . }}{{ join "," . }}{{ else if kindIs "float64" . }}{{ int64 . }}{{ else }}{{ toString . }}{{ end }}
{{- end }}

{{/* The pod of a server, for both kinds of storage. */}}
{{- define "rowhouse.pod" -}}
{{- $database := .Values.database.url -}}
metadata:
  labels:
    {{- include "rowhouse.labels" . | nindent 4 }}
  {{- if $database }}
  annotations:
    # A server reads the URL only when it starts.
    checksum/database: {{ $database | sha256sum }}
  {{- end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  # Longer than --shutdown-seconds.
  terminationGracePeriodSeconds: 60
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if $database }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "rowhouse.labels" . | nindent 10 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10002
    runAsGroup: 10002
    fsGroup: 10002
    {{- if not $database }}
    # Avoids changing the owner of every file at each startup.
    fsGroupChangePolicy: OnRootMismatch
    {{- end }}
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: rowhouse
      image: {{ .Values.image | quote }}
      {{- with .Values.imagePullPolicy }}
      imagePullPolicy: {{ . }}
      {{- end }}
      args: [serve, {{ if not $database }}--data, /data/tables, {{ end }}--accounts, /etc/rowhouse/accounts.toml]
      env:
        {{- if $database }}
        - name: ROWHOUSE_STORE
          valueFrom:
            configMapKeyRef:
              name: {{ .Release.Name }}-database
              key: url
        - name: ROWHOUSE_STORE_PASSWORD_FILE
          value: /etc/rowhouse-database/password
        {{- if .Values.database.distribute }}
        - name: ROWHOUSE_DISTRIBUTE
          value: "true"
        {{- end }}
        {{- end }}
        {{- if .Values.tlsSecret }}
        - name: ROWHOUSE_TLS_CERT
          value: /etc/rowhouse-tls/tls.crt
        - name: ROWHOUSE_TLS_KEY
          value: /etc/rowhouse-tls/tls.key
        {{- else }}
        # An ingress or a mesh in front of the server terminates TLS.
        - name: ROWHOUSE_ALLOW_PLAIN_HTTP_ON_NETWORK
          value: "true"
        {{- end }}
        # For the probes, and for clients that the monitoring admits.
        - name: ROWHOUSE_ADMIN
          value: 0.0.0.0:10003
        - name: ROWHOUSE_ALLOW_ADMIN_ON_NETWORK
          value: "true"
        - name: ROWHOUSE_LOG_FORMAT
          value: {{ get .Values.options "log-format" | default "json" }}
        {{- range $name, $value := omit .Values.options "log-format" }}
        - name: ROWHOUSE_{{ $name | upper | replace "-" "_" }}
          value: {{ include "rowhouse.option" $value | quote }}
        {{- end }}
      ports:
        - name: tables
          containerPort: 10002
        - name: admin
          containerPort: 10003
      # The listener responds as soon as the server starts, so reading a large log does not fail this probe.
      livenessProbe:
        httpGet:
          path: /livez
          port: admin
        periodSeconds: 10
        failureThreshold: 6
      readinessProbe:
        httpGet:
          path: /readyz
          port: admin
        periodSeconds: 5
        # The server waits up to two seconds for its storage.
        timeoutSeconds: 5
      resources:
        {{- if .Values.resources }}
        {{- toYaml .Values.resources | nindent 8 }}
        {{- else }}
        requests:
          cpu: 100m
          memory: {{ if $database }}256Mi{{ else }}512Mi{{ end }}
        limits:
          memory: {{ if $database }}1Gi{{ else }}2Gi{{ end }}
        {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        {{- if not $database }}
        - name: data
          mountPath: /data
        {{- end }}
        - name: accounts
          mountPath: /etc/rowhouse
          readOnly: true
        {{- if $database }}
        - name: database
          mountPath: /etc/rowhouse-database
          readOnly: true
        {{- end }}
        {{- if .Values.tlsSecret }}
        - name: tls
          mountPath: /etc/rowhouse-tls
          readOnly: true
        {{- end }}
  volumes:
    - name: accounts
      secret:
        secretName: {{ .Values.accountsSecret }}
        defaultMode: 0440
    {{- if $database }}
    - name: database
      secret:
        secretName: {{ .Values.database.passwordSecret }}
        defaultMode: 0440
    {{- end }}
    {{- with .Values.tlsSecret }}
    - name: tls
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
{{- end }}
