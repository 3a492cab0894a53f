import { once } from 'node:events'
import { Pool, type PoolClient } from 'pg'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { postgres } from '../../../../test/servers/postgres.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import { postgresFence } from '../../src/fencing/index.ts'
import { makeGate } from './gate.ts'
import { hostileTerms } from './hostile-terms.ts'
import { tokensOfTwoOwners } from './shard-tokens.ts'

const stale = expect.objectContaining({ code: 'STALE_TERM' })

describeWith(postgres, 'postgresFence', (server) => {
  let pool: Pool
  let count = 0

  beforeAll(async () => {
    pool = new Pool({ connectionString: server().url, max: 10 })
    pool.on('error', () => {})
    await pool.query(postgresFence({ pool, resource: 'any' }).schema)
    await pool.query('create table report (resource text primary key, writer text not null)')
  })
  afterAll(() => pool.end())

  let resource = ''
  beforeEach(() => {
    resource = `report ${++count}`
  })
  const makeFence = () => postgresFence({ pool, resource })
  const write = (connection: PoolClient, writer: string) =>
    connection.query(
      'insert into report values ($1, $2) on conflict (resource) do update set writer = excluded.writer',
      [resource, writer],
    )
  const written = async (): Promise<unknown> =>
    (await pool.query('select writer from report where resource = $1', [resource])).rows[0]?.writer

  test('run accepts rising and equal terms and refuses lower ones', async () => {
    const fence = makeFence()
    for (const term of [3, 3, 10]) await fence.run(term, (connection) => write(connection, `term ${term}`))
    const late = fence.run(9, () => expect.unreachable('work of a stale term was called'))
    await expect(late).rejects.toThrow(stale)
    await expect(late).rejects.toThrow(new RegExp(`"${resource}".*term 9.*term 10`))
    expect(await written()).toBe('term 10')
  })

  test('run refuses the token of a former owner of a shard, and accepts that of the next one', async () => {
    const { old, next } = await tokensOfTwoOwners()
    await makeFence().run(old, (connection) => write(connection, 'old'))
    await makeFence().run(next, (connection) => write(connection, 'next'))
    await expect(makeFence().run(old, (connection) => write(connection, 'late'))).rejects.toThrow(stale)
    expect(await written()).toBe('next')
  })

  test('fences of different resources are independent', async () => {
    await makeFence().run(7, (connection) => write(connection, 'seven'))
    const other = postgresFence({ pool, resource: `${resource} b` })
    await expect(other.run(1, async () => 'written')).resolves.toBe('written')
  })

  test('run distinguishes the largest terms', async () => {
    const fence = makeFence()
    await fence.run(Number.MAX_SAFE_INTEGER, (connection) => write(connection, 'last'))
    await expect(fence.run(Number.MAX_SAFE_INTEGER - 1, async () => {})).rejects.toThrow(stale)
    await fence.run(Number.MAX_SAFE_INTEGER, (connection) => write(connection, 'last again'))
  })

  test('a higher term writes only after the transaction of the lower one has ended', async () => {
    const began = makeGate()
    const gate = makeGate()
    const first = makeFence().run(4, async (connection) => {
      began.open()
      await gate.opened
      await write(connection, 'term 4')
    })
    await began.opened
    const second = makeFence().run(5, async (connection) => {
      expect(await written()).toBe('term 4')
      await write(connection, 'term 5')
    })
    await somebodyWaitsForALock()
    gate.open()
    await Promise.all([first, second])
    expect(await written()).toBe('term 5')
  })

  test('a lower term is refused even if its transaction began before that of the higher one', async () => {
    const began = makeGate()
    const gate = makeGate()
    const late = heldUpAfterBegin(began.open, gate.opened)
    const first = postgresFence({ pool: late, resource }).run(4, (connection) => write(connection, 'term 4'))
    await began.opened
    await makeFence().run(5, (connection) => write(connection, 'term 5'))
    gate.open()
    await expect(first).rejects.toThrow(stale)
    expect(await written()).toBe('term 5')
  })

  test('a lower term that waited for the transaction of the higher one is refused', async () => {
    const began = makeGate()
    const gate = makeGate()
    const second = makeFence().run(5, async (connection) => {
      began.open()
      await gate.opened
      await write(connection, 'term 5')
    })
    await began.opened
    const first = makeFence().run(4, (connection) => write(connection, 'term 4'))
    const refused = expect(first).rejects.toThrow(stale)
    await somebodyWaitsForALock()
    gate.open()
    await second
    await refused
    expect(await written()).toBe('term 5')
  })

  test('run rejects after a conflict under repeatable read, and succeeds when it is repeated', async () => {
    const strict = new Pool({
      connectionString: server().url,
      options: '-c default_transaction_isolation=repeatable\\ read',
    })
    const began = makeGate()
    const gate = makeGate()
    const first = makeFence().run(4, async (connection) => {
      began.open()
      await gate.opened
      await write(connection, 'term 4')
    })
    await began.opened
    const fence = postgresFence({ pool: strict, resource })
    const second = expect(fence.run(5, (connection) => write(connection, 'term 5'))).rejects.toMatchObject({
      code: '40001',
    })
    await somebodyWaitsForALock()
    gate.open()
    await Promise.all([first, second])
    expect(await written()).toBe('term 4')
    await fence.run(5, (connection) => write(connection, 'term 5'))
    await strict.end()
  })

  test('accepted terms never decrease with many concurrent writers', async () => {
    await pool.query('create table journal (id bigserial, term bigint)')
    const terms = Array.from({ length: 60 }, (_, index) => 1 + ((index * 7) % 20))
    const outcomes = await Promise.allSettled(
      terms.map((term) =>
        makeFence().run(term, (connection) => connection.query('insert into journal (term) values ($1)', [term])),
      ),
    )
    const { rows } = await pool.query('select term::int from journal order by id')
    const accepted: number[] = rows.map((row) => row.term)
    expect(accepted).toEqual(accepted.toSorted((a, b) => a - b))
    expect(accepted.at(-1)).toBe(20)
    const refused = outcomes.filter((outcome) => outcome.status === 'rejected')
    expect(accepted.length + refused.length).toBe(60)
    for (const { reason } of refused) expect(reason).toMatchObject({ code: 'STALE_TERM' })
  })

  test('run rolls back everything when the work throws, including the raised term', async () => {
    const failure = new Error('no such account')
    const failed = makeFence().run(8, async (connection) => {
      await write(connection, 'term 8')
      throw failure
    })
    await expect(failed).rejects.toBe(failure)
    expect(await written()).toBeUndefined()
    await makeFence().run(7, (connection) => write(connection, 'term 7'))
  })

  test('run rejects when the work ignored a failed statement, because nothing was committed', async () => {
    const swallowed = makeFence().run(8, async (connection) => {
      await write(connection, 'term 8')
      await connection.query('select 1 / 0').catch(() => {})
    })
    await expect(swallowed).rejects.toThrow(expect.objectContaining({ code: 'WORK_FAILED' }))
    expect(await written()).toBeUndefined()
  })

  test('run rejects when its connection is lost between two statements, and the next run succeeds', async () => {
    const lost = makeFence().run(8, async (connection) => {
      await write(connection, 'term 8')
      const ended = once(connection, 'error')
      await pool.query('select pg_terminate_backend($1)', [await backendOf(connection)])
      await ended
    })
    await expect(lost).rejects.toThrow()
    expect(await written()).toBeUndefined()
    await makeFence().run(8, (connection) => write(connection, 'term 8 again'))
    expect(await written()).toBe('term 8 again')
  })

  test('a stalled leader does not keep its successor waiting', async () => {
    const began = makeGate()
    const gate = makeGate()
    const stalled = postgresFence({ pool, resource, idleTimeoutMs: 200 }).run(4, async (connection) => {
      await write(connection, 'term 4')
      began.open()
      await gate.opened
      await write(connection, 'term 4, late')
    })
    const failed = expect(stalled).rejects.toThrow()
    await began.opened
    await makeFence().run(5, (connection) => write(connection, 'term 5'))
    gate.open()
    await failed
    expect(await written()).toBe('term 5')
  })

  test('run leaves no setting and no transaction behind on the connection', async () => {
    const single = new Pool({ connectionString: server().url, max: 1 })
    try {
      const before = await single.query('show idle_in_transaction_session_timeout')
      const fence = postgresFence({ pool: single, resource })
      await fence.run(5, async () => {})
      await expect(fence.run(4, async () => {})).rejects.toThrow(stale)
      expect((await single.query('show idle_in_transaction_session_timeout')).rows).toEqual(before.rows)
      expect(single.totalCount).toBe(1)
    } finally {
      await single.end()
    }
  })

  test('the option "table" selects another table and schema', async () => {
    await pool.query('create schema "Fences"')
    const fence = postgresFence({ pool, resource, table: 'Fences.user' })
    await pool.query(fence.schema)
    await fence.run(5, async () => {})
    expect((await pool.query('select term::int from "Fences"."user"')).rows).toEqual([{ term: 5 }])
  })

  test('the highest term survives a crash of the server', async () => {
    await makeFence().run(5, (connection) => write(connection, 'term 5'))
    // For PostgreSQL, an immediate shutdown is a crash: the next start recovers from the log.
    await server().restart('SIGQUIT')
    await expect(makeFence().run(4, (connection) => write(connection, 'term 4'))).rejects.toThrow(stale)
    expect(await written()).toBe('term 5')
  })

  test.each(hostileTerms.map((term) => [term]))('run refuses %o as a term', async (term) => {
    const run = makeFence().run(term as number, () => expect.unreachable('work was called'))
    await expect(run).rejects.toThrow(expect.objectContaining({ name: 'TypeError', code: 'INVALID_OPTION' }))
  })

  test.each(['', 'a"; drop table report; --', 'a.b.c', 'a b', '.a', 5])(
    'postgresFence refuses %o as a table',
    (table) => {
      const options = { pool, resource, table: table as string }
      expect(() => postgresFence(options)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
    },
  )

  async function backendOf(connection: PoolClient): Promise<number> {
    return (await connection.query('select pg_backend_pid() as pid')).rows[0].pid
  }

  async function somebodyWaitsForALock(): Promise<void> {
    const waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock'"
    await expect.poll(async () => (await pool.query(waiting)).rows.length, { interval: 5 }).toBeGreaterThan(0)
  }

  /** A pool whose connections pause after their first statement until `goOn` resolves. */
  function heldUpAfterBegin(began: () => void, goOn: Promise<void>) {
    return {
      async connect() {
        const connection = await pool.connect()
        const query = connection.query.bind(connection)
        let statements = 0
        const heldUp = async (text: string, values?: unknown[]) => {
          if (++statements === 2) {
            began()
            await goOn
          }
          return query(text, values)
        }
        const release = connection.release.bind(connection)
        return Object.assign(connection, {
          query: heldUp,
          release: (error?: Error) => release(error ?? new Error('its query was replaced')),
        })
      },
    }
  }
})
