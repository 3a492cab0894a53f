import { lockMsWithin } from '@tenure/internal/postgres-waits'
import type { CallOptions } from 'tenure'
import type { PostgresStatements } from 'tenure/internal/postgres'
import { ServiceError } from '../common/errors.ts'
import { defaultTable, statementsFor, durabilityProblem } from './postgres-tables.ts'
import type { BatchText, FoundServer, GroupPage, StorageServer, Swap, SwapAnswer } from './server-storage.ts'

/**
 * How many times a swap is tried. A swap that runs concurrently with another one sees the head as it was before the
 * other.
 */
const swapTries = 3

type Row = Readonly<Record<string, unknown>>

/**
 * Storage in PostgreSQL: one row for each group, and one for the head. A batch is one statement. Every statement is its
 * own transaction, so no transaction stays open between statements.
 *
 * The same statement checks the server's settings, so that nothing is written that a crash or a failover could lose. A
 * commit whose wait for a replica was canceled, or ended by a configuration reload, is visible but not replicated. Its
 * outcome is unknown, and the next write, which waits for the replica, settles it.
 */
export class PostgresStorageServer implements StorageServer {
  readonly name: string
  readonly maxBatch = { groups: 1_000, bytes: 2 ** 20 }
  /** The name of the table for the leases. */
  readonly leases: string
  readonly #statements: PostgresStatements
  readonly #sql: ReturnType<typeof statementsFor>

  constructor(statements: PostgresStatements) {
    const { table = defaultTable } = statements
    this.name = `The data in the tables of "${table}" in PostgreSQL`
    this.#statements = statements
    this.#sql = statementsFor(table)
    this.leases = this.#sql.leases
  }

  async prepare(call: CallOptions): Promise<void> {
    const [tables] = await this.#statements.run(this.#sql.exists, [], call)
    if (tables?.['exists'] !== 'true') await this.#statements.run(this.#sql.create, [], call)
  }

  async find(call: CallOptions): Promise<FoundServer> {
    const [row = {}] = await this.#statements.run(this.#sql.find, [], call)
    const { replica, incarnation, synced } = row
    const problem = durabilityProblem(row)
    // A read replica may be behind.
    if (replica !== 'false') throw unsound(problem)
    return {
      head: headIn(row),
      incarnation: String(incarnation),
      isSynced: typeof synced === 'string' && synced !== '',
      problem,
    }
  }

  async begin(head: string, call: CallOptions): Promise<void> {
    await this.#statements.run(this.#sql.begin, [head], call)
  }

  async swap(swap: Swap, call: CallOptions): Promise<SwapAnswer> {
    const { over, head, groups, batch, isRestored = false } = swap
    const lockMs = String(lockMsWithin(call.timeoutMs))
    const texts = [JSON.stringify(groups), JSON.stringify(batch ? [batch] : [])]
    const values = [isRestored ? 'restored' : '', lockMs, over, head, ...texts]
    for (let tries = 0; tries < swapTries; tries++) {
      const row = await this.#write(this.#sql.swap, values, call)
      if (!row) return { swapped: true }
      const found = headIn(row)
      if (found !== over) return { swapped: false, head: found }
    }
    throw new ServiceError(
      'BACKEND_UNAVAILABLE',
      "Other processes write to this service's storage at the same time. Retry the request.",
    )
  }

  async page(from: string | undefined, limit: number, call: CallOptions): Promise<GroupPage> {
    const [head, ...rows] = await this.#statements.run(this.#sql.page, [from ?? '', String(limit)], call)
    const groups = rows.map(({ id, record }) => ({ id: String(id), text: String(record) }))
    return { head: headIn(head), groups, next: groups.length === limit ? groups.at(-1)?.id : undefined }
  }

  async groups(ids: readonly string[], call: CallOptions): Promise<GroupPage> {
    const [head, ...rows] = await this.#statements.run(this.#sql.groups, [JSON.stringify(ids)], call)
    return { head: headIn(head), groups: rows.map(({ id, record }) => ({ id: String(id), text: String(record) })) }
  }

  async batches(slots: readonly number[], call: CallOptions): Promise<readonly BatchText[]> {
    const rows = await this.#statements.run(this.#sql.batches, [JSON.stringify(slots)], call)
    return rows.map(({ slot, batch }) => ({ slot: Number(slot), text: String(batch) }))
  }

  async check(call: CallOptions): Promise<void> {
    const row = await this.#write(this.#sql.check, ['', String(lockMsWithin(call.timeoutMs))], call)
    if (row) throw new ServiceError('BACKEND_UNAVAILABLE', `${this.name} cannot be written to.`)
  }

  close(): Promise<void> {
    return this.#statements.close()
  }

  /** Returns undefined if the row was written, otherwise the row that was found. */
  async #write(text: string, values: readonly string[], call: CallOptions): Promise<Row | undefined> {
    const [row = {}] = await this.#statements.run(text, values, call)
    if (row['written'] === '1') return undefined
    const problem = durabilityProblem(row)
    if (problem !== undefined) throw unsound(problem)
    return row
  }
}

function unsound(problem: string | undefined): ServiceError {
  return new ServiceError('BACKEND_UNAVAILABLE', `PostgreSQL cannot be used: ${problem}.`)
}

function headIn(row: Row | undefined): string | undefined {
  const { head } = row ?? {}
  return typeof head === 'string' ? head : undefined
}
