import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { freePort } from '../../../../test/servers/free-port.ts'
import { answerOf, takePart, type Ask } from '../clients.ts'
import { ServiceProcess } from '../disk/service-process.ts'
import { unexplained, type Operation } from '../linearizable.ts'

const restarts = Number(process.env['TENURE_CRASHES'] ?? 15)
const clients = 32
const groups = ['one', 'two', 'three', 'four']

/**
 * The service is killed and started again while 32 clients use it. All answers must be consistent with a single service
 * that does one thing at a time and never forgets.
 */
test(
  `no term is reused, lost, or revived over ${restarts} crashes`,
  { timeout: 120_000 + restarts * 10_000 },
  async () => {
    const directory = mkdtempSync(join(tmpdir(), 'tenure-crash-'))
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
    const port = await freePort()
    let service = await ServiceProcess.start({ directory, port })
    const history = new Map(groups.map((group): [string, Operation[]] => [group, []]))
    const failures: string[] = []
    const stop = new AbortController()
    let onAnswer = (_call: Operation['call'], _answer: NonNullable<Operation['answer']>) => {}

    onTestFinished(() => stop.abort())
    const running = Array.from({ length: clients }, (_, index) => client(index))
    for (let crash = 0; crash < restarts; crash++) {
      const exited = once(service.child, 'exit')
      await delay(50 + Math.random() * 200)
      // In two of three rounds, crash right after a grant or an end was answered, which must be durable by then.
      // Otherwise crash at random.
      if (crash % 3 > 0) await answered(crash % 3 === 1 ? 'campaign' : 'resign')
      service.child.kill('SIGKILL')
      await exited
      service = await ServiceProcess.start({ directory, port })
    }
    await delay(200)
    stop.abort()
    await Promise.all(running)
    await service.kill()

    expect(failures).toEqual([])
    for (const [group, operations] of history) expect(unexplained(operations), group).toBeUndefined()
    // A run in which nothing happened proves nothing.
    const told = [...history.values()].flat().filter(({ answer }) => answer?.ok)
    for (const type of ['campaign', 'renew', 'resign', 'leader']) {
      expect(told.filter(({ call }) => call.type === type).length, type).toBeGreaterThan(restarts / 3)
    }

    function answered(type: Operation['call']['type']): Promise<void> {
      return new Promise((resolve) => {
        onAnswer = (call, answer) => {
          if (call.type === type && answer.ok) resolve()
        }
      })
    }

    function client(index: number): Promise<void> {
      const group = groups[index % groups.length] ?? ''
      const node = `node-${index}`
      const ask: Ask = async (call, body) => {
        const sentMs = performance.now()
        const path = `/v1/groups/${group}/${call.type}`
        const got = await (body ? service.ask('POST', path, { node_id: node, ...body }) : service.ask('GET', path))
        const answer = got && answerOf(got)
        if (got && got.status >= 500) failures.push(`${call.type}: ${JSON.stringify(got.body)}`)
        const answeredMs = performance.now()
        history.get(group)?.push({ sentMs, answeredMs, node, call, answer })
        if (answer) onAnswer(call, answer)
        else await delay(10)
        return answer
      }
      return takePart({ index, node, ask, isOver: () => stop.signal.aborted, life: () => service })
    }
  },
)
