{{/* The prefix of all objects' names. */}}
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
{{- $ours := include "egress.selector" . | fromYaml -}}
{{- $_ := set $ours "app.kubernetes.io/version" .Chart.AppVersion -}}
{{- $_ := set $ours "app.kubernetes.io/managed-by" .Release.Service -}}
{{- $_ := set $ours "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") -}}
{{ merge $ours .Values.commonLabels | toYaml }}
{{- end -}}

{{/* The labels of pods. Those of a component win over those of all objects. */}}
{{- define "egress.podLabels" -}}
{{ merge (include "egress.selector" .root | fromYaml) .component.podLabels (include "egress.labels" .root | fromYaml) | toYaml }}
{{- end -}}

{{/* The namespace of DNSNameResolvers of names in DNSResolvers. */}}
{{- define "egress.dnsResolverObjectsNamespace" -}}
{{- $namespace := .Values.rules.dnsResolverObjectsNamespace | default .Release.Namespace -}}
{{- if and (has "dnsresolver" .Values.rules.sources) (eq $namespace .Values.objectsNamespace) -}}
{{- fail "rules.dnsResolverObjectsNamespace must not be objectsNamespace: ovn-kubernetes deletes each object there that no EgressFirewall uses" -}}
{{- end -}}
{{ $namespace }}
{{- end -}}

{{/* The namespaces of the collector's DNSNameResolvers, as JSON. */}}
{{- define "egress.objectsNamespaces" -}}
{{- $namespaces := list -}}
{{- if has "egressfirewall" .Values.rules.sources -}}
{{- $namespaces = append $namespaces .Values.objectsNamespace -}}
{{- end -}}
{{- if has "dnsresolver" .Values.rules.sources -}}
{{- $namespaces = append $namespaces (include "egress.dnsResolverObjectsNamespace" .) -}}
{{- end -}}
{{ $namespaces | toJson }}
{{- end -}}

{{/* The collector's --objects-namespace: that of the DNSNameResolvers of EgressFirewalls, and of its Lease. */}}
{{- define "egress.objectsNamespace" -}}
{{ ternary .Values.objectsNamespace .Release.Namespace (has "egressfirewall" .Values.rules.sources) }}
{{- end -}}

{{- define "egress.collector" -}}
{{ include "egress.fullname" . }}-collector
{{- end -}}

{{- define "egress.collectorAccount" -}}
{{ .Values.collector.serviceAccountName | default (include "egress.collector" .) }}
{{- end -}}

{{- define "egress.ovn-writer" -}}
{{ include "egress.fullname" . }}-ovn-writer
{{- end -}}

{{- define "egress.ovnWriterAccount" -}}
{{ .Values.ovnWriter.serviceAccountName | default (include "egress.ovn-writer" .) }}
{{- end -}}

{{- define "egress.policy-writer" -}}
{{ include "egress.fullname" . }}-policy-writer
{{- end -}}

{{- define "egress.policyWriterAccount" -}}
{{ .Values.policyWriter.serviceAccountName | default (include "egress.policy-writer" .) }}
{{- end -}}

{{/* imageRegistry replaces the registry of the repository: its first part, if that has a dot or a port. */}}
{{- define "egress.image" -}}
{{- $repository := .Values.image.repository -}}
{{- with .Values.imageRegistry -}}
{{- $repository = printf "%s/%s" . (regexReplaceAll "^[^/]*[.:][^/]*/" $repository "") -}}
{{- end -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ $repository }}@{{ .digest }}
{{- else -}}
{{ $repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The networks of Services, as JSON: those of the values, or the ServiceCIDRs of the API server, which Kubernetes has since 1.33. */}}
{{- define "egress.serviceNetworks" -}}
{{- $networks := .Values.cluster.serviceNetworks -}}
{{- if and (not $networks) (.Capabilities.APIVersions.Has "networking.k8s.io/v1/ServiceCIDR") -}}
{{- range (lookup "networking.k8s.io/v1" "ServiceCIDR" "" "").items -}}
{{- $networks = concat $networks .spec.cidrs -}}
{{- end -}}
{{- end -}}
{{ $networks | toJson }}
{{- end -}}

{{/* The names of the collectors' Deployments and Services; the first has no number. */}}
{{- define "egress.instances" -}}
{{- $names := list (include "egress.collector" .) -}}
{{- range $number := untilStep 2 (int (add .Values.collector.instances 1)) 1 -}}
{{- $names = append $names (printf "%s-%d" (include "egress.collector" $) $number) -}}
{{- end -}}
{{ $names | toJson }}
{{- end -}}

{{/* Of a container, with the values of its component: none of ours needs more. */}}
{{- define "egress.containerSecurity" -}}
{{- $ours := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) -}}
{{ mergeOverwrite $ours (deepCopy .containerSecurityContext) | toYaml }}
{{- end -}}

{{/* Of pods that need no user of the host's: the image's, or one that OpenShift chooses. */}}
{{- define "egress.podSecurity" -}}
{{- $ours := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- if not .root.Values.openshift -}}
{{- $ours = merge $ours (dict "runAsUser" 65532 "runAsGroup" 65532 "fsGroup" 65532) -}}
{{- end -}}
{{ mergeOverwrite $ours (deepCopy .component.podSecurityContext) | toYaml }}
{{- end -}}

{{/* What both programs' pods take from their values. */}}
{{- define "egress.pod" -}}
{{- with .component.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- if .component.hostNetwork }}
hostNetwork: true
{{- end }}
{{- with .component.dnsPolicy | default (ternary "ClusterFirstWithHostNet" "" .component.hostNetwork) }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .component.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "egress.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "egress.labels" .root | nindent 4 }}
  {{- with .component.serviceAccountAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
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

{{/* Spreads pods of one kind over nodes and zones. */}}
{{- define "egress.spread" -}}
{{- $term := dict "labelSelector" (dict "matchLabels" .labels) "topologyKey" "kubernetes.io/hostname" -}}
affinity:
  {{- with .component.affinity }}
  {{- toYaml . | nindent 2 }}
  {{- else }}
  podAntiAffinity:
    {{- if eq (.component.antiAffinity | default "preferred") "required" }}
    requiredDuringSchedulingIgnoredDuringExecution:
    - {{ toYaml $term | nindent 6 | trim }}
    {{- else }}
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        {{- toYaml $term | nindent 8 }}
    {{- end }}
  {{- end }}
topologySpreadConstraints:
{{- with .component.topologySpreadConstraints }}
{{- toYaml . | nindent 0 }}
{{- else }}
- maxSkew: 1
  topologyKey: topology.kubernetes.io/zone
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- toYaml .labels | nindent 6 }}
{{- end }}
{{- end -}}

{{- /* Splits NAMESPACE/NAME into JSON with namespace and name; empty JSON for "none". */}}
{{- define "egress.key" -}}
{{- if eq . "none" }}{}{{ else }}
{{- $parts := splitList "/" . }}
{{- dict "namespace" (first $parts) "name" (last $parts) | toJson }}
{{- end }}
{{- end }}
