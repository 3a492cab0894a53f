import type { AwsCaller } from '../aws/client.ts'
import { awsNameOf } from '../aws/failures.ts'
import type { Finding } from '../finding.ts'
import type { DynamoDBApi, TableDescription, TimeToLive } from './api.ts'

/** What is wrong with a table, the worst first. A setting that the caller may not read is left out. */
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

/** The same, by what DynamoDB says of the table. */
export function findingsOfTable(table: TableDescription = {}, timeToLive: TimeToLive = {}): readonly Finding[] {
  const findings: Finding[] = []
  const { Replicas: replicas = [], MultiRegionConsistency: consistency } = table
  if (replicas.length > 0 && consistency !== 'STRONG') {
    const regions = replicas.flatMap(({ RegionName: name }) => name ?? []).join(', ')
    const text = `It is a global table (${regions}) whose regions do not wait for each other: in each of them somebody could lead. Use a table of one region, or one with multi-Region strong consistency.`
    findings.push({ risk: 'unsafe', text })
  }
  const { TimeToLiveStatus: status, AttributeName: attribute = '' } = timeToLive
  if (status?.startsWith('ENABL')) {
    const text = `Time to live is on, by the attribute "${attribute}". This store writes none; an item that somebody gives one is deleted, and its election begins again at term 1. Turn it off where nothing else needs it.`
    findings.push({ risk: 'tight', text })
  }
  if (table.DeletionProtectionEnabled === false) {
    const text = 'Deletion protection is off: a table that is deleted by mistake takes all terms with it. Turn it on.'
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
