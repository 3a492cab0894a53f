import { isLoopbackHost } from '@tenure/internal/loopback'
import { messageOf } from '@tenure/internal/message'
import { isObject } from '@tenure/internal/objects'
import type { Clock } from '../../common/clock.ts'
import { isTenureError, TenureError } from '../../common/errors.ts'
import { EtcdClient, type EtcdCredentials } from '../../clients/etcd/client.ts'
import { clusterOf } from '../../clients/etcd/messages.ts'
import type { CallOptions } from '../../engine/lease-store.ts'
import type { Finding } from '../../store-kit/diagnostics.ts'

/** A status report from one member of a cluster, or the error. */
type MemberReport =
  | { readonly status: Record<string, unknown>; readonly members: readonly unknown[] }
  | { readonly error: unknown }

/** Versions in which a crash can cause members to diverge. */
const corrupting = /^3\.5\.[012]$/
const nearlyFull = 0.8
const differentClusters =
  'The addresses belong to different clusters, and each could have its own leader. Configure addresses of one cluster only.'

/** Problems with a cluster, worst first. Queries each address separately. */
export async function diagnoseCluster(
  addresses: readonly URL[],
  credentials: EtcdCredentials,
  clock: Clock,
  call: CallOptions,
): Promise<Finding[]> {
  const examined = await Promise.all(
    addresses.map(async (address): Promise<MemberReport> => {
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

/** Returns an error if the addresses that answer belong to different clusters. */
export async function checkAddresses(
  addresses: readonly URL[],
  { ca, cert, key }: EtcdCredentials,
  clock: Clock,
  call: CallOptions,
): Promise<Error[]> {
  if (addresses.length < 2) return []
  const clusters = await Promise.all(
    addresses.map(async (address) => {
      // The client has no user, because etcd answers this request for anyone, and checking a password is expensive.
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

function findingsOfMember(name: string, examined: MemberReport): Finding[] {
  if ('error' in examined) {
    // A candidate without this permission can still lead.
    if (isTenureError(examined.error) && examined.error.code === 'UNAUTHORIZED') return []
    return [{ risk: 'tight', text: `${name} did not answer: ${messageOf(examined.error)}` }]
  }
  const { version, errors = [], dbSize, dbSizeQuota, isLearner } = examined.status
  const findings: Finding[] = []
  const say = (risk: Finding['risk'], text: string) => void findings.push({ risk, text: `${name} ${text}` })
  if (typeof version === 'string' && corrupting.test(version)) {
    say('unsafe', `runs etcd ${version}, whose members can diverge after a crash. Upgrade it to the newest 3.5 or 3.6.`)
  }
  const alarms = Array.isArray(errors) ? errors.map(String) : []
  if (alarms.some((alarm) => alarm.includes('CORRUPT'))) {
    say('unsafe', 'reports that the members have diverged (alarm CORRUPT). Replace the corrupt member.')
  }
  if (alarms.some((alarm) => alarm.includes('NOSPACE'))) {
    say('unsafe', 'is full and refuses writes (alarm NOSPACE). Compact and defragment it, then disarm the alarm.')
  } else if (Number(dbSize) > nearlyFull * Number(dbSizeQuota)) {
    say(
      'tight',
      `uses ${String(dbSize)} of ${String(dbSizeQuota)} bytes. When it is full, it refuses writes. Compact and defragment it.`,
    )
  }
  if (isLearner === true)
    say('tight', 'is a learner and does not serve requests. Promote it, or remove it from the endpoints.')
  return findings
}

function findingsOfCluster(examined: readonly MemberReport[]): Finding[] {
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
    findings.push({
      risk: 'tight',
      text: 'It has one member: while that is down, nobody leads. Three members tolerate one failure.',
    })
  } else if (voters > 1 && voters % 2 === 0) {
    const text = `It has ${voters} members, which tolerate no more failures than ${voters - 1} members would. Use an odd number.`
    findings.push({ risk: 'tight', text })
  }
  if (voters > examined.length) {
    const text = `This store is configured with ${examined.length} of its ${voters} members. List all of them.`
    findings.push({ risk: 'tight', text })
  }
  return findings
}

function findingsOfAddresses(addresses: readonly URL[], { user }: EtcdCredentials): Finding[] {
  const open = addresses.find(({ protocol, hostname }) => protocol === 'http:' && !isLoopbackHost(hostname))
  if (!open || user === undefined) return []
  return [{ risk: 'tight', text: `The password is sent unencrypted to ${open.host}. Use etcds: (TLS).` }]
}

function nameOf(address: URL | undefined): string {
  return `etcd at ${address?.host ?? ''}`
}
