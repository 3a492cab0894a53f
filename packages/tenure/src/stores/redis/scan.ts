import { invalidOption } from '../../common/errors.ts'
import type { Page } from '../../store-kit/list.ts'
import type { RedisConnection } from './link.ts'

const scannedAtOnce = '1000'

/**
 * Returns the elections on one page. Scans all keys of all servers in batches. The position of the next page is the
 * server, Redis' own cursor, and the last key of that batch that was returned.
 */
export async function scanElections(link: RedisConnection, prefix: string, { after, limit }: Page) {
  const start = `${link.keyPrefix}${prefix}{`
  const pattern = `${start.replaceAll(/[*?[\]\\]/g, String.raw`\$&`)}*}:lease`
  const nodes = await link.nodes()
  let [, node = '0', cursor = '0', shown = ''] = placeOf(after)
  for (; Number(node) < nodes.length; node = String(Number(node) + 1), cursor = '0', shown = '') {
    do {
      const scan = nodes[Number(node)]?.('SCAN', cursor, 'MATCH', pattern, 'COUNT', scannedAtOnce)
      const [following, keys] = (await scan) as [unknown, unknown[]]
      const names = [...new Set(keys.map((key) => String(key).slice(start.length, -'}:lease'.length)))].toSorted()
      const rest = names.filter((name) => name > shown)
      const page = rest.slice(0, limit)
      const last = page.at(-1)
      if (rest.length > limit && last !== undefined) return pageOf(page, `${node}.${cursor}.${last}`)
      cursor = String(following)
      shown = ''
      if (page.length > 0) return pageOf(page, nextOf(nodes.length, Number(node), cursor))
    } while (cursor !== '0')
  }
  return pageOf([], undefined)
}

function nextOf(nodes: number, node: number, cursor: string): string | undefined {
  if (cursor !== '0') return `${node}.${cursor}.`
  return node + 1 < nodes ? `${node + 1}.0.` : undefined
}

function placeOf(after: string | undefined): string[] {
  if (after === undefined) return []
  const place = /^(\d+)\.(\d+)\.(.*)$/s.exec(after)
  if (place) return [...place]
  throw invalidOption('after', after, 'it must be the "next" value of the previous page')
}

function pageOf(encoded: string[], next: string | undefined) {
  return { names: encoded.flatMap(decoded), next }
}

/** Skips keys that only resemble the store's keys. */
function decoded(name: string): string[] {
  try {
    const election = decodeURIComponent(name)
    return encodeURIComponent(election) === name ? [election] : []
  } catch {
    return []
  }
}
