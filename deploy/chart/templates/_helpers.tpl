{{/* What the names of all objects begin with. */}}
{{- define "egress.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "egress.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "egress.labels" -}}
{{ include "egress.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "egress.collector" -}}
{{ include "egress.fullname" . }}-collector
{{- end -}}

{{- define "egress.ovn-writer" -}}
{{ include "egress.fullname" . }}-ovn-writer
{{- end -}}

{{- define "egress.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The names of the collectors' Deployments and Services: that of the first has no number. */}}
{{- define "egress.instances" -}}
{{- $names := list (include "egress.collector" .) -}}
{{- range $number := untilStep 2 (int (add .Values.collector.instances 1)) 1 -}}
{{- $names = append $names (printf "%s-%d" (include "egress.collector" $) $number) -}}
{{- end -}}
{{ $names | toJson }}
{{- end -}}

{{/* No container of ours needs more. */}}
{{- define "egress.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Of those that need no user of the host's: the image's. */}}
{{- define "egress.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "egress.probes" -}}
livenessProbe:
  httpGet: {path: /livez, port: admin}
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 2
  timeoutSeconds: 5
{{- end -}}

{{/* Pods of one kind on different nodes, and zones. */}}
{{- define "egress.spread" -}}
{{- $term := dict "labelSelector" (dict "matchLabels" .labels) "topologyKey" "kubernetes.io/hostname" -}}
affinity:
  podAntiAffinity:
    {{- if eq .antiAffinity "required" }}
    requiredDuringSchedulingIgnoredDuringExecution:
    - {{ toYaml $term | nindent 6 | trim }}
    {{- else }}
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        {{- toYaml $term | nindent 8 }}
    {{- end }}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: topology.kubernetes.io/zone
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- toYaml .labels | nindent 6 }}
{{- end -}}

{{- /* NAMESPACE/NAME as JSON: namespace and name; nothing in it for "none". */}}
{{- define "egress.key" -}}
{{- if eq . "none" }}{}{{ else }}
{{- $parts := splitList "/" . }}
{{- dict "namespace" (first $parts) "name" (last $parts) | toJson }}
{{- end }}
{{- end }}

{{- /* Whether pods are looked at: so it is where a release is upgraded that was made before there was the value. */}}
{{- define "egress.watchPods" }}
{{- ne (toString .Values.dns.watchPods) "false" }}
{{- end }}
