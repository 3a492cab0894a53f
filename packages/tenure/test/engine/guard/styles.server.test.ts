import { test } from 'vitest'
import { redis } from '../../../../../test/servers/redis.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { answered, endProcess, newElection, soonMs, startProgram, startStandby } from './guarded-process.ts'

describeWith(redis, 'releaseOnCrash of each style', (server) => {
  test.each(['lead', 'Manager', 'LeaderElector', 'createJobs'])(
    'a standby leads soon after a process that leads through %s has crashed',
    async (style) => {
      const election = `apps/${newElection()}`
      const leader = startProgram('styles.mjs', { url: server().url, style, election })
      await answered(leader, 'leads')
      const standby = await startStandby(server().url, election)
      await endProcess(leader)
      await standby.waitForLeadership({ signal: AbortSignal.timeout(soonMs) })
    },
  )
})
