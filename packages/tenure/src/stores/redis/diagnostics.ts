import type { Finding } from '../../store-kit/diagnostics.ts'
import { readInfo } from './server-checks.ts'
import type { RedisConnection } from './link.ts'

/** Problems with the server's settings, worst first. */
export async function inspect(
  link: RedisConnection,
  { prefix, waitForReplicas }: { readonly prefix: string; readonly waitForReplicas: number },
): Promise<Finding[]> {
  const info = await readInfo(link, `${prefix}{doctor}:lease`, ['persistence', 'replication'])
  const settings = await settingsOf(link)
  const findings: Finding[] = []
  const say = (risk: Finding['risk'], text: string) => void findings.push({ risk, text })

  const isLogged = info.get('aof_enabled') === '1'
  if (info.has('aof_enabled') && !isLogged) {
    const isSaved = settings.get('save') !== ''
    const lost = isSaved ? 'all writes since its last snapshot' : 'everything'
    say(
      'unsafe',
      `appendonly is off: a restart of Redis loses ${lost}, including leases and terms, and two candidates can lead at once. Set appendonly yes.`,
    )
  }
  const replicas = Number(info.get('connected_slaves') ?? 0)
  const least = Number(settings.get('min-replicas-to-write') ?? 0)
  if (replicas > 0 && least === 0 && waitForReplicas === 0) {
    say(
      'unsafe',
      `Its replicas (${replicas}) are asynchronous: a failover can lose a granted lease or term, and two candidates can lead at once. Set waitForReplicas: ${replicas} on the store, or set min-replicas-to-write on the server, which limits how long this can last.`,
    )
  }
  if (isLogged && settings.get('appendfsync') !== undefined && settings.get('appendfsync') !== 'always') {
    say(
      'tight',
      `appendfsync is ${settings.get('appendfsync')}: if its machine crashes, Redis can lose the last seconds of writes. Set it to always.`,
    )
  }
  if (settings.size === 0 || info.size === 0) {
    say(
      'tight',
      'Redis does not reveal its settings. Check with its operator whether it evicts, persists and replicates keys.',
    )
  }
  return findings
}

async function settingsOf(link: RedisConnection): Promise<Map<string, string>> {
  const settings = new Map<string, string>()
  const [command] = await link.nodes()
  for (const name of ['save', 'appendfsync', 'min-replicas-to-write']) {
    try {
      const value = valueIn(await command?.('CONFIG', 'GET', name), name)
      if (value !== undefined) settings.set(name, value)
    } catch {
      // Many hosting providers hide these settings.
      return settings
    }
  }
  return settings
}

/** Clients return names and values as a flat array, or as a map. */
function valueIn(answer: unknown, name: string): string | undefined {
  if (Array.isArray(answer)) return answer.length > 1 ? String(answer[1]) : undefined
  if (answer instanceof Map) return answer.has(name) ? String(answer.get(name)) : undefined
  if (typeof answer !== 'object' || answer === null || !(name in answer)) return undefined
  return String(Reflect.get(answer, name))
}
