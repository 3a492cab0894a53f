{{/* The name of the Lease. Each release has its own: two programs with one Lease would lead in turns. */}}
{{- define "tenure.name" -}}
{{- .Values.tenure.name | default .Release.Name -}}
{{- end -}}

{{/* For the pod's serviceAccountName. */}}
{{- define "tenure.serviceAccountName" -}}
{{- .Values.tenure.serviceAccount.name | default (include "tenure.name" .) -}}
{{- end -}}

{{/* For the container's env. */}}
{{- define "tenure.env" -}}
# The candidate's identity. It must be unique for each pod.
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: LEASE_NAME
  value: {{ include "tenure.name" . | quote }}
{{- end -}}

{{/* The service account, the Role and the RoleBinding: a file of its own in the program's chart. */}}
{{- define "tenure.rights" -}}
{{- if .Values.tenure.serviceAccount.create }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "tenure.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
---
{{- end }}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ include "tenure.name" . }}
  namespace: {{ .Release.Namespace }}
rules:
  # A rule for "create" cannot name the object, because the API server authorizes it before it knows the name.
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [create]
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [{{ include "tenure.name" . | quote }}]
    verbs: [get, update{{ if .Values.tenure.watch }}, watch{{ end }}]
  {{- if .Values.tenure.events }}
  - apiGroups: ['']
    resources: [events]
    verbs: [create]
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ include "tenure.name" . }}
  namespace: {{ .Release.Namespace }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ include "tenure.name" . }}
subjects:
  - kind: ServiceAccount
    name: {{ include "tenure.serviceAccountName" . }}
    namespace: {{ .Release.Namespace }}
{{- end -}}
