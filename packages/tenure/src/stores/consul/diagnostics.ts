import { isLoopbackHost } from '@tenure/internal/loopback'
import { messageOf } from '@tenure/internal/message'
import type { TokenCredentials } from '../../clients/http/bearer-token.ts'
import type { Clock } from '../../common/clock.ts'
import { TenureError } from '../../common/errors.ts'
import type { CallOptions } from '../../engine/lease-store.ts'
import type { Finding } from '../../store-kit/diagnostics.ts'
import { ConsulClient } from './client.ts'

/** The configured agents, and how to reach them. */
export interface Agents {
  readonly addresses: readonly URL[]
  readonly credentials: TokenCredentials
  readonly clock: Clock
}

/** The servers of the cluster according to one agent, or the error. */
type AgentReport = { readonly address: URL } & ({ readonly peers: readonly string[] } | { readonly error: unknown })

const differentClusters =
  'The addresses belong to different clusters, and each could have its own leader. Configure agents of one cluster and one datacenter only.'

/** Problems with a cluster, worst first. Queries each address separately. */
export async function diagnoseAgents(agents: Agents, call: CallOptions): Promise<Finding[]> {
  const reports = await survey(agents, call)
  const findings: Finding[] = []
  if (areDifferent(reports)) findings.push({ risk: 'unsafe', text: differentClusters })
  for (const report of reports) {
    if (!('error' in report)) continue
    findings.push({ risk: 'tight', text: `${report.address.host} did not answer: ${messageOf(report.error)}` })
  }
  const servers = reports.flatMap((report) => ('peers' in report ? [report.peers.length] : []))[0] ?? 0
  if (servers === 1) {
    const text = 'It has one server: while that is down, nobody leads. Three servers tolerate one failure.'
    findings.push({ risk: 'tight', text })
  } else if (servers > 1 && servers % 2 === 0) {
    const text = `It has ${servers} servers, which tolerate no more failures than ${servers - 1} servers would. Use an odd number.`
    findings.push({ risk: 'tight', text })
  }
  const { addresses, credentials } = agents
  const open = addresses.find(({ protocol, hostname }) => protocol === 'http:' && !isLoopbackHost(hostname))
  if (open && credentials.token !== undefined) {
    findings.push({ risk: 'tight', text: `The token is sent unencrypted to ${open.host}. Use consuls: (TLS).` })
  }
  return findings
}

/** Returns an error if the addresses that answer belong to different clusters. */
export async function checkAgents(agents: Agents, call: CallOptions): Promise<Error[]> {
  if (agents.addresses.length < 2) return []
  return areDifferent(await survey(agents, call)) ? [new TenureError('WRONG_CLUSTER', differentClusters)] : []
}

function survey({ addresses, credentials, clock }: Agents, call: CallOptions): Promise<AgentReport[]> {
  return Promise.all(
    addresses.map(async (address): Promise<AgentReport> => {
      const client = new ConsulClient([address], credentials, clock)
      try {
        return { address, peers: await client.peers(call) }
      } catch (error) {
        return { address, error }
      } finally {
        client.close()
      }
    }),
  )
}

/** Servers of one cluster may be changing, so two agents of it may name different ones. At least one is the same. */
function areDifferent(reports: readonly AgentReport[]): boolean {
  const clusters = reports.flatMap((report) => ('peers' in report && report.peers.length > 0 ? [report.peers] : []))
  const [first = [], ...others] = clusters
  return others.some((peers) => !peers.some((peer) => first.includes(peer)))
}
