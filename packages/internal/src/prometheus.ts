/** The `content-type` of the Prometheus text format. */
export const prometheusType = 'text/plain; version=0.0.4; charset=utf-8'

/** One sample of a metric family. */
export interface Sample {
  readonly labels?: Readonly<Record<string, string>>
  readonly suffix?: string
  readonly value: number
}

/** Formats a metric family as text. */
export function familyText(name: string, type: string, help: string, samples: readonly Sample[]): string {
  const lines = samples.map(({ labels, suffix = '', value }) => `${name}${suffix}${labelsOf(labels ?? {})} ${value}\n`)
  return [`# HELP ${name} ${help}\n`, `# TYPE ${name} ${type}\n`, ...lines].join('')
}

function labelsOf(labels: Readonly<Record<string, string>>): string {
  const escape = (value: string) => value.replace(/[\\"]/g, '\\$&').replaceAll('\n', '\\n')
  return `{${Object.entries(labels)
    .map(([name, value]) => `${name}="${escape(value)}"`)
    .join(',')}}`
}
