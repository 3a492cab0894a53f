import { isLoopbackHost } from '@tenure/internal/loopback'
import { messageOf } from '@tenure/internal/message'
import { isObject } from '@tenure/internal/objects'
import type { Clock } from '../../clock.ts'
import { isTenureError, TenureError } from '../../errors.ts'
import { EtcdClient, type EtcdCredentials } from '../../etcd/client.ts'
import { clusterOf } from '../../etcd/messages.ts'
import type { CallOptions } from '../../lease-store.ts'
import type { Finding } from '../finding.ts'

/** What one address of a cluster says of itself, or why it says nothing. */
type Examined =
  | { readonly status: Record<string, unknown>; readonly members: readonly unknown[] }
  | { readonly error: unknown }

/** Where a crash could make members differ from each other. */
const corrupting = /^3\.5\.[012]$/
const nearlyFull = 0.8
const differentClusters =
  'The addresses belong to different clusters: in each of them somebody could lead. Name one cluster only.'

/** What is wrong with a cluster, the worst first. Each of its addresses is asked by itself. */
export async function inspectCluster(
  addresses: readonly URL[],
  credentials: EtcdCredentials,
  clock: Clock,
  call: CallOptions,
): Promise<Finding[]> {
  const examined = await Promise.all(
    addresses.map(async (address): Promise<Examined> => {
      const client = new EtcdClient([address], credentials, clock)
      try {
        const status = await client.ask('/v3/maintenance/status', {}, call)
        const { members } = await client.ask('/v3/cluster/member/list', {}, call)
        return { status, members: Array.isArray(members) ? members : [] }
      } catch (error) {
        return { error }
      } finally {
        client.close()
      }
    }),
  )
  const findings = [
    ...examined.flatMap((one, index) => findingsOfMember(nameOf(addresses[index]), one)),
    ...findingsOfCluster(examined),
    ...findingsOfAddresses(addresses, credentials),
  ]
  const rank = ({ risk }: Finding) => (risk === 'unsafe' ? 0 : 1)
  return findings.toSorted((one, other) => rank(one) - rank(other))
}

/** That the addresses lead to different clusters, as far as they answer. */
export async function examineAddresses(
  addresses: readonly URL[],
  { ca, cert, key }: EtcdCredentials,
  clock: Clock,
  call: CallOptions,
): Promise<Error[]> {
  if (addresses.length < 2) return []
  const clusters = await Promise.all(
    addresses.map(async (address) => {
      // Without a user: etcd answers this to anyone, and passwords cost it much.
      const client = new EtcdClient([address], { ca, cert, key }, clock)
      try {
        return clusterOf(await client.ask('/v3/maintenance/status', {}, call))
      } catch {
        return undefined
      } finally {
        client.close()
      }
    }),
  )
  const ids = new Set(clusters.filter((id) => id !== undefined))
  return ids.size > 1 ? [new TenureError('WRONG_CLUSTER', differentClusters)] : []
}

function findingsOfMember(name: string, examined: Examined): Finding[] {
  if ('error' in examined) {
    // Somebody who may not ask can lead all the same.
    if (isTenureError(examined.error) && examined.error.code === 'UNAUTHORIZED') return []
    return [{ risk: 'tight', text: `${name} does not answer: ${messageOf(examined.error)}` }]
  }
  const { version, errors = [], dbSize, dbSizeQuota, isLearner } = examined.status
  const findings: Finding[] = []
  const say = (risk: Finding['risk'], text: string) => void findings.push({ risk, text: `${name} ${text}` })
  if (typeof version === 'string' && corrupting.test(version)) {
    say('unsafe', `is etcd ${version}, whose members can differ after a crash. Upgrade it to the newest 3.5 or 3.6.`)
  }
  const alarms = Array.isArray(errors) ? errors.map(String) : []
  if (alarms.some((alarm) => alarm.includes('CORRUPT'))) {
    say('unsafe', 'has found that its members differ (alarm CORRUPT). Replace the member that is wrong.')
  }
  if (alarms.some((alarm) => alarm.includes('NOSPACE'))) {
    say('unsafe', 'is full and takes no writes (alarm NOSPACE). Compact and defragment it, then disarm the alarm.')
  } else if (Number(dbSize) > nearlyFull * Number(dbSizeQuota)) {
    say(
      'tight',
      `uses ${String(dbSize)} of ${String(dbSizeQuota)} bytes: full, it takes no writes. Compact and defragment it.`,
    )
  }
  if (isLearner === true) say('tight', 'is a learner and answers nothing. Promote it, or do not name it.')
  return findings
}

function findingsOfCluster(examined: readonly Examined[]): Finding[] {
  const answered = examined.flatMap((one) => ('error' in one ? [] : [one]))
  const findings: Finding[] = []
  const clusters = new Set(
    answered.map(({ status: { header } }) => (isObject(header) ? header['cluster_id'] : undefined)),
  )
  if (clusters.size > 1) {
    findings.push({ risk: 'unsafe', text: differentClusters })
  }
  const voters = answered[0]?.members.filter((member) => isObject(member) && member['isLearner'] !== true).length ?? 0
  if (voters === 1) {
    findings.push({ risk: 'tight', text: 'It has one member: while that is down, nobody leads. Three survive one.' })
  } else if (voters > 1 && voters % 2 === 0) {
    const text = `It has ${voters} members, which survive no more failures than ${voters - 1}. Use an odd number.`
    findings.push({ risk: 'tight', text })
  }
  if (voters > examined.length) {
    const text = `It has ${voters} members, of which ${examined.length} can be asked from here. Name all of them.`
    findings.push({ risk: 'tight', text })
  }
  return findings
}

function findingsOfAddresses(addresses: readonly URL[], { user }: EtcdCredentials): Finding[] {
  const open = addresses.find(({ protocol, hostname }) => protocol === 'http:' && !isLoopbackHost(hostname))
  if (!open || user === undefined) return []
  return [{ risk: 'tight', text: `The password crosses the network to ${open.host} in the clear. Use etcds: (TLS).` }]
}

function nameOf(address: URL | undefined): string {
  return `etcd at ${address?.host ?? ''}`
}
