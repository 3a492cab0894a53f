import { Pool } from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { postgres } from '../../../../../test/servers/postgres.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { lead } from '../../../src/index.ts'
import { createJobs } from '../../../src/jobs/index.ts'
import { postgresSchema, postgresStore } from '../../../src/stores/postgres/index.ts'

const leaseDurationMs = 3_000

describeWith(postgres, 'calls that do not wait, on a PostgreSQL whose role may not write', (server) => {
  let admin: Pool
  beforeAll(() => {
    admin = new Pool({ connectionString: server().url, max: 2 })
  })
  afterAll(() => admin.end())

  test.each([
    ['the tables do not exist and it may not create them', 'newcomer', ''],
    ['it may only read the tables', 'reader', 'grant select on all tables in schema public to reader'],
  ])(
    'lead, tryRun and atMostOncePer reject within one lease with the error from PostgreSQL when %s',
    async (_, role, rights) => {
      // Since version 15, roles may not create anything in the schema public. Older versions need this.
      await admin.query(`create role ${role} login; revoke create on schema public from public`)
      if (rights !== '') await admin.query(`${postgresSchema({ table: role })}; ${rights}`)
      const client = new Pool({ connectionString: server().url.replace('postgres@', `${role}@`), max: 4 })
      const store = postgresStore({ client, table: role })
      onTestFinished(async () => {
        await store.close?.()
        await client.end()
      })
      const observer = { onEvent: () => undefined, onJob: () => undefined }
      const options = { store, leaseDurationMs, observer }
      const jobs = createJobs(options)
      const begunMs = performance.now()
      const outcomes = await Promise.allSettled([
        lead({ ...options, election: 'led', wait: false }, () => expect.unreachable('the candidate leads')),
        jobs.tryRun('tried', () => expect.unreachable('the job runs')),
        jobs.atMostOncePer({ hours: 1 }, 'hourly', () => expect.unreachable('the job runs')),
      ])
      const tookMs = performance.now() - begunMs
      for (const outcome of outcomes) {
        expect(outcome).toMatchObject({
          status: 'rejected',
          reason: { message: expect.stringContaining('permission denied'), cause: expect.any(Error) },
        })
      }
      // A busy machine may notice late. If the calls did not end, the test would time out.
      expect(tookMs).toBeLessThan(3 * leaseDurationMs)
      await jobs.close()
    },
  )
})
