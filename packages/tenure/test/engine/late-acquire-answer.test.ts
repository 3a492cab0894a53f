import { expect, test } from 'vitest'
import { Elector, memoryStore, type ElectionEvent, type LeaseStore } from '../../src/index.ts'
import { fakeClock } from '../../../testing/src/index.ts'
import { stallable } from '../stallable-clock.ts'

/**
 * A process that stalls as soon as its claim on a free lease has reached the store. When it resumes, the events of its
 * watch arrive before the answer to the claim.
 */
function stallingCandidate(store: LeaseStore, clock: ReturnType<typeof fakeClock>) {
  const own = stallable(clock)
  const events: ElectionEvent[] = []
  let gates: { readonly events: Gate; readonly answers: Gate } | undefined
  const elector = new Elector({
    store: {
      ...store,
      acquire: async (claim, call) => {
        const answer = await store.acquire(claim, call)
        if (answer.ok) {
          own.stall()
          gates = { events: gate(), answers: gate() }
        }
        await gates?.answers.promise
        return answer
      },
      async *watch(election, call) {
        for await (const record of store.watch?.(election, call) ?? []) {
          await gates?.events.promise
          yield record
        }
      },
    },
    election: 'e',
    identity: 'b',
    clock: own,
    observer: { onEvent: (event) => void events.push(event) },
  })
  return {
    elector,
    events,
    async resume() {
      gates?.events.open()
      await clock.advance(0)
      gates?.answers.open()
      await clock.advance(0)
      gates = undefined
      own.resume()
      await clock.advance(0)
    },
  }
}

interface Gate {
  readonly promise: Promise<void>
  open(): void
}

function gate(): Gate {
  let open = (): void => undefined
  const promise = new Promise<void>((resolve) => (open = resolve))
  return { promise, open }
}

test('no store error is reported when a watch shows the successor before the answer to an acquire arrives', async () => {
  const clock = fakeClock()
  const store = memoryStore({ clock })
  const make = (identity: string) => new Elector({ store, election: 'e', identity, clock })
  const [first, successor] = [make('a'), make('c')]
  const late = stallingCandidate(store, clock)
  first.start()
  await clock.advance(0)
  late.elector.start()
  await clock.advance(1_000)
  void first.stop()
  await clock.advance(1_000)
  expect(await store.read('e', { signal: new AbortController().signal })).toMatchObject({ holder: 'b', term: 2 })
  successor.start()
  await clock.advance(15_500)
  expect(successor.isLeader()).toBe(true)

  await late.resume()
  expect(late.events.filter(({ type }) => type === 'error')).toEqual([])
  expect(late.elector.isLeader()).toBe(false)
  expect(late.elector.leader()).toMatchObject({ holder: 'c', term: 3 })

  await Promise.all([late.elector.stop(), successor.stop(), clock.advance(60_000)])
  expect(clock.timers).toBe(0)
})
