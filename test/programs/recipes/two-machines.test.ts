import { expect, test, vi } from 'vitest'
import { findBlocks, readDocument } from '../../documents.ts'
import { kitchen, patience, unhurried } from '../../recipes/recipe.ts'
import { postgres } from '../../servers/postgres.ts'
import { describeWith } from '../../servers/suite.ts'

const document = 'docs/guide/two-machines.md'

/** The commands to type, in their order. */
const commands = findBlocks(document, readDocument(document))
  .filter(({ info }) => info[0] === 'sh' && info[1] !== 'norun')
  .map(({ code }) => code)

describeWith(postgres, 'Two machines in ten minutes', (server) => {
  test('leads from nothing to a job that fails over', unhurried, async () => {
    const [examine = '', job = '', ask = ''] = commands
    expect(commands).toHaveLength(3)
    const { machine } = kitchen({ TENURE_STORE: server().url })
    const doctor = machine(examine)
    expect(await doctor.ended).toBe(0)
    expect(doctor.output.out).toMatch(/^Safe/m)

    const start = (name: string) => machine(job.replace('$(hostname)', name), { TENURE_IDENTITY: name })
    const first = start('first')
    await first.says('working on first, term 1')
    const second = start('second')
    await vi.waitUntil(() => second.output.error.includes('first'), patience)
    const leader = machine(ask)
    expect(await leader.ended).toBe(0)
    expect(leader.output.out).toContain('first')

    first.child.kill('SIGINT')
    await second.says('working on second, term 2')
    await first.ended

    // The hard way: nobody gives the lease back.
    const third = start('third')
    await vi.waitUntil(() => third.output.error.includes('second'), patience)
    second.child.kill('SIGKILL')
    await third.says('working on third, term 3')
    expect(second.output.out).not.toContain('term 3')
  })
})
