import { expect, test } from 'vitest'
import { noElections, withEvent, withGroup, type Election } from '../../src/model/elections.ts'
import { canHandOverTo, handOverText } from '../../src/model/hand-over.ts'
import { elected, lost } from './answers.ts'

const now = { monotonicMs: 0, wallMs: 0 }
const empty = withGroup(noElections, { group_id: 'jobs', leader: null, highest_term: 0 }, now)

function after(...events: readonly Parameters<typeof withEvent>[1][]): Election {
  const election = events.reduce((all, event) => withEvent(all, event, now), empty).byId.get('jobs')
  if (!election) throw new Error('The election is not shown.')
  return election
}

const asked = { to: 'c', term: 1, freeAtMs: 5_000 }
const ended = [elected('a', 1), lost('a', 1, 'resigned', 2_000)] as const

test('handOverText counts down to the moment at which the candidate can lead, and then says what happened', () => {
  expect(handOverText(asked, after(...ended), 1_000)).toBe('Handing over to c, which can lead in 4.0 s…')
  expect(handOverText(asked, after(...ended), 5_000)).toBe('Handing over to c…')
  expect(handOverText(asked, after(...ended), 9_000)).toBe('c has not taken over yet. Any candidate can lead now.')
  expect(handOverText(asked, after(...ended, elected('c', 2)), 5_100)).toBe('Handed over: c leads in term 2.')
  expect(handOverText(asked, after(...ended, elected('b', 2)), 7_100)).toBe(
    'Not handed over: b leads in term 2, instead of c.',
  )
})

test('canHandOverTo accepts only live and eligible candidates, and only while another node leads', () => {
  const member = { node_id: 'c', role: 'candidate', last_heartbeat_ms: 0, metadata: {}, live: true } as const
  expect(canHandOverTo(member, after(elected('a', 1)))).toBe(true)
  expect(canHandOverTo({ ...member, eligible: true }, after(elected('a', 1)))).toBe(true)
  expect(canHandOverTo({ ...member, eligible: false }, after(elected('a', 1)))).toBe(false)
  expect(canHandOverTo({ ...member, live: false }, after(elected('a', 1)))).toBe(false)
  expect(canHandOverTo(member, after(elected('c', 1)))).toBe(false)
  expect(canHandOverTo(member, after(...ended))).toBe(false)
})
