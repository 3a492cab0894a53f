import { AssertionError } from 'node:assert'
import { Client, Pool } from 'pg'
import type { openPostgresStatements } from 'tenure/stores/postgres'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loadMutant, type Mutation } from '../../../../../test/mutants/mutant.ts'
import { postgres } from '../../../../../test/servers/postgres.ts'
import { start, type RunningServer } from '../../../../../test/servers/server.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { conformanceCases } from '../../storage/conformance.ts'
import { failoverChecks } from '../../storage/failover.ts'
import { postgresWorld } from '../../storage/postgres-world.ts'

const tables = { package: 'service', file: 'storage/postgres-tables.ts' } as const
const refusal = 'a server is refused that has a replica and does not wait for it, or that no longer waits for one'

/** Each must be noticed by the case, or the check of a failover, that is named for it. */
const mutations: readonly (Mutation & { readonly by: string })[] = [
  {
    ...tables,
    name: 'the head is not compared',
    find: ' and kept.head = cast($3 as text) returning',
    replace: ' and length(cast($3 as text)) > 0 returning',
    by: 'an append that arrives after another was done changes nothing',
  },
  {
    ...tables,
    name: 'the groups of a fenced batch are written',
    find: 'from swapped, json_to_recordset',
    replace: 'from json_to_recordset',
    by: 'what another process appended fences this one',
  },
  {
    ...tables,
    name: 'a first head replaces the one that is there',
    find: 'on conflict do nothing`',
    replace: 'on conflict (one) do update set head = excluded.head`',
    by: 'of several that find no data one begins them, however late another comes',
  },
  {
    ...tables,
    name: 'a record that is there stays',
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
    by: 'of many groups each is found once',
  },
  {
    package: 'service',
    file: 'storage/server-storage.ts',
    name: 'a batch is settled by reading',
    find: 'return this.#confirm(found, over)',
    replace: "return this.#server ? 'done' : this.#confirm(found, over)",
    by: 'the same batch again is confirmed by a write, not by a look',
  },
  {
    package: 'service',
    file: 'storage/server-storage.ts',
    name: 'a batch that a failover lost is taken for fenced',
    find: 'if (found?.text === over) throw',
    replace: "if (found?.text === '') throw",
    by: 'a batch that a failover loses just before it is confirmed ends nobody, and is given up',
  },
  {
    package: 'service',
    file: 'storage/server-storage.ts',
    name: 'a batch that a failover lost is taken for done',
    find: 'if (found?.text === over) throw rolledBack()',
    replace: "if (found?.text === over) return rolledBack() && 'done'",
    by: 'a batch that a failover loses just before it is confirmed ends nobody, and is given up',
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
    name: 'a server that no longer waits for its replica is used on',
    find: 'if (synced !== incarnation) return undefined',
    replace: 'if (synced !== 0) return undefined',
    also: [{ file: tables.file, find: 'kept.synced <> server.incarnation or', replace: 'true or' }],
    by: refusal,
  },
  {
    name: 'a commit is taken for done whose wait for a replica was cancelled',
    file: 'stores/postgres/commit-check.ts',
    find: 'if (cancelled !== undefined) throw',
    replace: "if (cancelled === '') throw",
    by: 'a commit whose wait for the replica was cancelled is not known to be done, and a failover may lose it',
  },
  {
    package: 'service',
    file: 'storage/server-storage.ts',
    name: 'a server with another system identifier is taken for the replica that was waited for',
    find: '(isSynced && systemOf(incarnation) === systemOf(head.incarnation))',
    replace: '(isSynced && systemOf(incarnation) !== undefined)',
    by: 'a server with another system identifier does not vouch for what was confirmed, even where a replica was waited for',
  },
  {
    ...tables,
    name: 'a commit is taken for done that was released from its wait for a replica',
    find: 'from swapped) as text) as written, ${waited}, ',
    replace: 'from swapped) as text) as written, ',
    by: 'a commit that was released from its wait for the replica is not known to be done, and a failover may lose it',
  },
]

interface Mutant {
  readonly storage: typeof import('../../../src/storage/server-storage.ts')
  readonly server: typeof import('../../../src/storage/postgres-server.ts')
  readonly library: Pick<typeof import('../../../../tenure/src/stores/postgres/run-statements.ts'), 'statementsOn'>
}

/** As the library does it, which cannot load a driver while it has a mistake in it. */
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

describeWith(postgres, 'on PostgreSQL it is noticed that', (server) => {
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

  test.for(mutations)('$name', async ({ by, ...mutation }) => {
    const mutant = await loadMutant<Mutant>(mutation, {
      storage: '../../service/src/storage/server-storage.ts',
      server: '../../service/src/storage/postgres-server.ts',
      library: 'stores/postgres/run-statements.ts',
    })
    const parts = { ...mutant.storage, ...mutant.server, openPostgresStatements: openOn(mutant) }
    const check = failoverChecks[by]
    const found = conformanceCases.find(({ name }) => name === by)
    expect(check ?? found, by).toBeDefined()
    const run = check ? check(parts) : found?.run(await postgresWorld(parts, server().url, admin, () => other.url))
    await expect(run).rejects.toThrow(AssertionError)
  })
})
