{{/*
One Spillway per cluster: kinds, policies and the people's roles exist once, and shards of the table have fixed names. So
objects have fixed names too, which the documentation and the plugin count on; a second release is refused by Helm.
*/}}

{{- define "spillway.labels" -}}
app.kubernetes.io/name: spillway
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What tells the Pods of one program: (list $ "proxy") */}}
{{- define "spillway.selector" -}}
app.kubernetes.io/name: spillway
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* The image of one program: (list $ .Values.proxy) */}}
{{- define "spillway.image" -}}
{{- $root := index . 0 }}{{ $program := index . 1 -}}
{{- $name := printf "%s/%s" $root.Values.images.registry $program.image -}}
{{- if $program.digest -}}
{{ printf "%s@%s" $name $program.digest }}
{{- else -}}
{{ printf "%s:%s" $name ($root.Values.images.tag | default $root.Chart.AppVersion) }}
{{- end }}
{{- end }}

{{/* Where the Pods of one program go: (list $ "proxy" .Values.proxy) */}}
{{- define "spillway.scheduling" -}}
{{- $root := index . 0 }}{{ $component := index . 1 }}{{ $program := index . 2 -}}
{{- with $root.Values.images.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $program.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $program.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $program.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $program.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $program.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  {{- $own := dict "labelSelector" (dict "matchLabels" (include "spillway.selector" (list $root $component) | fromYaml)) }}
  - {{ merge (deepCopy .) $own | toYaml | nindent 4 | trim }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Restricted in the words of Pod Security, and a root file system that nobody writes. */}}
{{- define "spillway.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "spillway.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Metadata of an object of one component: (list $ "proxy" "spillway-proxy") */}}
{{- define "spillway.metadata" -}}
{{- $root := index . 0 }}{{ $component := index . 1 -}}
name: {{ index . 2 }}
namespace: {{ $root.Release.Namespace | quote }}
labels:
  app.kubernetes.io/component: {{ $component }}
  {{- include "spillway.labels" $root | nindent 2 }}
{{- end }}

{{/* How callers are told apart. YAML takes an off without quotes for false. */}}
{{- define "spillway.callerAuth" -}}
{{ .Values.proxy.callerAuth.mode | default "off" }}
{{- end }}
