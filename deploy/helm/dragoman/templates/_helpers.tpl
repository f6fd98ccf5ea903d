{{- define "dragoman.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "dragoman.fullname" -}}
{{- $name := include "dragoman.name" . }}
{{- $both := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- .Values.fullnameOverride | default $both | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "dragoman.selector" -}}
app.kubernetes.io/name: {{ include "dragoman.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "dragoman.labels" -}}
{{ include "dragoman.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "dragoman.image" -}}
{{- $repository := required "image.repository: name the image" .Values.image.repository }}
{{- if .Values.image.digest }}
{{- printf "%s@%s" $repository .Values.image.digest | quote }}
{{- else }}
{{- printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
{{- end }}
{{- end }}

{{- define "dragoman.podSecurity" -}}
{{- toYaml .Values.podSecurityContext }}
{{- end }}

{{- define "dragoman.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "dragoman.kind" -}}
{{- ternary "StatefulSet" "Deployment" .Values.storage.enabled }}
{{- end }}

{{/* dragoman.toml. The values of [server] are written as JSON, which TOML reads as it stands. */}}
{{- define "dragoman.toml" -}}
[server]
host = "0.0.0.0"
port = 8080
shutdown_grace_s = {{ int64 .Values.drainSeconds }}
{{- range $name, $value := .Values.server }}
{{- if kindIs "float64" $value }}
{{- /* Helm reads whole numbers as floating point; 2.68e+08 would be none to TOML. */}}
{{ $name }} = {{ if eq (floor $value) $value }}{{ int64 $value }}{{ else }}{{ $value }}{{ end }}
{{- else }}
{{ $name }} = {{ toJson $value }}
{{- end }}
{{- end }}

[storage]
{{- if .Values.storage.enabled }}
path = "/var/lib/dragoman/dragoman.db"
{{- else }}
path = ""
{{- if .Values.storage.urlVariable }}
url = "env:{{ .Values.storage.urlVariable }}"
{{- end }}
{{- end }}
{{- if and .Values.storage.keyVariable (or .Values.storage.enabled .Values.storage.urlVariable) }}
key = "env:{{ .Values.storage.keyVariable }}"
{{- end }}

{{ required "config: give the rest of dragoman.toml (clients, upstreams, accounts, routes)" .Values.config }}
{{- end }}
