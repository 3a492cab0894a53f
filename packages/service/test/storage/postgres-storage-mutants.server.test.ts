import { AssertionError } from 'node:assert'
import { Client, Pool } from 'pg'
import type { openPostgresStatements } from 'tenure/internal/postgres'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loadMutant, type Mutation } from '../../../../test/mutants/mutant.ts'
import { postgres } from '../../../../test/servers/postgres.ts'
import { start, type RunningServer } from '../../../../test/servers/server.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import { conformanceCases } from './conformance.ts'
import { followerCases } from './follower-conformance.ts'
import { failoverChecks } from './failover.ts'
import { postgresWorld } from './postgres-storage-fixture.ts'

const tables = { package: 'service', file: 'storage/postgres-tables.ts' } as const
const refusal = 'a server is refused if it has a replica and does not wait for it, or no longer waits for one'

/** The case, or the failover check, named by `by` must catch the mutant. */
const mutations: readonly (Mutation & { readonly by: string })[] = [
  {
    ...tables,
    name: 'the head is not compared',
    find: ' and kept.head = cast($3 as text) returning',
    replace: ' and length(cast($3 as text)) > 0 returning',
    by: 'an append that arrives after another one was done changes nothing',
  },
  {
    ...tables,
    name: 'the groups of a fenced batch are written',
    find: 'from swapped, json_to_recordset(cast($5',
    replace: 'from json_to_recordset(cast($5',
    by: 'an append of another process fences this one',
  },
  {
    ...tables,
    name: 'a fenced batch is listed',
    find: 'from swapped, json_to_recordset(cast($6',
    replace: 'from json_to_recordset(cast($6',
    by: 'a fenced batch is not listed',
  },
  {
    ...tables,
    name: 'a first head replaces an existing one',
    find: 'on conflict do nothing`',
    replace: 'on conflict (one) do update set head = excluded.head`',
    by: 'only one of several processes initializes the data, however late another one arrives',
  },
  {
    ...tables,
    name: 'an existing record is not replaced',
    find: 'on conflict (id) do update set record = excluded.record',
    replace: 'on conflict (id) do nothing',
    by: 'a record is replaced as a whole',
  },
  {
    package: 'service',
    file: 'storage/postgres-server.ts',
    name: 'only the first page is loaded',
    find: 'next: groups.length === limit ?',
    replace: 'next: groups.length > limit ?',
    by: 'each of many groups is loaded once',
  },
  {
    package: 'service',
    file: 'storage/server-storage.ts',
    name: 'a batch is settled by a read instead of a write',
    find: 'return this.#confirm(found, over)',
    replace: "return this.#server ? 'done' : this.#confirm(found, over)",
    by: 'a repeated batch is confirmed by a write, not by a read',
  },
  {
    package: 'service',
    file: 'storage/server-storage.ts',
    name: 'a batch that a failover lost counts as fenced',
    find: 'if (found?.text === over) throw',
    replace: "if (found?.text === '') throw",
    by: 'a batch that a failover loses just before it is confirmed fences nobody and is abandoned',
  },
  {
    package: 'service',
    file: 'storage/server-storage.ts',
    name: 'a batch that a failover lost counts as done',
    find: 'if (found?.text === over) throw rolledBack()',
    replace: "if (found?.text === over) return rolledBack() && 'done'",
    by: 'a batch that a failover loses just before it is confirmed fences nobody and is abandoned',
  },
  {
    ...tables,
    name: 'replicas are not counted',
    find: "if (replicas !== '0') {",
    replace: "if (replicas === '') {",
    also: [
      { file: tables.file, find: "server.standbys = '' and server.replicas = '0'", replace: "server.standbys = ''" },
    ],
    by: refusal,
  },
  {
    ...tables,
    name: 'a server that no longer waits for its replica is still used',
    find: 'if (synced !== incarnation) return undefined',
    replace: 'if (synced !== 0) return undefined',
    also: [{ file: tables.file, find: 'kept.synced <> server.incarnation or', replace: 'true or' }],
    by: refusal,
  },
  {
    name: 'a commit whose wait for a replica was canceled counts as done',
    file: 'stores/postgres/commit-check.ts',
    find: 'if (cancelled !== undefined) throw',
    replace: "if (cancelled === '') throw",
    by: 'a commit whose wait for the replica was canceled has an unknown outcome, and a failover may lose it',
  },
  {
    package: 'service',
    file: 'storage/server-storage.ts',
    name: 'a server with another system identifier counts as the synchronous replica',
    find: '(isSynced && systemOf(incarnation) === systemOf(head.incarnation))',
    replace: '(isSynced && systemOf(incarnation) !== undefined)',
    by: 'a server with another system identifier does not vouch for confirmed writes, even with a synchronous replica',
  },
  {
    ...tables,
    name: 'a commit that was released from its wait for a replica counts as done',
    find: 'from swapped) as text) as written, ${waited}, ',
    replace: 'from swapped) as text) as written, ',
    by: 'a commit that was released from its wait for the replica has an unknown outcome, and a failover may lose it',
  },
]

interface Mutant {
  readonly storage: typeof import('../../src/storage/server-storage.ts')
  readonly server: typeof import('../../src/storage/postgres-server.ts')
  readonly library: Pick<typeof import('../../../tenure/src/stores/postgres/run-statements.ts'), 'statementsOn'>
}

/** Opens statements like the library, which cannot load a driver while it is mutated. */
function openOn({ library }: Mutant): typeof openPostgresStatements {
  return async (url, _environment, clock) => {
    const table = url.searchParams.get('table') ?? ''
    const connect = async () => {
      const client = new Client({ connectionString: url.href.replace(/\?.*/, '') })
      client.on('error', () => {})
      await client.connect()
      return client
    }
    return library.statementsOn(connect, table, clock)
  }
}

describeWith(postgres, 'mutants of the PostgreSQL storage', (server) => {
  let other: RunningServer
  let admin: Pool
  beforeAll(async () => {
    other = await start(postgres)
    admin = new Pool({ connectionString: server().url, max: 2 })
  })
  afterAll(async () => {
    await admin.end()
    await other.stop()
  })

  test.for(mutations)('the checks catch the mutant "$name" on PostgreSQL', async ({ by, ...mutation }) => {
    const mutant = await loadMutant<Mutant>(mutation, {
      storage: '../../service/src/storage/server-storage.ts',
      server: '../../service/src/storage/postgres-server.ts',
      library: 'stores/postgres/run-statements.ts',
    })
    const parts = { ...mutant.storage, ...mutant.server, openPostgresStatements: openOn(mutant) }
    const check = failoverChecks[by]
    const found = [...conformanceCases, ...followerCases].find(({ name }) => name === by)
    expect(check ?? found, by).toBeDefined()
    const run = check ? check(parts) : found?.run(await postgresWorld(parts, server().url, admin, () => other.url))
    await expect(run).rejects.toThrow(AssertionError)
  })
})
