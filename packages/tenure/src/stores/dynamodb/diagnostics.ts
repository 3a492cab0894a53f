import type { AwsCaller } from '../aws/client.ts'
import { awsNameOf } from '../aws/failures.ts'
import type { Finding } from '../../store-kit/diagnostics.ts'
import type { DynamoDBApi, TableDescription, TimeToLive } from './api.ts'

/** Problems with a table, worst first. Skips settings that the caller may not read. */
export async function inspectTable(
  call: AwsCaller<DynamoDBApi>,
  table: string,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const input = { TableName: table }
  const described = await allowed(call('describeTable', input, signal))
  const timed = await allowed(call('describeTimeToLive', input, signal))
  return findingsOfTable(described?.Table, timed?.TimeToLiveDescription)
}

/** Problems with a table according to DynamoDB's description of it. */
export function findingsOfTable(table: TableDescription = {}, timeToLive: TimeToLive = {}): readonly Finding[] {
  const findings: Finding[] = []
  const { Replicas: replicas = [], MultiRegionConsistency: consistency } = table
  if (replicas.length > 0 && consistency !== 'STRONG') {
    const regions = replicas.flatMap(({ RegionName: name }) => name ?? []).join(', ')
    const text = `It is a global table (${regions}) with asynchronous replication, so each region could have its own leader. Use a table in a single region, or one with multi-Region strong consistency.`
    findings.push({ risk: 'unsafe', text })
  }
  const { TimeToLiveStatus: status, AttributeName: attribute = '' } = timeToLive
  if (status?.startsWith('ENABL')) {
    const text = `Time to live is on, with the attribute "${attribute}". This store does not set it. But if anything else sets it on an item, the item is deleted and its election restarts at term 1. Turn it off unless something else needs it.`
    findings.push({ risk: 'tight', text })
  }
  if (table.DeletionProtectionEnabled === false) {
    const text = 'Deletion protection is off: deleting the table by mistake loses all terms. Turn it on.'
    findings.push({ risk: 'tight', text })
  }
  return findings
}

async function allowed<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer
  } catch (error) {
    if (/^(AccessDenied|UnknownOperation)/.test(awsNameOf(error))) return undefined
    throw error
  }
}
