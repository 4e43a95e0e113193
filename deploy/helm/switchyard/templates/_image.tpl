{{/*
The image of a service, from the chart's image values and its own. A digest goes before a tag.
*/}}
{{- define "switchyard.image" -}}
{{- $all := index . 0 }}
{{- $own := index . 1 }}
{{- $name := printf "%s/%s" (default $all.registry $own.registry) $own.repository }}
{{- if $own.digest }}
{{- printf "%s@%s" $name $own.digest }}
{{- else }}
{{- printf "%s:%s" $name (default $all.tag $own.tag) }}
{{- end }}
{{- end }}
