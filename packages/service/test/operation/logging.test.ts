import { pino } from 'pino'
import { Elector, memoryStore, type Log } from 'tenure'
import { fakeClock } from '@tenure/testing'
import { expect, test } from 'vitest'
import type { GroupChange } from '../../src/groups/port.ts'
import { logChanges } from '../../src/operation/logging.ts'
import { sampleLease } from '../sample-lease.ts'

interface Line {
  readonly msg: string
  readonly node?: string
  readonly untold?: number
}

function scene() {
  const lines: Line[] = []
  const clock = fakeClock()
  const log = logChanges(pino({}, { write: (line: string) => void lines.push(JSON.parse(line) as Line) }), clock)
  const tell = (node: string, type: GroupChange['type'] = 'LEADER_CHANGED') =>
    log({ type, groupId: 'jobs', lease: { ...sampleLease, nodeId: node }, atMs: 0 })
  return { lines, clock, tell }
}

test('a node that wins and loses repeatedly does not flood the log, and other nodes are still logged', async () => {
  const { lines, clock, tell } = scene()
  for (let count = 0; count < 5_000; count++) tell('busy')
  expect(lines).toHaveLength(1_000)
  tell('other')
  expect(lines.slice(1_000)).toMatchObject([
    { untold: 4_000, msg: 'some terms were not logged, because terms begin and end too often' },
    { node: 'other', msg: 'elected' },
  ])
  await clock.advance(1_000)
  for (let count = 0; count < 5_000; count++) tell('busy')
  expect(lines.slice(1_002)).toHaveLength(20)
})

test('elections of many different nodes do not flood the log', () => {
  const { lines, tell } = scene()
  for (let count = 0; count < 50_000; count++) tell(`node-${count}`)
  expect(lines).toHaveLength(10_000)
})

test('renewals are not logged and do not count toward the limit', () => {
  const { lines, tell } = scene()
  for (let count = 0; count < 5_000; count++) tell('busy', 'RENEWED')
  tell('busy')
  expect(lines).toMatchObject([{ node: 'busy' }])
})

test('console and a pino logger can be used as the log option of the library', async () => {
  const lines: Line[] = []
  const logger = pino({}, { write: (line: string) => void lines.push(JSON.parse(line) as Line) })
  const logs: readonly Log[] = [console, logger]
  expect(logs).toHaveLength(2)
  const clock = fakeClock()
  const elector = new Elector({ store: memoryStore({ clock }), clock, election: 'jobs', identity: 'a', log: logger })
  elector.start()
  await clock.advance(100)
  expect(lines).toMatchObject([{ msg: 'tenure: this process leads "jobs" in term 1' }])
  void elector.stop()
  await clock.advance(100)
})
