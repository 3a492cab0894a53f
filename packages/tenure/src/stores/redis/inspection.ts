import type { Finding } from '../finding.ts'
import { informedBy } from './examiner.ts'
import type { Link } from './link.ts'

/** What is wrong with the server's settings, the worst first. */
export async function inspect(
  link: Link,
  { prefix, waitForReplicas }: { readonly prefix: string; readonly waitForReplicas: number },
): Promise<Finding[]> {
  const info = await informedBy(link, `${prefix}{doctor}:lease`, ['persistence', 'replication'])
  const settings = await settingsOf(link)
  const findings: Finding[] = []
  const say = (risk: Finding['risk'], text: string) => void findings.push({ risk, text })

  const isLogged = info.get('aof_enabled') === '1'
  if (info.has('aof_enabled') && !isLogged) {
    const isSaved = settings.get('save') !== ''
    const lost = isSaved ? 'what was written since its last snapshot' : 'everything'
    say(
      'unsafe',
      `appendonly is off: a restart of Redis forgets ${lost}, leases and terms too, and two can lead. Set appendonly yes.`,
    )
  }
  const replicas = Number(info.get('connected_slaves') ?? 0)
  const least = Number(settings.get('min-replicas-to-write') ?? 0)
  if (replicas > 0 && least === 0 && waitForReplicas === 0) {
    say(
      'unsafe',
      `Its replicas (${replicas}) follow asynchronously: a failover can lose a lease or a term that was granted, and two can lead. Give the store waitForReplicas: ${replicas}, or set min-replicas-to-write, which bounds how long.`,
    )
  }
  if (isLogged && settings.get('appendfsync') !== undefined && settings.get('appendfsync') !== 'always') {
    say(
      'tight',
      `appendfsync is ${settings.get('appendfsync')}: when its machine crashes, Redis can lose the last seconds. Set it to always.`,
    )
  }
  if (settings.size === 0 || info.size === 0) {
    say('tight', 'Redis hides its settings: whether it drops, saves and replicates keys has to be looked up elsewhere.')
  }
  return findings
}

async function settingsOf(link: Link): Promise<Map<string, string>> {
  const settings = new Map<string, string>()
  const [command] = await link.nodes()
  for (const name of ['save', 'appendfsync', 'min-replicas-to-write']) {
    try {
      const value = valueIn(await command?.('CONFIG', 'GET', name), name)
      if (value !== undefined) settings.set(name, value)
    } catch {
      // Many who rent out servers hide them.
      return settings
    }
  }
  return settings
}

/** Clients give names and values in a row, or as the protocol's maps. */
function valueIn(answer: unknown, name: string): string | undefined {
  if (Array.isArray(answer)) return answer.length > 1 ? String(answer[1]) : undefined
  if (answer instanceof Map) return answer.has(name) ? String(answer.get(name)) : undefined
  if (typeof answer !== 'object' || answer === null || !(name in answer)) return undefined
  return String(Reflect.get(answer, name))
}
