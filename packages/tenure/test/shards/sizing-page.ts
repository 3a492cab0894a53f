/** The page with the figures of shards, and the fleets that they are measured with. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { leaseMs, ShardFleet, type StoreKind } from './shard-fleet.ts'

export const sizingPage = readFileSync(join(import.meta.dirname, '../../../../docs/how-to/shards-sizing.md'), 'utf8')

/** The rows of the page whose cells are all numbers, with this many cells. Below the heading. */
export function rowsBelow(heading: string): number[][] {
  const section = sizingPage.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? ''
  const rows = [...section.matchAll(/^\|([ \d,|]+)\|$/gm)]
  return rows.map(([, cells = '']) => cells.split('|').map((cell) => Number(cell.replaceAll(',', ''))))
}

/** A fleet that has been at rest for two leases. */
export async function settledFleet(kind: StoreKind, processes: number, shards: number): Promise<ShardFleet> {
  const fleet = new ShardFleet(kind, shards)
  for (let count = 0; count < processes; count += 1) fleet.join(`process-${count}`)
  await fleet.until(() => fleet.isSettled(), 10 * leaseMs)
  await fleet.advance(2 * leaseMs)
  return fleet
}

/** The calls of all processes while the clock advances, per lease. */
export async function callsPerLease(fleet: ShardFleet, leases: number) {
  fleet.reads.count = 0
  fleet.writes.count = 0
  await fleet.advance(leases * leaseMs)
  return { reads: fleet.reads.count / leases, writes: fleet.writes.count / leases }
}
