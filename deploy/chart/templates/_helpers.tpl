{{- define "weir.image" -}}
{{- $repository := required "image.repository is empty: name the repository that has Weir's image" .Values.image.repository -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ $repository }}@{{ .digest }}
{{- else -}}
{{ $repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* By these, Services and policies find the operator. They can never change. */}}
{{- define "weir.selector" -}}
app.kubernetes.io/name: telemetry-manager
{{- end -}}

{{- define "weir.labels" -}}
{{ include "weir.selector" . }}
app.kubernetes.io/component: controller
app.kubernetes.io/part-of: telemetry
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
kyma-project.io/module: telemetry
{{- end -}}

{{/* Whether kubelets know no smaller right than to reach them through the API server. */}}
{{- define "weir.nodesProxy" -}}
{{- $asked := .Values.rbac.nodesProxy | toString -}}
{{- if eq $asked "auto" -}}
{{- semverCompare "<1.33.0-0" .Capabilities.KubeVersion.Version -}}
{{- else -}}
{{- $asked -}}
{{- end -}}
{{- end -}}
