import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { programs } from './programs.ts'
import type { ServerKind } from './server.ts'

/** Options of {@link prometheusWith}. */
export interface PrometheusOptions {
  /** The content of rule files. */
  readonly rules: readonly string[]
  /** The `host:port` of each metrics endpoint, by the name of its job. */
  readonly targets: Readonly<Record<string, string>>
}

/** A Prometheus that scrapes and evaluates its rules every half second. */
export function prometheusWith({ rules, targets }: PrometheusOptions): ServerKind {
  return {
    name: 'Prometheus',
    program: programs.prometheus,
    prepare({ directory }) {
      for (const [index, text] of rules.entries()) writeFileSync(join(directory, `rules-${index}.yaml`), text)
      const configuration = {
        global: { scrape_interval: '500ms', scrape_timeout: '500ms', evaluation_interval: '500ms' },
        rule_files: ['rules-*.yaml'],
        scrape_configs: Object.entries(targets).map(([job_name, target]) => ({
          job_name,
          static_configs: [{ targets: [target] }],
        })),
      }
      // JSON is valid YAML.
      writeFileSync(join(directory, 'prometheus.yml'), JSON.stringify(configuration))
    },
    args: ({ directory, port }) => [
      `--config.file=${join(directory, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(directory, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    async probe({ port }) {
      const answer = await fetch(`http://127.0.0.1:${port}/-/ready`, { signal: AbortSignal.timeout(1_000) })
      if (!answer.ok) throw new Error(`/-/ready answered ${answer.status}`)
    },
    url: (port) => `http://127.0.0.1:${port}`,
    stopSignal: 'SIGKILL',
  }
}
